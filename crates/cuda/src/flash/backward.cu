// Attention backward: 128 keys a block, 64 queries a step.
//
// The weights are computed again, transposed: keys are rows, so that weights and their gradients are left operands from
// registers for the gradients of v and k. The queries' gradient is added up in memory over the tiles of keys, from the last
// to the first. One block can go through all tiles of a head; or `parts` blocks share them in turn, and a block waits until
// the tile after its own has been added. Blocks start in that order, so nobody waits for one that has not started; and
// each is some steps behind the one before, so that waiting is rare.

struct Backward {
    View q, k, v, grad, dq, dk, dv;
    u64 lse2, delta, sums, turns;
    int heads, queries, keys, parts;
    float scale;
};

// Columns of the queries' gradient that four warps make.
#define WIDTH (D / 2)

extern "C" __global__ void __launch_bounds__(THREADS, 1) flash_backward(const __grid_constant__ Backward p) {
    extern __shared__ char memory[];
    const u32 base = (shared_address(memory) + 1023) & ~1023u;
    const u32 k_at = base, v_at = k_at + 128 * D * 2, q_at = v_at + 128 * D * 2, g_at = q_at + 2 * 64 * D * 2;
    const u32 ds_at = g_at + 2 * 64 * D * 2, row_at = ds_at + 128 * 128;
    const int tiles = (p.queries + 63) / 64, key_tiles = (p.keys + 127) / 128, bh = blockIdx.x / p.parts;
    const int b = bh / p.heads, h = bh % p.heads;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp_group();
    const int m = warp * 16;
    const u16* const q_from = head_of(p.q, b, h);
    const u16* const g_from = head_of(p.grad, b, h);
    const float scale2 = p.scale * LOG2E;

    for (int key_tile = key_tiles - 1 - blockIdx.x % p.parts; key_tile >= 0; key_tile -= p.parts) {
        const int k0 = key_tile * 128, key0 = k0 + m + lane / 4, first = CAUSAL ? k0 / 64 : 0;

        const auto load_step = [&](int i) {
            const u32 stage = (i - first) % 2 * (64 * D * 2);
            load_tile<64>(q_at + stage, q_from, (int)p.q.row, i * 64, p.queries);
            load_tile<64>(g_at + stage, g_from, (int)p.grad.row, i * 64, p.queries);
            if (threadIdx.x < 32) {
                const int part = threadIdx.x / 16, c = threadIdx.x % 16;
                const float* const from = (const float*)(part ? p.delta : p.lse2) + ((i64)bh * tiles + i) * 64 + c * 4;
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(row_at + (i - first) % 2 * 512 + part * 256 + c * 16),
                             "l"(from)
                             : "memory");
            }
            commit();
        };
        load_tile<128>(k_at, head_of(p.k, b, h), (int)p.k.row, k0, p.keys);
        load_tile<128>(v_at, head_of(p.v, b, h), (int)p.v.row, k0, p.keys);
        commit();
        if (first < tiles) load_step(first);

        float dk[PANELS][32], dv[PANELS][32];
#pragma unroll
        for (int n = 0; n < PANELS; ++n)
#pragma unroll
            for (int i = 0; i < 32; ++i) dk[n][i] = dv[n][i] = 0;
        arrive<0>();
#if D == 64
        u32 ka[STEPS][4], va[STEPS][4];
#pragma unroll
        for (int k = 0; k < STEPS; ++k) {
            left<128>(ka[k], k_at, m, k);
            left<128>(va[k], v_at, m, k);
        }
#endif

        // This block's turn among those that add to the queries of step i.
        const auto turn_of = [&](int i) {
            const int last = (i * 64 + 63) / 128;
            return (CAUSAL && last < key_tiles ? last : key_tiles - 1) - key_tile;
        };
        const auto turn_at = [&](int i) { return (u32*)p.turns + ((i64)bh * tiles + i) * 2 + group; };
        const auto await_turn = [&](int i) {
            const u32 turn = turn_of(i);
            if (turn == 0 || p.parts == 1) return;
            if (threadIdx.x % 128 == 0) {
                u32 now;
                do {
                    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(turn_at(i)) : "memory");
                } while (now != turn);
            }
            asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
        };
        // After a barrier of all that have added: what they wrote is released with the turn.
        const auto end_turn = [&](int i) {
            if (key_tile > 0 && p.parts > 1 && threadIdx.x % 128 == 0)
                asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(turn_at(i)), "r"((u32)turn_of(i) + 1) : "memory");
        };
        // The queries' gradient of step i, added to what the blocks before have; the last block's is the result.
        float kept[WIDTH / 2];
        const auto add = [&](int i) {
            float4* const sums = (float4*)p.sums + ((i64)bh * tiles + i) * (WIDTH / 8) * THREADS + threadIdx.x;
            if (turn_of(i) > 0) {
#pragma unroll
                for (int n = 0; n < WIDTH / 8; ++n) {
                    const float4 x = __ldcg(sums + n * THREADS);
                    kept[n * 4] += x.x, kept[n * 4 + 1] += x.y, kept[n * 4 + 2] += x.z, kept[n * 4 + 3] += x.w;
                }
            }
            if (key_tile > 0) {
#pragma unroll
                for (int n = 0; n < WIDTH / 8; ++n)
                    __stcg(sums + n * THREADS, make_float4(kept[n * 4], kept[n * 4 + 1], kept[n * 4 + 2], kept[n * 4 + 3]));
                return;
            }
            u16* const out = (u16*)head_of(p.dq, b, h);
#pragma unroll
            for (int n = 0; n < WIDTH / 8; ++n) {
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const int row = i * 64 + warp % 4 * 16 + lane / 4 + e * 8, c = group * WIDTH + n * 8 + lane % 4 * 2;
                    if (row >= p.queries) continue;
                    const u32 w = pack(kept[n * 4 + e * 2] * p.scale, kept[n * 4 + e * 2 + 1] * p.scale);
                    u16* const to = out + row * p.dq.row + c;
#if ALIGNED
                    if (c < DIM) *(u32*)to = w;
#else
                    if (c < DIM) to[0] = (u16)w;
                    if (c + 1 < DIM) to[1] = (u16)(w >> 16);
#endif
                }
            }
        };

        for (int i = first; i < tiles; ++i) {
            const int stage = (i - first) % 2, q0 = i * 64;
            const u32 q = q_at + stage * (64 * D * 2), g = g_at + stage * (64 * D * 2), rows = row_at + stage * 512;
            if (i > first) arrive<0>();
            if (i + 1 < tiles) load_step(i + 1);
            // Of the first step, the upper 64 keys see nothing.
            const bool half = CAUSAL && q0 + 63 < k0 + 64, active = !(half && group);
            u32 x[4][4];
            if (i > first) await_turn(i - 1);
            if (active) {
                float s[32], ds[32];
#pragma unroll
                for (int n = 0; n < 32; ++n) s[n] = ds[n] = 0;
#if D == 64
#pragma unroll
                for (int k = 0; k < STEPS; ++k) times_rows(s, ka[k], q, k);
#pragma unroll
                for (int k = 0; k < STEPS; ++k) times_rows(ds, va[k], g, k);
#else
                u32 a[STEPS][4];
#pragma unroll
                for (int k = 0; k < STEPS; ++k) left<128>(a[k], k_at, m, k);
#pragma unroll
                for (int k = 0; k < STEPS; ++k) times_rows(s, a[k], q, k);
#pragma unroll
                for (int k = 0; k < STEPS; ++k) left<128>(a[k], v_at, m, k);
#pragma unroll
                for (int k = 0; k < STEPS; ++k) times_rows(ds, a[k], g, k);
#endif
                if (i > first) add(i - 1);
                const bool edge = (CAUSAL && k0 + m + 15 > q0) || k0 + m + 16 > p.keys;
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    float l[2];
                    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                                 : "=f"(l[0]), "=f"(l[1])
                                 : "r"(rows + (j * 8 + lane % 4 * 2) * 4));
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        float& x = s[j * 4 + e];
                        x = exp2_fast(fmaf(x, scale2, -l[e % 2]));
                        const int key = key0 + e / 2 * 8;
                        if (edge && ((CAUSAL && key > q0 + j * 8 + lane % 4 * 2 + e % 2) || key >= p.keys)) x = 0;
                    }
                }
                u32 w[4][4];
#pragma unroll
                for (int k = 0; k < 4; ++k)
#pragma unroll
                    for (int n = 0; n < 4; ++n) w[k][n] = pack(s[k * 8 + n * 2], s[k * 8 + n * 2 + 1]);
#pragma unroll
                for (int n = 0; n < PANELS; ++n)
#pragma unroll
                    for (int k = 0; k < 4; ++k) times(dv[n], w[k], g + n * (64 * 128), k);
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    float d[2];
                    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                                 : "=f"(d[0]), "=f"(d[1])
                                 : "r"(rows + 256 + (j * 8 + lane % 4 * 2) * 4));
#pragma unroll
                    for (int e = 0; e < 4; ++e) ds[j * 4 + e] = s[j * 4 + e] * (ds[j * 4 + e] - d[e % 2]);
                }
#pragma unroll
                for (int k = 0; k < 4; ++k)
#pragma unroll
                    for (int n = 0; n < 4; ++n) {
                        x[k][n] = pack(ds[k * 8 + n * 2], ds[k * 8 + n * 2 + 1]);
                        // Row: the key; columns: queries.
                        const int row = m + lane / 4 + n % 2 * 8, c = k * 2 + n / 2;
                        asm volatile("st.shared.b32 [%0], %1;" ::"r"(ds_at + row * 128 + ((c ^ row) % 8 << 4) + lane % 4 * 4),
                                     "r"(x[k][n])
                                     : "memory");
                    }
            }
            __syncthreads();
            if (active) {
#pragma unroll
                for (int n = 0; n < PANELS; ++n)
#pragma unroll
                    for (int k = 0; k < 4; ++k) times(dk[n], x[k], q + n * (64 * 128), k);
            }
            // 64 queries, WIDTH columns: the transpose of what was stored, times the keys.
            float dq[WIDTH / 2];
#pragma unroll
            for (int n = 0; n < WIDTH / 2; ++n) dq[n] = 0;
            const int steps = half ? 4 : 8;
            const u32 k_part = k_at + (D == 64 ? group * 64 : group * (128 * 128));
            for (int k = 0; k < steps; ++k) {
                u32 a[4];
                const int row = k * 16 + lane / 16 * 8 + lane % 8, c = warp % 4 * 2 + lane / 8 % 2;
                ldmatrix_t(a, ds_at + row * 128 + ((c ^ row) % 8 << 4));
#pragma unroll
                for (int n = 0; n < WIDTH / 16; ++n) {
                    const int key = k * 16 + lane % 16, kc = (D == 64 ? group * 4 : 0) + n * 2 + lane / 16;
                    u32 b2[4];
                    ldmatrix_t(b2, (D == 64 ? k_at : k_part) + key * 128 + ((kc ^ key) % 8 << 4));
                    mma(dq + n * 8, a, b2[0], b2[1]);
                    mma(dq + n * 8 + 4, a, b2[2], b2[3]);
                }
            }
            if (i > first) end_turn(i - 1);
#pragma unroll
            for (int n = 0; n < WIDTH / 2; ++n) kept[n] = dq[n];
        }
        if (first < tiles) {
            await_turn(tiles - 1);
            add(tiles - 1);
        }
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads(); // the tiles of k and v are free
        if (first < tiles) end_turn(tiles - 1);
#pragma unroll
        for (int n = 0; n < PANELS; ++n) {
            store_rows(dk[n], p.scale, p.scale, k_at + n * (128 * 128), m, (u16*)head_of(p.dk, b, h), p.dk.row, k0, p.keys, n * 64);
            store_rows(dv[n], 1, 1, v_at + n * (128 * 128), m, (u16*)head_of(p.dv, b, h), p.dv.row, k0, p.keys, n * 64);
        }
        __syncthreads(); // the next tiles may come
    }
}
