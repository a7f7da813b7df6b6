//! Losses of class scores: cross entropy, negative log-likelihood and the multi-class margins.

use crate::api::loss::{Reduction, weighted};
use crate::{Error, Result, Shape, Tensor, op::Composite, op::ReduceOp, op::ewise};

/// How [`Tensor::cross_entropy_with`] works.
#[derive(Clone)]
pub struct CrossEntropyOptions {
    /// One weight for each class.
    pub weight: Option<Tensor>,
    /// Labels of this value do not count.
    pub ignore_index: i64,
    /// How much of each target is spread evenly over all classes, 0 to 1.
    pub label_smoothing: f64,
    /// What becomes of the single losses; the mean is over the weights of the labels that count.
    pub reduction: Reduction,
}

impl Default for CrossEntropyOptions {
    fn default() -> Self {
        CrossEntropyOptions { weight: None, ignore_index: -100, label_smoothing: 0.0, reduction: Reduction::Mean }
    }
}

/// How [`Tensor::nll_loss_with`] works.
#[derive(Clone)]
pub struct NllLossOptions {
    /// One weight for each class.
    pub weight: Option<Tensor>,
    /// Labels of this value do not count.
    pub ignore_index: i64,
    /// What becomes of the single losses; the mean is over the weights of the labels that count.
    pub reduction: Reduction,
}

impl Default for NllLossOptions {
    fn default() -> Self {
        NllLossOptions { weight: None, ignore_index: -100, reduction: Reduction::Mean }
    }
}

/// How [`Tensor::multi_margin_loss`] works.
#[derive(Clone)]
pub struct MultiMarginOptions {
    /// The exponent, 1 or 2.
    pub p: u32,
    /// How far ahead the right class should be.
    pub margin: f64,
    /// One weight for each class.
    pub weight: Option<Tensor>,
    /// What becomes of the single losses.
    pub reduction: Reduction,
}

impl Default for MultiMarginOptions {
    fn default() -> Self {
        MultiMarginOptions { p: 1, margin: 1.0, weight: None, reduction: Reduction::Mean }
    }
}

/// Scores from which on memory counts for more than a few operations.
const LARGE: usize = 1 << 24;

/// Labels beside scores `[N, C, d1, ..]` or `[C]`: all tensors have extent 1 at the class axis.
struct Labels {
    axis: usize,
    /// The labels, with 0 in place of those that do not count.
    index: Tensor,
    /// Whether a label counts.
    valid: Tensor,
    /// The weight of the label's class, 0 where it does not count; in the scores' type.
    weight: Tensor,
    /// Whether classes have weights of their own.
    own_weights: bool,
}

impl Labels {
    #[track_caller]
    fn new(name: &str, scores: &Tensor, target: &Tensor, weight: Option<&Tensor>, ignore: i64) -> Result<Labels> {
        let axis = class_axis(name, scores)?;
        let target = target.as_index(name)?;
        let kept = checked_labels(name, scores, &target)?.inserted(axis, 1);
        let target = target.reshape_to(&kept);
        let valid = target.ne(ignore)?;
        let index = valid.raw_where(&target, &target.zeros_like());
        let ones = valid.to_dtype(scores.dtype());
        let weight = class_weight(name, scores, weight, scores.dims()[axis])?;
        let own_weights = weight.is_some();
        let weight = match weight {
            // One look-up for each label, in a vector of weights.
            Some(w) => w.gather(0, &index.reshape_to(&index.numel().into()))?.reshape_to(&kept) * ones,
            None => ones,
        };
        Ok(Labels { axis, index, valid, weight, own_weights })
    }

    /// The reduction of losses that are 0 where labels do not count; the mean is over the labels' weights.
    #[track_caller]
    fn reduce(&self, loss: &Tensor, reduction: Reduction) -> Tensor {
        match reduction {
            Reduction::None => loss.reshape_to(&loss.shape().without(self.axis)),
            Reduction::Mean => loss.sum() / self.weight.sum(),
            Reduction::Sum | Reduction::BatchMean => reduction.apply(loss),
        }
    }

    /// The score of each label's class.
    #[track_caller]
    fn score(&self, scores: &Tensor) -> Result<Tensor> {
        let (a, n) = (self.axis as i64, scores.dims()[self.axis]);
        if scores.numel() < LARGE {
            return scores.gather(a, &self.index);
        }
        // Found while the scores are read for the sum, so that nobody reads them after: their gradient can be written over
        // them. Looking the label up in 0, 1, 2, .. checks it.
        let classes = Tensor::arange_on(n, scores.device());
        let label = classes.gather(0, &self.index.reshape_to(&self.index.numel().into()))?;
        let label = label.reshape_to(self.index.shape()).expand_to(scores.shape());
        let classes = classes.reshape_to(&beside(n, self.axis, scores.rank())).expand_to(scores.shape());
        let own = classes.eq(&label)?.raw_where(scores, &scores.zeros_like());
        Ok(own.reduce_one(ReduceOp::Sum, self.axis))
    }

    /// `loss` times the labels' weights, 0 where they do not count.
    #[track_caller]
    fn weigh(&self, loss: &Tensor) -> Tensor {
        let loss = if self.own_weights { loss * &self.weight } else { loss.clone() };
        self.mask(&loss)
    }

    #[track_caller]
    fn mask(&self, loss: &Tensor) -> Tensor {
        self.valid.raw_where(loss, &loss.zeros_like())
    }
}

/// The shape of labels for these scores, if the labels have it.
#[track_caller]
fn checked_labels(name: &str, scores: &Tensor, target: &Tensor) -> Result<Shape> {
    crate::api::same_device(name, &[scores, target])?;
    let want = scores.shape().without(class_axis(name, scores)?);
    if *target.shape() != want {
        let why = format!("labels for scores {} must be {want}, not {}", scores.shape(), target.shape());
        return Err(Error::shape(name, &[scores.shape(), target.shape()], why).operand(scores).operand(target));
    }
    Ok(want)
}

#[track_caller]
fn class_axis(name: &str, scores: &Tensor) -> Result<usize> {
    if scores.rank() == 0 {
        return Err(Error::shape(name, &[scores.shape()], "scores need an axis of classes").operand(scores));
    }
    Ok((scores.rank() > 1) as usize)
}

/// Weights of classes in the scores' type.
#[track_caller]
fn class_weight(name: &str, scores: &Tensor, weight: Option<&Tensor>, classes: usize) -> Result<Option<Tensor>> {
    let Some(w) = weight else { return Ok(None) };
    crate::api::same_device(name, &[scores, w])?;
    if w.dims() != [classes] {
        let why = format!("{classes} classes need weights [{classes}], not {}", w.shape());
        return Err(Error::shape(name, &[scores.shape(), w.shape()], why).operand(scores).operand(w));
    }
    Ok(Some(w.to_dtype(scores.dtype())))
}

impl Tensor {
    /// Mean cross entropy of these scores (logits `[N, C, ..]` or `[C]`) and class labels (`[N, ..]`), or probabilities
    /// in the scores' shape.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let logits = Tensor::from([[2.0f64, 0.0], [0.0, 0.0]]);
    /// let loss = logits.cross_entropy(&Tensor::from([0i64, 1])).unwrap();
    /// let want = ((1.0 + (-2f64).exp()).ln() + 2f64.ln()) / 2.0;
    /// assert!((loss.item::<f64>().unwrap() - want).abs() < 1e-12);
    /// ```
    #[track_caller]
    pub fn cross_entropy(&self, target: &Tensor) -> Result<Tensor> {
        self.cross_entropy_with(target, &CrossEntropyOptions::default())
    }

    /// [`Tensor::cross_entropy`] with class weights, ignored labels, smoothing and a reduction.
    #[track_caller]
    pub fn cross_entropy_with(&self, target: &Tensor, options: &CrossEntropyOptions) -> Result<Tensor> {
        let (name, smoothing) = ("cross_entropy", options.label_smoothing);
        if !(0.0..=1.0).contains(&smoothing) {
            return Err(Error::value(name, format!("label_smoothing must be between 0 and 1, not {smoothing}")));
        }
        if target.dtype().is_float() {
            return self.soft_cross_entropy(target, options);
        }
        if options.weight.is_some() || self.numel() >= LARGE {
            return self.label_entropy(target, options);
        }
        static BY_LABEL: Composite = Composite {
            name: "cross_entropy",
            build: |x, how| {
                let options = CrossEntropyOptions {
                    weight: None,
                    ignore_index: how[1] as i64,
                    label_smoothing: f64::from_bits(how[2]),
                    reduction: Reduction::of(how[0]),
                };
                // What was checked does not fail, and what failed would not have the shape that is expected.
                x[0].label_entropy(&x[1], &options).unwrap_or_else(|_| x[0].clone())
            },
        };
        let target = target.as_index(name)?;
        let shape = options.reduction.shape(&checked_labels(name, self, &target)?);
        let settings = [options.reduction as u64, options.ignore_index as u64, smoothing.to_bits()];
        Ok(Tensor::composed(&BY_LABEL, &[self, &target], &settings, shape, self.dtype().to_float()))
    }

    /// Cross entropy with a label for each row of scores.
    #[track_caller]
    fn label_entropy(&self, target: &Tensor, options: &CrossEntropyOptions) -> Result<Tensor> {
        let (name, smoothing) = ("cross_entropy", options.label_smoothing);
        let x = self.wide();
        let labels = Labels::new(name, &x, target, options.weight.as_ref(), options.ignore_index)?;
        let a = labels.axis;
        let top = x.reduce_one(ReduceOp::Max, a).detach();
        let z = &x - &top;
        let log_sum = z.exp().reduce_one(ReduceOp::Sum, a).log();
        // Only the label's own score is looked up: -ln p = ln(sum) - (x_label - top).
        let loss = labels.weigh(&(&log_sum - (labels.score(&x)? - &top)));
        let loss = if smoothing > 0.0 {
            let classes = x.dims()[a];
            let ln = &z - &log_sum;
            let ln = match class_weight(name, &x, options.weight.as_ref(), classes)? {
                Some(w) => ln * w.reshape_to(&beside(classes, a, x.rank())),
                None => ln,
            };
            let even = labels.mask(&-ln.reduce_one(ReduceOp::Sum, a));
            loss * (1.0 - smoothing) + even * (smoothing / classes as f64)
        } else {
            loss
        };
        Ok(labels.reduce(&loss, options.reduction).back_to(self))
    }

    /// Cross entropy with a probability for each class.
    #[track_caller]
    fn soft_cross_entropy(&self, target: &Tensor, options: &CrossEntropyOptions) -> Result<Tensor> {
        let name = "cross_entropy";
        let a = class_axis(name, self)?;
        if self.shape() != target.shape() {
            let why = format!(
                "probabilities must have the scores' shape {}, not {}; labels must be integers",
                self.shape(),
                target.shape()
            );
            return Err(Error::shape(name, &[self.shape(), target.shape()], why).operand(self).operand(target));
        }
        if options.ignore_index >= 0 {
            let why = format!("ignore_index {} has no meaning beside probabilities", options.ignore_index);
            return Err(Error::value(name, why).operand(target));
        }
        let (x, y) = self.wide().pair(name, target)?;
        let classes = x.dims()[a];
        let s = options.label_smoothing;
        let y = if s > 0.0 { y * (1.0 - s) + s / classes as f64 } else { y };
        let term = x.log_softmax_at(a) * y;
        let term = match class_weight(name, &x, options.weight.as_ref(), classes)? {
            Some(w) => term * w.reshape_to(&beside(classes, a, x.rank())),
            None => term,
        };
        let loss = -term.reduce_one(ReduceOp::Sum, a);
        let loss = loss.reshape_to(&loss.shape().without(a));
        Ok(options.reduction.apply(&loss).back_to(self))
    }

    /// Mean of minus the log-probability (`[N, C, ..]` or `[C]`) of each label (`[N, ..]`).
    #[track_caller]
    pub fn nll_loss(&self, target: &Tensor) -> Result<Tensor> {
        self.nll_loss_with(target, &NllLossOptions::default())
    }

    /// [`Tensor::nll_loss`] with class weights, ignored labels and a reduction.
    #[track_caller]
    pub fn nll_loss_with(&self, target: &Tensor, options: &NllLossOptions) -> Result<Tensor> {
        if options.weight.is_some() {
            return self.label_likelihood(target, options);
        }
        static BY_LABEL: Composite = Composite {
            name: "nll_loss",
            build: |x, how| {
                let (reduction, ignore_index) = (Reduction::of(how[0]), how[1] as i64);
                // As in `cross_entropy_with`.
                let options = NllLossOptions { weight: None, ignore_index, reduction };
                x[0].label_likelihood(&x[1], &options).unwrap_or_else(|_| x[0].clone())
            },
        };
        let target = target.as_index("nll_loss")?;
        let shape = options.reduction.shape(&checked_labels("nll_loss", self, &target)?);
        let settings = [options.reduction as u64, options.ignore_index as u64];
        Ok(Tensor::composed(&BY_LABEL, &[self, &target], &settings, shape, self.dtype().to_float()))
    }

    /// Negative log-likelihood with a label for each row.
    #[track_caller]
    fn label_likelihood(&self, target: &Tensor, options: &NllLossOptions) -> Result<Tensor> {
        let x = self.wide();
        let labels = Labels::new("nll_loss", &x, target, options.weight.as_ref(), options.ignore_index)?;
        let loss = labels.weigh(&-x.gather(labels.axis as i64, &labels.index)?);
        Ok(labels.reduce(&loss, options.reduction).back_to(self))
    }

    /// `sum over other classes j of max(0, margin - x_label + x_j)^p / C`, for scores `[N, C]` or `[C]`.
    #[track_caller]
    pub fn multi_margin_loss(&self, target: &Tensor, options: &MultiMarginOptions) -> Result<Tensor> {
        let name = "multi_margin_loss";
        if !matches!(options.p, 1 | 2) {
            return Err(Error::value(name, format!("p must be 1 or 2, not {}", options.p)));
        }
        let (x, rows, classes) = self.score_rows(name)?;
        if target.numel() != rows || target.rank() > 1 || (target.rank() == 0 && self.rank() > 1) {
            let why = format!("scores {} need {rows} labels, not {}", self.shape(), target.shape());
            return Err(Error::shape(name, &[self.shape(), target.shape()], why).operand(self).operand(target));
        }
        let index = target.as_index(name)?.reshape_to(&[rows, 1].into());
        let hinge = (&x - x.gather(1, &index)? + options.margin).relu();
        let hinge = if options.p == 2 { hinge.square() } else { hinge };
        let hinge = match class_weight(name, &x, options.weight.as_ref(), classes)? {
            Some(w) => hinge * w.gather(0, &index.reshape_to(&rows.into()))?.reshape_to(&[rows, 1].into()),
            None => hinge,
        };
        let own = Tensor::arange_on(classes, x.device()).raw_eq(&index);
        let others = own.raw_where(&hinge.zeros_like(), &hinge);
        let loss = others.reduce_one(ReduceOp::Sum, 1) / classes as f64;
        Ok(options.reduction.apply(&loss.reshape_to(target.shape())).back_to(self))
    }

    /// Multi-label margin: each row of `target` lists label after label until a negative number, and each label's score
    /// should be 1 ahead of every class that is not listed.
    #[track_caller]
    pub fn multilabel_margin_loss(&self, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
        let name = "multilabel_margin_loss";
        let (x, rows, classes) = self.score_rows(name)?;
        if self.shape() != target.shape() {
            let why = format!("scores {} need labels of that shape, not {}", self.shape(), target.shape());
            return Err(Error::shape(name, &[self.shape(), target.shape()], why).operand(self).operand(target));
        }
        let target = target.as_index(name)?.reshape_to(&[rows, classes].into());
        // What comes before the first negative number is a label.
        let listed = target.lt(0)?.to_dtype(crate::DType::I64).cumsum(1)?.eq(0)?;
        let index = listed.raw_where(&target, &target.zeros_like());
        // [row, label, class]
        let wide: Shape = [rows, classes, 1].into();
        let is = Tensor::arange_on(classes, x.device()).raw_eq(&index.reshape_to(&wide));
        let named = is.raw_and(&listed.reshape_to(&wide)).reduce_one(ReduceOp::Max, 1);
        let ahead = 1.0 - x.gather(1, &index)?.reshape_to(&wide);
        let hinge = (ahead + x.reshape_to(&[rows, 1, classes].into())).relu();
        let counts = listed.reshape_to(&wide).raw_and(&named.logical_not());
        let hinge = counts.raw_where(&hinge, &hinge.zeros_like());
        let loss = hinge.sum_dim([1, 2], false)? / classes as f64;
        let loss = if self.rank() < 2 { loss.reshape_to(&Shape::default()) } else { loss };
        Ok(reduction.apply(&loss).back_to(self))
    }

    /// The mean over classes (the last axis) of [`Tensor::binary_cross_entropy_with_logits`].
    #[track_caller]
    pub fn multilabel_soft_margin_loss(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        reduction: Reduction,
    ) -> Result<Tensor> {
        let name = "multilabel_soft_margin_loss";
        let (x, y) = self.pair(name, target)?;
        if x.rank() == 0 {
            return Err(Error::shape(name, &[x.shape()], "scores need an axis of classes").operand(self));
        }
        let loss = (1.0 - &y) * &x + (-&x).unary(&ewise::SOFTPLUS);
        let loss = weighted(name, loss, weight)?;
        Ok(reduction.apply(&loss.mean_dim(-1, false)?))
    }

    /// Scores `[N, C]`, `[C]` or one number as `[N, C]`.
    #[track_caller]
    fn score_rows(&self, name: &str) -> Result<(Tensor, usize, usize)> {
        let (rows, classes) = match *self.dims() {
            [] => (1, 1),
            [c] => (1, c),
            [n, c] => (n, c),
            _ => {
                let why = format!("scores must be [N, C] or [C], not {}", self.shape());
                return Err(Error::shape(name, &[self.shape()], why).operand(self));
            }
        };
        if classes == 0 {
            return Err(Error::shape(name, &[self.shape()], "there are no classes").operand(self));
        }
        Ok((self.wide().reshape_to(&[rows, classes].into()), rows, classes))
    }
}

/// The shape of `n` numbers along one axis of this rank.
fn beside(n: usize, axis: usize, rank: usize) -> Shape {
    (0..rank).map(|d| if d == axis { n } else { 1 }).collect()
}
