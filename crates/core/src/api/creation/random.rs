//! Random tensors: counter-based, so the same numbers on any number of threads.

use crate::api::same_device;
use crate::{
    DType, Device, Error, Result, Shape, Tensor,
    op::{Composite, HostOp, Op},
    replay,
};
use std::{panic::Location, sync::Mutex};

/// Seed and the next stream of the process-wide generator.
static STATE: Mutex<(u64, u64)> = Mutex::new((0, 0));

fn state() -> std::sync::MutexGuard<'static, (u64, u64)> {
    STATE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Starts the random numbers anew from a seed.
///
/// ```
/// use gradus_core::{manual_seed, Tensor};
/// manual_seed(7);
/// let a = Tensor::rand([4]).to_vec::<f32>().unwrap();
/// manual_seed(7);
/// assert_eq!(a, Tensor::rand([4]).to_vec::<f32>().unwrap());
/// ```
#[track_caller]
pub fn manual_seed(seed: u64) {
    replay::spoil("it sets the seed", Location::caller());
    *state() = (seed, 0);
}

/// The next stream, with the seed it belongs to.
pub(crate) fn draw() -> (u64, u64) {
    let mut s = state();
    s.1 += 1;
    (s.0, s.1 - 1)
}

/// Seed and position of the generator, for a checkpoint.
pub fn get_rng_state() -> (u64, u64) {
    *state()
}

/// Puts the generator back to where [`get_rng_state`] found it.
#[track_caller]
pub fn set_rng_state(at: (u64, u64)) {
    replay::spoil("it sets the state of the random numbers", Location::caller());
    *state() = at;
}

/// Random numbers are floats.
#[track_caller]
pub(crate) fn float_only(op: &str, dtype: DType) -> Result<()> {
    if dtype.is_float() {
        return Ok(());
    }
    Err(Error::dtype(op, &[dtype], format!("makes floats, not {dtype}")).hint("use randint for integers"))
}

impl Tensor {
    #[track_caller]
    pub(crate) fn uniform_on(shape: Shape, dtype: DType, device: Device) -> Tensor {
        let (seed, stream) = draw();
        replay::drawn(seed, stream);
        let work = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let u = Tensor::build(Op::Rand { seed, stream }, &[], shape, work, device, Location::caller());
        // As many bits as the type holds: more would round some numbers up to 1.
        let steps = match dtype {
            DType::F16 => 2048.0,
            DType::BF16 => 256.0,
            DType::F32 | DType::F64 => return u,
            DType::Bool | DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => return u.to_dtype(dtype),
        };
        ((u * steps).floor() * (1.0 / steps)).to_dtype(dtype)
    }

    /// Uniform numbers in [0, 1), f32.
    #[track_caller]
    pub fn rand(shape: impl Into<Shape>) -> Tensor {
        Tensor::uniform_on(shape.into(), DType::F32, Device::cpu())
    }

    /// Uniform numbers in [0, 1) of a float type.
    #[track_caller]
    pub fn rand_of(shape: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
        float_only("rand", dtype)?;
        Ok(Tensor::uniform_on(shape.into(), dtype, Device::cpu()))
    }

    /// Uniform numbers in [0, 1) in the shape, float type and device of this tensor.
    #[track_caller]
    pub fn rand_like(&self) -> Result<Tensor> {
        float_only("rand_like", self.dtype())?;
        Ok(Tensor::uniform_on(self.shape().clone(), self.dtype(), self.device()))
    }

    /// Uniform numbers in [lo, hi), f32.
    #[track_caller]
    pub fn uniform(lo: f64, hi: f64, shape: impl Into<Shape>) -> Tensor {
        Tensor::rand(shape) * (hi - lo) + lo
    }

    /// Normal numbers of mean 0 and deviation 1, f32.
    #[track_caller]
    pub fn randn(shape: impl Into<Shape>) -> Tensor {
        Tensor::normal_on(shape.into(), DType::F32, Device::cpu())
    }

    /// Normal numbers of mean 0 and deviation 1 of a float type.
    #[track_caller]
    pub fn randn_of(shape: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
        float_only("randn", dtype)?;
        Ok(Tensor::normal_on(shape.into(), dtype, Device::cpu()))
    }

    /// Normal numbers of mean 0 and deviation 1 in the shape, float type and device of this tensor.
    #[track_caller]
    pub fn randn_like(&self) -> Result<Tensor> {
        float_only("randn_like", self.dtype())?;
        Ok(Tensor::normal_on(self.shape().clone(), self.dtype(), self.device()))
    }

    /// Box-Muller: two uniform streams make one normal.
    #[track_caller]
    pub(crate) fn normal_on(shape: Shape, dtype: DType, device: Device) -> Tensor {
        let work = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        static NORMAL: Composite = Composite {
            name: "normal",
            build: |x, _| {
                // 1 - u is in (0, 1], so the logarithm is finite.
                let r = ((1.0 - &x[0]).log() * -2.0).sqrt();
                r * (&x[1] * std::f64::consts::TAU).cos()
            },
        };
        let u = Tensor::uniform_on(shape.clone(), work, device);
        let v = Tensor::uniform_on(shape.clone(), work, device);
        Tensor::composed(&NORMAL, &[&u, &v], &[], shape, work).to_dtype(dtype)
    }

    /// Normal numbers of this mean and deviation, f32.
    #[track_caller]
    pub fn normal(mean: f64, std: f64, shape: impl Into<Shape>) -> Result<Tensor> {
        if std < 0.0 || std.is_nan() {
            return Err(Error::value("normal", format!("a deviation cannot be {std}")));
        }
        Ok(Tensor::randn(shape) * std + mean)
    }

    /// Exponential numbers with this rate, f32.
    #[track_caller]
    pub fn exponential(rate: f64, shape: impl Into<Shape>) -> Result<Tensor> {
        if rate <= 0.0 || rate.is_nan() {
            return Err(Error::value("exponential", format!("a rate cannot be {rate}")));
        }
        Ok((1.0 - Tensor::rand(shape)).log() * (-1.0 / rate))
    }

    /// Normal numbers of this mean and deviation, kept inside [lo, hi], f32: by the inverse of the distribution
    /// function, so nothing is drawn twice.
    #[track_caller]
    pub fn trunc_normal(mean: f64, std: f64, lo: f64, hi: f64, shape: impl Into<Shape>) -> Result<Tensor> {
        if std <= 0.0 || std.is_nan() || !mean.is_finite() {
            return Err(Error::value("trunc_normal", format!("mean {mean} and deviation {std} make no distribution")));
        }
        if lo >= hi || lo.is_nan() || hi.is_nan() {
            return Err(Error::value("trunc_normal", format!("nothing lies between {lo} and {hi}")));
        }
        // In the left half, where small probabilities keep their digits; the right half is its mirror image.
        let (a, b) = ((lo - mean) / std, (hi - mean) / std);
        let (sign, a, b) = if a > 0.0 { (-1.0, -b, -a) } else { (1.0, a, b) };
        let ends = Tensor::from([a, b]) * std::f64::consts::FRAC_1_SQRT_2;
        let ends = (ends.neg().erfc() * 0.5).to_vec::<f64>()?;
        let u = Tensor::uniform_on(shape.into(), DType::F64, Device::cpu()) * (ends[1] - ends[0]) + ends[0];
        Ok((u.ndtri() * (sign * std) + mean).clamp(lo, hi)?.to_dtype(DType::F32))
    }

    /// Integers in `lo..hi`, all equally likely.
    ///
    /// ```
    /// use gradus_core::{DType, Tensor};
    /// let dice = Tensor::randint(1, 7, [100], DType::I64).unwrap().to_vec::<i64>().unwrap();
    /// assert!(dice.iter().all(|d| (1..7).contains(d)));
    /// ```
    #[track_caller]
    pub fn randint(lo: i64, hi: i64, shape: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
        let Some(n) = hi.checked_sub(lo).filter(|&n| n > 0 && n <= 1 << 53) else {
            return Err(Error::value("randint", format!("cannot choose from {lo}..{hi}"))
                .hint("the range must hold between 1 and 2^53 integers"));
        };
        let u = Tensor::uniform_on(shape.into(), DType::F64, Device::cpu());
        Ok(((u * n as f64).floor().to_dtype(DType::I64) + lo).to_dtype(dtype))
    }

    /// As [`Tensor::randint`], in the shape and type of this tensor.
    #[track_caller]
    pub fn randint_like(&self, lo: i64, hi: i64) -> Result<Tensor> {
        Ok(Tensor::randint(lo, hi, self.shape(), self.dtype())?.to(&self.device()))
    }

    /// `0..n` in random order, as i64.
    #[track_caller]
    pub fn randperm(n: usize) -> Tensor {
        /// The longest that is shuffled by one thread: as long as it stays in a core's own cache, that takes less time than
        /// to sort random keys on all of them.
        const SHUFFLED: usize = 1 << 17;
        if n <= SHUFFLED {
            let u = Tensor::uniform_on(Shape::from(n), DType::F64, Device::cpu());
            return u.make(Op::Host(HostOp::Shuffle), &[&u], Shape::from(n), DType::I64);
        }
        // Keys of so many bits that they and the positions fit into words, which sort in half the time.
        let bits = (63 - usize::BITS.saturating_sub(n.leading_zeros()) as i32).clamp(31, 53);
        let keys = Tensor::uniform_on(Shape::from(n), DType::F64, Device::cpu()) * 2f64.powi(bits);
        keys.floor().to_dtype(DType::I64).order(0, false)
    }

    /// Ones with these probabilities, zeros otherwise; the probabilities are read to check them.
    #[track_caller]
    pub fn bernoulli(&self) -> Result<Tensor> {
        float_only("bernoulli", self.dtype())?;
        if let Some(p) = self.to_vec::<f64>()?.iter().find(|p| !(0.0..=1.0).contains(*p)) {
            return Err(Error::value("bernoulli", format!("a probability cannot be {p}")).operand(self));
        }
        let u = Tensor::uniform_on(self.shape().clone(), DType::F64, self.device());
        Ok(u.lt(self.to_dtype(DType::F64))?.to_dtype(self.dtype()))
    }

    /// Ones with probability `p`, zeros otherwise, f32.
    #[track_caller]
    pub fn bernoulli_p(p: f64, shape: impl Into<Shape>) -> Result<Tensor> {
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::value("bernoulli", format!("a probability cannot be {p}")));
        }
        Ok(Tensor::uniform_on(shape.into(), DType::F64, Device::cpu()).lt(p)?.to_dtype(DType::F32))
    }

    /// `n` places drawn by weight from a vector, or from each row of a matrix. The weights are read to check them.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let w = Tensor::from([0.0f32, 3.0, 0.0, 1.0]);
    /// let mut both = w.multinomial(2, false).unwrap().to_vec::<i64>().unwrap();
    /// both.sort();
    /// assert_eq!(both, [1, 3]);
    /// assert!(w.multinomial(3, false).is_err());
    /// ```
    #[track_caller]
    pub fn multinomial(&self, n: usize, replacement: bool) -> Result<Tensor> {
        float_only("multinomial", self.dtype())?;
        let (rows, k) = match *self.dims() {
            [k] => (1, k),
            [rows, k] => (rows, k),
            _ => {
                let why = format!("weights are a vector or rows of a matrix, not {}", self.shape());
                return Err(Error::shape("multinomial", &[self.shape()], why).operand(self));
            }
        };
        let fail = |why: String| Err(Error::value("multinomial", why).operand(self));
        if n == 0 || k == 0 {
            return fail(format!("cannot draw {n} of {k} places"));
        }
        let w = self.to_dtype(DType::F64).detach().reshape_to(&Shape::from([rows, k]));
        let ends = w.cumsum(-1)?;
        let totals = ends.sliced(1, k - 1, 1, 1);
        // Sums that are finite and positive are of weights that are finite, where none is negative. Only what is not as
        // simple is looked at one by one.
        let simple = rows > 0 && replacement && {
            let least = self.detach().min()?;
            Tensor::eval_all(&[&ends, &least])?;
            least.item::<f64>()? >= 0.0 && totals.to_vec::<f64>()?.iter().all(|t| t.is_finite() && *t > 0.0)
        };
        let looked = if simple { vec![] } else { self.to_vec::<f64>()? };
        for (r, row) in looked.chunks(k).enumerate() {
            if let Some(w) = row.iter().find(|w| !(w.is_finite() && **w >= 0.0)) {
                return fail(format!("a weight cannot be {w} (row {r})"));
            }
            let open = row.iter().filter(|w| **w > 0.0).count();
            if open == 0 || (!replacement && open < n) {
                return fail(format!("cannot draw {n} of {open} places with a weight (row {r})"));
            }
        }
        let out = if replacement {
            let u = Tensor::uniform_on(Shape::from([rows, n]), DType::F64, self.device()) * totals;
            same_device("multinomial", &[&ends, &u])?;
            let op = Op::Host(HostOp::SearchSorted { right: true });
            u.make(op, &[&ends, &u], Shape::from([rows, n]), DType::I64)
        } else {
            // The first of exponential clocks with these rates to ring is drawn by weight, and so on.
            let u = Tensor::uniform_on(Shape::from([rows, k]), DType::F64, self.device());
            let rings = w / -((1.0 - u).log() - f64::MIN_POSITIVE);
            rings.order(1, true).sliced(1, 0, 1, n)
        };
        Ok(if self.rank() == 1 { out.reshape_to(&Shape::from(n)) } else { out })
    }
}
