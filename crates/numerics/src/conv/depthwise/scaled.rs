//! Kernels of one element: every channel times its number.

use crate::epilogue::Epilogue;
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};
use std::ops::Range;

/// Numbers of a task, about.
const TASK: usize = 1 << 14;

/// Planes of `size` numbers, each times its channel's.
struct Planes<'a> {
    size: usize,
    channels: usize,
    x: &'a [f32],
    w: &'a [f32],
    y: *mut f32,
    epilogue: &'a Epilogue<'a>,
}

#[inline(always)]
unsafe fn scale_body<S: Simd>(p: &Planes<'_>, planes: Range<usize>) {
    let e = p.epilogue;
    let mut channel = planes.start % p.channels;
    for plane in planes {
        // SAFETY: the plane is inside both arrays, and nobody else writes it.
        unsafe {
            let (first, w) = (plane * p.size, S::splat(*p.w.get_unchecked(channel)));
            let (x, y) = (p.x.as_ptr().add(first), p.y.add(first));
            for i in (0..p.size).step_by(S::LANES) {
                let n = (p.size - i).min(S::LANES);
                if n == S::LANES {
                    S::store(y.add(i), e.channel::<S>(S::mul(S::load(x.add(i)), w), channel, first + i, n));
                } else {
                    let v = e.channel::<S>(S::mul(S::load_first(x.add(i), n), w), channel, first + i, n);
                    S::store_first(y.add(i), v, n);
                }
            }
            e.call(plane, 0..p.size, y);
        }
        channel = if channel + 1 == p.channels { 0 } else { channel + 1 };
    }
}
dispatch!(unsafe fn scale = scale_body(p: &Planes<'_>, planes: Range<usize>));

/// The convolution. Frames and transposes would take longer than reading and writing does (`9x500x4x4x4`: 0.02 ms).
pub(super) fn forward(isa: Isa, size: usize, channels: usize, x: &[f32], w: &[f32], y: &mut [f32], e: &Epilogue<'_>) {
    let planes = y.len() / size.max(1);
    assert_eq!((x.len(), w.len(), planes * size), (y.len(), channels, y.len()), "the operands' sizes");
    assert!(planes.is_multiple_of(channels.max(1)), "whole images");
    let some = (TASK / size.max(1)).max(1);
    let out = Shared::new(y);
    let p = |y: *mut f32| Planes { size, channels, x, w, y, epilogue: e };
    for_tasks(planes.div_ceil(some), x.len() >= 4 * TASK, |t| {
        // SAFETY: the operands have these sizes, and tasks write different planes.
        unsafe { scale(isa, &p(out.ptr()), t * some..planes.min((t + 1) * some)) }
    });
}
