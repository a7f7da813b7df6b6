//! Rows of tables: taken by an index, and added up by it.

use gradus_core::kernel::emit::{Program, Stage, What};

const THREADS: usize = 256;

fn program(entry: &str, text: String, blocks: usize) -> Program {
    Program {
        text,
        // The values, the index, the result.
        bindings: vec![What::Buffer(0), What::Buffer(1), What::Buffer(2), What::Flags],
        stages: vec![Stage { entry: entry.into(), blocks, threads: THREADS, shared: 0 }],
        scratch: 0,
        alignment: vec![],
        contract: false,
    }
}

/// `out[i, :] = table[index[i], :]`.
pub fn take(ty: &str, rows: usize, width: usize, n: usize) -> Program {
    let count = n * width;
    let text = format!(
        "extern \"C\" __global__ void __launch_bounds__({THREADS}) gradus_take_rows(\
const {ty}* __restrict__ table, const long long* __restrict__ index, {ty}* __restrict__ out, unsigned int* err) {{
    const long long first = ((long long)blockIdx.x * {THREADS} + threadIdx.x) * 4;
    #pragma unroll
    for (int k = 0; k < 4; ++k) {{
        const long long t = first + k;
        if (t >= {count}LL) return;
        long long row = index[t / {width}];
        if (row < 0 || row >= {rows}) {{
            atomicOr(err, 1u);
            row = 0;
        }}
        out[t] = table[row * {width} + t % {width}];
    }}
}}
"
    );
    program("gradus_take_rows", text, count.div_ceil(4 * THREADS))
}

/// `out = 0; out[index[i], :] += values[i, :]` in the order of i.
///
/// A block has a few rows of some columns in shared memory. It goes through the whole index, lists what lands in its
/// rows in order, and adds that up: no two blocks meet, so the order of a sum never changes.
pub fn add(ty: &str, size: usize, n: usize, rows: usize, width: usize, busy: usize) -> Program {
    let chunks = width.div_ceil(THREADS);
    // As many blocks as keep the GPU busy, and rows that fit in 32 KiB.
    let range = (rows * chunks).div_ceil(busy).clamp(1, 32 * 4 / size);
    let ranges = rows.div_ceil(range);
    // Indices that are listed at once, and values that are asked for at once.
    let (batch, ahead) = (THREADS * 4, 8);
    let text = format!(
        "extern \"C\" __global__ void __launch_bounds__({THREADS}) gradus_add_rows(\
const {ty}* __restrict__ values, const long long* __restrict__ index, {ty}* __restrict__ out, unsigned int* err) {{
    __shared__ {ty} sum[{range}][{THREADS}];
    __shared__ int place[{batch}];
    __shared__ unsigned char target[{batch}];
    __shared__ int counts[{warps}];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const long long lo = (long long)(blockIdx.x / {chunks}) * {range};
    const int rows = lo + {range} < {rows} ? {range} : (int)({rows} - lo);
    const int column = blockIdx.x % {chunks} * {THREADS} + t;
    const bool inside = column < {width};
    for (int r = 0; r < rows; ++r) sum[r][t] = 0;
    bool bad = false;
    for (int from = 0; from < {n}; from += {batch}) {{
        // Four indices a thread, in order.
        long long at[4];
        int found = 0;
        #pragma unroll
        for (int k = 0; k < 4; ++k) {{
            const int i = from + t * 4 + k;
            at[k] = i < {n} ? index[i] : lo - 1;
            bad |= i < {n} && (at[k] < 0 || at[k] >= {rows});
            found += at[k] >= lo && at[k] < lo + rows;
        }}
        int before = found;
        #pragma unroll
        for (int d = 1; d < 32; d *= 2) {{
            const int x = __shfl_up_sync(0xffffffffu, before, d);
            if (lane >= d) before += x;
        }}
        __syncthreads(); // the list before this one has been read
        if (lane == 31) counts[warp] = before;
        __syncthreads();
        int place_at = before - found, all = 0;
        #pragma unroll
        for (int w = 0; w < {warps}; ++w) {{
            place_at += w < warp ? counts[w] : 0;
            all += counts[w];
        }}
        #pragma unroll
        for (int k = 0; k < 4; ++k) {{
            if (at[k] >= lo && at[k] < lo + rows) {{
                place[place_at] = from + t * 4 + k;
                target[place_at++] = (unsigned char)(at[k] - lo);
            }}
        }}
        __syncthreads();
        if (!inside) continue;
        for (int e = 0; e < all; e += {ahead}) {{
            {ty} x[{ahead}];
            #pragma unroll
            for (int k = 0; k < {ahead}; ++k)
                if (e + k < all) x[k] = values[(long long)place[e + k] * {width} + column];
            #pragma unroll
            for (int k = 0; k < {ahead}; ++k)
                if (e + k < all) sum[target[e + k]][t] += x[k];
        }}
    }}
    if (inside)
        for (int r = 0; r < rows; ++r) out[(lo + r) * {width} + column] = sum[r][t];
    if (bad) atomicOr(err, 1u);
}}
",
        warps = THREADS / 32,
    );
    program("gradus_add_rows", text, ranges * chunks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::nvrtc::Nvrtc;

    #[test]
    fn they_compile() {
        let nvrtc = match Nvrtc::get() {
            Ok(n) => n,
            Err(e) => {
                println!("skipped: {e}");
                return;
            }
        };
        let all = [
            take("float", 65, 384, 1024),
            add("float", 4, 32768, 50304, 768, 528),
            add("double", 8, 1000, 65, 384, 528),
            add("long long", 8, 3, 2, 1, 528),
        ];
        for p in all {
            for target in ["sm_80", "sm_90"] {
                let code = nvrtc.build(&p.text, target, &p.options());
                assert!(code.is_ok(), "{}", code.unwrap_err());
            }
        }
    }
}
