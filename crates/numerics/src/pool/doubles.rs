//! The same of `f64`, in plain loops along channels that lie last, which the compiler makes vectors of. Planes are turned,
//! some at a time.

use super::last::along;
use super::{Bins, Divisor, MeanPool, Pool};
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::for_chunks;

/// Planes that are turned together.
const TOGETHER: usize = 8;

/// What is done with the windows of an image.
#[derive(Clone, Copy)]
enum Work<'a> {
    Max,
    Pick,
    MaxGrad,
    Mean(&'a MeanPool),
    MeanGrad(&'a MeanPool),
}

/// The maximum of each window: see [`super::max_pool`].
pub fn max_pool(p: &Pool, x: &[f64], y: &mut [f64]) {
    run(Work::Max, (&p.windows, p.inner), [(x, p.plane()), (&[], 0)], (y, p.outputs()));
}

/// The element of `values` where each window's maximum is: see [`super::max_pool_pick`].
pub fn max_pool_pick(p: &Pool, x: &[f64], values: &[f64], y: &mut [f64]) {
    run(Work::Pick, (&p.windows, p.inner), [(x, p.plane()), (values, p.plane())], (y, p.outputs()));
}

/// The gradient of [`max_pool`].
pub fn max_pool_grad(p: &Pool, x: &[f64], grad: &[f64], dx: &mut [f64]) {
    run(Work::MaxGrad, (&p.windows, p.inner), [(x, p.plane()), (grad, p.outputs())], (dx, p.plane()));
}

/// The mean of each bin: see [`super::mean_pool`].
pub fn mean_pool(p: &MeanPool, x: &[f64], y: &mut [f64]) {
    run(Work::Mean(p), (&p.bins, p.inner), [(x, p.plane()), (&[], 0)], (y, p.outputs()));
}

/// The gradient of [`mean_pool`].
pub fn mean_pool_grad(p: &MeanPool, grad: &[f64], dx: &mut [f64]) {
    run(Work::MeanGrad(p), (&p.bins, p.inner), [(grad, p.outputs()), (&[], 0)], (dx, p.plane()));
}

/// Runs the work over all images, or over blocks of planes, with the places that each input and the output have.
fn run(work: Work<'_>, (bins, inner): (&[Bins; 2], usize), inputs: [(&[f64], usize); 2], (y, n): (&mut [f64], usize)) {
    if y.is_empty() {
        return;
    }
    let planes = y.len() / n;
    assert!(y.len() == planes * n && inputs.iter().all(|(x, n)| x.len() == planes * n), "sizes of planes");
    assert!(planes.is_multiple_of(inner), "sizes of images");
    let (isa, parallel) = (Isa::detect(), inputs[0].0.len().max(y.len()) >= 1 << 13);
    let some = if inner == 1 { TOGETHER } else { inner };
    for_chunks(y, some * n, 1, parallel, |(i, y)| {
        let lanes = y.len() / n;
        let [a, b] = inputs.map(|(x, n)| &x[i * some * n..][..lanes * n]);
        let mut room = vec![0.0; 2 * lanes];
        // SAFETY: what the macro asks for is the CPU's instructions alone.
        unsafe {
            if inner != 1 {
                return windows(isa, work, bins, lanes, [a, b], &mut room, y);
            }
            let (a, b) = (turned(a, lanes, inputs[0].1), turned(b, lanes, inputs[1].1));
            let mut to = vec![0.0; y.len()];
            windows(isa, work, bins, lanes, [&a, &b], &mut room, &mut to);
            y.copy_from_slice(&turned(&to, n, lanes));
        }
    });
}

/// Rows of `n` numbers as columns.
fn turned(x: &[f64], rows: usize, n: usize) -> Vec<f64> {
    let mut to = vec![0.0; x.len()];
    for (r, x) in x.chunks_exact(n.max(1)).enumerate().take(rows) {
        x.iter().enumerate().for_each(|(i, x)| to[i * rows + r] = *x);
    }
    to
}

/// The part of the divisor of a mean that bins along both axes have.
fn count(p: &MeanPool, oh: usize, ow: usize) -> f64 {
    match p.divisor {
        Divisor::Fixed(n) => n as f64,
        Divisor::Padded | Divisor::Inside => f64::from(p.count(0, oh)) * f64::from(p.count(1, ow)),
    }
}

/// All windows of one image, in order.
#[inline(always)]
unsafe fn windows_body<S: Simd>(
    work: Work<'_>,
    [h, w]: &[Bins; 2],
    inner: usize,
    [a, b]: [&[f64]; 2],
    room: &mut [f64],
    y: &mut [f64],
) {
    let (n, out) = (w.n(), w.out());
    let (best, found) = room.split_at_mut(inner);
    match work {
        Work::MaxGrad | Work::Mean(_) | Work::MeanGrad(_) => y.fill(0.0),
        Work::Max => y.fill(f64::NEG_INFINITY),
        Work::Pick => {}
    }
    for o in 0..h.out() * out {
        let (oh, ow) = (o / out, o % out);
        let ((top, rows, down), (left, columns, across)) = (along(h, oh), along(w, ow));
        let first = top * n + left;
        if matches!(work, Work::Pick | Work::MaxGrad) {
            best.fill(f64::NEG_INFINITY);
            found.fill(first as f64);
        }
        if let Work::MeanGrad(p) = work {
            let count = count(p, oh, ow);
            best.iter_mut().zip(&a[o * inner..]).for_each(|(part, g)| *part = g / count);
        }
        for r in 0..rows {
            for c in 0..columns {
                let place = first + r * down * n + c * across;
                let at = place * inner..(place + 1) * inner;
                match work {
                    Work::Max => {
                        for (y, &x) in y[o * inner..][..inner].iter_mut().zip(&a[at]) {
                            *y = if (x > *y) | x.is_nan() { x } else { *y };
                        }
                    }
                    Work::Pick | Work::MaxGrad => {
                        for ((best, found), &x) in best.iter_mut().zip(&mut *found).zip(&a[at]) {
                            let takes = (x > *best) | x.is_nan();
                            *best = if takes { x } else { *best };
                            *found = if takes { place as f64 } else { *found };
                        }
                    }
                    Work::Mean(_) => y[o * inner..][..inner].iter_mut().zip(&a[at]).for_each(|(y, x)| *y += x),
                    Work::MeanGrad(_) => y[at].iter_mut().zip(&*best).for_each(|(y, part)| *y += part),
                }
            }
        }
        let all = found.iter().enumerate().map(|(i, found)| (i, *found as usize * inner + i));
        match work {
            Work::Pick => all.for_each(|(i, at)| y[o * inner + i] = b[at]),
            Work::MaxGrad => all.for_each(|(i, at)| y[at] += b[o * inner + i]),
            Work::Mean(p) => {
                let count = count(p, oh, ow);
                y[o * inner..][..inner].iter_mut().for_each(|y| *y /= count);
            }
            Work::Max | Work::MeanGrad(_) => {}
        }
    }
}
dispatch!(unsafe fn windows = windows_body(work: Work<'_>, bins: &[Bins; 2], inner: usize, inputs: [&[f64]; 2], room: &mut [f64], y: &mut [f64]));
