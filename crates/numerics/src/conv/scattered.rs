//! Convolution with few output channels as the adjoint of its gradient: what every pixel gives to every element of the kernels, by one
//! product over the input channels, added to the outputs that see it.
//!
//! With output channels in the lanes ([`direct`](super::direct)), two of them take as long as sixteen, and with positions in
//! the lanes small images leave most of them idle. Here lanes are pixels of several images.

use super::patches::kernel_elements;
use super::{Problem, Room};
use crate::epilogue::Epilogue;
use crate::gemm::Out;
use crate::micro::{Product, product};
use crate::simd::Isa;
use crate::tasks::for_tasks;
use std::ops::Range;

/// Pixels of a block, at most.
const PIXELS: usize = 256;

/// Output channels, at most: every element of each is added to outputs.
const FEW: usize = 4;

/// Input channels for each output channel without which adding takes longer than multiplying.
const DEEP: usize = 64;

/// Whether this takes less time.
pub(super) fn pays(p: &Problem, e: &Epilogue<'_>) -> bool {
    let g = &p.geometry;
    // Strides throw most of what pixels give away.
    let plain = p.groups == 1 && g.params.stride == [1; 3] && e.is_none();
    let kernel = p.patch(1);
    // Rows of pixels that fill vectors serve where they lie.
    let small = g.inputs() <= PIXELS && g.output[2] < 12 && g.inputs() <= 2 * p.outputs();
    plain && small && kernel >= 9 && (1..=FEW).contains(&p.o) && p.c >= DEEP * p.o && p.n * p.outputs() >= 48
}

/// A stretch of a row of outputs: the element that it sees, its first places, and how many.
struct Run {
    element: usize,
    to: usize,
    from: usize,
    len: usize,
}

/// All stretches of an image's outputs, element by element.
fn runs(p: &Problem) -> Vec<Run> {
    let (g, mut runs) = (&p.geometry, Vec::new());
    for (element, [kd, kh, kw]) in kernel_elements(g.kernel).enumerate() {
        g.for_rows(0, p.outputs(), |at, [d, h], columns: Range<usize>| {
            let inside = g.inside(2, kw, columns.clone());
            let source = (g.source(0, d, kd), g.source(1, h, kh), g.source(2, inside.start, kw));
            let (false, (Some(d), Some(h), Some(w))) = (inside.is_empty(), source) else { return };
            let from = (d * g.input[1] + h) * g.input[2] + w;
            runs.push(Run { element, to: at + inside.start - columns.start, from, len: inside.len() });
        });
    }
    runs
}

/// The convolution with unit strides, of a problem that is not empty.
pub(super) fn forward(isa: Isa, p: &Problem, x: &[f32], w: &[f32], y: &mut [f32]) {
    let (pixels, positions, kernel) = (p.geometry.inputs(), p.outputs(), p.patch(1));
    assert_eq!(x.len(), p.n * p.c * pixels, "the input's size");
    assert_eq!(w.len(), p.o * p.c * kernel, "the weights' size");
    assert_eq!(y.len(), p.n * p.o * positions, "the output's size");
    let runs = runs(p);
    // An image is a matrix as it lies; small ones are put side by side.
    let together = (PIXELS / pixels).clamp(1, p.n.div_ceil(4).max(1));
    let blocks = p.n.div_ceil(together);
    // Few blocks are shared by their output channels.
    let some = if blocks < 8 { 1 } else { p.o };
    let parts = p.o.div_ceil(some);
    // An odd number of cache lines, so that rows do not fall on the same ones.
    let pitch = ((together * pixels).div_ceil(16) | 1) * 16;
    let out = Out::new(y);
    for_tasks(blocks * parts, p.n * p.c * pixels * p.o * kernel >= 1 << 16, |t| {
        let (block, first) = (t / parts, t % parts * some);
        let images = block * together..p.n.min((block + 1) * together);
        let outer = some.min(p.o - first);
        let mut beside = Room::<f32>::new(if together > 1 { p.c * pitch } else { 0 });
        let beside = beside.numbers();
        for (i, image) in images.clone().enumerate().filter(|_| together > 1) {
            for (c, from) in x[image * p.c * pixels..][..p.c * pixels].chunks_exact(pixels).enumerate() {
                beside[c * pitch + i * pixels..][..pixels].copy_from_slice(from);
            }
        }
        let (b, b_row) = match together {
            1 => (x[images.start * p.c * pixels..][..p.c * pixels].as_ptr(), pixels),
            _ => (beside.as_ptr(), pitch),
        };
        let mut given = Room::<f32>::new(kernel * pitch);
        let given = given.numbers();
        for o in first..first + outer {
            // SAFETY: the weights are rows of a number for each element, and the images have a row for each channel; there is a row
            // for each element to write to. Tasks write different images or channels of the output.
            unsafe {
                let multiplied = Product {
                    m: kernel,
                    n: images.len() * pixels,
                    k: p.c,
                    a: w[o * p.c * kernel..][..p.c * kernel].as_ptr(),
                    a_steps: (1, kernel),
                    b,
                    b_row,
                    c: given.as_mut_ptr(),
                    c_row: pitch,
                    add: false,
                };
                product(isa, &multiplied);
                for (i, image) in images.clone().enumerate() {
                    let y = out.part((image * p.o + o) * positions, positions);
                    y.fill(0.0);
                    for r in &runs {
                        let from = &given[r.element * pitch + i * pixels + r.from..][..r.len];
                        y[r.to..][..r.len].iter_mut().zip(from).for_each(|(y, x)| *y += *x);
                    }
                }
            }
        }
    });
}
