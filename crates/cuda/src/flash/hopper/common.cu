// The kernels for Hopper: barriers, loads and products. Tiles come by TMA, asked for by one thread; barriers in shared memory
// say when one is there and when its room is free; four warps each go their own way with `wgmma`.

// What TMA knows of such an array: the driver fills it in.
struct alignas(64) Map {
    u64 words[16];
};

// Which warp this is: the same in all its threads, and the compiler knows it.
__device__ __forceinline__ int warp_number() { return __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0); }

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
