//! Library routines that the GPU has itself. The rest runs on the host.

use crate::{backend::Cuda, module::Loaded, tables};
use gradus_core::{
    DType, Result, Shape,
    kernel::emit::{Program, Stage, What},
    op::{HostOp, ScatterMode},
};

/// Threads that should be busy.
const BUSY: usize = 1 << 15;
const THREADS: usize = 256;
/// Indices that a thread reads at once.
const BATCH: usize = 16;

/// The types that are added up here as they are in memory.
fn c_type(d: DType) -> Option<&'static str> {
    match d {
        DType::F32 => Some("float"),
        DType::F64 => Some("double"),
        DType::I64 => Some("long long"),
        DType::I32 => Some("int"),
        DType::Bool | DType::U8 | DType::I8 | DType::I16 | DType::F16 | DType::BF16 => None,
    }
}

impl Cuda {
    /// Runs a routine, if it is one of ours.
    pub(crate) fn routine(&self, op: &HostOp, addresses: &[u64], types: &[(DType, Shape)]) -> Result<bool> {
        match (op, types) {
            (HostOp::Scatter { axis, mode: ScatterMode::Add }, [(d, base), (DType::I64, index), (_, src), _])
                if index == src && base.rank() == src.rank() =>
            {
                let Some(ty) = c_type(*d) else { return Ok(false) };
                self.scatter_add(ty, *axis, [base, src], addresses, d.size())
            }
            (HostOp::TakeRows, [(d, table), (DType::I64, index), _]) => {
                let Some(ty) = c_type(*d) else { return Ok(false) };
                self.take_rows(ty, table, index.numel(), addresses)
            }
            (HostOp::AddRows, [(d, rows), (DType::I64, _), (_, table)]) => {
                let Some(ty) = c_type(*d) else { return Ok(false) };
                self.add_rows(ty, d.size(), rows[0], table, addresses)
            }
            (HostOp::Attention(a), _) => self.attention(a, addresses, types),
            (HostOp::AttentionGrad(a), _) => self.attention_grad(a, addresses, types),
            _ => Ok(false),
        }
    }

    /// Rows of a table, as the index says.
    fn take_rows(&self, ty: &str, table: &Shape, n: usize, at: &[u64]) -> Result<bool> {
        if n * table[1] > 0 {
            let loaded = self.load(tables::take(ty, table[0], table[1], n))?;
            self.launch_program(&loaded, &at[..3])?;
        }
        Ok(true)
    }

    /// Zeros, with rows added up where the index says.
    fn add_rows(&self, ty: &str, size: usize, n: usize, table: &Shape, at: &[u64]) -> Result<bool> {
        if table.numel() > 0 {
            let busy = self.context.info.multiprocessors * 4;
            let loaded = self.load(tables::add(ty, size, n, table[0], table[1], busy))?;
            self.launch_program(&loaded, &at[..3])?;
        }
        Ok(true)
    }

    /// Each thread takes a column and a range of its rows, and adds in index order what lands there: no two threads
    /// meet, and the sum has the CPU's order.
    fn scatter_add(&self, ty: &str, axis: usize, [base, src]: [&Shape; 2], at: &[u64], size: usize) -> Result<bool> {
        // Columns of both run alike, or places outside the axis would not be the same.
        let same = (0..base.rank()).all(|d| d == axis || base[d] == src[d]);
        let inner: usize = base[axis + 1..].iter().product();
        let outer: usize = base[..axis].iter().product();
        let (rows, n, columns) = (base[axis], src[axis], inner * outer);
        if !same {
            return Ok(false);
        }
        let [from, _, _, to] = [at[0], at[1], at[2], at[3]];
        self.copy(from, to, base.numel() * size)?;
        if n == 0 || columns == 0 || rows == 0 {
            return Ok(true);
        }
        let parts = (BUSY / columns).clamp(1, rows);
        let span = rows.div_ceil(parts);
        let parts = rows.div_ceil(span);
        let count = columns * parts;
        let text = format!(
            "extern \"C\" __global__ void __launch_bounds__({THREADS}) gradus_scatter_add(\
const long long* __restrict__ index, const {ty}* __restrict__ src, {ty}* __restrict__ out, unsigned int* err) {{
    const long long t = (long long)blockIdx.x * {THREADS} + threadIdx.x;
    if (t >= {count}) return;
    const long long column = t % {columns}, lo = t / {columns} * {span};
    const long long hi = lo + {span} < {rows} ? lo + {span} : {rows};
    const long long first = column / {inner} * {n} * {inner} + column % {inner};
    {ty}* const to = out + column / {inner} * {rows} * {inner} + column % {inner};
    bool bad = false;
    int i = 0;
    // A batch of indices at once: one wait for memory instead of one each.
    for (; i + {BATCH} <= {n}; i += {BATCH}) {{
        long long at[{BATCH}];
        #pragma unroll
        for (int k = 0; k < {BATCH}; ++k) at[k] = index[first + (long long)(i + k) * {inner}];
        #pragma unroll
        for (int k = 0; k < {BATCH}; ++k) {{
            bad |= at[k] < 0 || at[k] >= {rows};
            if (at[k] >= lo && at[k] < hi) to[at[k] * {inner}] += src[first + (long long)(i + k) * {inner}];
        }}
    }}
    for (; i < {n}; ++i) {{
        const long long at = index[first + (long long)i * {inner}];
        bad |= at < 0 || at >= {rows};
        if (at >= lo && at < hi) to[at * {inner}] += src[first + (long long)i * {inner}];
    }}
    if (bad) atomicOr(err, 1u);
}}
"
        );
        let program = Program {
            text,
            bindings: vec![What::Buffer(0), What::Buffer(1), What::Buffer(2), What::Flags],
            stages: vec![Stage {
                entry: "gradus_scatter_add".into(),
                blocks: count.div_ceil(THREADS),
                threads: THREADS,
                shared: 0,
            }],
            scratch: 0,
            alignment: vec![],
            contract: false,
        };
        let loaded: Loaded = self.load(program)?;
        self.launch_program(&loaded, &at[1..4])?;
        Ok(true)
    }
}
