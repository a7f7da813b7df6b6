//! Groups of variables under a rule: stepping, and saving and loading the state.

use crate::{Field, Optimizer, Rule, Slot};
use gradus_core::{
    Error, ErrorKind, Result, Scalar, Tensor,
    grad::Gradients,
    no_grad,
    plan::Explanation,
    replay::{computes_later, log_numbers},
    share_scalars,
};
use gradus_io::{Meta, StateDict, Stateful};
use std::{
    collections::HashSet,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// An optimizer: groups of variables, each with the options of its rule.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_optim::{Adam, AdamOptions, Optimizer};
/// let (body, head) = (Tensor::var("body", Tensor::from([1.0f32])), Tensor::var("head", Tensor::from([1.0f32])));
/// let mut opt = Adam::new([&body], 1e-4)
///     .weight_decay(0.01)
///     .group([&head], AdamOptions { lr: 1e-2, ..Default::default() });
/// opt.step(&(&body * &head).sum().backward()?)?;
/// assert!((head.item::<f32>()? - 0.99).abs() < 1e-6);
/// assert_eq!((opt.option(0, "lr"), opt.option(1, "lr")), (Some(1e-4), Some(1e-2)));
/// # Ok::<(), gradus_core::Error>(())
/// ```
pub struct Optim<R: Rule> {
    /// No two have the same.
    pub(crate) id: u64,
    pub(crate) groups: Vec<Group<R>>,
}

#[derive(Clone)]
pub(crate) struct Group<R> {
    pub rule: R,
    pub params: Vec<Tensor>,
    pub slots: Vec<Slot>,
}

impl<R: Rule> Clone for Optim<R> {
    /// Another optimizer of the same variables, as far as this one is.
    fn clone(&self) -> Optim<R> {
        let mut groups = self.groups.clone();
        groups.iter_mut().flat_map(|g| &mut g.slots).for_each(Slot::own);
        Optim { id: fresh_id(), groups }
    }
}

fn fresh_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// A variable's next value, with what will be remembered about it.
pub(crate) struct Next {
    pub group: usize,
    pub place: usize,
    pub value: Tensor,
    pub slot: Slot,
    /// The numbers that the rule met, while a function is recorded: their nodes, and what they are.
    pub made: Vec<(u64, Scalar)>,
}

impl<R: Rule> Optim<R> {
    /// An optimizer of these variables with the usual options and this learning rate.
    pub fn new<'a>(params: impl IntoIterator<Item = &'a Tensor>, lr: f64) -> Optim<R> {
        Optim::with(params, R::with_lr(lr))
    }

    /// An optimizer of these variables with these options.
    pub fn with<'a>(params: impl IntoIterator<Item = &'a Tensor>, options: R) -> Optim<R> {
        Optim { id: fresh_id(), groups: vec![] }.group(params, options)
    }

    /// With another group of variables, under options of its own.
    pub fn group<'a>(mut self, params: impl IntoIterator<Item = &'a Tensor>, options: R) -> Optim<R> {
        let params: Vec<Tensor> = params.into_iter().cloned().collect();
        let slots = vec![Slot::default(); params.len()];
        self.groups.push(Group { rule: options, params, slots });
        self
    }

    /// With options changed, in all groups so far.
    ///
    /// ```
    /// # use gradus_core::Tensor;
    /// # let w = Tensor::var("w", Tensor::from([1.0f32]));
    /// let opt = gradus_optim::Adam::new([&w], 1e-3).configure(|o| o.amsgrad = true);
    /// assert!(opt.options(0).unwrap().amsgrad);
    /// ```
    pub fn configure(mut self, change: impl Fn(&mut R)) -> Optim<R> {
        self.groups.iter_mut().for_each(|g| change(&mut g.rule));
        self
    }

    /// With this weight decay, in all groups so far.
    pub fn weight_decay(mut self, weight_decay: f64) -> Optim<R> {
        for group in 0..self.groups.len() {
            self.set_option(group, "weight_decay", weight_decay);
        }
        self
    }

    /// A group's options.
    pub fn options(&self, group: usize) -> Option<&R> {
        self.groups.get(group).map(|g| &g.rule)
    }

    /// A group's options, to change.
    pub fn options_mut(&mut self, group: usize) -> Option<&mut R> {
        self.groups.get_mut(group).map(|g| &mut g.rule)
    }

    /// The next values and slots of all variables that have a gradient. Nothing has changed, nothing has run.
    fn next(&self, grads: &Gradients) -> Result<Vec<Next>> {
        let mut seen = HashSet::new();
        let mut all = vec![];
        for (group, gr) in self.groups.iter().enumerate() {
            for (place, (p, slot)) in gr.params.iter().zip(&gr.slots).enumerate() {
                let fault = |why: String| Error::new(R::NAME, ErrorKind::Value(why)).operand(p);
                let Some(id) = p.var_id() else {
                    return Err(fault(format!("parameter {place} of group {group} is not a variable"))
                        .hint("make it with Tensor::var"));
                };
                if !seen.insert(id) {
                    let name = p.name().unwrap_or("(unnamed)");
                    return Err(fault(format!("the variable {name} is in the optimizer twice")));
                }
                let Some(g) = grads.get(id) else { continue };
                let mut slot = Slot { step: slot.step + 1, ..slot.clone() };
                let (value, made) = log_numbers(|| gr.rule.next(&mut slot, &p.resolve().detach(), g));
                all.push(Next { group, place, value: value?, slot, made });
            }
        }
        Ok(all)
    }

    fn each(&self) -> impl Iterator<Item = (&Tensor, &Slot)> {
        self.groups.iter().flat_map(|g| g.params.iter().zip(&g.slots))
    }
}

fn results(next: &[Next]) -> Vec<&Tensor> {
    next.iter().flat_map(|n| n.slot.tensors.iter().map(|t| &t.1).chain([&n.value])).collect()
}

impl<R: Rule> Optimizer for Optim<R> {
    #[track_caller]
    fn step(&mut self, grads: &Gradients) -> Result<()> {
        no_grad(|| {
            // Initial values that nothing has read yet: computed first, so that the first step's plan serves all.
            Tensor::eval_all(&self.each().map(|(p, _)| p).collect::<Vec<_>>())?;
            let next = share_scalars(|| self.next(grads))?;
            let losses = grads.losses();
            if !computes_later() {
                Tensor::eval_all(&results(&next).into_iter().chain(&losses).collect::<Vec<_>>())?;
            }
            self.note_step(&next);
            for n in next {
                if let Some(g) = self.groups.get_mut(n.group)
                    && let (Some(p), Some(slot)) = (g.params.get(n.place), g.slots.get_mut(n.place))
                {
                    p.set(&n.value)?;
                    slot.become_(n.slot)?;
                }
            }
            Ok(())
        })
    }

    fn params(&self) -> Vec<Tensor> {
        self.each().map(|(p, _)| p.clone()).collect()
    }

    fn group_count(&self) -> usize {
        self.groups.len()
    }

    fn option(&self, group: usize, name: &str) -> Option<f64> {
        let mut rule = self.groups.get(group)?.rule.clone();
        rule.fields().into_iter().find(|(n, _)| *n == name).map(|(_, f)| match f {
            Field::Number(x) => *x,
            Field::Flag(b) => *b as u8 as f64,
            Field::Count(n) => *n as f64,
        })
    }

    fn set_option(&mut self, group: usize, name: &str, value: f64) -> bool {
        let Some(g) = self.groups.get_mut(group) else { return false };
        let field = g.rule.fields().into_iter().find(|(n, _)| *n == name);
        match field {
            Some((_, Field::Number(x))) => *x = value,
            Some((_, Field::Flag(b))) => *b = value != 0.0,
            Some((_, Field::Count(n))) => *n = value as usize,
            None => return false,
        }
        true
    }

    fn explain(&self, grads: &Gradients) -> Result<Explanation> {
        no_grad(|| Tensor::explain_all(&results(&self.next(grads)?)))
    }
}

impl<R: Rule> Stateful for Optim<R> {
    fn state(&self) -> StateDict {
        let mut state = StateDict::new();
        let mut meta = vec![("optimizer".to_string(), Meta::from(R::NAME))];
        for (i, g) in self.groups.iter().enumerate() {
            for (name, field) in g.rule.clone().fields() {
                let value = match field {
                    Field::Number(x) => Meta::Float(*x),
                    Field::Flag(b) => Meta::Bool(*b),
                    Field::Count(n) => Meta::Int(*n as i64),
                };
                meta.push((format!("group.{i}.{name}"), value));
            }
            meta.push((format!("group.{i}.params"), Meta::Int(g.params.len() as i64)));
        }
        for (k, (_, slot)) in self.each().enumerate().filter(|(_, (_, s))| s.step > 0) {
            meta.push((format!("state.{k}.step"), Meta::Int(slot.step as i64)));
            meta.extend(slot.numbers.iter().map(|(n, x)| (format!("state.{k}.{n}"), Meta::Float(*x))));
            state.extend(slot.tensors.iter().map(|(n, t)| (format!("state.{k}.{n}"), t.resolve())));
        }
        state.metadata_mut().extend(meta);
        state
    }

    #[track_caller]
    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        let kind = state.metadata().get("optimizer").and_then(|m| m.as_str());
        if kind != Some(R::NAME) {
            let found = kind.unwrap_or("something else");
            return Err(Error::value(R::NAME, format!("the state is of {found}, not of {}", R::NAME)));
        }
        let mut new = self.clone();
        let mut k = 0;
        for (i, g) in new.groups.iter_mut().enumerate() {
            let n = state.integer(&format!("group.{i}.params"))?;
            if n != g.params.len() as i64 {
                let why = format!("group {i} has {n} variables in the state and {} here", g.params.len());
                return Err(
                    Error::value(R::NAME, why).hint("make the optimizer with the same variables in the same order")
                );
            }
            for (name, field) in g.rule.fields() {
                let key = format!("group.{i}.{name}");
                match field {
                    Field::Number(x) => *x = state.number(&key)?,
                    Field::Flag(b) => *b = state.flag(&key)?,
                    Field::Count(n) => *n = usize::try_from(state.integer(&key)?).unwrap_or(0),
                }
            }
            for (p, slot) in g.params.iter().zip(&mut g.slots) {
                *slot = load_slot(&state.under(&format!("state.{k}")), p)?;
                k += 1;
            }
        }
        *self = new;
        Ok(())
    }
}

fn load_slot(state: &StateDict, p: &Tensor) -> Result<Slot> {
    let mut slot = Slot::default();
    if !state.metadata().contains_key("step") {
        return Ok(slot);
    }
    slot.step = u64::try_from(state.integer("step")?).unwrap_or(0);
    for name in state.metadata().keys().filter(|k| *k != "step") {
        slot.keep_number(name, state.number(name)?);
    }
    for name in state.names() {
        slot.keep(name, &state.tensor_like(name, p)?);
    }
    slot.own();
    Ok(slot)
}
