//! What an axis of an interpolation looks up, from a few numbers: plans are found by these, and tables made once a plan.

use super::{Columns, Resample, Taps, run};
use crate::simd::Isa;
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

/// How values between elements are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The axis stays as it is.
    Same,
    /// The element at `floor(i * scale)`.
    Nearest,
    /// The element at `floor((i + 0.5) * scale)`.
    NearestExact,
    /// Straight lines.
    Linear,
    /// Cubic convolution.
    Cubic,
}

/// One axis of an interpolation, or of its gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Axis {
    n: usize,
    out: usize,
    rule: Rule,
    /// Elements a step of the result, as bits.
    scale: u32,
    /// Whether the centres of the elements at the ends stay in place.
    align: bool,
    transposed: bool,
}

impl Axis {
    /// From `n` elements to `out`, `scale` elements a step. There are some of both.
    ///
    /// ```
    /// use gradus_numerics::resample::{Axis, Resize, Rule};
    /// let twice = Resize::new([Axis::same(1), Axis::new(2, 4, Rule::Nearest, 0.5, false)]);
    /// let mut y = [0.0; 4];
    /// twice.run(&[1.0, 2.0], &mut y);
    /// assert_eq!(y, [1.0, 1.0, 2.0, 2.0]);
    /// ```
    pub fn new(n: usize, out: usize, rule: Rule, scale: f32, align: bool) -> Axis {
        Axis { n, out, rule, scale: scale.to_bits(), align, transposed: false }
    }

    /// An axis that stays as it is.
    pub fn same(n: usize) -> Axis {
        Axis::new(n, n, Rule::Same, 1.0, false)
    }

    /// The gradient's.
    pub fn transposed(self) -> Axis {
        Axis { transposed: !self.transposed, ..self }
    }

    /// The elements and weights of all elements of the result: positions and weights in f32, as PyTorch computes them.
    fn taps(&self) -> Taps {
        let (last, scale) = (self.n - 1, f32::from_bits(self.scale));
        let position = |i: usize| if self.align { i as f32 * scale } else { (i as f32 + 0.5) * scale - 0.5 };
        let nearest = |i: usize, shift: f32| ((((i as f32 + shift) * scale) as usize).min(last), 1.0);
        // The element before a position, and how far the position is beyond it.
        let split = |at: f32| {
            let whole = at.floor().min(last as f32);
            (whole, (at - whole).clamp(0.0, 1.0))
        };
        let all = 0..self.out;
        let taps = match self.rule {
            Rule::Same => return Taps::identity(self.n),
            Rule::Nearest => Taps::regular(self.n, all.map(|i| [nearest(i, 0.0)])),
            Rule::NearestExact => Taps::regular(self.n, all.map(|i| [nearest(i, 0.5)])),
            Rule::Linear => Taps::regular(
                self.n,
                all.map(|i| {
                    let (low, t) = split(position(i).max(0.0));
                    [(low as usize, 1.0 - t), ((low as usize + 1).min(last), t)]
                }),
            ),
            Rule::Cubic => Taps::regular(
                self.n,
                all.map(|i| {
                    let (low, t) = split(position(i));
                    let weights = cubic_weights(t);
                    std::array::from_fn::<_, 4, _>(|k| {
                        ((low as i64 + k as i64 - 1).clamp(0, last as i64) as usize, weights[k])
                    })
                }),
            ),
        };
        if self.transposed { taps.transposed() } else { taps }
    }
}

/// The weights of cubic convolution at `t` between the second and the third of four elements.
fn cubic_weights(t: f32) -> [f32; 4] {
    let a = -0.75f32;
    // Within one of the element, and between one and two.
    let near = |x: f32| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    let far = |x: f32| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}

/// An interpolation of planes, rows first, whose tables are made when it is first run.
#[derive(Debug)]
pub struct Resize {
    axes: [Axis; 2],
    tables: OnceLock<(Isa, Resample, Columns)>,
}

impl Resize {
    /// Of these rows and columns.
    pub fn new(axes: [Axis; 2]) -> Resize {
        Resize { axes, tables: OnceLock::new() }
    }

    /// The gradient's.
    pub fn transposed(&self) -> Resize {
        Resize::new(self.axes.map(Axis::transposed))
    }

    /// Resamples every plane of `x`.
    pub fn run(&self, x: &[f32], y: &mut [f32]) {
        let (isa, both, columns) = self.tables.get_or_init(|| {
            let (isa, both) = (Isa::detect(), Resample { axes: [self.axes[0].taps(), self.axes[1].taps()] });
            let columns = Columns::new(&both.axes[1], isa.lanes());
            (isa, both, columns)
        });
        run(*isa, both, columns, x, y);
    }
}

impl Clone for Resize {
    fn clone(&self) -> Resize {
        Resize::new(self.axes)
    }
}

impl PartialEq for Resize {
    fn eq(&self, other: &Resize) -> bool {
        self.axes == other.axes
    }
}

impl Eq for Resize {}

impl Hash for Resize {
    fn hash<H: Hasher>(&self, h: &mut H) {
        self.axes.hash(h);
    }
}
