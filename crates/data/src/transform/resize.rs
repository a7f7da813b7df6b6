//! Another size, bilinear.

use super::Transform;
use crate::{Rng, image::Image};
use gradus_core::{Error, Result};

/// Another size by bilinear interpolation, with each new pixel an average over what it covers when the image shrinks
/// (`antialias`, as PIL and torchvision do).
#[derive(Clone, Debug, PartialEq)]
pub struct Resize {
    target: Target,
    antialias: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Target {
    Size(usize, usize),
    Smaller(usize),
}

impl Resize {
    /// To this height and width.
    pub fn new(height: usize, width: usize) -> Resize {
        Resize { target: Target::Size(height, width), antialias: true }
    }

    /// To this length of the smaller edge, the other one in proportion.
    pub fn smaller_edge(length: usize) -> Resize {
        Resize { target: Target::Smaller(length), antialias: true }
    }

    /// Whether shrinking averages over all pixels, or looks at the nearest two in each direction.
    pub fn antialias(mut self, antialias: bool) -> Resize {
        self.antialias = antialias;
        self
    }
}

/// Which pixels a new one reads along one axis: the first, and a weight each.
struct Tap {
    first: usize,
    weights: Vec<f64>,
}

/// PyTorch's `_upsample_bilinear2d_aa`: a triangle around the centre, as wide as the step when the image shrinks.
fn taps(from: usize, to: usize, antialias: bool) -> Vec<Tap> {
    let step = from as f64 / to as f64;
    let support = if antialias { step.max(1.0) } else { 1.0 };
    let tap = |i: usize| {
        let center = step * (i as f64 + 0.5);
        let first = (center - support + 0.5).max(0.0) as usize;
        let end = ((center + support + 0.5) as usize).min(from).max(first + 1);
        let weight = |j: usize| (1.0 - ((j as f64 - center + 0.5) / support).abs()).max(0.0);
        let weights: Vec<f64> = (first..end).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        Tap { first, weights: weights.into_iter().map(|w| w / sum).collect() }
    };
    (0..to).map(tap).collect()
}

impl Transform for Resize {
    fn apply(&self, image: Image, _: &mut Rng) -> Result<Image> {
        let (h, w) = (image.height(), image.width());
        let (height, width) = match self.target {
            Target::Size(height, width) => (height, width),
            Target::Smaller(n) if h <= w => (n, n * w / h.max(1)),
            Target::Smaller(n) => (n * h / w.max(1), n),
        };
        if h == 0 || w == 0 || height == 0 || width == 0 {
            return Err(Error::value("Resize", format!("from {h} x {w} to {height} x {width}: no size may be 0")));
        }
        let (down, across) = (taps(h, height, self.antialias), taps(w, width, self.antialias));
        // Along rows first, then along columns.
        let mut wide = Vec::with_capacity(image.channels() * h * width);
        for row in image.rows() {
            wide.extend(across.iter().map(|t| {
                t.weights.iter().zip(row.iter().skip(t.first)).map(|(w, &x)| w * f64::from(x)).sum::<f64>() as f32
            }));
        }
        let wide = Image::new(image.channels(), h, width, wide)?;
        Ok(wide.make(height, width, |c, y, x| {
            let Some(t) = down.get(y) else { return 0.0 };
            let sum = t.weights.iter().zip(t.first..).map(|(w, y)| w * wide.at(c, y, x).map_or(0.0, f64::from));
            sum.sum::<f64>() as f32
        }))
    }
}
