//! Losses as structs that keep their settings. The functions behind them are methods of `Tensor`
//! (`scores.cross_entropy(&labels)`, `x.mse_loss(&y, Reduction::Mean)`).
//!
//! ```
//! use gradus_core::Tensor;
//! use gradus_nn::loss::{CrossEntropyLoss, Loss};
//! let loss = CrossEntropyLoss { label_smoothing: 0.1, ..Default::default() };
//! let value = loss.forward(&Tensor::randn([4, 10]), &Tensor::from([1i64, 0, 9, 3]))?;
//! assert_eq!(value.dims(), []);
//! # Ok::<(), gradus_core::Error>(())
//! ```

mod several;

pub use several::{
    CosineEmbeddingLoss, CtcLoss, GaussianNllLoss, MarginRankingLoss, TripletMarginLoss, TripletMarginWithDistanceLoss,
};

use gradus_core::{
    CrossEntropyOptions, MultiMarginOptions, NllLossOptions, PoissonNllOptions, Reduction, Result, Tensor,
};

/// A loss of one prediction and one target.
pub trait Loss {
    /// How wrong `input` is, given `target`.
    #[track_caller]
    fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor>;
}

/// A function is a loss too.
impl<F: Fn(&Tensor, &Tensor) -> Result<Tensor>> Loss for F {
    fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        self(input, target)
    }
}

macro_rules! losses {
    ($($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $t:ty = $default:expr),* $(,)? }
       |$loss:ident, $x:ident, $y:ident| $forward:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name {
            $($(#[$fdoc])* pub $field: $t,)*
            /// What becomes of the single losses.
            pub reduction: Reduction,
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)* reduction: Reduction::Mean }
            }
        }

        impl Loss for $name {
            fn forward(&self, $x: &Tensor, $y: &Tensor) -> Result<Tensor> {
                let $loss = self;
                $forward
            }
        }
    )*};
}
losses! {
    /// `(x - y)^2`.
    MseLoss {} |l, x, y| x.mse_loss(y, l.reduction);
    /// `|x - y|`.
    L1Loss {} |l, x, y| x.l1_loss(y, l.reduction);
    /// Squares for distances below `beta`, straight from there on.
    SmoothL1Loss {
        /// Where the bend is.
        beta: f64 = 1.0,
    } |l, x, y| x.smooth_l1_loss(y, l.beta, l.reduction);
    /// Squares for distances up to `delta`, straight beyond.
    HuberLoss {
        /// Where the bend is.
        delta: f64 = 1.0,
    } |l, x, y| x.huber_loss(y, l.delta, l.reduction);
    /// Binary cross entropy of probabilities.
    BceLoss {
        /// A factor for each element; it broadcasts.
        weight: Option<Tensor> = None,
    } |l, x, y| x.binary_cross_entropy(y, l.weight.as_ref(), l.reduction);
    /// Binary cross entropy of scores: the sigmoid is inside.
    BceWithLogitsLoss {
        /// A factor for each element; it broadcasts.
        weight: Option<Tensor> = None,
        /// A factor for positive targets.
        pos_weight: Option<Tensor> = None,
    } |l, x, y| x.binary_cross_entropy_with_logits(y, l.weight.as_ref(), l.pos_weight.as_ref(), l.reduction);
    /// Cross entropy of scores `[n, classes, ..]` with class indices `[n, ..]` or probabilities `[n, classes, ..]`.
    CrossEntropyLoss {
        /// A factor for each class.
        weight: Option<Tensor> = None,
        /// Labels of this value do not count.
        ignore_index: i64 = -100,
        /// How much of each target is spread over all classes.
        label_smoothing: f64 = 0.0,
    } |l, x, y| x.cross_entropy_with(y, &CrossEntropyOptions {
        weight: l.weight.clone(),
        ignore_index: l.ignore_index,
        label_smoothing: l.label_smoothing,
        reduction: l.reduction,
    });
    /// Negative log-likelihood of log-probabilities `[n, classes, ..]` with class indices `[n, ..]`.
    NllLoss {
        /// A factor for each class.
        weight: Option<Tensor> = None,
        /// Labels of this value do not count.
        ignore_index: i64 = -100,
    } |l, x, y| x.nll_loss_with(y, &NllLossOptions {
        weight: l.weight.clone(),
        ignore_index: l.ignore_index,
        reduction: l.reduction,
    });
    /// Negative log-likelihood of a Poisson distribution.
    PoissonNllLoss {
        /// The input is the logarithm of the rate.
        log_input: bool = true,
        /// Add Stirling's approximation of the term that does not depend on the input.
        full: bool = false,
        /// Added to a rate before its logarithm.
        eps: f64 = 1e-8,
    } |l, x, y| {
        let (log_input, full, eps, reduction) = (l.log_input, l.full, l.eps, l.reduction);
        x.poisson_nll_loss(y, &PoissonNllOptions { log_input, full, eps, reduction })
    };
    /// Kullback-Leibler divergence of log-probabilities from target probabilities.
    KlDivLoss {
        /// The target is log-probabilities too.
        log_target: bool = false,
    } |l, x, y| x.kl_div(y, l.log_target, l.reduction);
    /// `ln(1 + e^(-y x))` for targets 1 and -1.
    SoftMarginLoss {} |l, x, y| x.soft_margin_loss(y, l.reduction);
    /// `x` where the target is 1, `max(0, margin - x)` where it is -1.
    HingeEmbeddingLoss {
        /// How far apart is far enough.
        margin: f64 = 1.0,
    } |l, x, y| x.hinge_embedding_loss(y, l.margin, l.reduction);
    /// How much other classes come near the right one.
    MultiMarginLoss {
        /// The exponent, 1 or 2.
        p: u32 = 1,
        /// How far ahead the right class should be.
        margin: f64 = 1.0,
        /// A factor for each class.
        weight: Option<Tensor> = None,
    } |l, x, y| x.multi_margin_loss(y, &MultiMarginOptions {
        p: l.p,
        margin: l.margin,
        weight: l.weight.clone(),
        reduction: l.reduction,
    });
    /// [`MultiMarginLoss`] with several right classes.
    MultiLabelMarginLoss {} |l, x, y| x.multilabel_margin_loss(y, l.reduction);
    /// Binary cross entropy of each class, averaged over the classes.
    MultiLabelSoftMarginLoss {
        /// A factor for each class.
        weight: Option<Tensor> = None,
    } |l, x, y| x.multilabel_soft_margin_loss(y, l.weight.as_ref(), l.reduction);
}
