//! Kernels of one element with strides: what they see is copied together first, and the rest is a product.

use super::super::{ConvParams, patches::Geometry};
use crate::scratch::{self, Scratch};
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};

/// Whether every output sees one element of its channels, further apart than the outputs are.
pub(super) fn is_thinned(g: &Geometry) -> bool {
    g.kernel == [1; 3] && g.params.stride != [1; 3] && g.params.padding == [(0, 0); 3]
}

/// The elements that are seen, and the geometry over them: planes as one long row each, which are copied at once.
pub(super) fn thin(isa: Isa, g: &Geometry, x: &[f32]) -> (Scratch, Geometry) {
    let (inputs, outputs) = (g.inputs(), g.outputs());
    let planes = x.len() / inputs.max(1);
    let mut seen = scratch::take(planes * outputs);
    let to = Shared::new(&mut seen);
    // About 64 KiB a task, whatever the number of threads.
    let chunk = ((1 << 14) / inputs.max(1)).max(1);
    for_tasks(planes.div_ceil(chunk), planes * outputs >= 1 << 14, |t| {
        let mine = t * chunk..planes.min((t + 1) * chunk);
        let x = &x[mine.start * inputs..mine.end * inputs];
        // SAFETY: planes have the elements that are seen, and tasks write different ones.
        unsafe { every(isa, g, x, to.ptr().add(mine.start * outputs)) }
    });
    let row = [1, 1, outputs];
    (seen, Geometry { input: row, kernel: g.kernel, output: row, params: ConvParams::default() })
}

/// Every element of planes that is seen.
#[inline(always)]
unsafe fn every_body<S: Simd>(g: &Geometry, x: &[f32], y: *mut f32) {
    let ([depth, height, width], stride) = (g.output, g.params.stride);
    let mut y = y;
    for plane in x.chunks_exact(g.inputs()) {
        for (d, h) in (0..depth).flat_map(|d| (0..height).map(move |h| (d, h))) {
            let row = (d * stride[0] * g.input[1] + h * stride[1]) * g.input[2];
            let x = &plane[row..][..(width - 1) * stride[2] + 1];
            // SAFETY: `width` elements, the stride apart, and nothing behind the last one is read.
            unsafe {
                if stride[2] != 2 {
                    (0..width).for_each(|i| *y.add(i) = *x.as_ptr().add(i * stride[2]));
                } else {
                    for i in (0..width).step_by(S::LANES) {
                        let count = (width - i).min(S::LANES);
                        let (from, left) = (x.as_ptr().add(2 * i), 2 * count - 1);
                        let first = S::load_first(from, left.min(S::LANES));
                        let behind = left.saturating_sub(S::LANES);
                        let second = S::load_first(from.wrapping_add(S::LANES), behind);
                        S::store_first(y.add(i), S::evens(first, second), count);
                    }
                }
                y = y.add(width);
            }
        }
    }
}
dispatch!(unsafe fn every = every_body(g: &Geometry, x: &[f32], y: *mut f32));
