// Attention forward: 128 queries a block, 64 keys a step, the softmax kept up to date on the way.

struct Forward {
    View q, k, v, out;
    u64 lse;
    int heads, queries, keys;
    float scale; // times log2 e
};

extern "C" __global__ void __launch_bounds__(THREADS, D == 64 ? 2 : 1) flash_forward(const __grid_constant__ Forward p) {
    extern __shared__ char memory[];
    const u32 base = (shared_address(memory) + 1023) & ~1023u;
    const u32 q_at = base, k_at = q_at + 128 * D * 2, v_at = k_at + 2 * 64 * D * 2;
    const int tiles = (p.queries + 127) / 128, bh = blockIdx.x / tiles;
    const int tile = tiles - 1 - blockIdx.x % tiles; // the longest first
    const int b = bh / p.heads, h = bh % p.heads, q0 = tile * 128;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group0 = q0 + warp_group() * 64;
    const int row0 = q0 + warp * 16 + lane / 4;
    const int last = CAUSAL && q0 + 128 < p.keys ? q0 + 128 : p.keys;
    const int blocks = (last + 63) / 64;
    const u16* const k_from = head_of(p.k, b, h);
    const u16* const v_from = head_of(p.v, b, h);
    const auto load_keys = [&](int block) {
        if (block < blocks) load_tile<64>(k_at + block % 2 * (64 * D * 2), k_from, (int)p.k.row, block * 64, p.keys);
    };
    const auto load_values = [&](int block) {
        if (block < blocks) load_tile<64>(v_at + block % 2 * (64 * D * 2), v_from, (int)p.v.row, block * 64, p.keys);
    };
    load_tile<128>(q_at, head_of(p.q, b, h), (int)p.q.row, q0, p.queries);
    load_keys(0);
    commit();
    load_keys(1);
    load_values(0);
    commit();

    arrive<1>();
    u32 q[STEPS][4];
    float s[32], o[PANELS][32];
#pragma unroll
    for (int k = 0; k < STEPS; ++k) left<128>(q[k], q_at, warp * 16, k);
#pragma unroll
    for (int i = 0; i < 32; ++i) s[i] = 0;
#pragma unroll
    for (int n = 0; n < PANELS; ++n)
#pragma unroll
        for (int i = 0; i < 32; ++i) o[n][i] = 0;
    float top[2] = {-INFINITE, -INFINITE}, sum[2] = {0, 0};
#pragma unroll
    for (int k = 0; k < STEPS; ++k) times_rows(s, q[k], k_at, k);

    // The last block of keys that these four warps see anything of.
    const int mine = CAUSAL && group0 + 64 < p.keys ? (group0 + 127) / 64 : blocks;
    for (int block = 0; block < blocks; ++block) {
        u32 w[4][4];
        const int k0 = block * 64;
        if (block < mine) {
            if ((CAUSAL && k0 + 63 > q0 + warp * 16) || k0 + 64 > p.keys) {
#pragma unroll
                for (int i = 0; i < 32; ++i) {
                    const int key = k0 + i / 4 * 8 + lane % 4 * 2 + i % 2, row = row0 + i / 2 % 2 * 8;
                    if ((CAUSAL && key > row) || key >= p.keys) s[i] = -INFINITE;
                }
            }
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float m = s[half * 2];
#pragma unroll
                for (int j = 0; j < 8; ++j) m = fmaxf(m, fmaxf(s[j * 4 + half * 2], s[j * 4 + half * 2 + 1]));
                m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
                m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
                m = fmaxf(top[half], m * p.scale);
                const float shrink = exp2_fast(top[half] - m);
                top[half] = m;
                float add = 0;
#pragma unroll
                for (int j = 0; j < 8; ++j) {
#pragma unroll
                    for (int e = 0; e < 2; ++e) {
                        float& x = s[j * 4 + half * 2 + e];
                        x = exp2_fast(fmaf(x, p.scale, -m));
                        add += x;
                    }
                }
                sum[half] = fmaf(sum[half], shrink, add);
#pragma unroll
                for (int n = 0; n < PANELS; ++n)
#pragma unroll
                    for (int j = 0; j < 8; ++j)
#pragma unroll
                        for (int e = 0; e < 2; ++e) o[n][j * 4 + half * 2 + e] *= shrink;
            }
#pragma unroll
            for (int k = 0; k < 4; ++k)
#pragma unroll
                for (int i = 0; i < 4; ++i) w[k][i] = pack(s[k * 8 + i * 2], s[k * 8 + i * 2 + 1]);
        }
        // The next keys and these values are there; those before them are done with.
        arrive<0>();
        load_keys(block + 2);
        load_values(block + 1);
        commit();
        if (block >= mine) continue;
        // The next scores and this product, one behind the other. Behind the end, scores are of keys seen before, and unused.
#pragma unroll
        for (int i = 0; i < 32; ++i) s[i] = 0;
#pragma unroll
        for (int k = 0; k < STEPS; ++k) times_rows(s, q[k], k_at + (block + 1) % 2 * (64 * D * 2), k);
#pragma unroll
        for (int n = 0; n < PANELS; ++n)
#pragma unroll
            for (int k = 0; k < 4; ++k) times(o[n], w[k], v_at + block % 2 * (64 * D * 2) + n * (64 * 128), k);
    }
    float f[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float x = sum[half];
        x += __shfl_xor_sync(0xffffffffu, x, 1);
        x += __shfl_xor_sync(0xffffffffu, x, 2);
        f[half] = 1 / x;
        const int row = row0 + half * 8;
        if (lane % 4 == 0 && row < p.queries)
            ((float*)p.lse)[(i64)bh * p.queries + row] = (top[half] + log2f(x)) * LN2;
    }
    u16* const out = (u16*)head_of(p.out, b, h);
#pragma unroll
    for (int n = 0; n < PANELS; ++n)
        store_rows(o[n], f[0], f[1], q_at + n * (128 * 128), warp * 16, out, p.out.row, q0, p.queries, n * 64);
}
