// Attention backward: 128 keys an item of work, 64 for each four warps, 64 queries a step.
//
// The weights are computed again, transposed: keys are rows, so that weights and their gradients are left operands from
// registers for the gradients of v and k. The queries' gradient is added up in memory over the tiles of keys in a fixed
// order: a tile waits until the one before it has been added. That is work of other warps, which is what makes this fast:
// with it among the eight that compute, a step took twice as long. Blocks take the next item when they are done with one;
// an item waits only for items taken earlier, so somebody always goes on.

struct Backward {
    Map q, grad, k, v;
    View dq, dk, dv;
    // `turns`: one for each 64 queries of a head, then the next item.
    u64 lse2, delta, sums, turns;
    int heads, queries, keys, batch, group;
    float scale;
};

// Tiles of keys and values; with room for two, the next come while the last are still stored.
#define TILES (D == 64 ? 2 : 1)
// Places for what the eight warps put down of the queries' gradient, and 16-byte pieces of it that a thread has at a time.
#define PLACES 2
#define PIECES (D == 64 ? 4 : 2)
#define TILE_BYTES (128 * D * 2)
#define STEP_BYTES (64 * D * 2)
#define PART_BYTES (64 * D * 4)
// Registers of the eight warps that compute, and of the others: three times as many threads have 168 each.
#define MANY (D == 64 ? 224 : 232)
#define FEW (D == 64 ? 56 : 40)

extern "C" __global__ void __launch_bounds__(384, 1) flash_backward(const __grid_constant__ Backward p) {
    extern __shared__ char memory[];
    const u32 base = (shared_address(memory) + 1023) & ~1023u;
    const u32 k_at = base, v_at = k_at + TILES * TILE_BYTES, q_at = v_at + TILES * TILE_BYTES, g_at = q_at + 2 * STEP_BYTES;
    const u32 ds_at = g_at + 2 * STEP_BYTES, part_at = ds_at + 128 * 128, row_at = part_at + PLACES * PART_BYTES;
    const u32 item_at = row_at + 2 * 512, bars = item_at + 16;
    const u32 tile_full = bars, tile_free = tile_full + 16, step_full = tile_free + 16, step_free = step_full + 16,
              part_full = step_free + 16, part_free = part_full + 16, half_full = part_free + 16, final_full = half_full + 16,
              final_free = final_full + 8;
    const int tiles = (p.queries + 63) / 64, key_tiles = (p.keys + 127) / 128;
    const int warp = warp_number(), lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int n = 0; n < 2; ++n) {
            barrier(tile_full + n * 8, 1);
            barrier(tile_free + n * 8, 11);
            barrier(step_full + n * 8, 1);
            barrier(step_free + n * 8, 8);
            barrier(part_full + n * 8, 8);
            barrier(part_free + n * 8, 1);
            barrier(half_full + n * 8, 4);
        }
        barrier(final_full, 1);
        barrier(final_free, 2);
        barriers_made();
    }
    __syncthreads();

    // The head and the tile of keys of an item: of a group of heads, all of one tile before all of the next.
    const int items = p.batch * key_tiles;
    const auto place = [&](int item, int& bh, int& key_tile) {
        const int g = item / (p.group * key_tiles), rest = item % (p.group * key_tiles);
        const int members = min(p.group, p.batch - g * p.group);
        bh = g * p.group + rest % members;
        key_tile = rest / members;
    };
    const auto first_step = [&](int key_tile) { return CAUSAL ? min(key_tile * 2, tiles) : 0; };

    if (warp >= 8) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(FEW));
        if (warp == 8) {
            // Loads.
            if (lane != 0) return;
            u32 steps = 0;
            for (u32 n = 0;; ++n) {
                const u32 tile = n % TILES, full = tile_full + tile * 8;
                if (n >= TILES) await(tile_free + tile * 8, n / TILES - 1);
                const int item = (int)atomicAdd((u32*)p.turns + (i64)p.batch * tiles, 1u);
                const bool more = item < items;
                asm volatile("st.shared.b32 [%0], %1;" ::"r"(item_at + tile * 4), "r"(more ? item : -1) : "memory");
                if (!more) {
                    arrive(full);
                    return;
                }
                int bh, key_tile;
                place(item, bh, key_tile);
                const int b = bh / p.heads, h = bh % p.heads;
                expect(full, 2 * TILE_BYTES);
                load_tile<128>(k_at + tile * TILE_BYTES, p.k, key_tile * 128, h, b, full);
                load_tile<128>(v_at + tile * TILE_BYTES, p.v, key_tile * 128, h, b, full);
                for (int i = first_step(key_tile); i < tiles; ++i, ++steps) {
                    const u32 stage = steps % 2, bar = step_full + stage * 8;
                    if (steps >= 2) await(step_free + stage * 8, steps / 2 - 1);
                    expect(bar, 2 * STEP_BYTES + 512);
                    load_tile<64>(q_at + stage * STEP_BYTES, p.q, i * 64, h, b, bar);
                    load_bytes(row_at + stage * 512, (const float*)p.lse2 + ((i64)bh * tiles + i) * 64, 256, bar);
                    load_tile<64>(g_at + stage * STEP_BYTES, p.grad, i * 64, h, b, bar);
                    load_bytes(row_at + stage * 512 + 256, (const float*)p.delta + ((i64)bh * tiles + i) * 64, 256, bar);
                }
            }
        }
        // The queries' gradient: one thread has what the eight warps put down added in memory, and two warps make the result
        // where it is complete.
        if (warp == 9 && lane != 0) return;
        const int t = threadIdx.x - 320;
        u32 steps = 0, finals = 0;
        // What has been asked for last: whose turn it is then (none, where it was the last), and the place that is free.
        bool pending = false;
        u32 *turn_next = 0, next = 0, free = 0;
        const auto hand_on = [&] {
            if (turn_next) {
                asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(turn_next), "r"(next) : "memory");
            } else {
                if (finals > 0) await(final_free, finals - 1);
                arrive(final_full);
                ++finals;
            }
            arrive(free);
            pending = false;
        };
        const auto settle = [&] {
            if (!pending) return;
            added<0>();
            hand_on();
        };
        for (u32 n = 0;; ++n) {
            const u32 tile = n % TILES;
            await(tile_full + tile * 8, n / TILES);
            int item, bh, key_tile;
            asm volatile("ld.shared.b32 %0, [%1];" : "=r"(item) : "r"(item_at + tile * 4) : "memory");
            if (warp == 9)
                arrive(tile_free + tile * 8);
            else
                warp_arrive(tile_free + tile * 8);
            if (item < 0) {
                settle();
                return;
            }
            place(item, bh, key_tile);
            for (int i = first_step(key_tile); i < tiles; ++i, ++steps) {
                const int most = CAUSAL ? min(i / 2, key_tiles - 1) : key_tiles - 1;
                const u32 turn = key_tile;
                const bool final = turn == (u32)most;
                float4* const sums = (float4*)p.sums + ((i64)bh * tiles + i) * (64 * D / 4);
                if (warp == 9) {
                    const u32 spot = steps % PLACES;
                    u32* const turn_at = (u32*)p.turns + (i64)bh * tiles + i;
                    const auto turn_now = [&] {
                        u32 now;
                        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(turn_at) : "memory");
                        return now;
                    };
                    // Nothing is kept from others while this thread waits.
                    if (turn > 0 && turn_now() != turn) {
                        settle();
                        while (turn_now() != turn) {
                        }
                    }
                    if (!ended(part_full + spot * 8, steps / PLACES)) {
                        settle();
                        await(part_full + spot * 8, steps / PLACES);
                    }
                    add_bytes(sums, part_at + spot * PART_BYTES, PART_BYTES, turn > 0);
                    if (pending) {
                        added<1>();
                        hand_on();
                    }
                    pending = true, turn_next = final ? 0 : turn_at, next = turn + 1, free = part_free + spot * 8;
                    continue;
                }
                if (!final) continue;
                await(final_full, finals++);
                u16* const out = (u16*)head_of(p.dq, bh / p.heads, bh % p.heads);
#pragma unroll 1
                for (int c0 = 0; c0 < D / 4; c0 += PIECES) {
                    float4 x[PIECES];
#pragma unroll
                    for (int c = 0; c < PIECES; ++c) x[c] = __ldcg(sums + (c0 + c) * 64 + t);
#pragma unroll
                    for (int c = 0; c < PIECES; ++c) {
                        // This piece is what thread `u` had in its registers 4 v .. 4 v + 4.
                        const int at = (c0 + c) * 64 + t, u = at % 128, v = at / 128;
                        const int row = i * 64 + u / 32 * 16 + u % 32 / 4, column = v * 8 + u % 4 * 2;
                        if (column < DIM) {
                            u16* const to = out + row * p.dq.row + column;
                            if (row < p.queries) *(u32*)to = pack(x[c].x * p.scale, x[c].y * p.scale);
                            if (row + 8 < p.queries) *(u32*)(to + 8 * p.dq.row) = pack(x[c].z * p.scale, x[c].w * p.scale);
                        }
                    }
                }
                warp_arrive(final_free);
            }
        }
    }

    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(MANY));
    const int group = warp / 4, m = warp * 16;
    const u32 ds_mine = ds_at + group * 8192, part_mine = part_at + threadIdx.x % 128 * 16;
    const float scale2 = p.scale * LOG2E;
    u32 steps = 0;
    for (u32 n = 0;; ++n) {
        const u32 tile = n % TILES, keys = k_at + tile * TILE_BYTES, values = v_at + tile * TILE_BYTES;
        await(tile_full + tile * 8, n / TILES);
        int item, bh, key_tile;
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(item) : "r"(item_at + tile * 4) : "memory");
        item = __shfl_sync(0xffffffffu, item, 0);
        if (item < 0) return;
        place(item, bh, key_tile);
        const u32 my_keys = matrix(keys + group * 8192), my_values = matrix(values + group * 8192), my_ds = matrix(ds_mine);
        const int k0 = key_tile * 128, key0 = k0 + m + lane / 4;
        float dk[PANELS][32], dv[PANELS][32];
#pragma unroll
        for (int c = 0; c < PANELS; ++c)
#pragma unroll
            for (int i = 0; i < 32; ++i) dk[c][i] = dv[c][i] = 0;
#if D == 64
        u32 ka[STEPS][4], va[STEPS][4];
#pragma unroll
        for (int k = 0; k < STEPS; ++k) {
            left<128>(ka[k], keys, m, k);
            left<128>(va[k], values, m, k);
        }
#endif
        for (int i = first_step(key_tile); i < tiles; ++i, ++steps) {
            const u32 stage = steps % 2;
            const int q0 = i * 64;
            const u32 queries = matrix(q_at + stage * STEP_BYTES), grads = matrix(g_at + stage * STEP_BYTES), rows = row_at + stage * 512;
            // Of the first step, the upper 64 keys see nothing.
            if (CAUSAL && q0 < k0 + group * 64) {
                await(step_full + stage * 8, steps / 2);
                warp_arrive(step_free + stage * 8);
                if (steps >= PLACES) await(part_free + steps % PLACES * 8, steps / PLACES - 1);
                warp_arrive(part_full + steps % PLACES * 8);
                continue;
            }
            await(step_full + stage * 8, steps / 2);
            float s[32], ds[32];
#pragma unroll
            for (int c = 0; c < 32; ++c) s[c] = ds[c] = 0;
            hold(s);
            hold(ds);
            begin();
#if D == 64
#pragma unroll
            for (int k = 0; k < STEPS; ++k) multiply<0>(s, ka[k], on(queries, k * 32));
            end();
#pragma unroll
            for (int k = 0; k < STEPS; ++k) multiply<0>(ds, va[k], on(grads, k * 32));
            end();
#else
#pragma unroll
            for (int k = 0; k < STEPS; ++k)
                multiply<0, 0>(s, on(my_keys, k / 4 * 16384 + k % 4 * 32), on(queries, k / 4 * 8192 + k % 4 * 32));
            end();
#pragma unroll
            for (int k = 0; k < STEPS; ++k)
                multiply<0, 0>(ds, on(my_values, k / 4 * 16384 + k % 4 * 32), on(grads, k / 4 * 8192 + k % 4 * 32));
            end();
#endif
            wait<1>();
            hold(s);
            const bool edge = (CAUSAL && k0 + m + 15 > q0) || k0 + m + 16 > p.keys;
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                float l[2];
                asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                             : "=f"(l[0]), "=f"(l[1])
                             : "r"(rows + (j * 8 + lane % 4 * 2) * 4));
#pragma unroll
                for (int e = 0; e < 4; ++e) s[j * 4 + e] = exp2_fast(fmaf(s[j * 4 + e], scale2, -l[e % 2]));
            }
            if (edge) {
#pragma unroll
                for (int c = 0; c < 32; ++c) {
                    const int key = key0 + c / 2 % 2 * 8, query = q0 + c / 4 * 8 + lane % 4 * 2 + c % 2;
                    if ((CAUSAL && key > query) || key >= p.keys) s[c] = 0;
                }
            }
            u32 w[4][4], x[4][4];
            const auto add_values = [&] {
#pragma unroll
                for (int k = 0; k < 4; ++k)
#pragma unroll
                    for (int c = 0; c < 4; ++c) w[k][c] = pack(s[k * 8 + c * 2], s[k * 8 + c * 2 + 1]);
#pragma unroll
                for (int c = 0; c < PANELS; ++c) hold(dv[c]);
                begin();
#pragma unroll
                for (int c = 0; c < PANELS; ++c)
#pragma unroll
                    for (int k = 0; k < 4; ++k) multiply<1>(dv[c], w[k], on(grads, c * 8192 + k * 2048));
                end();
            };
            wait<0>();
            hold(ds);
            // Where there are registers enough, while the scores' gradients are computed.
            if (D == 64) add_values();
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
                for (int c = 0; c < 4; ++c) {
                    x[k][c] = pack(ds[k * 8 + c * 2], ds[k * 8 + c * 2 + 1]);
                    // Row: the key; columns: queries.
                    const int row = warp % 4 * 16 + lane / 4 + c % 2 * 8, piece = k * 2 + c / 2;
                    asm volatile("st.shared.b32 [%0], %1;" ::"r"(ds_mine + row * 128 + ((piece ^ row) % 8 << 4) + lane % 4 * 4),
                                 "r"(x[k][c])
                                 : "memory");
                }
            publish();
            asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
            // 64 queries by all columns: the transpose of what was stored, times the keys; and the gradient of the keys.
            float dq[32];
            const auto multiply_keys = [&](int c) {
#pragma unroll
                for (int k = 0; k < 32; ++k) dq[k] = 0;
                hold(dq);
                begin();
#pragma unroll
                for (int k = 0; k < 4; ++k)
                    multiply<1, 1>(dq, on(my_ds, k * 2048), on(my_keys, c * 16384 + k * 2048));
                end();
            };
            // The first four warps put theirs down, and the others add.
            const u32 spot = steps % PLACES;
            const auto put_down = [&](int c) {
                hold(dq);
                if (c == 0 && group == 0 && steps >= PLACES) await(part_free + spot * 8, steps / PLACES - 1);
                if (c == 0 && group == 1) await(half_full + spot * 8, steps / PLACES);
#pragma unroll
                for (int k = 0; k < 8; ++k) {
                    const u32 at = part_mine + spot * PART_BYTES + (c * 8 + k) * 2048;
                    if (group == 1) {
                        float4 x;
                        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                                     : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                                     : "r"(at)
                                     : "memory");
                        dq[k * 4] += x.x, dq[k * 4 + 1] += x.y, dq[k * 4 + 2] += x.z, dq[k * 4 + 3] += x.w;
                    }
                    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at), "f"(dq[k * 4]), "f"(dq[k * 4 + 1]),
                                 "f"(dq[k * 4 + 2]), "f"(dq[k * 4 + 3])
                                 : "memory");
                }
            };
            multiply_keys(0);
            if (D > 64) add_values();
#pragma unroll
            for (int c = 0; c < PANELS; ++c) hold(dk[c]);
            begin();
#pragma unroll
            for (int c = 0; c < PANELS; ++c)
#pragma unroll
                for (int k = 0; k < 4; ++k) {
#if D == 64
                    multiply<1>(dk[c], x[k], on(queries, c * 8192 + k * 2048));
#else
                    multiply<0, 1>(dk[c], on(my_ds, k * 32), on(queries, c * 8192 + k * 2048));
#endif
                }
            end();
            wait<D == 64 ? 1 : 2>();
            put_down(0);
            if (D > 64) {
                multiply_keys(1);
                wait<0>();
                put_down(1);
            }
            publish();
            if (group == 0) warp_arrive(half_full + spot * 8);
            warp_arrive(part_full + spot * 8);
            wait<0>();
#pragma unroll
            for (int c = 0; c < PANELS; ++c) {
                hold(dv[c]);
                hold(dk[c]);
            }
            warp_arrive(step_free + stage * 8);
        }
        const int b = bh / p.heads, h = bh % p.heads;
#pragma unroll
        for (int c = 0; c < PANELS; ++c) {
            store_rows(dk[c], p.scale, p.scale, keys + c * 16384, m, (u16*)head_of(p.dk, b, h), p.dk.row, k0, p.keys, c * 64);
            store_rows(dv[c], 1, 1, values + c * 16384, m, (u16*)head_of(p.dv, b, h), p.dv.row, k0, p.keys, c * 64);
        }
        publish(); // the next tiles may come
        warp_arrive(tile_free + tile * 8);
    }
}
