//! Elementwise kernels of one body, each over its own buffers and extent, as one launch.
//!
//! The launch gets a [`Table`] by value: a column a buffer, a column a parameter, the extents, and the first block of each
//! part. A block finds its part by halving. Numbers stand in the table too, not beside it: two parts that have equal ones
//! today need not have them in the next run, and a recorded launch must be right for both.

use super::{
    super::{
        CudaTarget, Program, Stage, What,
        body::Body,
        cuda::{self, Cuda, stored},
        prelude::needed,
        prelude_cuda, prelude_special,
        schedule::Schedule,
    },
    THREADS, register,
    vector::{Chunk, PACK, Vectors},
    writes_16_bits,
};
use crate::{
    DType, Result, Scalar,
    kernel::{Kernel, Level, oracle::Cell},
};

/// A launch takes 4 KiB of arguments on every driver. What does not fit goes as another launch, which is a few
/// microseconds for some fifty parts.
const ROOM: usize = 4000;

/// Kernels of one body as one program.
#[derive(Clone, Debug, PartialEq)]
pub struct Many {
    /// Its stage has no number of blocks: that is the sum of the parts'.
    pub program: Program,
    /// The argument that says what the parts are.
    pub table: Table,
}

/// Where things stand in the table of a launch of [`Many`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Parts that it has room for.
    pub parts: usize,
    /// Its size in words.
    pub words: usize,
    /// Elements that a block takes.
    elements: usize,
    buffers: usize,
    /// Where each parameter's column starts, in bytes, and its type.
    params: Vec<(usize, DType)>,
    extents: usize,
    firsts: usize,
}

/// Bytes that a parameter takes in the table.
fn size(d: DType) -> usize {
    match d.compute() {
        DType::Bool => 1,
        DType::F32 => 4,
        _ => 8,
    }
}

impl Table {
    fn new(k: &Kernel, kernels: usize, elements: usize) -> Option<Table> {
        let numbers: usize = k.params.iter().map(|&d| size(d)).sum();
        let parts = kernels.min(ROOM / (8 * k.args.len() + numbers + 8));
        if parts < 2 {
            return None;
        }
        // Wide columns first: then none needs padding.
        let mut end = 8 * parts * k.args.len();
        let mut params = vec![(0, DType::F32); k.params.len()];
        let mut column = |bytes: usize| {
            end += parts * bytes;
            end - parts * bytes
        };
        let mut place = |bytes: usize, column: &mut dyn FnMut(usize) -> usize| {
            for (to, &d) in params.iter_mut().zip(&k.params).filter(|(_, d)| size(**d) == bytes) {
                *to = (column(bytes), d);
            }
        };
        place(8, &mut column);
        place(4, &mut column);
        let (extents, firsts) = (column(4), column(4));
        place(1, &mut column);
        Some(Table { parts, words: end.div_ceil(8), elements, buffers: k.args.len(), params, extents, firsts })
    }

    /// Parameters of a part.
    pub fn params(&self) -> usize {
        self.params.len()
    }

    /// Blocks of a part of `extent` elements.
    pub fn blocks(&self, extent: usize) -> usize {
        extent.div_ceil(self.elements)
    }

    /// An empty table for a launch of `blocks` blocks: no block finds a part that is not set.
    pub fn clear(&self, table: &mut Vec<u64>, blocks: usize) {
        table.clear();
        table.resize(self.words, 0);
        for part in 0..self.parts {
            put(table, self.firsts + 4 * part, &(blocks as u32).to_ne_bytes());
        }
    }

    /// Sets part `part`: its buffers, its extent and its first block. Parts come in the order of their blocks.
    pub fn set_part(&self, table: &mut [u64], part: usize, addresses: &[u64], extent: usize, first: usize) {
        for (b, a) in addresses.iter().take(self.buffers).enumerate() {
            put(table, 8 * (b * self.parts + part), &a.to_ne_bytes());
        }
        put(table, self.extents + 4 * part, &(extent as u32).to_ne_bytes());
        put(table, self.firsts + 4 * part, &(first as u32).to_ne_bytes());
    }

    /// Sets the parameters of a part.
    pub fn set_params(&self, table: &mut [u64], part: usize, params: &[Scalar]) {
        for (&(at, d), &x) in self.params.iter().zip(params) {
            let n = size(d);
            put(table, at + n * part, &Cell::of(x, d).bytes()[..n]);
        }
    }
}

/// Bytes into words; they never cross one.
fn put(table: &mut [u64], at: usize, bytes: &[u8]) {
    if let Some(word) = table.get_mut(at / 8) {
        let mut all = word.to_ne_bytes();
        for (to, from) in all.iter_mut().skip(at % 8).zip(bytes) {
            *to = *from;
        }
        *word = u64::from_ne_bytes(all);
    }
}

/// The program, if these kernels can go as one.
pub(in super::super) fn program(kernels: &[Kernel], target: &CudaTarget) -> Result<Option<Many>> {
    let Some(first) = kernels.first() else { return Ok(None) };
    let like = |k: &Kernel| {
        let same = (&k.args, &k.params, &k.insts) == (&first.args, &first.params, &first.insts);
        same && k.map.len() == 1 && k.reduce.is_empty()
    };
    if !kernels.iter().all(like) {
        return Ok(None);
    }
    let longest = kernels.iter().map(Kernel::rows).max().unwrap_or(0);
    // An extent of which vectors of any width make a whole: what is left of a part's own is done by the element.
    let all = Kernel { map: vec![longest.max(1).next_multiple_of(16)], ..first.clone() };
    let s = Schedule::new(&all, 1024);
    let rows = s.kernel.insts.iter().any(|i| i.level == Level::Row);
    let pass = s.passes.first().filter(|p| s.passes.len() == 1 && p.rows.is_empty());
    let (Some(pass), false) = (pass, s.wide || rows || s.kernel.map.len() != 1) else { return Ok(None) };
    let k = &s.kernel;
    let v = Vectors::new(&s, 0, target.aligned);
    let Some(table) = Table::new(k, kernels.len(), THREADS * v.n) else { return Ok(None) };

    let d = Cuda { index: "int", approximate: writes_16_bits(k) };
    let mut b = Body::new(&d, &s);
    b.guards = Default::default();
    let parts = table.parts;
    b.line("int part = 0;");
    b.line("#pragma unroll");
    b.open(&format!("for (int half = {}; half > 0; half /= 2)", parts.next_power_of_two() / 2));
    let there = format!("part + half < {parts} && t.first[part + half] <= (int)blockIdx.x");
    b.line(&format!("if ({there}) {{ part += half; }}"));
    b.close();
    for (i, a) in k.args.iter().enumerate() {
        let constant = if a.written { "" } else { "const " };
        b.line(&format!("{constant}{0}* const b{i} = ({constant}{0}*)t.b{i}[part];", stored(a.dtype)));
    }
    for (i, &p) in k.params.iter().enumerate() {
        b.line(&format!("const {} p{i} = t.p{i}[part];", number(p)));
    }
    b.line("const int n = t.n[part];");
    for &u in &s.uniforms {
        b.inst(u)?;
    }
    let at = format!("((int)blockIdx.x - t.first[part]) * {THREADS} + (int)threadIdx.x");
    b.define_index("r", &if v.n > 1 { format!("({at}) * {}", v.n) } else { at });
    b.open(&if v.n > 1 { format!("if (r + {} <= n)", v.n) } else { "if (r < n)".into() });
    b.chunk(&Chunk { vectors: &v, values: &pass.elems, given: &[], cached: &[] })?;
    if v.n > 1 && !kernels.iter().all(|k| k.rows().is_multiple_of(v.n)) {
        b.close();
        b.open("else");
        b.open("for (int z = r; z < n; ++z)");
        b.define_index("r", "z");
        let one = Vectors::exactly(k, 0, 1);
        b.chunk(&Chunk { vectors: &one, values: &pass.elems, given: &[], cached: &[] })?;
        b.close();
    }
    b.close();
    let body = b.out;

    let mut bindings = vec![What::Table];
    let mut arguments = "const __grid_constant__ g_table t".to_string();
    if body.contains(", err)") {
        bindings.push(What::Flags);
        arguments += ", unsigned int* err";
    }
    let entry = cuda::ENTRY;
    let head = format!("extern \"C\" __global__ void __launch_bounds__({THREADS}) {entry}({arguments}) {{\n");
    let main = format!("{}{head}{body}}}\n", declaration(k, parts));
    let packs = if main.contains("g_pack<") { PACK } else { "" };
    let text = needed(&[prelude_cuda::HELPERS, prelude_special::HELPERS], &main) + packs + &main;
    let mut alignment: Vec<usize> = k.args.iter().map(|a| a.dtype.size()).collect();
    for (arg, bytes) in v.alignment(k) {
        alignment[arg] = alignment[arg].max(bytes);
    }
    let stages = vec![Stage { entry: entry.into(), blocks: 0, threads: THREADS, shared: 0 }];
    let program = Program { text, bindings, stages, scratch: 0, alignment, contract: d.approximate };
    Ok(Some(Many { program, table }))
}

/// The type of a parameter in the table.
fn number(d: DType) -> &'static str {
    if d == DType::Bool { "unsigned char" } else { register(d) }
}

/// The table in CUDA C, its columns in the order of [`Table::new`].
fn declaration(k: &Kernel, parts: usize) -> String {
    let mut out = "struct g_table {\n".to_string();
    for i in 0..k.args.len() {
        // Addresses come as numbers, so that the compiler takes them for what they are: places in global memory.
        out += &format!("    unsigned long long b{i}[{parts}];\n");
    }
    let params = |bytes: usize| -> String {
        let these = k.params.iter().enumerate().filter(|(_, d)| size(**d) == bytes);
        these.map(|(i, &d)| format!("    {} p{i}[{parts}];\n", number(d))).collect()
    };
    out += &(params(8) + &params(4));
    out += &format!("    int n[{parts}];\n    int first[{parts}];\n");
    out + &params(1) + "};\n\n"
}
