//! CUDA C that is fast: which threads take which elements, chosen by how a kernel goes through memory.
//!
//! | kind | kernels | mapping |
//! |---|---|---|
//! | [`lines`] | no reduction | a thread takes vectors of elements that lie side by side |
//! | [`tiles`] | no reduction, but what is read and what is written lie across each other | a block takes a square through shared memory |
//! | [`rows`] | reductions along memory | a few lanes, a warp or a block take a row and keep it in registers |
//! | [`kept`] | rows of which registers would hold one a multiprocessor | a block takes a row and keeps it in shared memory, two at a time |
//! | [`rows`], split | few long rows | several blocks take a row; a launch a stage, partial results in between |
//! | [`many`] | no reduction, one body, several extents | a table says which blocks take which part |
//! | [`columns`] | reductions across memory | a block takes a strip of columns; split like rows where strips are few |
//!
//! Vectors are 16 bytes where addresses allow it. Every order of combination is fixed by the kernel and the GPU's
//! number of multiprocessors, so results repeat; they are not the oracle's order, and sums may differ in the last bits.
//! What fits none of these (empty spaces, for one) is left to the plain emitter.

mod columns;
mod kept;
mod lines;
pub(super) mod many;
mod rows;
mod tiles;
mod vector;

use super::{
    CudaTarget, Program, Stage, What,
    body::Body,
    cuda::{Cuda, stored},
    prelude::needed,
    prelude_cuda, prelude_special,
    schedule::Schedule,
};
use crate::{
    DType, Result,
    kernel::{InstKind, Kernel, Level, Val},
    op::ReduceOp,
};
use vector::Vectors;

/// Threads a block where nothing else is said.
const THREADS: usize = 256;

/// The kernel's entry points so far.
struct Writer<'a> {
    s: &'a Schedule,
    d: &'a Cuda,
    target: &'a CudaTarget,
    /// Entry points: name, threads, blocks and body; and how many blocks are to fit a multiprocessor, if it is said.
    entries: Vec<(Stage, String, Option<usize>)>,
    scratch: usize,
    alignment: Vec<usize>,
}

/// A fast program, where there is one.
pub(super) fn program(k: &Kernel, target: &CudaTarget) -> Result<Option<Program>> {
    let s = Schedule::new(k, 1024);
    if s.rows == 0 || s.cols == 0 {
        return Ok(None);
    }
    let d = Cuda { index: if s.wide { "long long" } else { "int" }, approximate: writes_16_bits(k) };
    let alignment = k.args.iter().map(|a| a.dtype.size()).collect();
    let mut w = Writer { s: &s, d: &d, target, entries: vec![], scratch: 0, alignment };
    let written = if s.reduces() {
        if s.kernel.order.lanes == 1 { columns::write(&mut w)? } else { rows::write(&mut w)? }
    } else {
        tiles::write(&mut w)? || lines::write(&mut w)?
    };
    if !written {
        return Ok(None);
    }
    Ok(Some(w.finish(k)))
}

impl<'a> Writer<'a> {
    fn body(&self) -> Body<'a, Cuda> {
        let mut b = Body::new(self.d, self.s);
        b.guards = Default::default();
        b
    }

    fn entry(&mut self, b: Body<'_, Cuda>, blocks: usize, threads: usize) {
        self.entry_with(b, blocks, threads, 0, None);
    }

    /// An entry point with dynamic shared memory, of which so many blocks are to fit a multiprocessor.
    fn entry_with(&mut self, b: Body<'_, Cuda>, blocks: usize, threads: usize, shared: usize, at_once: Option<usize>) {
        let entry = match self.entries.len() {
            0 => super::cuda::ENTRY.to_string(),
            n => format!("{}_{n}", super::cuda::ENTRY),
        };
        self.entries.push((Stage { entry, blocks, threads, shared }, b.out, at_once));
    }

    /// Records which buffers are read or written as vectors.
    fn align(&mut self, v: &Vectors) {
        for (arg, bytes) in v.alignment(&self.s.kernel) {
            self.alignment[arg] = self.alignment[arg].max(bytes);
        }
    }

    /// Room for one value a place in scratch memory: its start in bytes.
    fn take_scratch(&mut self, places: usize) -> usize {
        let at = self.scratch;
        self.scratch += (places * 8).next_multiple_of(64);
        at
    }

    fn finish(self, k: &Kernel) -> Program {
        let mut bindings = vec![];
        let mut list: Vec<String> = vec![];
        for (i, a) in k.args.iter().enumerate() {
            let constant = if a.written { "" } else { "const " };
            bindings.push(What::Buffer(i));
            list.push(format!("{constant}{}* __restrict__ b{i}", stored(a.dtype)));
        }
        for (i, &p) in k.params.iter().enumerate() {
            let ty = if p == DType::Bool { "unsigned char" } else { register(p) };
            bindings.push(What::Param(i));
            list.push(format!("const {ty} p{i}"));
        }
        let says = |text: &str| self.entries.iter().any(|(_, body, _)| body.contains(text));
        if says(", err)") {
            bindings.push(What::Flags);
            list.push("unsigned int* err".into());
        }
        if self.scratch > 0 {
            bindings.push(What::Scratch);
            list.push("unsigned char* __restrict__ scratch".into());
        }
        let arguments = list.join(", ");
        let main: String = self
            .entries
            .iter()
            .map(|(s, body, at_once)| {
                let at_once = at_once.map_or(String::new(), |n| format!(", {n}"));
                format!(
                    "extern \"C\" __global__ void __launch_bounds__({}{at_once}) {}({arguments}) {{\n{body}}}\n",
                    s.threads, s.entry
                )
            })
            .collect();
        let packs = if main.contains("g_pack<") { vector::PACK } else { "" };
        let text = needed(&[prelude_cuda::HELPERS, prelude_special::HELPERS], &main) + packs + &main;
        let stages = self.entries.into_iter().map(|(s, _, _)| s).collect();
        let contract = self.d.approximate;
        Program { text, bindings, stages, scratch: self.scratch, alignment: self.alignment, contract }
    }
}

/// Whether all floats that a kernel writes have 16 bits: its functions then need no more digits than these show.
fn writes_16_bits(k: &Kernel) -> bool {
    let floats = || k.args.iter().filter(|a| a.written && a.dtype.is_float());
    floats().next().is_some() && floats().all(|a| a.dtype.size() == 2)
}

fn register(d: DType) -> &'static str {
    use super::body::Dialect;
    Cuda { index: "int", approximate: false }.register(d)
}

/// The reductions that a set of values stands on, in order: those of earlier passes.
fn reductions_behind(s: &Schedule, roots: &[Val]) -> Vec<Val> {
    let k = &s.kernel;
    let mut seen = vec![false; k.insts.len()];
    let mut stack: Vec<Val> = roots.iter().flat_map(|&v| k.operands(v)).collect();
    while let Some(v) = stack.pop() {
        if !std::mem::replace(&mut seen[v], true) && !matches!(k.insts[v].kind, InstKind::Reduce(..)) {
            stack.extend(k.operands(v));
        }
    }
    (0..k.insts.len()).filter(|&v| seen[v] && matches!(k.insts[v].kind, InstKind::Reduce(..))).collect()
}

/// The row values (reductions and stores apart) that a set of values stands on, in order.
fn rows_behind(s: &Schedule, roots: &[Val]) -> Vec<Val> {
    let k = &s.kernel;
    let mut seen = vec![false; k.insts.len()];
    let mut stack: Vec<Val> = roots.iter().flat_map(|&v| k.operands(v)).collect();
    while let Some(v) = stack.pop() {
        let reduces = matches!(k.insts[v].kind, InstKind::Reduce(..));
        if k.insts[v].level == Level::Row && !reduces && !std::mem::replace(&mut seen[v], true) {
            stack.extend(k.operands(v));
        }
    }
    (0..k.insts.len()).filter(|&v| seen[v]).collect()
}

/// What a reduction starts from.
fn identity(s: &Schedule, d: &Cuda, v: Val) -> String {
    use super::body::Dialect;
    let inst = &s.kernel.insts[v];
    let op = if let InstKind::Reduce(op, _) = inst.kind { op } else { ReduceOp::Sum };
    d.number(op.identity(inst.dtype), inst.dtype)
}
