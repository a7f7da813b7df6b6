// The kernels by mma.sync: loads and products. Each warp has 16 rows of a product.

#define THREADS 256

// Which four warps this is one of: the same in all threads of a warp, and the compiler knows it.
__device__ __forceinline__ int warp_group() { return __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0); }

// 16 bytes from global to shared memory, or zeros; `n` of the 8 numbers are there.
__device__ __forceinline__ void load16(u32 to, const u16* from, int n) {
#if ALIGNED
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(n > 0 ? 16 : 0) : "memory");
#else
    u32 w[4] = {0, 0, 0, 0};
#pragma unroll
    for (int e = 0; e < 8; ++e)
        if (e < n) w[e / 2] |= (u32)from[e] << (e % 2 * 16);
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                 : "memory");
#endif
}

__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// What was asked for, but for the last N times, has come, and the tensor cores see it, in all threads.
template <int N>
__device__ __forceinline__ void arrive() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
    __syncthreads();
}

// Asks for rows first .. first + R (those from `end` on are zeros).
template <int R>
__device__ __forceinline__ void load_tile(u32 to, const u16* from, int stride, int first, int end) {
    constexpr int pieces = D / 8;
#pragma unroll
    for (int k = 0; k < R * pieces / THREADS; ++k) {
        const int n = k * THREADS + threadIdx.x, row = n / pieces, c = n % pieces;
        const bool there = first + row < end && c * 8 < DIM;
        const u16* const p = from + (i64)min(first + row, end - 1) * stride + (c * 8 < DIM ? c * 8 : 0);
        load16(to + c / 8 * (R * 128) + row * 128 + ((c ^ row) % 8 << 4), p, there ? DIM - c * 8 : 0);
    }
}

__device__ __forceinline__ void ldmatrix_t(u32 (&r)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

__device__ __forceinline__ void mma(float* acc, const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}


// acc (16 rows a warp, 64 columns) += a b': the 64 rows of a tile are b's columns, and k is a step of 16 along its own.
__device__ __forceinline__ void times_rows(float (&acc)[32], const u32 (&a)[4], u32 tile, int k) {
    const u32 at = tile + k / 4 * (64 * 128);
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
        const int row = n * 16 + lane / 16 * 8 + lane % 8, c = k % 4 * 2 + lane / 8 % 2;
        u32 b[4];
        ldmatrix(b, at + row * 128 + ((c ^ row) % 8 << 4));
        mma(acc + n * 8, a, b[0], b[1]);
        mma(acc + n * 8 + 4, a, b[2], b[3]);
    }
}

// acc (16 rows a warp, 64 columns) += a b: rows 16 k .. of a panel of 64 columns are b's rows.
__device__ __forceinline__ void times(float (&acc)[32], const u32 (&a)[4], u32 panel, int k) {
    const u32 at = panel + k * 2048;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
        const int row = lane % 16, c = n * 2 + lane / 16;
        u32 b[4];
        ldmatrix_t(b, at + row * 128 + ((c ^ row) % 8 << 4));
        mma(acc + n * 8, a, b[0], b[1]);
        mma(acc + n * 8 + 4, a, b[2], b[3]);
    }
}
