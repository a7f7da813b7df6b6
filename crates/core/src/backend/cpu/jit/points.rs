//! Groups of reduce points of blocks of map points.

use super::{
    body::{Folding, Logic, V, Vop},
    functions, values,
    whole::Maker,
};
use crate::{
    DType,
    backend::cpu::{ahead::Ahead, program::Pass, whole::Place},
    kernel::{InstKind, Level},
    op::ReduceOp,
};

impl Maker<'_> {
    /// A group of reduce points of a block of map points, so many chunks further on: accumulators pass through registers once
    /// for all of them.
    pub(super) fn points(&mut self, pass: &Pass, group: usize, chunk: usize, ahead: &[Ahead]) -> Option<()> {
        let k = self.o.k;
        let mut sums: Vec<V> = vec![];
        for n in 0..pass.reduces.len() {
            let p = self.pointer(Place::Accumulator(n, chunk), 0)?;
            let (stays, bool) = (self.section.body.vectors > 0, k.insts[pass.reduces[n]].dtype == DType::Bool);
            let sum = self.body().push(match (bool, stays) {
                (true, true) => return None, // masks do not stay
                (true, false) => Vop::InMask(p),
                (false, true) => Vop::Held(p),
                (false, false) => Vop::In(p),
            });
            sums.push(sum);
        }
        for point in 0..group {
            self.point = chunk * k.order.chunk + point;
            self.known.retain(|&v, _| k.insts[v].level < Level::Elem);
            for &v in &pass.elems {
                let InstKind::Reduce(op, x) = k.insts[v].kind else {
                    if !self.chooses_place(v) {
                        self.elem(v)?;
                    }
                    continue;
                };
                let n = pass.reduces.iter().position(|&r| r == v)?;
                if op == ReduceOp::Min && self.chooses_place(x) {
                    let place = self.chosen_place(x, n, point, group)?;
                    sums[n] = functions::fold(self.body(), Folding::MinI, sums[n], place);
                    continue;
                }
                if k.insts[v].dtype == DType::Bool && k.insts[x].dtype == DType::Bool {
                    let how = if matches!(op, ReduceOp::Sum | ReduceOp::Max) { Logic::Or } else { Logic::And };
                    let x = self.operand(x)?;
                    sums[n] = self.body().push(Vop::Masks(how, sums[n], x));
                    continue;
                }
                if !self.block_fills(v) || k.insts[x].dtype.compute() != k.insts[v].dtype.compute() {
                    return None;
                }
                let how = self.folding(v, op)?;
                let x = self.operand(x)?;
                sums[n] = functions::fold(self.body(), how, sums[n], x);
            }
            self.fetch(ahead)?;
        }
        self.point = 0;
        for (n, sum) in sums.into_iter().enumerate() {
            let p = self.pointer(Place::Accumulator(n, chunk), 0)?;
            if k.insts[pass.reduces[n]].dtype == DType::Bool {
                values::store(self.body(), DType::Bool, p, sum)?;
                continue;
            }
            let stays = self.section.body.vectors > 0;
            self.body().push(if stays { Vop::Hold(p, sum) } else { Vop::Out(p, sum) });
        }
        Some(())
    }
}
