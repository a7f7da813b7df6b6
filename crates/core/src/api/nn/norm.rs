//! Normalisations: each is mathematics over one mean and one variance, and runs as one pass over a row.

use super::norm_grad::ChannelNorm;
use crate::api::activation::channel_shape;
use crate::{
    DType, Error, Result, Shape, Tensor,
    op::{Composite, ReduceOp},
};
use smallvec::SmallVec;

/// How [`Tensor::batch_norm`] and [`Tensor::instance_norm`] work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNormOptions {
    /// Use the input's own statistics (and update the running ones) rather than the running ones.
    pub training: bool,
    /// How much of the new statistics goes into the running ones.
    pub momentum: f64,
    /// Added to the variance.
    pub eps: f64,
}

impl Default for BatchNormOptions {
    fn default() -> Self {
        BatchNormOptions { training: false, momentum: 0.1, eps: 1e-5 }
    }
}

/// Running mean and running variance.
pub type RunningStats = (Tensor, Tensor);

/// A normalised input with the statistics it was normalised by.
pub(super) struct Normed {
    pub(super) out: Tensor,
    pub(super) mean: Tensor,
    var: Tensor,
    pub(super) rstd: Tensor,
}

impl Tensor {
    /// `(x - mean) / sqrt(var + eps)` over these positions, variance biased. The operand is wide.
    #[track_caller]
    pub(super) fn standardize(&self, axes: &SmallVec<[usize; 6]>, eps: f64) -> Normed {
        let n: usize = axes.iter().map(|&a| self.dims()[a]).product();
        let mean = self.reduce_keep(ReduceOp::Sum, axes.clone()) / n as f64;
        // Centred first: E[x^2] - E[x]^2 loses all digits where the mean is large.
        let d = self - &mean;
        let var = (&d * &d).reduce_keep(ReduceOp::Sum, axes.clone()) / n as f64;
        let rstd = (&var + eps).rsqrt();
        Normed { out: d * &rstd, mean, var, rstd }
    }

    /// `x * weight + bias`, where given.
    #[track_caller]
    pub(super) fn scale_shift(self, weight: Option<&Tensor>, bias: Option<&Tensor>, shape: &Shape) -> Tensor {
        let fit = |t: &Tensor| t.to_dtype(self.dtype()).reshape_to(shape);
        let scaled = match weight {
            Some(w) => &self * fit(w),
            None => self.clone(),
        };
        match bias {
            Some(b) => scaled + fit(b),
            None => scaled,
        }
    }

    /// An error unless a parameter has this shape and lives with the input.
    #[track_caller]
    fn check_param(&self, name: &str, what: &str, param: Option<&Tensor>, want: &[usize]) -> Result<()> {
        let Some(p) = param else { return Ok(()) };
        crate::api::same_device(name, &[self, p])?;
        if p.dims() != want {
            let why = format!("the {what} must be {want:?}, not {}", p.shape());
            return Err(Error::shape(name, &[self.shape(), p.shape()], why).operand(self).operand(p));
        }
        Ok(())
    }

    /// The positions of `normalized_shape` at the end of this shape.
    #[track_caller]
    fn trailing(&self, name: &str, normalized_shape: &[usize]) -> Result<SmallVec<[usize; 6]>> {
        if normalized_shape.is_empty() || !self.dims().ends_with(normalized_shape) {
            let why = format!("{} does not end with the shape to normalise, {normalized_shape:?}", self.shape());
            return Err(Error::shape(name, &[self.shape(), &normalized_shape.into()], why).operand(self));
        }
        Ok((self.rank() - normalized_shape.len()..self.rank()).collect())
    }

    /// Mean 0 and variance 1 over the last axes (those of `normalized_shape`), then `weight` and `bias`.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let x = Tensor::from([[1.0f64, 3.0], [5.0, 5.0]]);
    /// let y = x.layer_norm([2], None, None, 0.0).unwrap();
    /// assert_eq!(y.to_vec::<f64>().unwrap()[..2], [-1.0, 1.0]);
    /// ```
    #[track_caller]
    pub fn layer_norm(
        &self,
        normalized_shape: impl Into<Shape>,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor> {
        static LAYER_NORM: Composite = Composite {
            name: "layer_norm",
            build: |given, settings| {
                let (x, [weight, bias]) = affine(given, settings[0]);
                let over = Shape::from(&x.dims()[settings[1] as usize..]);
                x.layer_normed(&over, weight, bias, f64::from_bits(settings[2])).0
            },
        };
        let over = normalized_shape.into();
        self.check_layer_norm(&over, weight, bias)?;
        Ok(self.normed(&LAYER_NORM, [weight, bias], &[(self.rank() - over.rank()) as u64, eps.to_bits()]))
    }

    /// [`Tensor::layer_norm`] with the means and the inverse standard deviations it used.
    #[track_caller]
    pub fn native_layer_norm(
        &self,
        normalized_shape: impl Into<Shape>,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let over = normalized_shape.into();
        self.check_layer_norm(&over, weight, bias)?;
        Ok(self.layer_normed(&over, weight, bias, eps))
    }

    #[track_caller]
    fn check_layer_norm(&self, over: &Shape, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Result<()> {
        self.trailing("layer_norm", over)?;
        self.check_param("layer_norm", "weight", weight, over)?;
        self.check_param("layer_norm", "bias", bias, over)
    }

    /// Normalised over the last axes, which were checked, with the means and the inverse standard deviations.
    #[track_caller]
    fn layer_normed(
        &self,
        over: &Shape,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> (Tensor, Tensor, Tensor) {
        let n = self.wide().standardize(&(self.rank() - over.rank()..self.rank()).collect(), eps);
        let out = n.out.scale_shift(weight, bias, over).back_to(self);
        (out, n.mean.back_to(self), n.rstd.back_to(self))
    }

    /// Divided by the root of the mean square over the last axes, then times `weight`; `eps` defaults to the element
    /// type's machine epsilon.
    #[track_caller]
    pub fn rms_norm(
        &self,
        normalized_shape: impl Into<Shape>,
        weight: Option<&Tensor>,
        eps: Option<f64>,
    ) -> Result<Tensor> {
        static RMS_NORM: Composite = Composite {
            name: "rms_norm",
            build: |given, settings| {
                let (of, [weight, _]) = affine(given, settings[0]);
                let over = Shape::from(&of.dims()[settings[1] as usize..]);
                let axes = (settings[1] as usize..of.rank()).collect();
                let x = of.wide();
                let square = (&x * &x).reduce_keep(ReduceOp::Sum, axes) / over.numel() as f64;
                let out = &x * (square + f64::from_bits(settings[2])).rsqrt();
                out.scale_shift(weight, None, &over).back_to(of)
            },
        };
        let over = normalized_shape.into();
        self.trailing("rms_norm", &over)?;
        self.check_param("rms_norm", "weight", weight, &over)?;
        let eps = eps.unwrap_or(if self.dtype() == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 });
        Ok(self.normed(&RMS_NORM, [weight, None], &[(self.rank() - over.rank()) as u64, eps.to_bits()]))
    }

    /// Mean 0 and variance 1 over groups of channels (axis 1), then `weight` and `bias` for each channel.
    #[track_caller]
    pub fn group_norm(
        &self,
        groups: usize,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor> {
        let channels = self.shape().get(1).copied().unwrap_or(0);
        if self.rank() < 2 || groups == 0 || !channels.is_multiple_of(groups) {
            let why = format!("{} has {channels} channels, which {groups} groups do not divide", self.shape());
            return Err(Error::shape("group_norm", &[self.shape()], why).operand(self));
        }
        self.check_param("group_norm", "weight", weight, &[channels])?;
        self.check_param("group_norm", "bias", bias, &[channels])?;
        static GROUP_NORM: Composite = Composite {
            name: "group_norm",
            build: |given, settings| {
                let (x, [weight, bias]) = affine(given, settings[0]);
                // Groups and their channels as axes of their own.
                let groups = settings[1] as usize;
                let (rest, each) = (x.dims()[2..].iter().product(), x.dims()[1] / groups);
                let by = ChannelNorm {
                    name: "group_norm",
                    split: [x.dims()[0], groups, each, rest].into(),
                    axes: SmallVec::from_slice(&[2, 3]),
                    per: [1, groups, each, 1].into(),
                    eps: f64::from_bits(settings[2]),
                    wide: crate::autocast_dtype().is_some(),
                };
                by.apply(x, weight, bias).0
            },
        };
        Ok(self.normed(&GROUP_NORM, [weight, bias], &[groups as u64, eps.to_bits()]))
    }

    /// Mean 0 and variance 1 for each channel (axis 1) over the batch, then `weight` and `bias`. Also the new running
    /// statistics: nothing is changed in place.
    ///
    /// ```
    /// use gradus_core::{BatchNormOptions, DType, Tensor};
    /// let x = Tensor::from([[1.0f64], [3.0]]);
    /// let stats = (Tensor::zeros([1], DType::F64), Tensor::ones([1], DType::F64));
    /// let options = BatchNormOptions { training: true, ..Default::default() };
    /// let (y, stats) = x.batch_norm(Some(&stats), None, None, &options).unwrap();
    /// assert!((y.to_vec::<f64>().unwrap()[1] - 1.0).abs() < 1e-4);
    /// assert_eq!(stats.unwrap().0.to_vec::<f64>().unwrap(), [0.2]);
    /// ```
    #[track_caller]
    pub fn batch_norm(
        &self,
        running: Option<&RunningStats>,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        options: &BatchNormOptions,
    ) -> Result<(Tensor, Option<RunningStats>)> {
        let name = "batch_norm";
        let channels = self.check_channels(name, running, weight, bias)?;
        static BY_RUNNING: Composite = Composite {
            name: "batch_norm",
            build: |given, settings| {
                let (rest, stats) = given.split_at(given.len() - 2);
                let (of, [weight, bias]) = affine(rest, settings[0]);
                let (x, per) = (of.wide(), channel_shape(of.shape().get(1).copied().unwrap_or(0), of.rank()));
                let fit = |t: &Tensor| t.to_dtype(x.dtype()).reshape_to(&per);
                let out = (&x - fit(&stats[0])) * (fit(&stats[1]) + f64::from_bits(settings[1])).rsqrt();
                out.scale_shift(weight, bias, &per).to_dtype(of.dtype().to_float())
            },
        };
        static BY_BATCH: Composite = Composite {
            name: "batch_norm",
            build: |given, settings| {
                let (x, [weight, bias]) = affine(given, settings[0]);
                by_batch(x, f64::from_bits(settings[1])).apply(x, weight, bias).0
            },
        };
        let eps = options.eps.to_bits();
        if !options.training {
            let Some((mean, var)) = running else {
                return Err(Error::value(name, "without training, running statistics are needed").operand(self));
            };
            return Ok((self.normed_with(&BY_RUNNING, [weight, bias], &[mean, var], &[eps]), running.cloned()));
        }
        let count = self.numel() / channels.max(1);
        if count == 1 {
            let why = format!("training needs more than one value for each channel, and {} has one", self.shape());
            return Err(Error::shape(name, &[self.shape()], why).operand(self));
        }
        let Some(running) = running else { return Ok((self.normed(&BY_BATCH, [weight, bias], &[eps]), None)) };
        let (out, n) = by_batch(self, options.eps).apply(self, weight, bias);
        Ok((out, Some(update(running, &n, count, options.momentum))))
    }

    /// Mean 0 and variance 1 for each sample and channel, then `weight` and `bias` for each channel. With `training`
    /// off, the running statistics are used instead.
    #[track_caller]
    pub fn instance_norm(
        &self,
        running: Option<&RunningStats>,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        options: &BatchNormOptions,
    ) -> Result<(Tensor, Option<RunningStats>)> {
        let name = "instance_norm";
        let channels = self.check_channels(name, running, weight, bias)?;
        if !options.training {
            return self.batch_norm(running, weight, bias, options);
        }
        let count: usize = self.dims().iter().skip(2).product();
        if count == 1 {
            let why = format!("needs more than one value for each sample and channel, and {} has one", self.shape());
            return Err(Error::shape(name, &[self.shape()], why).operand(self));
        }
        let axes: SmallVec<[usize; 6]> = (2..self.rank()).collect();
        let per = channel_shape(channels, self.rank());
        let by = ChannelNorm { name, split: self.shape().clone(), axes, per, eps: options.eps, wide: false };
        let (out, n) = by.apply(self, weight, bias);
        let updated = running.map(|r| {
            // The running statistics take the mean over the batch.
            let over = |t: &Tensor| t.reduce_one(ReduceOp::Sum, 0) / self.dims()[0] as f64;
            let mean = Normed { mean: over(&n.mean), var: over(&n.var), ..n };
            update(r, &mean, count, options.momentum)
        });
        Ok((out, updated))
    }

    /// A normalisation as one function of this, scale and shift: the settings begin with which of them there are.
    #[track_caller]
    fn normed(&self, of: &'static Composite, affine: [Option<&Tensor>; 2], settings: &[u64]) -> Tensor {
        self.normed_with(of, affine, &[], settings)
    }

    /// The same with more inputs, behind those.
    #[track_caller]
    fn normed_with(
        &self,
        of: &'static Composite,
        affine: [Option<&Tensor>; 2],
        more: &[&Tensor],
        settings: &[u64],
    ) -> Tensor {
        let given: SmallVec<[&Tensor; 5]> =
            [self].into_iter().chain(affine.into_iter().flatten()).chain(more.iter().copied()).collect();
        let which = affine[0].is_some() as u64 | (affine[1].is_some() as u64) << 1;
        let settings: SmallVec<[u64; 4]> = [which].into_iter().chain(settings.iter().copied()).collect();
        Tensor::composed(of, &given, &settings, self.shape().clone(), self.dtype().to_float())
    }

    /// The number of channels, with everything given for each of them checked.
    #[track_caller]
    fn check_channels(
        &self,
        name: &str,
        running: Option<&RunningStats>,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
    ) -> Result<usize> {
        // An empty vector passes, as in PyTorch: there is nothing to normalise.
        if self.rank() < 2 && !(self.rank() == 1 && self.numel() == 0) {
            let why = format!("needs a batch and channels, not {}", self.shape());
            return Err(Error::shape(name, &[self.shape()], why).operand(self));
        }
        let channels = if self.rank() < 2 { 0 } else { self.dims()[1] };
        self.check_param(name, "running mean", running.map(|r| &r.0), &[channels])?;
        self.check_param(name, "running variance", running.map(|r| &r.1), &[channels])?;
        self.check_param(name, "weight", weight, &[channels])?;
        self.check_param(name, "bias", bias, &[channels])?;
        Ok(channels)
    }
}

/// The input of a normalisation, and the scale and the shift that it has.
fn affine(given: &[Tensor], which: u64) -> (&Tensor, [Option<&Tensor>; 2]) {
    let (scale, shift) = (which & 1 == 1, which & 2 == 2);
    (&given[0], [scale.then(|| &given[1]), shift.then(|| &given[1 + scale as usize])])
}

/// One mean and one variance for each channel, over all the rest.
fn by_batch(x: &Tensor, eps: f64) -> ChannelNorm {
    let axes = (0..x.rank()).filter(|&d| d != 1 && x.rank() > 1).collect();
    let per = channel_shape(x.shape().get(1).copied().unwrap_or(0), x.rank());
    ChannelNorm { name: "batch_norm", split: x.shape().clone(), axes, per, eps, wide: false }
}

/// `(1 - momentum) old + momentum new`, with the unbiased variance, constant for gradients.
#[track_caller]
fn update(old: &RunningStats, new: &Normed, count: usize, momentum: f64) -> RunningStats {
    let mix = |old: &Tensor, new: &Tensor| {
        let new = new.detach().to_dtype(old.dtype()).reshape_to(old.shape());
        old.detach() * (1.0 - momentum) + new * momentum
    };
    let unbiased = &new.var * (count as f64 / (count as f64 - 1.0));
    (mix(&old.0, &new.mean), mix(&old.1, &unbiased))
}
