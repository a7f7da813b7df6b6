//! What a module is: something whose parameters, buffers and submodules can be listed by name.

use crate::{
    part::{Found, Part, Visitor},
    state::LoadReport,
};
use gradus_core::{DType, Device, Error, Result, Tensor, VarId, grad::Gradients};
use gradus_io::StateDict;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A network, or a part of one.
///
/// Derive it: every field that holds parameters is found, and named as PyTorch's state_dict names it.
///
/// ```
/// use gradus_core::{Result, Tensor};
/// use gradus_nn::{Layer, Linear, Module};
///
/// #[derive(Module)]
/// struct Mlp {
///     layers: Vec<Linear>,
///     head: Linear,
/// }
///
/// impl Mlp {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         let mut h = x.clone();
///         for layer in &self.layers {
///             h = layer.forward(&h)?.relu();
///         }
///         self.head.forward(&h)
///     }
/// }
///
/// let model = Mlp { layers: vec![Linear::new(4, 8), Linear::new(8, 8)], head: Linear::new(8, 3) };
/// assert_eq!(model.forward(&Tensor::randn([2, 4]))?.dims(), [2, 3]);
/// let names: Vec<String> = model.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names[..2], ["layers.0.weight", "layers.0.bias"]);
/// assert_eq!(model.num_parameters(), 4 * 8 + 8 + 8 * 8 + 8 + 8 * 3 + 3);
/// # Ok::<(), gradus_core::Error>(())
/// ```
pub trait Module: Part {
    /// The parameters with their names, in the order of the fields. One that is used in two places is listed once,
    /// under its first name.
    fn named_parameters(&self) -> Vec<(String, Tensor)> {
        let mut seen = HashSet::new();
        let mut all = vec![];
        walk(self, |name, found| {
            if let Found::Param(p) = found
                && p.var_id().is_none_or(|id| seen.insert(id))
            {
                all.push((name.to_string(), p.variable()));
            }
        });
        all
    }

    /// The parameters, for an optimizer: `Adam::new(&model.parameters(), 1e-3)`.
    fn parameters(&self) -> Vec<Tensor> {
        self.named_parameters().into_iter().map(|(_, p)| p).collect()
    }

    /// The buffers with their names.
    fn named_buffers(&self) -> Vec<(String, Tensor)> {
        let mut all = vec![];
        walk(self, |name, found| {
            if let Found::Buffer(b) = found {
                all.push((name.to_string(), b.variable()));
            }
        });
        all
    }

    /// The gradients of this module's parameters by name; parameters without one are left out.
    fn named_gradients(&self, grads: &Gradients) -> Vec<(String, Tensor)> {
        let by_id: BTreeMap<VarId, &Tensor> = grads.iter().collect();
        let params = self.named_parameters().into_iter();
        params.filter_map(|(name, p)| Some((name, (*by_id.get(&p.var_id()?)?).clone()))).collect()
    }

    /// What parameters and (persistent) buffers hold now, by name: what `gradus_io::save` writes.
    ///
    /// ```
    /// use gradus_nn::{BatchNorm1d, Module};
    /// let state = BatchNorm1d::new(3).state_dict();
    /// let names: Vec<&str> = state.names().collect();
    /// assert_eq!(names, ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]);
    /// ```
    fn state_dict(&self) -> StateDict {
        let mut state = StateDict::new();
        walk(self, |name, found| {
            let held = match found {
                Found::Param(p) => p.variable(),
                Found::Buffer(b) if b.is_persistent() => b.variable(),
                Found::Buffer(_) | Found::Mode(_) | Found::Begin(_) | Found::End => return,
            };
            state.insert(name, held.resolve().detach());
        });
        state
    }

    /// Gives every parameter and buffer the tensor of its name, in its own element type and on its own device. Names
    /// that are missing or unexpected, and shapes that differ, are all listed in the error; nothing changes then.
    ///
    /// ```
    /// use gradus_nn::{Linear, Module};
    /// let (a, b) = (Linear::new(4, 2), Linear::new(4, 2));
    /// b.load_state_dict(&a.state_dict())?;
    /// let e = Linear::new(5, 2).load_state_dict(&a.state_dict()).unwrap_err().to_string();
    /// assert!(e.contains("`weight` is [2, 5] here and [2, 4] there"), "{e}");
    /// # Ok::<(), gradus_core::Error>(())
    /// ```
    #[track_caller]
    fn load_state_dict(&self, state: &StateDict) -> Result<()> {
        let plan = crate::state::Plan::new(&targets(self), state);
        plan.check_strictly()?;
        plan.run()
    }

    /// As [`Module::load_state_dict`], for the names that both have; the others are reported. Shapes must agree.
    #[track_caller]
    fn load_state_dict_partial(&self, state: &StateDict) -> Result<LoadReport> {
        let plan = crate::state::Plan::new(&targets(self), state);
        plan.check_shapes()?;
        plan.run()?;
        Ok(plan.report)
    }

    /// Training mode (dropout drops, batch norm uses the batch's statistics): how modules begin.
    fn train(&self) {
        set_mode(self, true);
    }

    /// Evaluation mode.
    fn eval(&self) {
        set_mode(self, false);
    }

    /// To another device. Parameters become new variables: make the optimizer after this.
    #[track_caller]
    fn to(&mut self, device: &Device) -> Result<()> {
        replace(self, &mut |t| t.to(device))
    }

    /// To another float type; integers stay what they are. Parameters become new variables: make the optimizer after
    /// this.
    #[track_caller]
    fn to_dtype(&mut self, dtype: DType) -> Result<()> {
        if !dtype.is_float() {
            let why = format!("parameters are floats, and {dtype} is not");
            return Err(Error::dtype("to_dtype", &[dtype], why));
        }
        replace(self, &mut |t| if t.dtype().is_float() { t.to_dtype(dtype) } else { t.clone() })
    }

    /// No gradients for these parameters from now on: an optimizer passes over them.
    fn freeze(&self) {
        walk(self, |_, found| {
            if let Found::Param(p) = found {
                p.set_trainable(false);
            }
        });
    }

    /// Gradients again.
    fn unfreeze(&self) {
        walk(self, |_, found| {
            if let Found::Param(p) = found {
                p.set_trainable(true);
            }
        });
    }

    /// How many numbers the parameters are.
    fn num_parameters(&self) -> usize {
        self.named_parameters().iter().map(|(_, p)| p.numel()).sum()
    }

    /// A table of layers, the shapes of their parameters and how many numbers they are.
    fn summary(&self) -> String {
        crate::summary::table(self.kind(), &self.describe(), &|v| self.visit(v))
    }
}

/// Calls `f` with what is inside a module.
fn walk(m: &(impl Part + ?Sized), mut f: impl FnMut(&str, Found<'_>)) {
    m.visit(&mut Visitor::new(&mut f));
}

fn set_mode(m: &(impl Part + ?Sized), training: bool) {
    walk(m, |_, found| {
        if let Found::Mode(mode) = found {
            mode.set(training);
        }
    });
}

/// Parameters and persistent buffers under every name they have.
fn targets(m: &(impl Part + ?Sized)) -> Vec<(String, Tensor)> {
    let mut all = vec![];
    walk(m, |name, found| match found {
        Found::Param(p) => all.push((name.to_string(), p.variable())),
        Found::Buffer(b) if b.is_persistent() => all.push((name.to_string(), b.variable())),
        Found::Buffer(_) | Found::Mode(_) | Found::Begin(_) | Found::End => {}
    });
    all
}

/// Puts new variables in the places of the old. What was one variable in two places is one again.
#[track_caller]
fn replace(m: &mut (impl Part + ?Sized), change: &mut dyn FnMut(&Tensor) -> Tensor) -> Result<()> {
    let mut new: HashMap<VarId, Tensor> = HashMap::new();
    m.update(&mut |v| {
        let Some(id) = v.tensor.var_id() else { return };
        let fresh = new.entry(id).or_insert_with(|| {
            let fresh = crate::param::variable(change(&v.tensor.resolve().detach()));
            crate::param::track(&fresh, v.tensor.requires_grad());
            fresh
        });
        *v.tensor = fresh.clone();
    });
    Tensor::eval_all(&new.values().collect::<Vec<_>>())
}

impl<M: Module + ?Sized> Module for Box<M> {}
impl<M: Module> Module for Vec<M> {}
impl<M: Module> Module for Option<M> {}
impl<M: Module, const N: usize> Module for [M; N] {}
