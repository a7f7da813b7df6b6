//! Positions: sines and cosines that are added, or by which queries and keys are rotated.

use crate::{Buffer, Layer, Module, parts::parts_plain};
use gradus_core::{DType, Error, Result, Tensor};

/// `base^(-2 i / dim)` for `i` in `0..dim / 2`.
#[track_caller]
fn frequencies(dim: usize, base: f64) -> Result<Tensor> {
    let i = Tensor::arange(0, (dim / 2) as i64, 1, DType::I64)?.to_dtype(DType::F64);
    Ok((i * (-2.0 / dim as f64 * base.ln())).exp().to_dtype(DType::F32))
}

/// `[len, dim / 2]`: positions from `offset` on, times frequencies.
#[track_caller]
fn angles(len: usize, offset: usize, frequencies: &Tensor) -> Result<Tensor> {
    let at = Tensor::arange(0, len as i64, 1, DType::I64)?.to(&frequencies.device());
    // The offset is a number, not a shape: another one runs the same plan.
    let at = (at + offset as i64).to_dtype(frequencies.dtype()).unsqueeze(1)?;
    at.mul(frequencies)
}

/// The positions of "Attention is all you need", added to `[.., l, dim]`: sines at even places, cosines at odd ones.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_nn::{Layer, SinusoidalPosition};
/// let positions = SinusoidalPosition::new(6)?;
/// assert_eq!(positions.forward(&Tensor::randn([2, 5, 6]))?.dims(), [2, 5, 6]);
/// assert_eq!(positions.encoding(1, 0)?.to_vec::<f32>()?, [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Module)]
pub struct SinusoidalPosition {
    frequencies: Buffer,
    batch_first: bool,
}

impl SinusoidalPosition {
    /// For vectors of this (even) size.
    #[track_caller]
    pub fn new(dim: usize) -> Result<SinusoidalPosition> {
        check_even("SinusoidalPosition", dim)?;
        let frequencies = Buffer::temporary(frequencies(dim, 10_000.0)?);
        Ok(SinusoidalPosition { frequencies, batch_first: true })
    }

    /// Whether inputs are `[n, l, dim]` (as from the start) or `[l, n, dim]`.
    pub fn batch_first(self, batch_first: bool) -> SinusoidalPosition {
        SinusoidalPosition { batch_first, ..self }
    }

    /// `[len, dim]` for positions from `offset` on.
    #[track_caller]
    pub fn encoding(&self, len: usize, offset: usize) -> Result<Tensor> {
        let angles = angles(len, offset, &self.frequencies)?;
        Tensor::stack(&[&angles.sin(), &angles.cos()], 2)?.flatten(1, 2)
    }

    /// `x` with the positions from `offset` on added.
    #[track_caller]
    pub fn forward_from(&self, x: &Tensor, offset: usize) -> Result<Tensor> {
        let dim = 2 * self.frequencies.numel();
        let axis = if self.batch_first { x.rank().checked_sub(2) } else { Some(0) };
        let (Some(axis), Some(&last)) = (axis, x.dims().last()) else {
            return Err(Error::shape("SinusoidalPosition", &[x.shape()], "takes [.., l, dim]").operand(x));
        };
        if last != dim || x.rank() < 2 {
            let why = format!("takes vectors of {dim} numbers, not {}", x.shape());
            return Err(Error::shape("SinusoidalPosition", &[x.shape()], why).operand(x));
        }
        let encoding = self.encoding(x.dims()[axis], offset)?.to_dtype(x.dtype());
        let encoding = if self.batch_first || x.rank() < 3 { encoding } else { encoding.unsqueeze(1)? };
        x.add(&encoding)
    }
}

impl Layer for SinusoidalPosition {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_from(x, 0)
    }
}

/// Which numbers of a vector turn together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RotaryLayout {
    /// `i` and `i + dim / 2`, as Llama and GPT-NeoX have it.
    #[default]
    Halves,
    /// `2 i` and `2 i + 1`, as the paper and GPT-J have it.
    Interleaved,
}
parts_plain!(RotaryLayout);

/// Rotary positions: pairs of numbers of queries and keys turn by an angle that grows with the position, so that their
/// products depend on distances alone.
#[derive(Module)]
pub struct RotaryEmbedding {
    frequencies: Buffer,
    layout: RotaryLayout,
}

impl RotaryEmbedding {
    /// For heads of this (even) size, with base 10000 and pairs in halves.
    #[track_caller]
    pub fn new(dim: usize) -> Result<RotaryEmbedding> {
        RotaryEmbedding::with(dim, 10_000.0, RotaryLayout::Halves)
    }

    /// With another base, or other pairs.
    #[track_caller]
    pub fn with(dim: usize, base: f64, layout: RotaryLayout) -> Result<RotaryEmbedding> {
        check_even("RotaryEmbedding", dim)?;
        if base <= 0.0 || !base.is_finite() {
            return Err(Error::value("RotaryEmbedding", format!("a base cannot be {base}")));
        }
        Ok(RotaryEmbedding { frequencies: Buffer::temporary(frequencies(dim, base)?), layout })
    }

    /// `x` (`[.., l, dim]`) turned to the positions from `offset` on.
    #[track_caller]
    pub fn forward_from(&self, x: &Tensor, offset: usize) -> Result<Tensor> {
        let half = self.frequencies.numel();
        if x.rank() < 2 || x.dims().last() != Some(&(2 * half)) {
            let why = format!("takes [.., l, {}], not {}", 2 * half, x.shape());
            return Err(Error::shape("RotaryEmbedding", &[x.shape()], why).operand(x));
        }
        let angles = angles(x.dims()[x.rank() - 2], offset, &self.frequencies)?;
        let (cos, sin) = (angles.cos().to_dtype(x.dtype()), angles.sin().to_dtype(x.dtype()));
        let turned = |a: &Tensor, b: &Tensor| [a * &cos - b * &sin, b * &cos + a * &sin];
        match self.layout {
            RotaryLayout::Halves => {
                let [a, b] = turned(&x.narrow(-1, 0, half)?, &x.narrow(-1, half, half)?);
                Tensor::cat(&[&a, &b], -1)
            }
            RotaryLayout::Interleaved => {
                let pairs = x.unflatten(-1, [half, 2])?;
                let [a, b] = turned(&pairs.select(-1, 0)?, &pairs.select(-1, 1)?);
                Tensor::stack(&[&a, &b], -1)?.flatten(-2, -1)
            }
        }
    }
}

impl Layer for RotaryEmbedding {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_from(x, 0)
    }
}

#[track_caller]
fn check_even(op: &str, dim: usize) -> Result<()> {
    if dim == 0 || !dim.is_multiple_of(2) {
        return Err(Error::value(op, format!("numbers go in pairs, and {dim} is not even or is 0")));
    }
    Ok(())
}
