//! One instruction over a block: operands, destinations, loads and stores.

use super::{
    analysis::width,
    convert,
    exec::Task,
    runs::{Block, one_line, runs},
    sources,
    transfer::{self, Run},
};
use crate::{
    DType, Result, Scalar,
    kernel::{
        Access, InstKind, Level, Source, Val,
        oracle::{Cell, division_by_zero},
    },
    op::{block::any_zero, ewise},
};

impl Task<'_> {
    /// The register block of a value; cached rows are addressed by the block's place in the row.
    #[inline]
    pub(super) fn operand(&self, v: Val, col: usize) -> *const u8 {
        let reg = self.m.ptr[v] as *const u8;
        if self.p.cached[v] { reg.wrapping_add(col * width(self.p.kernel.insts[v].dtype)) } else { reg }
    }

    /// One instruction over a block of `n`; `col` is the block's place in its row (for cached rows).
    ///
    /// # Safety
    /// As [`super::exec::run`]; the block lies inside its space.
    pub(super) unsafe fn inst(&mut self, v: Val, block: Block, n: usize, col: usize) -> Result<()> {
        let p = self.p;
        let k = &p.kernel;
        let inst = &k.insts[v];
        // SAFETY: registers hold a block of values; operands were computed by this task; addresses are inside their
        // buffers by the caller's promise.
        unsafe {
            match &inst.kind {
                InstKind::Const(x) => self.set(self.m.ptr[v] as *mut u8, *x, inst.dtype),
                InstKind::Param(i) => self.set(self.m.ptr[v] as *mut u8, self.params[*i], inst.dtype),
                InstKind::Load { source, access } => {
                    let reg = self.register(v);
                    let at = self.load(*source, access, inst.dtype, block, n, col, reg)?;
                    self.m.ptr[v] = at as usize;
                }
                InstKind::Ewise(row, vals) => {
                    let dst = self.destination(v, block, n, col);
                    let over = if row.kind == ewise::Kind::Compare { k.insts[vals[0]].dtype } else { inst.dtype };
                    let mut src = [std::ptr::null::<u8>(); 3];
                    for (s, &o) in src.iter_mut().zip(vals) {
                        *s = self.operand(o, col);
                    }
                    let divides = over.is_int() && row.divides();
                    if divides && any_zero(std::slice::from_raw_parts(src[1].cast::<i64>(), n)) {
                        return Err(division_by_zero(row.name));
                    }
                    let small = if divides { ewise::small_division(row, over) } else { None };
                    let f = small.or_else(|| row.block(over));
                    let f = f.ok_or_else(|| crate::Tensor::bug("a kernel that was not verified"))?;
                    f.get(self.isa)(dst, src, n);
                    if inst.dtype.is_int() && inst.dtype != DType::I64 {
                        convert::wrap(inst.dtype, dst, n);
                    }
                }
                InstKind::Cast(x) => {
                    let dst = self.destination(v, block, n, col);
                    convert::cast(k.insts[*x].dtype, inst.dtype, self.operand(*x, col), dst, n);
                }
                InstKind::Reduce(..) => {}
                InstKind::Store { arg, access, value } => {
                    let (dtype, base) = (k.args[*arg].dtype, self.bases.0[*arg]);
                    let src = self.operand(*value, col);
                    let size = width(dtype);
                    runs(access, k, &self.map, &self.reduce, block, n, |run, i| {
                        // What was computed straight into its place is there already.
                        let at = base.wrapping_offset(run.start * dtype.size() as isize);
                        if !(run.step == 1 && std::ptr::eq(at, src.wrapping_add(i * size))) {
                            transfer::store(dtype, base, run, src.add(i * size));
                        }
                        Ok(())
                    })?;
                }
            }
        }
        Ok(())
    }

    /// The value's own register.
    pub(super) fn register(&self, v: Val) -> *mut u8 {
        ((self.m.scratch.as_ptr() as usize).next_multiple_of(64) + self.p.slot[v]) as *mut u8
    }

    /// Where an instruction writes: its register, or straight into the buffer that a store would copy it to.
    pub(super) fn destination(&mut self, v: Val, block: Block, n: usize, col: usize) -> *mut u8 {
        let p = self.p;
        let dtype = p.kernel.insts[v].dtype;
        if p.cached[v] {
            return self.register(v).wrapping_add(col * width(dtype));
        }
        if let Some(s) = p.direct[v]
            && let InstKind::Store { arg, access, .. } = &p.kernel.insts[s].kind
        {
            let mut place = None;
            let found = runs(access, &p.kernel, &self.map, &self.reduce, block, n, |run, _| {
                let plain = run.step == 1 && run.len == n;
                place = plain.then(|| self.bases.0[*arg].wrapping_offset(run.start * dtype.size() as isize));
                Ok(())
            });
            if let (Ok(()), Some(at)) = (found, place) {
                self.m.ptr[v] = at as usize;
                return at;
            }
        }
        let reg = self.register(v);
        self.m.ptr[v] = reg as usize;
        reg
    }

    /// # Safety
    /// The register has room for one value.
    pub(super) unsafe fn set(&self, reg: *mut u8, x: Scalar, dtype: DType) {
        let cell = Cell::of(x, dtype);
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping((&raw const cell).cast::<u8>(), reg, width(dtype)) };
    }

    /// Loads a block and says where it is: in the register, or, where memory has the right form, in the buffer itself.
    ///
    /// # Safety
    /// As [`super::exec::run`]; the register has room for the block.
    #[allow(clippy::too_many_arguments)]
    pub(super) unsafe fn load(
        &self,
        source: Source,
        access: &Access,
        dtype: DType,
        block: Block,
        n: usize,
        col: usize,
        reg: *mut u8,
    ) -> Result<*mut u8> {
        let k = &self.p.kernel;
        if let Source::Arg(a) = source
            && access.lookup.is_empty()
            && (!access.bounds.is_empty() || !one_line(k, &self.map, &self.reduce, block, n))
        {
            let at = transfer::Stand { k, map: &self.map, reduce: &self.reduce, block };
            // SAFETY: the caller's promise.
            unsafe { transfer::load_block(dtype, self.bases.0[a], access, at, n, reg) };
            return Ok(reg);
        }
        let size = width(dtype);
        let mut direct: *mut u8 = std::ptr::null_mut();
        runs(access, k, &self.map, &self.reduce, block, n, |run: Run, i| {
            let dst = reg.wrapping_add(i * size);
            // SAFETY: the caller's promise.
            unsafe {
                match source {
                    Source::Iota => sources::iota(run, dst),
                    Source::Rand { seed, stream } => {
                        let (seed, stream) = (self.params[seed].i64() as u64, self.params[stream].i64() as u64);
                        sources::uniform(dtype, run, stream, seed, dst);
                    }
                    Source::Arg(a) if !access.lookup.is_empty() => {
                        let mut lookups = smallvec::SmallVec::<[sources::Lookup; 2]>::new();
                        for l in &access.lookup {
                            let index = self.operand(l.value, col).cast::<i64>();
                            let index = if k.insts[l.value].level == Level::Uniform { index } else { index.add(i) };
                            lookups.push((index, l.stride, l.size));
                        }
                        sources::gather(dtype, self.bases.0[a], run, &lookups, dst)?;
                    }
                    Source::Arg(a) => {
                        let base = self.bases.0[a];
                        let plain = run.step == 1 && run.len == n && run.lo == 0 && run.hi == n;
                        if plain && dtype == dtype.compute() {
                            direct = base.offset(run.start * dtype.size() as isize);
                        } else {
                            transfer::load(dtype, base, run, dst);
                        }
                    }
                }
            }
            Ok(())
        })?;
        Ok(if direct.is_null() { reg } else { direct })
    }
}
