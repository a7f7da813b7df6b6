//! Gradients: reverse mode as a pass over the graph that builds more graph.
//!
//! [`Tensor::backward`] walks from the loss to the variables, users before inputs. At each node it has the gradient of
//! the loss for that node's result; the node's *rule* (`rules`, and one formula a row in the elementwise table) turns
//! it into gradients for the inputs; contributions to one node are added up. Rules are formulas over tensors, so what
//! comes out is ordinary graph: it runs fused with the forward pass, and it can be differentiated again.
//!
//! Nothing is lost silently: a node without a formula is an error that names it, and [`Gradients::missing`] lists the
//! variables that got no gradient, with the operation that cut them off.

mod checkpoint;
pub(crate) mod custom;
mod edit;
mod functional;
mod gradcheck;
mod linalg_rules;
mod products;
mod rules;
mod scan_rules;
mod slices;
mod substitute;
#[cfg(test)]
mod tests;
mod vmap;

pub use checkpoint::checkpoint;
pub use custom::custom_vjp;
pub use functional::{Pullback, Tensors, grad, grad_of, hessian, hvp, jacobian, jvp, value_and_grad, vjp};
pub use gradcheck::{GradcheckOptions, gradcheck, gradcheck_with};
pub(crate) use rules::unslice;
pub use vmap::vmap;

use crate::{
    Error, ErrorKind, Result, Tensor, VarId,
    graph::{IdMap, IdSet, Node, backward_pass, on_behalf_of, topological},
    op::Op,
    replay,
};
use products::Product;
use slices::Piece;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, Weak, atomic::Ordering::Relaxed},
};

/// Called with a gradient on its way; what it returns goes on in its place.
pub type Hook = Arc<dyn Fn(&Tensor) -> Tensor + Send + Sync>;

/// The gradients of a loss for the variables it depends on.
///
/// ```
/// use gradus_core::Tensor;
/// let (x, y) = (Tensor::var("x", 2.0f64), Tensor::var("y", 3.0f64));
/// let grads = (&x * &y + x.sin()).backward().unwrap();
/// assert!((grads.wrt(&x).unwrap().item::<f64>().unwrap() - (3.0 + 2f64.cos())).abs() < 1e-12);
/// assert_eq!(grads.by_name("y").unwrap().item::<f64>().unwrap(), 2.0);
/// ```
pub struct Gradients {
    entries: BTreeMap<VarId, Entry>,
    missing: Vec<Missing>,
    losses: Vec<Weak<Node>>,
}

struct Entry {
    name: Option<String>,
    grad: Tensor,
}

/// A variable that got no gradient, and why.
#[derive(Clone, Debug)]
pub struct Missing {
    /// Which variable.
    pub id: VarId,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What cut it off.
    pub why: String,
}

impl Gradients {
    /// The gradient for a variable.
    #[track_caller]
    pub fn wrt(&self, var: &Tensor) -> Result<Tensor> {
        let Some(id) = var.var_id() else {
            return Err(Error::new("wrt", ErrorKind::Gradient("this tensor is not a variable".into()))
                .operand(var)
                .hint("make it one with Tensor::var or requires_grad_, or ask grad(&loss, &[&tensor]) for an intermediate"));
        };
        match self.entries.get(&id) {
            Some(e) => Ok(e.grad.clone()),
            None => {
                let why = self.missing.iter().find(|m| m.id == id).map_or("the loss does not depend on it", |m| &m.why);
                let name = var.name().unwrap_or("(unnamed)");
                Err(Error::new("wrt", ErrorKind::Gradient(format!("no gradient for variable {name}: {why}")))
                    .operand(var))
            }
        }
    }

    /// The gradient for the variable of this name.
    #[track_caller]
    pub fn by_name(&self, name: &str) -> Result<Tensor> {
        let mut found = self.entries.values().filter(|e| e.name.as_deref() == Some(name));
        match (found.next(), found.next()) {
            (Some(e), None) => Ok(e.grad.clone()),
            (Some(_), Some(_)) => {
                let why = format!("several variables are named {name}");
                Err(Error::new("by_name", ErrorKind::Gradient(why)).hint("ask with wrt(&variable)"))
            }
            (None, _) => {
                let known: Vec<&str> = self.entries.values().filter_map(|e| e.name.as_deref()).collect();
                let why = format!("no gradient for a variable named {name}; there are: {}", known.join(", "));
                Err(Error::new("by_name", ErrorKind::Gradient(why)))
            }
        }
    }

    /// All named gradients, in the order the variables were made.
    pub fn all_named(&self) -> Vec<(String, Tensor)> {
        self.entries.values().filter_map(|e| Some((e.name.clone()?, e.grad.clone()))).collect()
    }

    /// All gradients with their variables' identities.
    pub fn iter(&self) -> impl Iterator<Item = (VarId, &Tensor)> {
        self.entries.iter().map(|(id, e)| (*id, &e.grad))
    }

    /// The numbers that these are the gradients of, as far as somebody still holds them. An optimizer computes them in
    /// the run of its step: computed later, they would need what that run has been through with.
    pub fn losses(&self) -> Vec<Tensor> {
        self.losses.iter().filter_map(|w| w.upgrade().map(Tensor)).collect()
    }

    /// Variables in the graph of the loss that got no gradient, and why.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }
}

impl Tensor {
    /// The gradients of this number for all variables it depends on. They are tensors: nothing has run yet.
    #[track_caller]
    pub fn backward(&self) -> Result<Gradients> {
        let at = std::panic::Location::caller();
        let root = self.resolve();
        if root.numel() != 1 {
            let why = format!("the loss must be one number, not {}", root.shape());
            let hint = "reduce it first (.sum(), .mean()), or use grad::vjp with a gradient for each element";
            return Err(Error::shape("backward", &[root.shape()], why).operand(self).hint(hint));
        }
        if !root.requires_grad() {
            let why = if root.dtype().is_float() {
                "the loss depends on no variable".to_string()
            } else {
                format!("the loss is {}, and gradients are of floats", root.dtype())
            };
            return Err(Error::new("backward", ErrorKind::Gradient(why))
                .operand(self)
                .hint("make variables with Tensor::var"));
        }
        let seed = root.ones_like();
        let pass = run(&[(root.clone(), seed)], &[]).map_err(|e| e.at(at))?;
        let missing = missing(&root, &pass.vars);
        Ok(Gradients { entries: pass.vars, missing, losses: vec![Arc::downgrade(&root.0)] })
    }

    /// Calls `hook` with this tensor's gradient in every backward pass; what it returns is used in its place.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let x = Tensor::var("x", Tensor::from([1.0f32, 2.0]));
    /// let y = &x * 3.0;
    /// y.register_hook(|g| g * 10.0);
    /// assert_eq!(y.sum().backward().unwrap().wrt(&x).unwrap().to_vec::<f32>().unwrap(), [30.0, 30.0]);
    /// ```
    pub fn register_hook(&self, hook: impl Fn(&Tensor) -> Tensor + Send + Sync + 'static) {
        self.resolve().add_hook(Arc::new(hook));
    }

    pub(crate) fn hooks(&self) -> Vec<Hook> {
        match self.node().hooks.get() {
            Some(hooks) => hooks.lock().unwrap_or_else(|e| e.into_inner()).clone(),
            None => vec![],
        }
    }

    pub(crate) fn add_hook(&self, hook: Hook) {
        let hooks = self.node().hooks.get_or_init(|| Box::new(Mutex::new(vec![])));
        hooks.lock().unwrap_or_else(|e| e.into_inner()).push(hook);
    }
}

pub(crate) struct Pass {
    vars: BTreeMap<VarId, Entry>,
    /// Gradients of the tensors that were asked for, in order.
    pub targets: Vec<Option<Tensor>>,
}

/// Reverse mode from `outputs` (each with its gradient) to `targets`, or to all variables where none are named.
///
/// With targets, only what lies between them and the outputs is differentiated: an operation without a gradient
/// elsewhere is no obstacle.
pub(crate) fn run(outputs: &[(Tensor, Tensor)], targets: &[&Tensor]) -> Result<Pass> {
    // The types of a gradient are those of its forward pass.
    crate::autocast(None, || backward_pass(|| reverse(outputs, targets)))
}

fn reverse(outputs: &[(Tensor, Tensor)], targets: &[&Tensor]) -> Result<Pass> {
    let outputs: Vec<(Tensor, Tensor)> = outputs.iter().map(|(y, g)| (y.resolve(), g.clone())).collect();
    let roots: Vec<&Tensor> = outputs.iter().map(|(y, _)| y).collect();
    let goal = Goal::new(targets);
    let order =
        topological(&roots, |t| t.requires_grad() && !matches!(t.node().op, Op::Snapshot(_)) && t.id() >= goal.oldest);
    let on_the_way = goal.on_the_way(&order);
    let leads = |t: &Tensor| t.requires_grad() && on_the_way.as_ref().is_none_or(|w| w.contains(&t.id()));
    let mut grads: IdMap<Tensor> = IdMap::default();
    for (y, g) in &outputs {
        accumulate(&mut grads, y, g.clone());
    }
    let mut pieces: IdMap<Vec<Piece>> = IdMap::default();
    let mut products: IdMap<Vec<Product>> = IdMap::default();
    let mut kept: IdMap<Tensor> = IdMap::default();
    let mut vars = BTreeMap::new();
    for t in order.iter().rev() {
        if !leads(t) {
            continue;
        }
        if let Some(all) = pieces.remove(&t.id())
            && let Some(g) = slices::join(t, all)?
        {
            accumulate(&mut grads, t, g);
        }
        if let Some(all) = products.remove(&t.id())
            && let Some(g) = on_behalf_of(t.location(), || products::join(&all))?
        {
            accumulate(&mut grads, t, g);
        }
        let Some(mut g) = grads.remove(&t.id()) else { continue };
        for hook in t.hooks() {
            replay::spoil("a hook runs on a gradient", t.location());
            let new = hook(&g);
            if new.shape() != g.shape() {
                let why = format!("a hook turned a gradient of shape {} into {}", g.shape(), new.shape());
                return Err(Error::shape("register_hook", &[g.shape(), new.shape()], why).operand(t).operand(&new));
            }
            g = new;
        }
        if goal.nodes.contains(&t.id()) {
            kept.insert(t.id(), g.clone());
        }
        if let Op::Snapshot(var) = &t.node().op {
            let entry = match vars.remove(&var.id) {
                Some(Entry { name, grad }) => Entry { name, grad: grad + g },
                None => Entry { name: var.name.clone(), grad: g },
            };
            vars.insert(var.id, entry);
            continue;
        }
        t.node().differentiated.store(true, Relaxed);
        let inputs = t.node().inputs();
        let needs: Vec<bool> = inputs.iter().map(&leads).collect();
        if !needs.contains(&true) {
            continue;
        }
        if let Some(piece) = Piece::of(t, &g) {
            pieces.entry(inputs[0].id()).or_default().push(piece);
            continue;
        }
        let parts = on_behalf_of(t.location(), || rules::apply(t, &g, &inputs, &needs))?;
        for ((input, part), &needed) in inputs.iter().zip(parts).zip(&needs) {
            if let Some(part) = part
                && needed
            {
                let part = part.sum_to(input.shape())?;
                let part = if part.dtype() == input.dtype() { part } else { part.to_dtype(input.dtype()) };
                match Product::of(&part) {
                    Some(product) => products.entry(input.id()).or_default().push(product),
                    None => accumulate(&mut grads, input, part),
                }
            }
        }
    }
    let targets = targets
        .iter()
        .map(|w| match &w.node().op {
            // A variable's gradient counts all of its snapshots, those from before a `set` too.
            Op::Var(cell) => vars.get(&cell.id).map(|e| e.grad.clone()),
            _ => kept.get(&w.id()).cloned(),
        })
        .collect();
    Ok(Pass { vars, targets })
}

/// What a pass is after: some nodes and all snapshots of some variables, or (with no targets) everything.
struct Goal {
    nodes: IdSet,
    vars: Vec<VarId>,
    /// Nodes are numbered in the order they were made, so nothing older than the oldest target leads to one.
    oldest: u64,
}

impl Goal {
    fn new(targets: &[&Tensor]) -> Goal {
        let mut goal = Goal { nodes: IdSet::default(), vars: vec![], oldest: 0 };
        for t in targets {
            match &t.node().op {
                Op::Var(cell) => goal.vars.push(cell.id),
                _ => {
                    goal.nodes.insert(t.id());
                }
            }
        }
        if goal.vars.is_empty() {
            goal.oldest = goal.nodes.iter().min().copied().unwrap_or(0);
        }
        goal
    }

    /// The nodes from which a target can be reached; `None` means all.
    fn on_the_way(&self, order: &[Tensor]) -> Option<IdSet> {
        if self.nodes.is_empty() && self.vars.is_empty() {
            return None;
        }
        let mut way = IdSet::default();
        for t in order {
            let node = t.node();
            let snapshot_of = |v: &VarId| matches!(&node.op, Op::Snapshot(s) if s.id == *v);
            let leads = self.nodes.contains(&t.id())
                || self.vars.iter().any(snapshot_of)
                || !matches!(node.op, Op::Snapshot(_))
                    && node.peek(|inputs, _| inputs.iter().any(|i| way.contains(&i.id())));
            if leads {
                way.insert(t.id());
            }
        }
        Some(way)
    }
}

fn accumulate(grads: &mut IdMap<Tensor>, to: &Tensor, part: Tensor) {
    let sum = match grads.remove(&to.id()) {
        Some(have) => have + part,
        None => part,
    };
    grads.insert(to.id(), sum);
}

/// The gradient of an operation that has none.
pub(crate) fn no_gradient(t: &Tensor, why: &str) -> Error {
    let why = format!("{} has no gradient{why}", t.op_name());
    Error::new(t.op_name(), ErrorKind::Gradient(why)).operand(t).hint("use .detach() if it is meant to be constant")
}

/// Variables the loss reads that no gradient reached.
fn missing(root: &Tensor, have: &BTreeMap<VarId, Entry>) -> Vec<Missing> {
    // What a variable was last set to is no part of the loss.
    let order = topological(&[root], |t| !matches!(t.node().op, Op::Snapshot(_)));
    let lacks = |t: &Tensor| matches!(&t.node().op, Op::Snapshot(v) if t.requires_grad() && !have.contains_key(&v.id));
    if !order.iter().any(lacks) {
        return vec![]; // as it should be: nobody asks why
    }
    let mut blocked: IdMap<String> = IdMap::default();
    // Users before inputs: a node that is cut off passes the reason on.
    for t in order.iter().rev() {
        let own = blocked.get(&t.id()).cloned();
        t.node().peek(|inputs, _| {
            for i in inputs {
                if let Some(why) = &own {
                    blocked.entry(i.id()).or_insert_with(|| why.clone());
                } else if !t.requires_grad() {
                    let why = format!("{} at {} passes no gradient on", t.op_name(), t.location());
                    blocked.entry(i.id()).or_insert(why);
                }
            }
        });
    }
    let mut out: Vec<Missing> = vec![];
    for t in &order {
        if let Op::Snapshot(v) = &t.node().op
            && t.requires_grad() // none is expected for a frozen one
            && !have.contains_key(&v.id)
            && !out.iter().any(|m| m.id == v.id)
        {
            let why =
                blocked.get(&t.id()).cloned().unwrap_or_else(|| "no path from the loss carries a gradient".into());
            out.push(Missing { id: v.id, name: v.name.clone(), why });
        }
    }
    out
}
