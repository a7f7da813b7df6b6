// What a gradient needs of every query, for all kernels.

struct Delta {
    View out, grad;
    u64 lse, lse2, delta, turns;
    int heads, queries, padded, turns_count;
};

// For each query: the sum of the result times its gradient, and the logarithm to base 2 (infinite behind the end).
extern "C" __global__ void __launch_bounds__(256) flash_delta(const __grid_constant__ Delta p) {
    constexpr int pieces = D / 8;
    const i64 t = (i64)blockIdx.x * 256 + threadIdx.x;
    if (t < p.turns_count) ((u32*)p.turns)[t] = 0;
    const int c = (int)(t % pieces);
    const i64 at = t / pieces;
    const int bh = (int)(at / p.padded), row = (int)(at % p.padded), b = bh / p.heads, h = bh % p.heads;
    const bool there = row < p.queries;
    float x = 0;
#if ALIGNED
    if (there && c * 8 < DIM) {
        const uint4 ys = *(const uint4*)(head_of(p.out, b, h) + row * p.out.row + c * 8);
        const uint4 gs = *(const uint4*)(head_of(p.grad, b, h) + row * p.grad.row + c * 8);
        const u32 yw[4] = {ys.x, ys.y, ys.z, ys.w}, gw[4] = {gs.x, gs.y, gs.z, gs.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            x = fmaf(widen((u16)yw[i]), widen((u16)gw[i]), x);
            x = fmaf(widen((u16)(yw[i] >> 16)), widen((u16)(gw[i] >> 16)), x);
        }
    }
#else
    if (there) {
        const u16* const y = head_of(p.out, b, h) + row * p.out.row + c * 8;
        const u16* const g = head_of(p.grad, b, h) + row * p.grad.row + c * 8;
        for (int e = 0; e < 8; ++e)
            if (c * 8 + e < DIM) x = fmaf(widen(y[e]), widen(g[e]), x);
    }
#endif
#pragma unroll
    for (int n = 1; n < pieces; n *= 2) x += __shfl_xor_sync(0xffffffffu, x, n);
    if (c == 0) {
        ((float*)p.delta)[at] = x;
        ((float*)p.lse2)[at] = there ? ((const float*)p.lse)[(i64)bh * p.queries + row] * LOG2E : INFINITE;
    }
}
