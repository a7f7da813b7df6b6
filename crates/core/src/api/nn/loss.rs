//! Losses that compare element with element, and how losses are brought down to one number.

use crate::api::broadcast_all;
use crate::{
    Error, Result, Shape, Tensor,
    op::{Composite, ewise},
};

/// What becomes of the losses of single elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// They stay.
    None,
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// Their sum over the extent of the first axis.
    BatchMean,
}

impl Reduction {
    #[track_caller]
    pub(crate) fn apply(self, loss: &Tensor) -> Tensor {
        let over = match self {
            Reduction::None => return loss.resolve(),
            Reduction::Sum => return loss.wide().sum().back_to(loss),
            Reduction::Mean => loss.numel(),
            Reduction::BatchMean => loss.dims().first().copied().unwrap_or(1),
        };
        (loss.wide().sum() / over as f64).back_to(loss)
    }

    /// The one of this number, as settings of composites hold it.
    pub(crate) fn of(number: u64) -> Reduction {
        let all = [Reduction::None, Reduction::Mean, Reduction::Sum, Reduction::BatchMean];
        all.into_iter().find(|r| *r as u64 == number).unwrap_or_default()
    }

    /// The shape of what is left of losses of this shape.
    pub(crate) fn shape(self, losses: &Shape) -> Shape {
        if self == Reduction::None { losses.clone() } else { Shape::default() }
    }
}

/// How [`Tensor::poisson_nll_loss`] works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoissonNllOptions {
    /// The input is the logarithm of the rate.
    pub log_input: bool,
    /// Add Stirling's approximation of the term that does not depend on the input.
    pub full: bool,
    /// Added to a rate before its logarithm.
    pub eps: f64,
    /// What becomes of the single losses.
    pub reduction: Reduction,
}

impl Default for PoissonNllOptions {
    fn default() -> Self {
        PoissonNllOptions { log_input: true, full: false, eps: 1e-8, reduction: Reduction::Mean }
    }
}

/// A loss of pairs as one node. The settings are the reduction, then numbers of the loss.
#[track_caller]
fn of_pairs(of: &'static Composite, x: &Tensor, y: &Tensor, reduction: Reduction, number: f64) -> Result<Tensor> {
    let (x, y) = x.pair(of.name, y)?;
    let settings = [reduction as u64, number.to_bits()];
    Ok(Tensor::composed(of, &[&x, &y], &settings, reduction.shape(x.shape()), x.dtype()))
}

impl Tensor {
    /// `(x - y)^2`.
    ///
    /// ```
    /// use gradus_core::{Reduction, Tensor};
    /// let loss = Tensor::from([1.0f32, 2.0]).mse_loss(&Tensor::from([1.0f32, 4.0]), Reduction::Mean).unwrap();
    /// assert_eq!(loss.item::<f32>().unwrap(), 2.0);
    /// ```
    #[track_caller]
    pub fn mse_loss(&self, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
        static MSE: Composite =
            Composite { name: "mse_loss", build: |x, how| Reduction::of(how[0]).apply(&(&x[0] - &x[1]).square()) };
        of_pairs(&MSE, self, target, reduction, 0.0)
    }

    /// `|x - y|`.
    #[track_caller]
    pub fn l1_loss(&self, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
        static L1: Composite =
            Composite { name: "l1_loss", build: |x, how| Reduction::of(how[0]).apply(&(&x[0] - &x[1]).abs()) };
        of_pairs(&L1, self, target, reduction, 0.0)
    }

    /// `d^2 / (2 beta)` for distances below `beta`, `|d| - beta / 2` from there on.
    #[track_caller]
    pub fn smooth_l1_loss(&self, target: &Tensor, beta: f64, reduction: Reduction) -> Result<Tensor> {
        if beta < 0.0 || beta.is_nan() {
            return Err(Error::value("smooth_l1_loss", format!("beta cannot be {beta}: it must not be negative")));
        }
        if beta == 0.0 {
            return self.l1_loss(target, reduction);
        }
        static SMOOTH: Composite = Composite {
            name: "smooth_l1_loss",
            build: |x, how| {
                let (d, beta) = (&x[0] - &x[1], f64::from_bits(how[1]));
                let size = d.abs();
                let near = size.scalar_like(beta).raw_gt(&size);
                let loss = near.raw_where(&(&d * &d * (0.5 / beta)), &(size - 0.5 * beta));
                Reduction::of(how[0]).apply(&loss)
            },
        };
        of_pairs(&SMOOTH, self, target, reduction, beta)
    }

    /// `d^2 / 2` for distances up to `delta`, `delta (|d| - delta / 2)` beyond.
    #[track_caller]
    pub fn huber_loss(&self, target: &Tensor, delta: f64, reduction: Reduction) -> Result<Tensor> {
        if delta <= 0.0 || delta.is_nan() {
            return Err(Error::value("huber_loss", format!("delta cannot be {delta}: it must be positive")));
        }
        static HUBER: Composite = Composite {
            name: "huber_loss",
            build: |x, how| {
                let (d, delta) = (&x[0] - &x[1], f64::from_bits(how[1]));
                let size = d.abs();
                let near = size.scalar_like(delta).raw_ge(&size);
                let loss = near.raw_where(&(&d * &d * 0.5), &((size - 0.5 * delta) * delta));
                Reduction::of(how[0]).apply(&loss)
            },
        };
        of_pairs(&HUBER, self, target, reduction, delta)
    }

    /// `-(y ln x + (1 - y) ln(1 - x))` of probabilities, times `weight`; logarithms are bounded at -100.
    #[track_caller]
    pub fn binary_cross_entropy(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        reduction: Reduction,
    ) -> Result<Tensor> {
        const EPS: f64 = 1e-12;
        if self.shape() != target.shape() {
            let why = format!("input and target differ in shape: {} and {}", self.shape(), target.shape());
            return Err(Error::shape("binary_cross_entropy", &[self.shape(), target.shape()], why)
                .operand(self)
                .operand(target));
        }
        fn each(x: &Tensor, y: &Tensor) -> Tensor {
            let product = x * (1.0 - x);
            let regular = product.raw_ge(&product.scalar_like(EPS));
            // At 0 and 1 the value is bounded, and the slope is PyTorch's (x - y) / max(x (1 - x), 1e-12).
            let edge = x.detach();
            let inner = regular.raw_where(x, &x.scalar_like(0.5));
            let ln = regular.raw_where(&inner.log(), &edge.log().at_least(-100.0));
            let ln_not = regular.raw_where(&(-&inner).log1p(), &(-&edge).log1p().at_least(-100.0));
            let slope = (&edge - y.detach()) / EPS * (x - &edge);
            let slope = regular.raw_where(&x.zeros_like(), &slope);
            slope - (y * ln + (1.0 - y) * ln_not)
        }
        static BINARY: Composite = Composite {
            name: "binary_cross_entropy",
            build: |x, how| Reduction::of(how[0]).apply(&each(&x[0], &x[1])),
        };
        if weight.is_none() {
            return of_pairs(&BINARY, self, target, reduction, 0.0);
        }
        let (x, y) = self.pair("binary_cross_entropy", target)?;
        Ok(reduction.apply(&weighted("binary_cross_entropy", each(&x, &y), weight)?))
    }

    /// [`Tensor::binary_cross_entropy`] of the sigmoid, right at any logit; `pos_weight` multiplies the losses of
    /// positive examples.
    #[track_caller]
    pub fn binary_cross_entropy_with_logits(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        pos_weight: Option<&Tensor>,
        reduction: Reduction,
    ) -> Result<Tensor> {
        let name = "binary_cross_entropy_with_logits";
        if self.shape() != target.shape() {
            let why = format!("input and target differ in shape: {} and {}", self.shape(), target.shape());
            return Err(Error::shape(name, &[self.shape(), target.shape()], why).operand(self).operand(target));
        }
        static PLAIN: Composite = Composite {
            name: "binary_cross_entropy_with_logits",
            build: |x, how| {
                let loss = (1.0 - &x[1]) * &x[0] + (-&x[0]).unary(&ewise::SOFTPLUS);
                Reduction::of(how[0]).apply(&loss)
            },
        };
        if weight.is_none() && pos_weight.is_none() {
            return of_pairs(&PLAIN, self, target, reduction, 0.0);
        }
        let (x, y) = self.pair(name, target)?;
        let ln = (-&x).unary(&ewise::SOFTPLUS); // -ln sigmoid(x)
        let ln = match pos_weight {
            Some(p) => weighted(name, ln, Some(&((p - 1.0).mul(&y)? + 1.0)))?,
            None => ln,
        };
        let loss = (1.0 - &y) * &x + ln;
        Ok(reduction.apply(&weighted(name, loss, weight)?))
    }

    /// Kullback-Leibler divergence `y (ln y - x)` for log-probabilities `x`; with `log_target`, `y` is one too.
    #[track_caller]
    pub fn kl_div(&self, target: &Tensor, log_target: bool, reduction: Reduction) -> Result<Tensor> {
        static OF_LOGS: Composite =
            Composite { name: "kl_div", build: |x, how| Reduction::of(how[0]).apply(&(x[1].exp() * (&x[1] - &x[0]))) };
        static OF_NUMBERS: Composite = Composite {
            name: "kl_div",
            build: |x, how| {
                let (x, y) = (&x[0], &x[1]);
                // 0 ln 0 is 0
                let safe = y.raw_eq(&y.zeros_like()).raw_where(&y.ones_like(), y);
                Reduction::of(how[0]).apply(&(y * (safe.log() - x)))
            },
        };
        of_pairs(if log_target { &OF_LOGS } else { &OF_NUMBERS }, self, target, reduction, 0.0)
    }

    /// Negative log-likelihood of a normal distribution with this mean and variance `var` (one for each element, or for
    /// each row), which counts as at least `eps`. A negative variance gives NaN.
    #[track_caller]
    pub fn gaussian_nll_loss(
        &self,
        target: &Tensor,
        var: &Tensor,
        full: bool,
        eps: f64,
        reduction: Reduction,
    ) -> Result<Tensor> {
        let name = "gaussian_nll_loss";
        if eps <= 0.0 || eps.is_nan() {
            return Err(Error::value(name, format!("eps cannot be {eps}: it must be positive")));
        }
        let rows = self.rank() == var.rank() + 1 && self.dims().starts_with(var.dims());
        let var = if rows { var.unsqueeze(-1)? } else { var.resolve() };
        let (x, y) = self.pair(name, target)?;
        let (x, var) = x.pair(name, &var)?;
        let negative = var.zeros_like().raw_gt(&var);
        let bounded = negative.raw_where(&var.scalar_like(f64::NAN), &var.at_least(eps));
        // The bound is invisible to gradients, as in PyTorch.
        let var = var.valued(&bounded);
        let loss = (var.log() + (x - y).square() / &var) * 0.5;
        let loss = if full { loss + 0.5 * std::f64::consts::TAU.ln() } else { loss };
        Ok(reduction.apply(&loss))
    }

    /// Negative log-likelihood of counts `target` under a Poisson distribution.
    #[track_caller]
    pub fn poisson_nll_loss(&self, target: &Tensor, options: &PoissonNllOptions) -> Result<Tensor> {
        let (x, y) = self.pair("poisson_nll_loss", target)?;
        let loss = if options.log_input { x.exp() - &y * x } else { &x - &y * (&x + options.eps).log() };
        let loss = if options.full {
            let one = y.ones_like();
            let small = one.raw_ge(&y);
            let n = small.raw_where(&one, &y);
            let stirling = &n * n.log() - &n + (&n * std::f64::consts::TAU).log() * 0.5;
            loss + small.raw_where(&y.zeros_like(), &stirling)
        } else {
            loss
        };
        Ok(options.reduction.apply(&loss))
    }

    /// `ln(1 + e^(-y x))` for targets of -1 and 1.
    #[track_caller]
    pub fn soft_margin_loss(&self, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
        let (x, y) = self.pair("soft_margin_loss", target)?;
        Ok(reduction.apply(&(-(x * y)).unary(&ewise::SOFTPLUS)))
    }

    /// `x` where the target is 1, `max(0, margin - x)` where it is -1.
    #[track_caller]
    pub fn hinge_embedding_loss(&self, target: &Tensor, margin: f64, reduction: Reduction) -> Result<Tensor> {
        let (x, y) = self.pair("hinge_embedding_loss", target)?;
        let far = y.ne(1.0)?.raw_where(&(margin - &x).at_least(0.0), &x.zeros_like());
        let near = y.ne(-1.0)?.raw_where(&x, &x.zeros_like());
        Ok(reduction.apply(&(far + near)))
    }

    /// `max(0, margin - y (a - b))`: `target` 1 wants `self` larger, -1 wants `other` larger.
    #[track_caller]
    pub fn margin_ranking_loss(
        &self,
        other: &Tensor,
        target: &Tensor,
        margin: f64,
        reduction: Reduction,
    ) -> Result<Tensor> {
        let (a, b) = self.pair("margin_ranking_loss", other)?;
        let (d, y) = (a - b).pair("margin_ranking_loss", target)?;
        Ok(reduction.apply(&(-(y * d) + margin).at_least(0.0)))
    }
}

/// A loss times a weight that broadcasts to it.
#[track_caller]
pub(crate) fn weighted(name: &str, loss: Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    let Some(w) = weight else { return Ok(loss) };
    crate::api::same_device(name, &[&loss, w])?;
    if broadcast_all(name, &[&loss, w])? != *loss.shape() {
        let why = format!("a weight of shape {} does not fit {}", w.shape(), loss.shape());
        return Err(Error::shape(name, &[loss.shape(), w.shape()], why).operand(&loss).operand(w));
    }
    Ok(&loss * w.to_dtype(loss.dtype()))
}
