//! Training: a loop that stays out of the way, what to watch it with, and checkpoints that resume bit for bit.
//!
//! The bare loop needs nothing from here:
//!
//! ```
//! # use gradus_core::Tensor;
//! # use gradus_optim::{Optimizer, Sgd};
//! # let w = Tensor::var("w", Tensor::from([4.0f32]));
//! # let mut opt = Sgd::new([&w], 0.1);
//! # let batches = [1.0, 1.5];
//! for target in batches {
//!     let loss = (&w - target).square().sum();
//!     opt.step(&loss.backward()?)?;
//! }
//! # Ok::<(), gradus_core::Error>(())
//! ```
//!
//! [`Trainer`] is that loop with a progress bar, validation, schedules, logs, early stopping and checkpoints, each of
//! which it has only when asked:
//!
//! ```
//! # use gradus_core::Tensor;
//! # use gradus_optim::Sgd;
//! use gradus_train::Trainer;
//! # let w = Tensor::var("w", Tensor::from([4.0f32]));
//! let report = Trainer::new(Sgd::new([&w], 0.1))
//!     .epochs(20)
//!     .fit(|_epoch| [0.5, 1.5], |target| Ok((&w - target).square().sum()))?;
//! assert_eq!(report.steps, 40);
//! # Ok::<(), gradus_core::Error>(())
//! ```
//!
//! Its parts work alone too: [`Checkpoint`] and [`Checkpoints`], [`metrics`], [`Curve`], [`TensorBoard`],
//! [`locate_nan`], [`forecast`], [`interrupt`].

mod callback;
mod checkpoint;
mod curve;
mod early;
mod forecast;
mod history;
pub mod interrupt;
mod logs;
pub mod metrics;
mod nan;
mod parts;
mod progress;
mod store;
mod tensorboard;
mod trainer;

pub use callback::{Callback, Flow, Run};
pub use checkpoint::{Checkpoint, LoaderState};
pub use curve::{Curve, LossCurve};
pub use early::EarlyStopping;
pub use forecast::{Forecast, available_memory, forecast, forecast_step};
pub use gradus_optim::Goal;
pub use history::{EpochRecord, History, Series};
pub use logs::{CsvLog, JsonLog};
pub use nan::{Culprit, Fault, locate_nan};
pub use parts::{FnState, Params};
pub use progress::Progress;
pub use store::{Checkpoints, Loaded};
pub use tensorboard::{EventWriter, TensorBoard};
pub use trainer::{Per, Report, Stop, Trainer};
