//! Connectionist temporal classification (Graves et al., 2006).

use crate::api::{loss::Reduction, same_device};
use crate::{DType, Error, Result, Shape, Tensor};

/// How [`Tensor::ctc_loss`] works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CtcOptions {
    /// The class that stands for nothing.
    pub blank: i64,
    /// What becomes of the losses of the sequences; the mean is over losses divided by target lengths.
    pub reduction: Reduction,
    /// Infinite losses (targets that do not fit) count as 0, and so do their gradients.
    pub zero_infinity: bool,
}

impl Default for CtcOptions {
    fn default() -> Self {
        CtcOptions { blank: 0, reduction: Reduction::Mean, zero_infinity: false }
    }
}

/// Stands for the logarithm of 0: so small that nothing can be added to it, and still a number, so that differences of
/// two of them are not NaN.
const NEVER: f64 = -1e30;

const NAME: &str = "ctc_loss";

impl Tensor {
    /// The negative log-likelihood of label sequences without alignment, under log-probabilities `[T, N, C]` (or
    /// `[T, C]`). Targets are `[N, S]`, or all sequences one after the other.
    #[track_caller]
    pub fn ctc_loss(
        &self,
        targets: &Tensor,
        input_lengths: &[usize],
        target_lengths: &[usize],
        options: &CtcOptions,
    ) -> Result<Tensor> {
        if self.rank() == 2 {
            let batched = self.unsqueeze(1)?;
            let loss = batched.ctc_loss(targets, input_lengths, target_lengths, options)?;
            return if options.reduction == Reduction::None { loss.squeeze(0) } else { Ok(loss) };
        }
        let (steps, batch, longest) = check(self, targets, input_lengths, target_lengths, options)?;
        let x = self.wide();
        let labels = padded(&targets.as_index(NAME)?, target_lengths, longest, options.blank)?;
        let width = 2 * longest + 1;
        // blank, label, blank, label, .., blank
        let blanks = labels.full_like(options.blank);
        let pairs = Tensor::stack(&[&blanks, &labels], 2)?.reshape([batch, 2 * longest])?;
        let path = Tensor::cat(
            &[&pairs, &Tensor::full_on([batch, 1].into(), options.blank.into(), DType::I64, x.device())],
            1,
        )?;
        // From two places before: only between different labels (a blank's is a blank).
        let skips = if width > 2 {
            let differs = path.narrow(1, 2, width - 2)?.ne(&path.narrow(1, 0, width - 2)?)?;
            differs.pad_axis(1, 2, 0)?
        } else {
            Tensor::full_on([batch, width].into(), false.into(), DType::Bool, x.device())
        };
        let at = path.unsqueeze(0)?.expand([steps, batch, width])?;
        let emit = x.gather(2, &at)?;
        let never = x.scalar_like(NEVER);
        let place = Tensor::arange_on(width, x.device());
        let lengths = |v: &[usize]| -> Result<Tensor> {
            let v: Vec<i64> = v.iter().map(|&n| n as i64).collect();
            Ok(Tensor::from_slice(&v, [batch, 1])?.to(&x.device()))
        };
        let (times, ends) = (lengths(input_lengths)?, lengths(target_lengths)?);
        let start = Tensor::scalar(2, DType::I64).raw_gt(&place).expand_to(&[batch, width].into());
        let mut alpha = never.expand_to(&[batch, width].into());
        let shift = |a: &Tensor, by: usize| -> Result<Tensor> {
            let by = by.min(width);
            let kept = a.narrow(1, 0, width - by)?;
            let fresh = Tensor::full_on([batch, by].into(), NEVER.into(), a.dtype(), a.device());
            Tensor::cat(&[&fresh, &kept], 1)
        };
        for t in 0..steps {
            let here = emit.select(0, t as i64)?;
            let next = if t == 0 {
                start.raw_where(&here, &never)
            } else {
                let two = skips.raw_where(&shift(&alpha, 2)?, &never);
                here + add_logs(&[&alpha, &shift(&alpha, 1)?, &two])
            };
            // A sequence that has ended keeps what it had.
            let live = times.gt(t as i64)?;
            alpha = live.raw_where(&next, &alpha);
        }
        // The last label or the blank after it.
        let last = alpha.gather(1, &(&ends * 2))?;
        let before = (&ends * 2 - 1).maximum(0)?;
        let none = ends.eq(0)?;
        let label = none.raw_where(&never, &alpha.gather(1, &before)?);
        let empty = times.eq(0)?.logical_and(&none)?;
        let loss = empty.raw_where(&x.scalar_like(0.0), &-add_logs(&[&last, &label])).reshape([batch])?;
        let impossible = loss.raw_gt(&loss.scalar_like(-NEVER / 2.0));
        let bad = loss.scalar_like(if options.zero_infinity { 0.0 } else { f64::INFINITY });
        let loss = impossible.raw_where(&bad, &loss);
        let loss = match options.reduction {
            Reduction::Mean => (loss / ends.reshape([batch])?.maximum(1)?.to_dtype(x.dtype())).mean(),
            Reduction::None | Reduction::Sum | Reduction::BatchMean => options.reduction.apply(&loss),
        };
        Ok(loss.back_to(self))
    }
}

/// `ln(sum(e^x))` of tensors of one shape.
#[track_caller]
fn add_logs(xs: &[&Tensor]) -> Tensor {
    let mut top = xs[0].detach();
    for x in &xs[1..] {
        let x = x.detach();
        top = x.raw_gt(&top).raw_where(&x, &top);
    }
    let mut sum = (xs[0] - &top).exp();
    for x in &xs[1..] {
        sum = sum + (*x - &top).exp();
    }
    top + sum.log()
}

/// Steps, sequences and the longest target, with everything checked.
#[track_caller]
fn check(
    x: &Tensor,
    targets: &Tensor,
    inputs: &[usize],
    lengths: &[usize],
    options: &CtcOptions,
) -> Result<(usize, usize, usize)> {
    let fail = |why: String| Error::shape(NAME, &[x.shape(), targets.shape()], why).operand(x).operand(targets);
    same_device(NAME, &[x, targets])?;
    let &[steps, batch, classes] = x.dims() else {
        return Err(fail(format!("log-probabilities must be [T, N, C] or [T, C], not {}", x.shape())));
    };
    if options.blank < 0 || options.blank as u64 >= classes as u64 {
        return Err(
            Error::value(NAME, format!("the blank {} is not one of {classes} classes", options.blank)).operand(x)
        );
    }
    if inputs.len() != batch || lengths.len() != batch {
        let why = format!("{batch} sequences, but {} input and {} target lengths", inputs.len(), lengths.len());
        return Err(fail(why));
    }
    if let Some(n) = inputs.iter().find(|&&n| n > steps) {
        return Err(Error::value(NAME, format!("an input length of {n} is more than the {steps} steps")).operand(x));
    }
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let total: usize = lengths.iter().sum();
    let fits = match *targets.dims() {
        [n] => n == total,
        [b, s] => b == batch && s >= longest,
        _ => false,
    };
    if !fits {
        return Err(fail(format!("targets {} do not hold lengths {lengths:?}", targets.shape())));
    }
    Ok((steps, batch, longest))
}

/// Targets as `[N, longest]`, blank beyond each one's length.
#[track_caller]
fn padded(targets: &Tensor, lengths: &[usize], longest: usize, blank: i64) -> Result<Tensor> {
    let batch = lengths.len();
    if batch == 0 || longest == 0 {
        return Ok(Tensor::full_on([batch, longest].into(), blank.into(), DType::I64, targets.device()));
    }
    let rows = if targets.rank() == 2 {
        let width = targets.dims()[1];
        targets.reshape(Shape::from(batch * width))?.pad_axis(0, 0, longest)?
    } else {
        targets.pad_axis(0, 0, longest)?
    };
    let mut start = 0;
    let mut out = vec![];
    for (i, &n) in lengths.iter().enumerate() {
        let from = if targets.rank() == 2 { i * targets.dims()[1] } else { start };
        let row = rows.narrow(0, from, longest)?;
        let inside = Tensor::arange_on(longest, targets.device()).lt(n as i64)?;
        out.push(inside.where_(&row, blank)?);
        start += n;
    }
    Tensor::stack(&out.iter().collect::<Vec<_>>(), 0)
}
