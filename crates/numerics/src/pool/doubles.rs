//! Pooling of `f64`, in plain loops along channels that lie last, which the compiler makes vectors of. Planes are turned,
//! some at a time.

use super::last::along;
use super::{Bins, Divisor, MeanPool, Pool, Pooled};
use crate::scratch::{self, Scratch};
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::for_chunks;
use crate::transpose::Transposition;

/// Planes that are turned together.
const TOGETHER: usize = 8;

/// What is done with the windows of an image.
#[derive(Clone, Copy)]
enum Work<'a> {
    Max,
    Pick,
    /// The places of the maxima, as numbers: no plane has more than these tell apart.
    Places,
    MaxGrad,
    Mean(&'a MeanPool),
    MeanGrad(&'a MeanPool),
}

impl Pooled for f64 {
    fn max_pool(p: &Pool, x: &[f64], y: &mut [f64]) {
        run(Work::Max, (&p.windows, p.inner), [(x, p.plane()), (&[], 0)], (y, p.outputs()));
    }

    fn max_pool_pick(p: &Pool, x: &[f64], values: &[f64], y: &mut [f64]) {
        run(Work::Pick, (&p.windows, p.inner), [(x, p.plane()), (values, p.plane())], (y, p.outputs()));
    }

    fn max_pool_indices(p: &Pool, x: &[f64], at: &mut [i64]) {
        let mut places = Room::new(at.len());
        let places = places.numbers();
        run(Work::Places, (&p.windows, p.inner), [(x, p.plane()), (&[], 0)], (places, p.outputs()));
        at.iter_mut().zip(places).for_each(|(at, place)| *at = *place as i64);
    }

    fn max_pool_grad(p: &Pool, x: &[f64], grad: &[f64], dx: &mut [f64]) {
        run(Work::MaxGrad, (&p.windows, p.inner), [(x, p.plane()), (grad, p.outputs())], (dx, p.plane()));
    }

    fn max_pool_grad_over(p: &Pool, x: &mut [f64], grad: &[f64]) -> bool {
        let mut before = Room::new(x.len());
        before.numbers().copy_from_slice(x);
        Self::max_pool_grad(p, before.numbers(), grad, x);
        true
    }

    fn mean_pool(p: &MeanPool, x: &[f64], y: &mut [f64]) {
        run(Work::Mean(p), (&p.bins, p.inner), [(x, p.plane()), (&[], 0)], (y, p.outputs()));
    }

    fn mean_pool_grad(p: &MeanPool, grad: &[f64], dx: &mut [f64]) {
        run(Work::MeanGrad(p), (&p.bins, p.inner), [(grad, p.outputs()), (&[], 0)], (dx, p.plane()));
    }
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
        let mut room = Room::new(2 * lanes);
        let room = room.numbers();
        // SAFETY: what the macro asks for is the CPU's instructions alone.
        unsafe {
            if inner != 1 {
                return windows(isa, work, bins, lanes, [a, b], room, y);
            }
            let (mut a, mut b) = (turned(a, lanes, inputs[0].1), turned(b, lanes, inputs[1].1));
            let mut to = Room::new(y.len());
            windows(isa, work, bins, lanes, [a.numbers(), b.numbers()], room, to.numbers());
            turn(to.numbers(), n, lanes, y);
        }
    });
}

/// Rows of `n` numbers as columns.
fn turned(x: &[f64], rows: usize, n: usize) -> Room {
    let mut to = Room::new(x.len());
    turn(x, rows, n, to.numbers());
    to
}

fn turn(x: &[f64], rows: usize, n: usize, to: &mut [f64]) {
    assert!(x.len() == rows * n && to.len() == x.len(), "sizes of planes");
    let t = Transposition { rows: n, columns: rows, from: n as isize, to: rows as isize };
    // SAFETY: both have all rows and columns, and one is borrowed exclusively.
    unsafe { t.run(x.as_ptr(), to.as_mut_ptr(), false) }
}

/// Numbers in a buffer that is kept between calls.
struct Room(Scratch, usize);

impl Room {
    fn new(n: usize) -> Room {
        Room(scratch::take(2 * n), n)
    }

    /// Whatever they are.
    fn numbers(&mut self) -> &mut [f64] {
        assert!(self.0.len() >= 2 * self.1, "room for them");
        // SAFETY: as many bytes, aligned, and borrowed exclusively; all bits are numbers of some kind.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.1) }
    }
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
        Work::Pick | Work::Places => {}
    }
    for o in 0..h.out() * out {
        let (oh, ow) = (o / out, o % out);
        let ((top, rows, down), (left, columns, across)) = (along(h, oh), along(w, ow));
        let first = top * n + left;
        if matches!(work, Work::Pick | Work::Places | Work::MaxGrad) {
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
                    Work::Pick | Work::Places | Work::MaxGrad => {
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
            Work::Places => y[o * inner..][..inner].copy_from_slice(found),
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
