//! Convolution (cross-correlation) over up to three spatial dimensions, and its gradients.
//!
//! Arrays are contiguous: input `[N, C, D, H, W]`, weight `[O, C / groups, kD, kH, kW]`, output
//! `[N, O, D', H', W']`. With fewer spatial dimensions the leading ones are one.
//!
//! In `f32`, `fast` chooses: Winograd's algorithm where it pays, sums over one channel for depthwise
//! ones, and otherwise windows that are read where they lie (`direct`). Other types are matrix
//! products over unrolled patches, in blocks of fixed size (`unrolled`).

mod adjoint;
mod depthwise;
mod direct;
mod fast;
mod few;
mod halves;
mod last;
mod pairs;
mod patches;
mod scattered;
mod sums;
mod then;
mod turn;
mod unrolled;
mod winograd;

pub use fast::conv_forward_fused;
pub use halves::{conv_forward_halves, conv_input_grad_halves, conv_weight_grad_halves};
pub use last::{conv_forward_last, is_forward_last};
pub use pairs::{conv_forward_pairs, conv_input_grad_pairs, conv_weight_grad_pairs};
pub use then::{FinishedImage, conv_forward_then};

use crate::element::Real;
use crate::epilogue::Epilogue;
use crate::gemm::{Dims, Layout, Operand, gemm};
use crate::scratch::{self, Scratch};
use crate::simd::Isa;
use patches::Geometry;
use std::any::TypeId;
use std::marker::PhantomData;

/// The parameters of a convolution, per spatial dimension.
///
/// ```
/// use gradus_numerics::conv::ConvParams;
/// let p = ConvParams { stride: [1, 2, 2], padding: [(0, 0), (1, 1), (1, 1)], ..ConvParams::default() };
/// assert_eq!(p.output_size([1, 5, 5], [1, 3, 3]), Some([1, 3, 3]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvParams {
    /// The step of the kernel.
    pub stride: [usize; 3],
    /// Zeros added in front and at the back.
    pub padding: [(usize, usize); 3],
    /// The distance between kernel elements.
    pub dilation: [usize; 3],
    /// The number of groups that channels are split into.
    pub groups: usize,
}

impl Default for ConvParams {
    fn default() -> Self {
        ConvParams { stride: [1; 3], padding: [(0, 0); 3], dilation: [1; 3], groups: 1 }
    }
}

impl ConvParams {
    /// The spatial size of the output, `None` where the kernel does not fit the padded input or
    /// a stride is zero.
    pub fn output_size(&self, input: [usize; 3], kernel: [usize; 3]) -> Option<[usize; 3]> {
        let mut out = [0; 3];
        for d in 0..3 {
            let reach = self.dilation[d].checked_mul(kernel[d].checked_sub(1)?)?.checked_add(1)?;
            let padded = input[d].checked_add(self.padding[d].0)?.checked_add(self.padding[d].1)?;
            out[d] = padded.checked_sub(reach)?.checked_div(self.stride[d])? + 1;
        }
        Some(out)
    }

    /// The spatial size of a transposed convolution's output, which is the input whose
    /// convolution has the size `output`, `extra` elements larger where the stride leaves a
    /// choice. `None` if that is not a size.
    pub fn transposed_size(&self, output: [usize; 3], kernel: [usize; 3], extra: [usize; 3]) -> Option<[usize; 3]> {
        let mut size = [0; 3];
        for d in 0..3 {
            let reach = self.dilation[d].checked_mul(kernel[d].checked_sub(1)?)?.checked_add(1)?;
            let full = self.stride[d].checked_mul(output[d].checked_sub(1)?)?.checked_add(reach)?;
            size[d] = full.checked_add(extra[d])?.checked_sub(self.padding[d].0)?.checked_sub(self.padding[d].1)?;
        }
        Some(size)
    }
}

/// The sizes all three functions need.
struct Problem {
    n: usize,
    groups: usize,
    /// Input channels of a group.
    c: usize,
    /// Output channels of a group.
    o: usize,
    geometry: Geometry,
}

impl Problem {
    /// `None` when the output is empty.
    fn new(input: [usize; 5], weight: [usize; 5], p: &ConvParams) -> Option<Self> {
        let [n, c, id, ih, iw] = input;
        let [o, wc, kd, kh, kw] = weight;
        debug_assert!(p.groups > 0 && c == wc * p.groups && o % p.groups == 0, "channels and groups do not match");
        let output = p.output_size([id, ih, iw], [kd, kh, kw])?;
        let geometry = Geometry { input: [id, ih, iw], kernel: [kd, kh, kw], output, params: *p };
        Some(Problem { n, groups: p.groups, c: wc, o: o / p.groups, geometry })
    }

    fn outputs(&self) -> usize {
        self.geometry.outputs()
    }

    /// Elements of a patch over `channels` channels.
    fn patch(&self, channels: usize) -> usize {
        channels * self.geometry.kernel.iter().product::<usize>()
    }

    /// Whether an image's only output sees all of it: gradients are products with whole images.
    fn is_whole(&self) -> bool {
        let g = &self.geometry;
        let covers = g.input == g.kernel && g.params.padding == [(0, 0); 3];
        covers && self.groups == 1 && self.outputs() == 1 && self.n > 0 && self.o > 0
    }

    fn is_depthwise(&self) -> bool {
        self.c == 1 && self.o == 1
    }
}

/// A buffer that is kept between calls: fresh pages would cost more than what is written to them.
struct Room<T>(Scratch, usize, PhantomData<T>);

impl<T: Real> Room<T> {
    fn new(n: usize) -> Room<T> {
        Room(scratch::take((n * size_of::<T>()).div_ceil(size_of::<f32>())), n, PhantomData)
    }

    /// Its numbers, whatever they are.
    fn numbers(&mut self) -> &mut [T] {
        assert!(align_of::<T>() <= 64 && self.0.len() * size_of::<f32>() >= self.1 * size_of::<T>(), "room for them");
        // SAFETY: as many bytes, aligned, and borrowed exclusively; all bits are numbers of some kind.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.1) }
    }
}

/// The slice as `f32`, if that is what it is.
fn as_f32<T: Real>(x: &[T]) -> Option<&[f32]> {
    let same = TypeId::of::<T>() == TypeId::of::<f32>();
    // SAFETY: the types are the same.
    same.then(|| unsafe { std::slice::from_raw_parts(x.as_ptr().cast(), x.len()) })
}

fn as_f32_mut<T: Real>(x: &mut [T]) -> Option<&mut [f32]> {
    let same = TypeId::of::<T>() == TypeId::of::<f32>();
    // SAFETY: the types are the same, and the slice is borrowed exclusively.
    same.then(|| unsafe { std::slice::from_raw_parts_mut(x.as_mut_ptr().cast(), x.len()) })
}

/// The convolution of `input` with `weight`; `output` is overwritten.
///
/// ```
/// use gradus_numerics::conv::{ConvParams, conv_forward};
/// let (x, w) = ([1.0f32, 2.0, 3.0], [1.0, 10.0]);
/// let mut y = [0.0; 2];
/// conv_forward(&x, [1, 1, 1, 1, 3], &w, [1, 1, 1, 1, 2], &ConvParams::default(), &mut y);
/// assert_eq!(y, [21.0, 32.0]);
/// ```
pub fn conv_forward<T: Real>(
    input: &[T],
    input_shape: [usize; 5],
    weight: &[T],
    weight_shape: [usize; 5],
    params: &ConvParams,
    output: &mut [T],
) {
    let Some(p) = Problem::new(input_shape, weight_shape, params) else { return };
    assert_eq!(output.len(), p.n * p.groups * p.o * p.outputs(), "the output's size");
    if let (Some(x), Some(w), Some(y)) = (as_f32(input), as_f32(weight), as_f32_mut(output))
        && fast::forward(Isa::detect(), &p, x, w, y, &Epilogue::default())
    {
        return;
    }
    if p.is_depthwise() {
        return depthwise::forward(&p.geometry, p.groups, input, weight, output);
    }
    if p.n * p.o > 0 {
        unrolled::forward(&p, input, weight, output);
    }
}

/// The gradient with respect to the input, given the one with respect to the output: also the
/// transposed convolution of `grad`. `input_grad` is overwritten.
///
/// ```
/// use gradus_numerics::conv::{ConvParams, conv_input_grad};
/// let (g, w) = ([1.0f32, 2.0], [1.0, 10.0]);
/// let mut dx = [0.0; 3];
/// conv_input_grad(&g, &w, [1, 1, 1, 1, 2], [1, 1, 1, 1, 3], &ConvParams::default(), &mut dx);
/// assert_eq!(dx, [1.0, 12.0, 20.0]);
/// ```
pub fn conv_input_grad<T: Real>(
    grad: &[T],
    weight: &[T],
    weight_shape: [usize; 5],
    input_shape: [usize; 5],
    params: &ConvParams,
    input_grad: &mut [T],
) {
    let Some(p) = Problem::new(input_shape, weight_shape, params) else { return input_grad.fill(T::ZERO) };
    assert_eq!(grad.len(), p.n * p.groups * p.o * p.outputs(), "the gradient's size");
    if p.is_whole() {
        let row = Layout::row_major(p.patch(p.c));
        let (g, w) = (Operand::new(grad, Layout::row_major(p.o)), Operand::new(weight, row));
        return gemm(Dims::new(p.n, p.patch(p.c), p.o), T::ONE, g, w, T::ZERO, input_grad, row);
    }
    if let (Some(g), Some(w), Some(dx)) = (as_f32(grad), as_f32(weight), as_f32_mut(input_grad))
        && fast::input_grad(Isa::detect(), &p, g, w, dx)
    {
        return;
    }
    if p.is_depthwise() {
        input_grad.fill(T::ZERO);
        return depthwise::input_grad(&p.geometry, p.groups, grad, weight, input_grad);
    }
    if p.n * p.c * p.geometry.inputs() * p.o > 0 {
        return unrolled::input_grad(&p, grad, weight, input_grad);
    }
    input_grad.fill(T::ZERO);
}

/// The gradient with respect to the weight, given the one with respect to the output.
/// `weight_grad` is overwritten.
///
/// ```
/// use gradus_numerics::conv::{ConvParams, conv_weight_grad};
/// let (x, g) = ([1.0f32, 2.0, 3.0], [1.0, 10.0]);
/// let mut dw = [0.0; 2];
/// conv_weight_grad(&x, [1, 1, 1, 1, 3], &g, [1, 1, 1, 1, 2], &ConvParams::default(), &mut dw);
/// assert_eq!(dw, [21.0, 32.0]);
/// ```
pub fn conv_weight_grad<T: Real>(
    input: &[T],
    input_shape: [usize; 5],
    grad: &[T],
    weight_shape: [usize; 5],
    params: &ConvParams,
    weight_grad: &mut [T],
) {
    let Some(p) = Problem::new(input_shape, weight_shape, params) else { return weight_grad.fill(T::ZERO) };
    assert_eq!(grad.len(), p.n * p.groups * p.o * p.outputs(), "the gradient's size");
    if p.is_whole() {
        let row = Layout::row_major(p.patch(p.c));
        let (g, x) = (Operand::new(grad, Layout::row_major(p.o).transposed()), Operand::new(input, row));
        return gemm(Dims::new(p.o, p.patch(p.c), p.n), T::ONE, g, x, T::ZERO, weight_grad, row);
    }
    if let (Some(x), Some(g), Some(dw)) = (as_f32(input), as_f32(grad), as_f32_mut(weight_grad))
        && fast::weight_grad(Isa::detect(), &p, x, g, dw)
    {
        return;
    }
    if p.is_depthwise() {
        weight_grad.fill(T::ZERO);
        return depthwise::weight_grad(&p.geometry, p.groups, input, grad, weight_grad);
    }
    sums::weight_grad(&p, input, grad, weight_grad);
}

#[cfg(test)]
mod tests;
