//! Whether a kernel may write a result over one of its operands.

use super::{Access, InstKind, Kernel, Level, Source, Val};

impl Kernel {
    /// Whether argument `written` may be the same memory as argument `read`: every element is read for the last time, in
    /// whatever order a backend goes through the spaces, before it is written.
    ///
    /// That is so when both are addressed alike, and when all that comes of a loaded element without a reduction in
    /// between is needed no later than the stored value: a backend computes elements again in each pass over a row, and
    /// reads operands where they lie.
    pub fn may_overwrite(&self, read: usize, written: usize) -> bool {
        let (Some(r), Some(w)) = (self.args.get(read), self.args.get(written)) else { return false };
        let Some((stored, value)) = self.only_store(written) else { return false };
        // A value of a whole row is stored before the row's elements of the same pass, which may read the operand again.
        let last = self.reduce.is_empty() || self.insts[value].level == Level::Elem;
        if r.written || r.dtype.size() != w.dtype.size() || !plain(stored) || !last {
            return false;
        }
        let depth = self.depths();
        let needed = self.needed_for(value);
        // What follows from a load of the operand within one pass.
        let mut follows = vec![false; self.insts.len()];
        for (v, inst) in self.insts.iter().enumerate() {
            match &inst.kind {
                InstKind::Load { source: Source::Arg(a), access } if *a == read => {
                    if access != stored {
                        return false;
                    }
                    follows[v] = true;
                }
                InstKind::Reduce(..) => {}
                InstKind::Const(_)
                | InstKind::Param(_)
                | InstKind::Load { .. }
                | InstKind::Ewise(..)
                | InstKind::Cast(_)
                | InstKind::Store { .. } => follows[v] = self.operands(v).iter().any(|&x| follows[x]),
            }
            // A store that belongs to an earlier pass may be done in the last one.
            let other = matches!(inst.kind, InstKind::Store { .. }) && depth[v] != depth[value];
            if follows[v] && (depth[v] > depth[value] || other) {
                return false;
            }
            // Whoever reads the operand itself comes before the store.
            let direct =
                |x: &Val| matches!(self.insts[*x].kind, InstKind::Load { source: Source::Arg(a), .. } if a == read);
            let is_the_store = matches!(inst.kind, InstKind::Store { arg, .. } if arg == written);
            if self.operands(v).iter().any(direct) && !needed[v] && !is_the_store {
                return false;
            }
        }
        true
    }

    /// The access and the value of the only store to an argument.
    fn only_store(&self, to: usize) -> Option<(&Access, Val)> {
        let mut stores = self.insts.iter().filter_map(|i| match &i.kind {
            InstKind::Store { arg, access, value } if *arg == to => Some((access, *value)),
            _ => None,
        });
        stores.next().filter(|_| stores.next().is_none())
    }

    /// How many reductions lie before each value.
    fn depths(&self) -> Vec<usize> {
        let mut depth: Vec<usize> = Vec::with_capacity(self.insts.len());
        for (v, inst) in self.insts.iter().enumerate() {
            let before = self.operands(v).iter().map(|&x| depth[x]).max().unwrap_or(0);
            depth.push(before + matches!(inst.kind, InstKind::Reduce(..)) as usize);
        }
        depth
    }

    /// The values that one is computed from, and itself.
    fn needed_for(&self, value: Val) -> Vec<bool> {
        let mut needed = vec![false; self.insts.len()];
        needed[value] = true;
        for v in (0..=value).rev() {
            if needed[v] {
                self.operands(v).iter().for_each(|&x| needed[x] = true);
            }
        }
        needed
    }
}

fn plain(a: &Access) -> bool {
    a.bounds.is_empty() && a.lookup.is_empty()
}

#[cfg(test)]
mod tests {
    use crate::{Tensor, plan::StepInfo};

    /// The one kernel of a tensor, with what may be written over what: operand, result.
    fn pairs(t: &[&Tensor]) -> Vec<(usize, usize)> {
        let e = Tensor::explain_all(t).unwrap();
        let [StepInfo { kernel: Some(k), .. }] = &e.steps[..] else { panic!("{e}") };
        let n = k.args.len();
        let all = (0..n).flat_map(|r| (0..n).map(move |w| (r, w)));
        all.filter(|&(r, w)| k.args[w].written && k.may_overwrite(r, w)).collect()
    }

    #[test]
    fn operands_are_overwritten_only_after_their_last_use() {
        let x = Tensor::randn([8, 16]);
        let y = Tensor::randn([16]);
        Tensor::eval_all(&[&x, &y]).unwrap();
        // Elementwise, and not over what is broadcast.
        assert_eq!(pairs(&[&(&x * &y)]).len(), 1);
        // A row is read three times, and written last.
        assert_eq!(pairs(&[&x.softmax(1).unwrap()]).len(), 1);
        // Read in another order.
        let square = Tensor::randn([16, 16]);
        square.eval().unwrap();
        let turned = square.t().unwrap().exp() + 1.0;
        let copied = turned.contiguous();
        drop(turned); // held, it would be computed as it lies, and then copied
        assert_eq!(pairs(&[&copied]), []);
        // The second result needs the operand itself: it may be written over it, the first may not be.
        let (a, b) = (&x + 1.0, x.exp());
        assert_eq!(pairs(&[&a, &b]), []);
        // What is stored before a reduction that a later pass needs the operand for.
        let e = x.exp();
        let rest = &x - e.sum_dim(1, true).unwrap();
        assert_eq!(pairs(&[&e, &rest]).len(), 0);
        // What is stored once a row, before the row's elements read the operand for the last time.
        let r = Tensor::randn([8, 1]);
        r.eval().unwrap();
        let e = &x + &r;
        let s = e.sum_dim(1, true).unwrap();
        let (elements, rows) = (&e * &s, &s + &r);
        drop((e, s));
        assert_eq!(pairs(&[&elements, &rows]).len(), 1, "the elements over x, the rows not over r");
        // A sum of what is stored reads nothing again.
        let e = x.exp();
        assert_eq!(pairs(&[&e, &e.sum_dim(1, false).unwrap()]).len(), 1);
    }
}
