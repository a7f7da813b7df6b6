//! Values of images and volumes at given positions, and the gradients.
//!
//! Positions are worked out some at a time, once for all channels: which elements are around each, and their weights.

mod loops;
mod table;

use crate::simd::Isa;
use crate::tasks::{Shared, for_tasks};
use loops::{forward_f32, forward_f64, image_f32, image_f64, positions_f32, positions_f64};
use table::MOST;

/// What is found outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outside {
    /// Zeros.
    Zeros,
    /// The element at the border.
    Border,
    /// The input mirrored at its border, again and again.
    Reflection,
}

/// Positions `[images, count, axes]` in images `[images, channels, size..]`, from -1 to 1, that of the last axis first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Images, each with positions of its own.
    pub images: usize,
    /// Planes or volumes of an image.
    pub channels: usize,
    /// Their extents, of images behind a one.
    pub size: [usize; 3],
    /// Whether there are three axes.
    pub volume: bool,
    /// Positions of an image.
    pub count: usize,
    /// The nearest element, halves to even, instead of straight lines between elements.
    pub nearest: bool,
    /// What is found outside.
    pub outside: Outside,
    /// Whether -1 and 1 are the centres of the elements at the ends, instead of their edges.
    pub align: bool,
}

impl Grid {
    fn plane(&self) -> usize {
        self.size.iter().product()
    }

    fn axes(&self) -> usize {
        if self.volume { 3 } else { 2 }
    }

    /// Whether places in a plane can be counted.
    pub fn fits(&self) -> bool {
        let plane = self.size.iter().try_fold(1usize, |p, n| p.checked_mul(*n));
        plane.is_some_and(|p| p <= i32::MAX as usize) && self.size.iter().all(|n| *n <= 1 << 24)
    }
}

/// Numbers that are sampled.
pub trait Sampled: Copy + Default + Send + Sync + 'static {
    /// The values at all positions, `[images, channels, count]`.
    ///
    /// ```
    /// use gradus_numerics::grid::{Grid, Outside, Sampled};
    /// let g = Grid { images: 1, channels: 1, size: [1, 1, 2], volume: false, count: 1, nearest: false, outside: Outside::Zeros, align: true };
    /// let mut y = [0.0f32];
    /// f32::sample(&g, &[1.0, 3.0], &[0.5, 0.0], &mut y);
    /// assert_eq!(y, [2.5]);
    /// ```
    fn sample(g: &Grid, x: &[Self], grid: &[Self], y: &mut [Self]);

    /// The gradient for the images, from that of the values.
    fn image_grad(g: &Grid, grid: &[Self], grad: &[Self], dx: &mut [Self]);

    /// The gradient for the positions.
    fn grid_grad(g: &Grid, x: &[Self], grid: &[Self], grad: &[Self], dgrid: &mut [Self]);
}

/// Positions of a task.
const POSITIONS: usize = 4 * MOST;
/// Values below which other threads would come too late.
const ALONE: usize = 1 << 13;

fn check(g: &Grid, x: usize, grid: usize, y: usize) {
    assert!(g.fits() && x == g.images * g.channels * g.plane(), "sizes of images");
    assert!(grid == g.images * g.count * g.axes() && y == g.images * g.channels * g.count, "sizes of grids");
}

/// Channels of a task of the images' gradient: elements are added up position by position, by one thread.
fn together(g: &Grid) -> usize {
    g.channels.div_ceil((8 / g.images.max(1)).clamp(1, 4)).max(1)
}

macro_rules! sampled {
    ($t:ident, $forward:ident, $image:ident, $positions:ident) => {
        impl Sampled for $t {
            fn sample(g: &Grid, x: &[$t], grid: &[$t], y: &mut [$t]) {
                check(g, x.len(), grid.len(), y.len());
                let (isa, all, y) = (Isa::detect(), y.len(), Shared::new(y));
                let parts = g.count.div_ceil(POSITIONS);
                for_tasks(g.images * parts, all >= ALONE, |t| {
                    let (image, from) = (t / parts, t % parts * POSITIONS);
                    // SAFETY: tasks write different values; sizes are checked above.
                    unsafe { $forward(isa, g, image, from..g.count.min(from + POSITIONS), x, grid, y.ptr()) };
                });
            }

            fn image_grad(g: &Grid, grid: &[$t], grad: &[$t], dx: &mut [$t]) {
                check(g, dx.len(), grid.len(), grad.len());
                let (isa, dx) = (Isa::detect(), Shared::new(dx));
                let some = together(g);
                let parts = g.channels.div_ceil(some);
                for_tasks(g.images * parts, grad.len() >= ALONE, |t| {
                    let (image, from) = (t / parts, t % parts * some);
                    // SAFETY: tasks write different planes; sizes are checked above.
                    unsafe { $image(isa, g, image, from..g.channels.min(from + some), grid, grad, dx.ptr()) };
                });
            }

            fn grid_grad(g: &Grid, x: &[$t], grid: &[$t], grad: &[$t], dgrid: &mut [$t]) {
                check(g, x.len(), dgrid.len(), grad.len());
                assert!(grid.len() == dgrid.len(), "sizes of grids");
                if g.nearest {
                    return dgrid.fill(0.0);
                }
                let (isa, dgrid) = (Isa::detect(), Shared::new(dgrid));
                let parts = g.count.div_ceil(POSITIONS);
                for_tasks(g.images * parts, grad.len() >= ALONE, |t| {
                    let (image, from) = (t / parts, t % parts * POSITIONS);
                    let positions = from..g.count.min(from + POSITIONS);
                    // SAFETY: tasks write different positions; sizes are checked above.
                    unsafe { $positions(isa, g, image, positions, x, grid, grad, dgrid.ptr()) };
                });
            }
        }
    };
}
sampled!(f32, forward_f32, image_f32, positions_f32);
sampled!(f64, forward_f64, image_f64, positions_f64);

#[cfg(test)]
mod tests;
