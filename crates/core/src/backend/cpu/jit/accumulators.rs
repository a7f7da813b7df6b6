//! Accumulators of reductions: how they begin, take one more element, and become one number.

use super::{
    asm::{self, Rm, Under, Zmm},
    body::{Folding, Vop},
    writer::{SCRATCH, Writer},
};

impl Writer<'_> {
    /// So many registers of each accumulator as they begin.
    pub fn start_accumulators(&mut self, vectors: u8) -> Option<()> {
        for (i, first) in self.accumulators.clone() {
            let Vop::Fold(how, ..) = self.body.ops[i] else { return None };
            let start = self.constants.iter().find(|c| c.1 == how.start(self.body.wide()))?.0;
            self.materialise(start, first);
            for n in 1..vectors {
                self.asm.op(asm::MOV_LOAD, first + n, 0, Rm::Reg(first), Under::All);
            }
        }
        Some(())
    }

    /// The lanes of all accumulators pairwise into one, and those into their places among the numbers. Registers that no
    /// element reached would change nothing.
    pub fn finish_accumulators(&mut self, vectors: u8) -> Option<()> {
        for (i, a) in self.accumulators.clone() {
            let Vop::Fold(how, number, _) = self.body.ops[i] else { return None };
            let mut half = self.asm.slots() / 2;
            while half > 0 {
                let mut low = (0..half).filter(|n| n + half < vectors);
                low.try_for_each(|n| self.fold(how, a + n, Rm::Reg(a + n + half), Under::All))?;
                half /= 2;
            }
            let mut far = self.asm.lanes() as u8 / 2;
            while far > 0 {
                self.asm.fold_lanes(far, a + 1, a);
                self.fold(how, a, Rm::Reg(a + 1), Under::All)?;
                far /= 2;
            }
            self.asm.op(asm::MOV_ONE, a, 0, Rm::Broadcast(self.pool().into(), number as u8), Under::All);
        }
        Some(())
    }

    /// `acc = op(acc, x)`.
    fn fold_by(&mut self, op: asm::Op, acc: Zmm, x: Rm, under: Under) -> Option<()> {
        self.asm.op(op, acc, acc, x, under);
        Some(())
    }

    /// `acc = how(acc, x)`.
    pub(super) fn fold(&mut self, how: Folding, acc: Zmm, x: Rm, under: Under) -> Option<()> {
        let op = match how {
            Folding::Max => asm::MAX,
            Folding::Min => asm::MIN,
            Folding::Sum => return self.fold_by(asm::ADD, acc, x, under),
            Folding::Prod => return self.fold_by(asm::MUL, acc, x, under),
            Folding::SumI => return self.fold_by(asm::ADD_I, acc, x, under),
            Folding::ProdI => return self.fold_by(asm::MUL_I, acc, x, under),
            Folding::MaxI => return self.fold_by(asm::MAX_I, acc, x, under),
            Folding::MinI => return self.fold_by(asm::MIN_I, acc, x, under),
        };
        // What is a NaN already stays one.
        let k = self.free_masks.pop()?;
        if under == Under::All {
            self.asm.compare(7, k, acc, Rm::Reg(acc));
            self.asm.op(op, acc, acc, x, Under::Merging(k));
        } else {
            self.asm.op(op, SCRATCH, acc, x, Under::All);
            self.asm.compare(3, k, acc, Rm::Reg(acc));
            self.asm.op(asm::MOV_LOAD, SCRATCH, 0, Rm::Reg(acc), Under::Merging(k));
            self.asm.op(asm::MOV_LOAD, acc, 0, Rm::Reg(SCRATCH), under);
        }
        self.free_masks.push(k);
        Some(())
    }
}
