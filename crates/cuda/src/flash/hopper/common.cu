// Attention on Hopper: what both directions share. Tiles come by TMA, asked for by one thread; barriers in shared memory
// say when one is there and when its room is free; four warps each go their own way with `wgmma`.
//
// Defined before this text: F16 (1: f16, 0: bf16), D (64 or 128: columns of a tile), DIM (columns there are), CAUSAL.
//
// A tile of R rows lies in shared memory as panels of 64 columns, R rows of 128 bytes each; the 16-byte pieces of a row
// are exchanged by its number modulo 8 (the 128-byte swizzle of TMA and wgmma). Rows and columns behind the end are zeros.

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

// What TMA knows of such an array: the driver fills it in.
struct alignas(64) Map {
    u64 words[16];
};

__device__ __forceinline__ const u16* head_of(const View& v, int b, int h) {
    return (const u16*)v.at + b * v.batch + h * v.head;
}

__device__ __forceinline__ u32 shared_address(const void* p) {
    u64 a;
    asm("cvta.to.shared.u64 %0, %1;" : "=l"(a) : "l"(p));
    return (u32)a;
}

// Which warp this is: the same in all its threads, and the compiler knows it.
__device__ __forceinline__ int warp_number() { return __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0); }

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

// --- barriers ---

// A barrier that `count` arrivals end, and then begins again.
__device__ __forceinline__ void barrier(u32 at, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");
}
// After all are made, before anyone uses them; __syncthreads follows.
__device__ __forceinline__ void barriers_made() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ __forceinline__ void arrive(u32 at) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}
// One of a warp for all of it.
__device__ __forceinline__ void warp_arrive(u32 at) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(at);
}
// Arrives, and so many bytes must come before the barrier ends.
__device__ __forceinline__ void expect(u32 at, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
// Whether the `n`-th use of a barrier (from 0) has ended; waits a little.
__device__ __forceinline__ bool ended(u32 at, u32 n) {
    u32 done;
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done)
                 : "r"(at), "r"(n & 1)
                 : "memory");
    return done;
}
__device__ __forceinline__ void await(u32 at, u32 n) {
    while (!ended(at, n)) {
    }
}

// --- loads ---

// Rows `row` .. and 64 columns from `column` of a head, as many rows as the map was made for.
__device__ __forceinline__ void load(u32 to, const Map& map, int column, int row, int h, int b, u32 bar) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];"
                 ::"r"(to), "l"(&map), "r"(column), "r"(row), "r"(h), "r"(b), "r"(bar)
                 : "memory");
}
template <int R>
__device__ __forceinline__ void load_tile(u32 to, const Map& map, int row, int h, int b, u32 bar) {
#pragma unroll
    for (int n = 0; n < PANELS; ++n) load(to + n * (R * 128), map, n * 64, row, h, b, bar);
}
// Bytes one behind the other.
__device__ __forceinline__ void load_bytes(u32 to, const void* from, u32 bytes, u32 bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
                 "r"(bytes), "r"(bar)
                 : "memory");
}
// Numbers of shared memory stored, or added to those there, one behind the other; see `added`.
__device__ __forceinline__ void add_bytes(void* to, u32 from, u32 bytes, bool add) {
    if (add)
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// All but the last N of these are done, and whoever learns it from this thread sees them.
template <int N>
__device__ __forceinline__ void added() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
}
// What this thread wrote to shared memory is seen by TMA and the tensor cores, once others know of it.
__device__ __forceinline__ void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- products ---

// A tile of the swizzled layout (1024 bytes from 8 rows to the next 8) as a number to which sixteenths of bytes are added.
__device__ __forceinline__ u32 matrix(u32 at) { return at >> 4 | 1 << 16; }
// Such a tile, so many bytes on.
__device__ __forceinline__ u64 on(u32 tile, u32 bytes) { return (u64)(1 << 30 | 1024 >> 4) << 32 | (tile + bytes / 16); }

__device__ __forceinline__ void begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
// Keeps the compiler from moving uses of these registers across.
template <int N>
__device__ __forceinline__ void hold(float (&x)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(x[i])::"memory");
}

#define R4(x, i) "+f"(x[i]), "+f"(x[i + 1]), "+f"(x[i + 2]), "+f"(x[i + 3])
#define R16(x, i) R4(x, i), R4(x, i + 4), R4(x, i + 8), R4(x, i + 12)
#define LIST32                                                                                                     \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28," \
    "%29,%30,%31}"
#define ALWAYS "{.reg .pred p; setp.ne.b32 p, 1, 0;"
#define WGMMA "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " "

// acc (64 rows of four warps, 64 columns) += a b. B 0: rows in memory are columns of b; 1: they are rows of b.
template <int B>
__device__ __forceinline__ void multiply(float (&acc)[32], const u32 (&a)[4], u64 b) {
    asm volatile(ALWAYS WGMMA LIST32 ", {%32,%33,%34,%35}, %36, p, 1, 1, %37;}"
                 : R16(acc, 0), R16(acc, 16)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(B));
}
// The same with a in shared memory: A 0: rows in memory are rows of a; 1: they are its columns.
template <int A, int B>
__device__ __forceinline__ void multiply(float (&acc)[32], u64 a, u64 b) {
    asm volatile(ALWAYS WGMMA LIST32 ", %32, %33, p, 1, 1, %34, %35;}"
                 : R16(acc, 0), R16(acc, 16)
                 : "l"(a), "l"(b), "n"(A), "n"(B));
}

// Rows m .. m + 16, columns 16 k .. 16 k + 16 of a tile of R rows, as the left operand.
template <int R>
__device__ __forceinline__ void left(u32 (&a)[4], u32 tile, int m, int k) {
    const int lane = threadIdx.x % 32, row = m + lane % 16, c = k % 4 * 2 + lane / 16;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(tile + k / 4 * (R * 128) + row * 128 + ((c ^ row) % 8 << 4))
                 : "memory");
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
        if (first + row < end && column + c * 8 < DIM)
            asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to + (first + row) * stride + column + c * 8), "r"(w[0]),
                         "r"(w[1]), "r"(w[2]), "r"(w[3])
                         : "memory");
    }
}
