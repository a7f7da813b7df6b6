// Attention without its matrix of weights: what all its kernels share.
//
// Defined before this text: F16 (1: f16, 0: bf16), D (64 or 128: columns of a tile), DIM (columns there are), CAUSAL,
// ALIGNED (rows start at multiples of 16 bytes and DIM is a multiple of 8).
//
// A tile of R rows lies in shared memory as panels of 64 columns, R rows of 128 bytes each; the 16-byte pieces of a row
// are exchanged by its number modulo 8, which keeps ldmatrix free of conflicts and is the 128-byte swizzle of TMA and wgmma.
// Rows and columns behind the end are zeros.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
typedef unsigned short u16;

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

__device__ __forceinline__ void ldmatrix(u32 (&r)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
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
#if ALIGNED
        if (first + row < end && column + c * 8 < DIM)
            asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to + (first + row) * stride + column + c * 8), "r"(w[0]),
                         "r"(w[1]), "r"(w[2]), "r"(w[3])
                         : "memory");
#else
        if (first + row >= end) continue;
        u16* const p = to + (first + row) * stride + column + c * 8;
#pragma unroll
        for (int e = 0; e < 8; ++e)
            if (column + c * 8 + e < DIM) p[e] = (u16)(w[e / 2] >> (e % 2 * 16));
#endif
    }
}
