//! Planes with room for the windows that reach over the ends of their rows.

use super::{Bins, Pool};
use crate::scratch::{self, Scratch};
use crate::simd::{Isa, Simd, dispatch};

/// A plane as windows see it: window `o` of a row starts at element `o * stride` of it.
pub(super) struct Seen<'a> {
    pub plane: &'a [f32],
    /// The distance of its rows.
    pub pitch: usize,
}

/// A copy of a plane, where one is needed: minus infinity is around the rows.
pub(super) struct Framed {
    copy: Option<Scratch>,
    size: (usize, usize),
    before: usize,
    pitch: usize,
}

impl Framed {
    pub fn new(p: &Pool) -> Framed {
        let [h, w] = &p.windows;
        let size = (h.n(), w.n());
        let Some(w) = w.near() else { return Framed { copy: None, size, before: 0, pitch: size.1 } };
        let pitch = ((w.out - 1) * w.stride + (w.size - 1) * w.dilation + 1).max(w.padding + w.n);
        let copy = (w.padding > 0 || pitch > w.n).then(|| {
            let mut copy = scratch::take(size.0 * pitch);
            copy.fill(f32::NEG_INFINITY);
            copy
        });
        Framed { copy, size, before: w.padding, pitch }
    }

    /// The plane, or its copy.
    pub fn fill<'a>(&'a mut self, isa: Isa, x: &'a [f32]) -> Seen<'a> {
        let pitch = self.pitch;
        let Some(copy) = &mut self.copy else { return Seen { plane: x, pitch } };
        assert!(x.len() >= self.size.0 * self.size.1 && copy.len() >= self.size.0 * pitch, "the plane's size");
        // SAFETY: rows of the plane, and of the copy, which are longer.
        unsafe { copy_rows(isa, self.size, x.as_ptr(), copy.as_mut_ptr().add(self.before), pitch) };
        Seen { plane: copy, pitch }
    }
}

impl Bins {
    /// The windows, if vectors of them are the way: not for absurd strides, and not where a few would
    /// have to be put together number by number.
    pub(super) fn near(&self) -> Option<&super::Window> {
        self.window().filter(|w| w.stride <= 2 || (w.stride < 1 << 24 && w.out >= 8))
    }
}

#[inline(always)]
unsafe fn copy_rows_body<S: Simd>((rows, n): (usize, usize), x: *const f32, to: *mut f32, pitch: usize) {
    for r in 0..rows {
        for i in (0..n).step_by(S::LANES) {
            let left = (n - i).min(S::LANES);
            // SAFETY: the caller's promise.
            unsafe {
                let v = S::load_first(x.add(r * n + i), left);
                S::store_first(to.add(r * pitch + i), v, left);
            }
        }
    }
}
dispatch!(unsafe fn copy_rows = copy_rows_body(size: (usize, usize), x: *const f32, to: *mut f32, pitch: usize));
