//! Kernels of one element with strides: what they see is copied together first, and the rest is a product.

use super::super::patches::Geometry;
use crate::scratch::{self, Scratch};
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};

/// Whether every output sees one element of its channels, further apart than the outputs are.
pub(super) fn is_thinned(g: &Geometry) -> bool {
    g.kernel == [1; 3] && g.params.stride != [1; 3] && g.params.padding == [(0, 0); 3]
}

/// The elements that are seen, and the geometry over them.
pub(super) fn thin(isa: Isa, g: &Geometry, x: &[f32]) -> (Scratch, Geometry) {
    let (inputs, outputs) = (g.inputs(), g.outputs());
    let planes = x.len() / inputs.max(1);
    let mut seen = scratch::take(planes * outputs);
    let to = Shared::new(&mut seen);
    let [depth, height, width] = g.output;
    let stride = g.params.stride;
    // About 64 KiB a task, whatever the number of threads.
    let chunk = ((1 << 14) / inputs.max(1)).max(1);
    for_tasks(planes.div_ceil(chunk), planes * outputs >= 1 << 14, |t| {
        for p in t * chunk..planes.min((t + 1) * chunk) {
            let x = &x[p * inputs..][..inputs];
            for row in 0..depth * height {
                let (d, h) = (row / height * stride[0], row % height * stride[1]);
                let from = &x[(d * g.input[1] + h) * g.input[2]..][..(width - 1) * stride[2] + 1];
                // SAFETY: the row has the elements that are seen, and tasks write different planes.
                unsafe { every(isa, from.as_ptr(), stride[2], width, to.ptr().add(p * outputs + row * width)) }
            }
        }
    });
    let params = super::super::ConvParams { stride: [1; 3], dilation: [1; 3], ..g.params };
    (seen, Geometry { input: g.output, kernel: g.kernel, output: g.output, params })
}

#[inline(always)]
unsafe fn every_body<S: Simd>(x: *const f32, stride: usize, n: usize, y: *mut f32) {
    // SAFETY: `n` elements, `stride` apart, and nothing behind the last one is read.
    unsafe {
        if stride != 2 {
            return (0..n).for_each(|i| *y.add(i) = *x.add(i * stride));
        }
        for i in (0..n).step_by(S::LANES) {
            let count = (n - i).min(S::LANES);
            let (from, left) = (x.add(2 * i), 2 * count - 1);
            let first = S::load_first(from, left.min(S::LANES));
            let second = if left > S::LANES { S::load_first(from.add(S::LANES), left - S::LANES) } else { S::zero() };
            S::store_first(y.add(i), S::evens(first, second), count);
        }
    }
}
dispatch!(unsafe fn every = every_body(x: *const f32, stride: usize, n: usize, y: *mut f32));
