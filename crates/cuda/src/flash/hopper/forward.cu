// Attention forward: 128 queries a block, 64 for each four warps, 64 keys a step, the softmax kept up to date on the way.

struct Forward {
    Map q, k, v;
    View out;
    u64 lse;
    int heads, queries, keys, batch, group;
    float scale; // times log2 e
};

// Tiles of keys and of values that are there or on their way.
#define STAGES (D == 64 ? 4 : 2)
#define KEYS_BYTES (64 * D * 2)
// How much larger a score may be than the one that weights are taken relative to, as a power of two.
#define SLOPE 8.0f

extern "C" __global__ void __launch_bounds__(256, D == 64 ? 2 : 1) flash_forward(const __grid_constant__ Forward p) {
    extern __shared__ char memory[];
    const u32 base = (shared_address(memory) + 1023) & ~1023u;
    const u32 q_at = base, k_at = q_at + 128 * D * 2, v_at = k_at + STAGES * KEYS_BYTES, bars = v_at + STAGES * KEYS_BYTES;
    const u32 q_full = bars, k_full = bars + 8, k_free = k_full + 8 * STAGES, v_full = k_free + 8 * STAGES,
              v_free = v_full + 8 * STAGES;
    const int tiles = (p.queries + 127) / 128;
    // Of a group of heads, the longest tiles first.
    const int g = blockIdx.x / (p.group * tiles), rest = blockIdx.x % (p.group * tiles);
    const int members = min(p.group, p.batch - g * p.group);
    const int bh = g * p.group + rest % members, q0 = (tiles - 1 - rest / members) * 128;
    const int b = bh / p.heads, h = bh % p.heads;
    const int last = CAUSAL && q0 + 128 < p.keys ? q0 + 128 : p.keys;
    const int blocks = (last + 63) / 64;
    const int warp = warp_number(), lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        barrier(q_full, 1);
        for (int n = 0; n < STAGES; ++n) {
            barrier(k_full + n * 8, 1);
            barrier(v_full + n * 8, 1);
            barrier(k_free + n * 8, 8);
            barrier(v_free + n * 8, 8);
        }
        barriers_made();
    }
    __syncthreads();
    // One thread asks for all tiles.
    const auto ask = [&](int n) {
        if (n >= blocks) return;
        const int stage = n % STAGES, before = n / STAGES - 1;
        if (before >= 0) await(k_free + stage * 8, before);
        expect(k_full + stage * 8, KEYS_BYTES);
        load_tile<64>(k_at + stage * KEYS_BYTES, p.k, n * 64, h, b, k_full + stage * 8);
        if (before >= 0) await(v_free + stage * 8, before);
        expect(v_full + stage * 8, KEYS_BYTES);
        load_tile<64>(v_at + stage * KEYS_BYTES, p.v, n * 64, h, b, v_full + stage * 8);
    };
    if (threadIdx.x == 0) {
        expect(q_full, 128 * D * 2);
        load_tile<128>(q_at, p.q, q0, h, b, q_full);
        for (int n = 0; n < STAGES - 1; ++n) ask(n);
    }

    const int group = warp / 4, group0 = q0 + group * 64, row0 = q0 + warp * 16 + lane / 4;
    // The blocks of keys that these four warps see anything of.
    const int mine = CAUSAL && group0 + 64 < p.keys ? group0 / 64 + 1 : blocks;
    float s[32], o[PANELS][32];
    u32 w[4][4];
    float top[2] = {-INFINITE, -INFINITE}, sum[2] = {0, 0};

    const auto scores = [&](int n) {
        const u32 q = matrix(q_at + group * 8192), k = matrix(k_at + n % STAGES * KEYS_BYTES);
#pragma unroll
        for (int i = 0; i < 32; ++i) s[i] = 0;
        hold(s);
        begin();
#pragma unroll
        for (int i = 0; i < STEPS; ++i)
            multiply<0, 0>(s, on(q, i / 4 * (128 * 128) + i % 4 * 32), on(k, i / 4 * 8192 + i % 4 * 32));
        end();
    };
    const auto add_values = [&](int n) {
        const u32 v = matrix(v_at + n % STAGES * KEYS_BYTES);
        await(v_full + n % STAGES * 8, n / STAGES);
#pragma unroll
        for (int i = 0; i < PANELS; ++i) hold(o[i]);
        begin();
#pragma unroll
        for (int i = 0; i < PANELS; ++i)
#pragma unroll
            for (int k = 0; k < 4; ++k) multiply<1>(o[i], w[k], on(v, i * 8192 + k * 2048));
        end();
    };
    // Scores to weights, while the product of those before is still running.
    const auto weigh = [&](int n) {
        const int k0 = n * 64;
        if ((CAUSAL && k0 + 63 > q0 + warp * 16) || k0 + 64 > p.keys) {
#pragma unroll
            for (int i = 0; i < 32; ++i) {
                const int key = k0 + i / 4 * 8 + lane % 4 * 2 + i % 2, row = row0 + i / 2 % 2 * 8;
                if ((CAUSAL && key > row) || key >= p.keys) s[i] = -INFINITE;
            }
        }
        float shrink[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float m = s[half * 2];
#pragma unroll
            for (int j = 0; j < 8; ++j) m = fmaxf(m, fmaxf(s[j * 4 + half * 2], s[j * 4 + half * 2 + 1]));
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
            m *= p.scale;
            // Weights relative to what was the largest then serve as long as they do not become too large.
            const float to = m > top[half] + SLOPE ? m : top[half];
            shrink[half] = exp2_fast(top[half] - to);
            top[half] = to;
            float add = 0;
#pragma unroll
            for (int j = 0; j < 8; ++j) {
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    float& x = s[j * 4 + half * 2 + e];
                    x = exp2_fast(fmaf(x, p.scale, -to));
                    add += x;
                }
            }
            sum[half] = fmaf(sum[half], shrink[half], add);
        }
        wait<0>();
#pragma unroll
        for (int i = 0; i < PANELS; ++i) hold(o[i]);
        if (n > 0) warp_arrive(v_free + (n - 1) % STAGES * 8);
        if (threadIdx.x == 0) ask(n + STAGES - 1);
        if (__any_sync(0xffffffffu, shrink[0] != 1 || shrink[1] != 1)) {
#pragma unroll
            for (int i = 0; i < PANELS; ++i)
#pragma unroll
                for (int j = 0; j < 32; ++j) o[i][j] *= shrink[j / 2 % 2];
        }
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
            for (int i = 0; i < 4; ++i) w[k][i] = pack(s[k * 8 + i * 2], s[k * 8 + i * 2 + 1]);
    };

#pragma unroll
    for (int n = 0; n < PANELS; ++n)
#pragma unroll
        for (int i = 0; i < 32; ++i) o[n][i] = 0;
    await(q_full, 0);
    await(k_full, 0);
    scores(0);
    wait<0>();
    hold(s);
    warp_arrive(k_free);
    for (int n = 0; n < mine - 1; ++n) {
        weigh(n);
        await(k_full + (n + 1) % STAGES * 8, (n + 1) / STAGES);
        scores(n + 1);
        add_values(n);
        wait<1>();
        hold(s);
        warp_arrive(k_free + (n + 1) % STAGES * 8);
    }
    weigh(mine - 1);
    add_values(mine - 1);
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
    wait<0>();
#pragma unroll
    for (int i = 0; i < PANELS; ++i) hold(o[i]);
    u16* const out = (u16*)head_of(p.out, b, h);
#pragma unroll
    for (int n = 0; n < PANELS; ++n)
        store_rows(o[n], f[0], f[1], q_at + n * (128 * 128), warp * 16, out, p.out.row, q0, p.queries, n * 64);
}
