//! The gradient for the input from few output channels: rows of the gradients times their weights, added where they were seen.
//!
//! A product with patches would be written and read for a multiplication or two of each of its numbers.

use super::Problem;
use super::patches::Runs;
use crate::element::Real;
use crate::gemm::Out;
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::for_tasks;
use std::any::TypeId;

/// Output channels, at most.
const FEW: usize = 4;

/// Whether this takes less time than unrolled patches.
pub(super) fn pays(p: &Problem) -> bool {
    (1..=FEW).contains(&p.o) && !p.geometry.is_pointwise()
}

/// Some channels of one image.
struct Planes<'a, T> {
    runs: &'a Runs,
    /// Places of an element of the kernel in the runs, and positions of an output channel.
    pitch: usize,
    positions: usize,
    /// Elements of an input channel, of its kernel, and of an output channel's weights.
    inputs: usize,
    kernel: usize,
    patch: usize,
    stride: usize,
    grad: &'a [T],
    /// From the first of these channels on.
    weights: &'a [T],
}

/// Adds what `O` output channels give.
#[inline(always)]
fn add<T: Real, const O: usize>(p: &Planes<'_, T>, dx: &mut [T]) {
    for (c, dx) in dx.chunks_exact_mut(p.inputs).enumerate() {
        dx.fill(T::ZERO);
        p.runs.each(|to, from, len| {
            let (k, at) = (to / p.pitch, to % p.pitch);
            let w: [T; O] = std::array::from_fn(|o| p.weights[o * p.patch + c * p.kernel + k]);
            let g: [&[T]; O] = std::array::from_fn(|o| &p.grad[o * p.positions + at..][..len]);
            let sum = |i: usize| (1..O).fold(w[0] * g[0][i], |sum, o| sum.add(w[o] * g[o][i]));
            if p.stride == 1 {
                dx[from..][..len].iter_mut().enumerate().for_each(|(i, dx)| *dx += sum(i));
            } else {
                dx[from..].iter_mut().step_by(p.stride).take(len).enumerate().for_each(|(i, dx)| *dx += sum(i));
            }
        });
    }
}

#[inline(always)]
fn add_all<T: Real>(p: &Planes<'_, T>, o: usize, dx: &mut [T]) {
    match o {
        1 => add::<T, 1>(p, dx),
        2 => add::<T, 2>(p, dx),
        3 => add::<T, 3>(p, dx),
        _ => add::<T, FEW>(p, dx),
    }
}

// Plain loops, which the compiler makes vectors of.
#[inline(always)]
unsafe fn doubles_body<S: Simd>(p: &Planes<'_, f64>, o: usize, dx: &mut [f64]) {
    add_all(p, o, dx);
}
dispatch!(unsafe fn doubles = doubles_body(p: &Planes<'_, f64>, o: usize, dx: &mut [f64]));

#[inline(always)]
unsafe fn floats_body<S: Simd>(p: &Planes<'_, f32>, o: usize, dx: &mut [f32]) {
    add_all(p, o, dx);
}
dispatch!(unsafe fn floats = floats_body(p: &Planes<'_, f32>, o: usize, dx: &mut [f32]));

/// The loops for the type, in the widest vectors there are.
fn run<T: Real>(isa: Isa, p: &Planes<'_, T>, o: usize, dx: &mut [T]) {
    let is = |t: TypeId| TypeId::of::<T>() == t;
    // SAFETY: the types are the same; what the loops do is safe.
    unsafe {
        if is(TypeId::of::<f64>()) {
            let dx = std::slice::from_raw_parts_mut(dx.as_mut_ptr().cast(), dx.len());
            doubles(isa, &*std::ptr::from_ref(p).cast(), o, dx);
        } else if is(TypeId::of::<f32>()) {
            let dx = std::slice::from_raw_parts_mut(dx.as_mut_ptr().cast(), dx.len());
            floats(isa, &*std::ptr::from_ref(p).cast(), o, dx);
        } else {
            add_all(p, o, dx);
        }
    }
}

/// The gradient for the input of a problem that is not empty.
pub(super) fn input_grad<T: Real>(p: &Problem, grad: &[T], weight: &[T], dx: &mut [T]) {
    let (positions, inputs, kernel, patch) = (p.outputs(), p.geometry.inputs(), p.patch(1), p.patch(p.c));
    assert_eq!(weight.len(), p.groups * p.o * patch, "the weights' size");
    assert_eq!(dx.len(), p.n * p.groups * p.c * inputs, "the input's size");
    // One place more, so that no stretch goes on into the next element.
    let pitch = positions + 1;
    let runs = Runs::new(&p.geometry, 0, positions, pitch);
    let (isa, out) = (Isa::detect(), Out::new(dx));
    let work = p.o * kernel * positions;
    let some = ((1 << 16) / work).clamp(1, p.c);
    let parts = p.c.div_ceil(some);
    for_tasks(p.n * p.groups * parts, p.n * p.groups * p.c * work >= 1 << 16, |t| {
        let (image, first) = (t / parts, t % parts * some);
        let planes = Planes {
            runs: &runs,
            pitch,
            positions,
            inputs,
            kernel,
            patch,
            stride: p.geometry.params.stride[2],
            grad: &grad[image * p.o * positions..][..p.o * positions],
            weights: &weight[image % p.groups * p.o * patch + first * kernel..],
        };
        // SAFETY: tasks write different channels of the gradient, which is borrowed exclusively.
        let dx = unsafe { out.part((image * p.c + first) * inputs, some.min(p.c - first) * inputs) };
        run(isa, &planes, p.o, dx);
    });
}
