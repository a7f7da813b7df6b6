//! The gradient for the weights with output positions in the lanes, for few output channels: rows
//! of the gradient meet the rows of the input that lie under them, vector by vector, and every
//! weight has a vector of sums. Nothing is transposed.

use super::frame::{Blocks, Places};
use super::indexed::Place;
use super::phases::{Phases, part};
use crate::conv::Problem;
use crate::scratch;
use crate::simd::{Isa, Simd, dispatch, dispatch_pairs};
use crate::tasks::{Shared, for_tasks};

/// Numbers of a padded part of an image.
const PART: usize = 1 << 14;

/// Vectors of sums of a task, at most.
const SUMS: usize = 1 << 12;

/// Some output channels over some rows of one image.
struct Dots<'a> {
    /// Output channels, and the distance of their planes of the gradient.
    outputs: usize,
    grad: *const f32,
    plane: usize,
    /// Rows of the gradient, and the distance of those of the input.
    rows: usize,
    width: usize,
    pitch: usize,
    x: *const f32,
    /// Elements of a patch: their places in `x`.
    elements: &'a [Place],
    /// A vector for each output channel and element.
    sums: *mut f32,
}

/// `R` output channels and `T` elements.
#[inline(always)]
unsafe fn tile<S: Simd, const R: usize, const T: usize>(d: &Dots<'_>, r: usize, e: usize) {
    // Tiles of more sums than registers are never asked for, and need not be compiled.
    if R * T > S::ROWS * 3 {
        return;
    }
    // SAFETY: the channels and elements are there by the caller's promise, and rows are read up to
    // their ends: behind them, zeros of one might meet a NaN of the other.
    unsafe {
        let depth = d.elements.len();
        let sum = |i: usize, t: usize| d.sums.add(((r + i) * depth + e + t) * S::LANES);
        let places: [usize; T] = std::array::from_fn(|t| d.elements.get_unchecked(e + t).at as usize);
        let mut sums: [[S::V; T]; R] = std::array::from_fn(|i| std::array::from_fn(|t| S::load(sum(i, t))));
        let whole = d.width / S::LANES * S::LANES;
        let left = d.width - whole;
        for row in 0..d.rows {
            let grad = d.grad.add(r * d.plane + row * d.width);
            let x = d.x.add(row * d.pitch);
            let mut i = 0;
            while i < whole {
                let g: [S::V; R] = std::array::from_fn(|r| S::load(grad.add(r * d.plane + i)));
                for t in 0..T {
                    let v = S::load(x.add(places[t] + i));
                    for r in 0..R {
                        sums[r][t] = S::fma(v, g[r], sums[r][t]);
                    }
                }
                i += S::LANES;
            }
            if left > 0 {
                let g: [S::V; R] = std::array::from_fn(|r| S::load_first(grad.add(r * d.plane + whole), left));
                for t in 0..T {
                    let v = S::load_first(x.add(places[t] + whole), left);
                    for r in 0..R {
                        sums[r][t] = S::fma(v, g[r], sums[r][t]);
                    }
                }
            }
        }
        for (i, sums) in sums.into_iter().enumerate() {
            sums.into_iter().enumerate().for_each(|(t, v)| S::store(sum(i, t), v));
        }
    }
}

/// `R` output channels and all elements: `MOST` of them a tile, or three, or one.
#[inline(always)]
unsafe fn tiles<S: Simd, const R: usize, const MOST: usize>(d: &Dots<'_>, r: usize) {
    let mut e = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while e + MOST <= d.elements.len() && MOST * R <= S::ROWS * 3 {
            tile::<S, R, MOST>(d, r, e);
            e += MOST;
        }
        while e + 3 <= d.elements.len() {
            tile::<S, R, 3>(d, r, e);
            e += 3;
        }
        while e < d.elements.len() {
            tile::<S, R, 1>(d, r, e);
            e += 1;
        }
    }
}

#[inline(always)]
unsafe fn dots_body<S: Simd>(d: &Dots<'_>) {
    let parts = d.outputs.div_ceil(4);
    let mut r = 0;
    for i in 0..parts {
        let n = (d.outputs - r).div_ceil(parts - i);
        // SAFETY: the caller's promise.
        unsafe {
            match n {
                1 => tiles::<S, 1, 9>(d, r),
                2 if S::ROWS == 8 => tiles::<S, 2, 9>(d, r),
                2 => tiles::<S, 2, 6>(d, r),
                3 if S::ROWS == 8 => tiles::<S, 3, 8>(d, r),
                3 => tiles::<S, 3, 4>(d, r),
                _ => tiles::<S, 4, 6>(d, r),
            }
        }
        r += n;
    }
}
dispatch_pairs! {
    /// # Safety
    ///
    /// The gradient's rows, all that `elements` say under them, and the sums are there; nobody else
    /// uses these.
    unsafe fn dots = dots_body(d: &Dots<'_>)
}

/// Adds up vectors of sums: as many at once as they have lanes.
#[inline(always)]
unsafe fn fold_body<S: Simd>(n: usize, sums: *const f32, to: *mut f32) {
    let mut turned = [0.0f32; 16 * 16];
    for i in (0..n).step_by(S::LANES) {
        // SAFETY: the caller's sums have room for whole squares.
        unsafe {
            S::transpose(sums.add(i * S::LANES), S::LANES, turned.as_mut_ptr(), S::LANES);
            let mut all: [S::V; 16] = [S::zero(); 16];
            (0..S::LANES).for_each(|l| all[l] = S::load(turned.as_ptr().add(l * S::LANES)));
            let mut half = S::LANES / 2;
            while half > 0 {
                (0..half).for_each(|l| all[l] = S::add(all[l], all[l + half]));
                half /= 2;
            }
            S::store_first(to.add(i), all[0], (n - i).min(S::LANES));
        }
    }
}
dispatch! {
    /// # Safety
    ///
    /// There are `n` vectors of sums, rounded up to a multiple of a vector's lanes, and room for
    /// their totals.
    unsafe fn fold = fold_body(n: usize, sums: *const f32, to: *mut f32)
}

/// Cycles of a vector unit for a position and an element of a patch, about: of this, and of output
/// channels in the lanes.
fn costs(isa: Isa, p: &Problem) -> (f64, f64) {
    let (lanes, width) = (isa.lanes(), p.geometry.output[2]);
    let vectors = width.div_ceil(lanes) as f64 / width as f64;
    // The gradient is transposed there.
    let turning = 0.5 * p.o as f64 / p.patch(p.c) as f64;
    (p.o as f64 * vectors * 1.25, p.o.div_ceil(lanes) as f64 * 1.05 + turning)
}

/// Whether this takes less time than output channels in the lanes.
pub(super) fn pays(isa: Isa, p: &Problem) -> bool {
    let dense = (0..3).all(|d| p.geometry.params.stride[d] <= p.geometry.kernel[d]);
    let (rows, channels) = costs(isa, p);
    // Elements that lie where they are need no copy.
    dense && !p.geometry.is_pointwise() && rows < channels && p.o * p.patch(1) <= SUMS
}

/// Input channels that are taken at once: their sums stay in the first caches.
fn cut(p: &Problem) -> usize {
    let most = (SUMS / (p.o * p.patch(1)).max(1)).clamp(1, p.c);
    p.c.div_ceil(p.c.div_ceil(most))
}

/// The gradient for the weights.
pub(in super::super) fn weight_grad(isa: Isa, p: &Problem, x: &[f32], grad: &[f32], dw: &mut [f32]) {
    let (g, lanes, kernel, patch) = (&p.geometry, isa.lanes(), p.patch(1), p.patch(p.c));
    let [_, _, width] = g.output;
    let reach = width + (g.kernel[2] - 1) * g.params.dilation[2];
    let channels = cut(p);
    let cuts = p.c.div_ceil(channels);
    let row = channels * g.kernel[0] * g.params.stride[1] * reach;
    let blocks = Blocks::of_rows(p.n, g.output, (PART / row.max(1)).max(1));
    let phases = Phases::new(g, &blocks, channels);
    let mut elements = Places::new(channels * kernel);
    phases.elements(&mut elements);
    let elements = &elements[..];
    // At least 8 tasks where there are as many blocks; their sums are added in order.
    let parts = 8usize.div_ceil(p.groups * cuts).min(blocks.count());
    let some = blocks.count().div_ceil(parts);
    let parts = blocks.count().div_ceil(some);
    let mut partial = scratch::take(parts * dw.len());
    let totals = Shared::new(&mut partial);
    let work = grad.len() * patch >= 1 << 16;
    // What a task's sums are of: its part, group and first channel, and the elements of its channels.
    let task = |t: usize| {
        let from = t % cuts * channels;
        (t / cuts / p.groups, t / cuts % p.groups, from, channels.min(p.c - from) * kernel)
    };
    for_tasks(parts * p.groups * cuts, work, |t| {
        let (part_of, group, from, seen) = task(t);
        let mut framed = scratch::take(phases.len());
        let size = p.o * seen;
        let mut sums = scratch::take(size.next_multiple_of(lanes) * lanes);
        sums.fill(0.0);
        for i in part_of * some..blocks.count().min((part_of + 1) * some) {
            let block = blocks.get(i);
            let image = block.images.start * p.groups + group;
            let first = block.first(g) % p.outputs();
            let mine = image * p.c + from;
            // SAFETY: the frame has this length, the gradient's planes these rows, and there is a
            // vector for each output channel and element.
            unsafe {
                part(isa, &phases, &block, x, mine..mine + seen / kernel, framed.as_mut_ptr());
                let d = Dots {
                    outputs: p.o,
                    grad: grad[image * p.o * p.outputs() + first..].as_ptr(),
                    plane: p.outputs(),
                    rows: block.rows.len(),
                    width,
                    pitch: phases.width,
                    x: framed.as_ptr(),
                    elements: &elements[..seen],
                    sums: sums.as_mut_ptr(),
                };
                dots(isa, &d);
            }
        }
        // SAFETY: tasks write different totals.
        unsafe {
            let at = (part_of * p.groups + group) * p.o * patch + p.o * from * kernel;
            fold(isa, size, sums.as_ptr(), totals.ptr().add(at));
        }
    });
    // Totals lie cut by cut, the weights channel by channel.
    let all = dw.len();
    for t in 0..p.groups * cuts {
        let (_, group, from, seen) = task(t);
        for o in 0..p.o {
            let at = group * p.o * patch + p.o * from * kernel + o * seen;
            let dw = &mut dw[(group * p.o + o) * patch + from * kernel..][..seen];
            dw.copy_from_slice(&partial[at..][..seen]);
            for part in 1..parts {
                dw.iter_mut().zip(&partial[part * all + at..][..seen]).for_each(|(t, p)| *t += p);
            }
        }
    }
}
