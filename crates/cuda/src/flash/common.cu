// Attention without its matrix of weights, by mma.sync: what both directions share.
//
// Defined before this text: F16 (1: f16, 0: bf16), D (64 or 128: columns of a tile), DIM (columns there are), CAUSAL,
// ALIGNED (rows start at multiples of 16 bytes and DIM is a multiple of 8).
//
// A tile of R rows lies in shared memory as panels of 64 columns, R rows of 128 bytes each; the 16-byte pieces of a row
// are exchanged by its number modulo 8, which keeps ldmatrix free of conflicts. Each warp has 16 rows of a product.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
typedef unsigned short u16;

#define THREADS 256
#define PANELS (D / 64)
#define STEPS (D / 16)
#define LOG2E 1.4426950408889634f
#define LN2 0.6931471805599453f
#define INFINITE __int_as_float(0x7f800000)

#if F16
#define TYPE "f16"
#else
#define TYPE "bf16"
#endif

// An array of rows: address, and elements between batches, heads and rows.
struct View {
    u64 at;
    i64 batch, head, row;
};

__device__ __forceinline__ const u16* head_of(const View& v, int b, int h) {
    return (const u16*)v.at + b * v.batch + h * v.head;
}

// Which four warps this is one of: the same in all threads of a warp, and the compiler knows it.
__device__ __forceinline__ int warp_group() { return __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0); }

__device__ __forceinline__ u32 shared_address(const void* p) {
    u64 a;
    asm("cvta.to.shared.u64 %0, %1;" : "=l"(a) : "l"(p));
    return (u32)a;
}

// Two numbers in one register, the first in the lower half.
__device__ __forceinline__ u32 pack(float lo, float hi) {
    u32 r;
    asm("cvt.rn." TYPE "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}

__device__ __forceinline__ float widen(u16 x) {
#if F16
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
    return r;
#else
    return __uint_as_float((u32)x << 16);
#endif
}

__device__ __forceinline__ float exp2_fast(float x) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

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

__device__ __forceinline__ void ldmatrix(u32 (&r)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

__device__ __forceinline__ void ldmatrix_t(u32 (&r)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

// Rows m .. m + 16, columns 16 k .. 16 k + 16 of a tile of R rows, as the left operand.
template <int R>
__device__ __forceinline__ void left(u32 (&a)[4], u32 tile, int m, int k) {
    const int lane = threadIdx.x % 32, row = m + lane % 16, c = k % 4 * 2 + lane / 16;
    ldmatrix(a, tile + k / 4 * (R * 128) + row * 128 + ((c ^ row) % 8 << 4));
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

// A warp's 16 rows of 64 columns, as 16-bit numbers through shared memory (which is the warp's own) to rows of `to`.
__device__ __forceinline__ void store_rows(const float (&x)[32], float f0, float f1, u32 panel, int m, u16* to, i64 stride,
                                           int first, int end, int column) {
    const int lane = threadIdx.x % 32;
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = m + lane / 4 + half * 8;
            const float f = half ? f1 : f0;
            const u32 w = pack(x[j * 4 + half * 2] * f, x[j * 4 + half * 2 + 1] * f);
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(panel + row * 128 + ((j ^ row) % 8 << 4) + lane % 4 * 4), "r"(w)
                         : "memory");
        }
    }
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int row = m + k * 4 + lane / 8, c = lane % 8;
        u32 w[4];
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                     : "r"(panel + row * 128 + ((c ^ row) % 8 << 4))
                     : "memory");
        if (first + row >= end) continue;
        u16* const p = to + (first + row) * stride + column + c * 8;
#if ALIGNED
        if (column + c * 8 < DIM) *(uint4*)p = make_uint4(w[0], w[1], w[2], w[3]);
#else
#pragma unroll
        for (int e = 0; e < 8; ++e)
            if (column + c * 8 + e < DIM) p[e] = (u16)(w[e / 2] >> (e % 2 * 16));
#endif
    }
}
