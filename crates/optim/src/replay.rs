//! Optimizers in compiled functions: the numbers of a step without its graph.
//!
//! A recorded step has the variables and moments as variables of the plan. What an optimizer adds at each replay are plain
//! numbers (learning rate, bias corrections), the same for all variables of a group that are equally far: a *class*. They
//! come from the rule itself, run dry for one variable of each class, so that no rule has to say them twice and every change
//! of an option is seen.

use crate::{Optim, Rule, Slot, engine::Next};
use gradus_core::{
    Scalar, Tensor,
    replay::{Note, Replay, dry_run, note, recording, unreplayable},
};
use std::cell::RefCell;

/// Variables for which the rule meets the same numbers.
struct Class {
    /// Group and place of each.
    members: Vec<(usize, usize)>,
    /// The first one's slot, with stand-ins for tensors.
    slot: Slot,
    stand_in: Tensor,
    /// Of the rule's operations.
    sum: u64,
}

impl Class {
    /// Runs the rule dry, from where the slot of a member stands.
    fn dry<R: Rule>(&mut self, rule: &R, from: &Slot, out: &mut Vec<Scalar>) -> Option<u64> {
        self.slot.step = from.step + 1;
        self.slot.numbers.clone_from(&from.numbers);
        self.slot.tensors.iter_mut().for_each(|(_, t)| *t = self.stand_in.clone());
        let Class { slot, stand_in, .. } = self;
        let mut fine = false;
        let sum = dry_run(stand_in, out, || fine = rule.next(slot, stand_in, stand_in).is_ok());
        fine.then_some(sum)
    }
}

impl<R: Rule> Optim<R> {
    fn slot(&self, (group, place): (usize, usize)) -> Option<(&R, &Slot)> {
        let g = self.groups.get(group)?;
        Some((&g.rule, g.slots.get(place)?))
    }

    /// Notes a step that is being recorded; its numbers are known, nothing has been kept yet.
    pub(crate) fn note_step(&self, next: &[Next]) {
        if !recording() {
            return;
        }
        let mut classes: Vec<(Class, Vec<Scalar>, Vec<Vec<u64>>)> = vec![];
        for n in next {
            let Some((_, slot)) = self.slot((n.group, n.place)) else { continue };
            let like = |(c, values, _): &&mut (Class, Vec<Scalar>, Vec<Vec<u64>>)| {
                let first = c.members.first().and_then(|&m| self.slot(m));
                first.is_some_and(|(_, s)| (s.step, &s.numbers) == (slot.step, &slot.numbers))
                    && c.members[0].0 == n.group
                    && (c.stand_in.dtype(), c.stand_in.device()) == (n.value.dtype(), n.value.device())
                    && values.iter().eq(n.made.iter().map(|(_, x)| x))
            };
            match classes.iter_mut().find(like) {
                Some((c, _, ids)) => {
                    c.members.push((n.group, n.place));
                    ids.iter_mut().zip(&n.made).for_each(|(ids, (id, _))| ids.push(*id));
                }
                None => {
                    // Lazy: it is never computed, and takes no memory.
                    let stand_in = n.value.zeros_like();
                    let class = Class { members: vec![(n.group, n.place)], slot: n.slot.clone(), stand_in, sum: 0 };
                    let (ids, values) = n.made.iter().map(|&(id, x)| (vec![id], x)).unzip();
                    classes.push((class, values, ids));
                }
            }
        }
        let mut all = vec![];
        for (c, values, _) in &mut classes {
            let Some((rule, slot)) = self.slot(c.members[0]) else { continue };
            let mut found = vec![];
            match c.dry(rule, slot, &mut found) {
                Some(sum) if found == *values => c.sum = sum,
                Some(_) | None => return unreplayable("the optimizer's rule does more than arithmetic"),
            }
        }
        let mut numbers = vec![];
        for (c, _, ids) in classes {
            all.push(c);
            numbers.extend(ids);
        }
        note(Note { owner: self.id, data: Box::new(RefCell::new(all)) }, numbers);
    }

    fn classes<'a>(&self, note: &'a Note) -> Option<&'a RefCell<Vec<Class>>> {
        note.data.downcast_ref().filter(|_| note.owner == self.id)
    }
}

impl<R: Rule> Replay for Optim<R> {
    fn numbers_for(&self, note: &Note, out: &mut Vec<Scalar>) -> bool {
        let Some(classes) = self.classes(note) else { return false };
        classes.borrow_mut().iter_mut().all(|c| {
            let Some((rule, first)) = c.members.first().and_then(|&m| self.slot(m)) else { return false };
            let like = |&m| self.slot(m).is_some_and(|(_, s)| (s.step, &s.numbers) == (first.step, &first.numbers));
            c.members.iter().all(like) && c.dry(rule, first, out) == Some(c.sum)
        })
    }

    fn replayed(&mut self, note: &Note) {
        let Some(classes) = self.classes(note) else { return };
        for c in classes.borrow().iter() {
            for &(group, place) in &c.members {
                if let Some(s) = self.groups.get_mut(group).and_then(|g| g.slots.get_mut(place)) {
                    s.step = c.slot.step;
                    s.numbers.clone_from(&c.slot.numbers);
                }
            }
        }
    }
}
