//! Mixed precision: products in 16 bits, sums in 32, decided while the graph is built.
//!
//! Inside [`autocast`], matrix products, linear maps, convolutions and attention get a conversion to the low type in
//! front of each f32 operand, and softmax, normalisations, losses and sums one to f32. These are ordinary `Cast` nodes:
//! gradients go back through them, so a weight stays f32 (a *master weight*) and its gradient arrives as f32, and the
//! planner fuses them with the kernels around them.
//!
//! The pass works node by node as the graph grows rather than over a finished one, because the type of a node is part of
//! what a program sees: `x + layer(&x)?` must know whether it adds bf16 or f32. A weight is converted once in a scope,
//! however often it is used. Gradients are built with the pass off: their types follow those of the forward pass.

use crate::{DType, Tensor, is_grad_enabled, op::Op};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
};

thread_local! {
    static LOW: Cell<Option<DType>> = const { Cell::new(None) };
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Weights that were converted in this scope: by node, by type, and by whether gradients are recorded.
    static CONVERTED: RefCell<HashMap<(u64, DType, bool), Tensor>> = RefCell::default();
}

/// Runs `f` in mixed precision: what gains most from 16 bits is done in `dtype`, what needs 32 in f32.
///
/// `DType::BF16` and `DType::F16` switch it on, any other type (or `None`) switches it off inside `f`. Only f32 and
/// 16-bit operands are converted; f64 and integers stay. f16 has a small range: scale the loss (`GradScaler`).
///
/// ```
/// use gradus_core::{DType, Tensor, autocast};
/// let (x, w) = (Tensor::randn([4, 8]), Tensor::var("w", Tensor::randn([2, 8])));
/// let loss = autocast(DType::BF16, || {
///     let y = x.linear(&w, None)?;
///     assert_eq!(y.dtype(), DType::BF16);
///     let p = y.softmax(1)?;
///     assert_eq!(p.dtype(), DType::F32);
///     Ok::<_, gradus_core::Error>(p.square().sum())
/// })?;
/// assert_eq!(loss.backward()?.wrt(&w)?.dtype(), DType::F32);
/// # Ok::<(), gradus_core::Error>(())
/// ```
pub fn autocast<R>(dtype: impl Into<Option<DType>>, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<DType>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LOW.set(self.0);
            DEPTH.set(DEPTH.get() - 1);
            if DEPTH.get() == 0 {
                // Dropped after the borrow: a tensor's end may touch other tensors.
                drop(CONVERTED.take());
            }
        }
    }
    let low = dtype.into().filter(|d| matches!(d, DType::F16 | DType::BF16));
    DEPTH.set(DEPTH.get() + 1);
    let _restore = Restore(LOW.replace(low));
    f()
}

/// The type products are done in on this thread: none outside of [`autocast`].
pub fn autocast_dtype() -> Option<DType> {
    LOW.get()
}

impl Tensor {
    /// The operand of a product: in the low type, inside [`autocast`].
    #[track_caller]
    pub(crate) fn low(&self) -> Tensor {
        let low = match (LOW.get(), self.dtype()) {
            (Some(low), DType::F32 | DType::F16 | DType::BF16) if low != self.dtype() => low,
            _ => return self.resolve(),
        };
        let t = self.resolve();
        if !matches!(t.node().op, Op::Snapshot(_)) {
            return t.to_dtype(low);
        }
        let key = (t.id(), low, is_grad_enabled());
        if let Some(done) = CONVERTED.with_borrow(|c| c.get(&key).cloned()) {
            return done;
        }
        let new = t.to_dtype(low);
        CONVERTED.with_borrow_mut(|c| c.insert(key, new.clone()));
        new
    }

    /// The operand of a sum or a loss: f32 where it is a 16-bit float, inside [`autocast`].
    #[track_caller]
    pub(crate) fn high(&self) -> Tensor {
        match (LOW.get(), self.dtype()) {
            (Some(_), DType::F16 | DType::BF16) => self.to_dtype(DType::F32),
            _ => self.resolve(),
        }
    }
}
