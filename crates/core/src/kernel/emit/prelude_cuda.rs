//! Helper functions in CUDA C: conversions, checks, random numbers, integers and Python's division.

/// Name and text, callees before callers.
pub(super) const HELPERS: &[(&str, &str)] = &[
    (
        // The reciprocal of what is neither tiny nor huge: two units in the last place.
        "g_quick_reciprocal",
        "\
__device__ inline float g_quick_reciprocal(float b) {
#ifdef __CUDA_ARCH__
    float q;
    asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(q) : \"f\"(b));
    return q;
#else
    return 1.0f / b;
#endif
}",
    ),
    (
        // A few units in the last place, over the whole range: where the divisor is out of the range of reciprocals, both
        // are scaled, and what overflows or vanishes by that would do so anyway. All but the products is about the
        // divisor alone, so that rows that divide by one number do it once.
        "g_quick_divide",
        "\
__device__ inline float g_quick_divide(float a, float b) {
    const float size = fabsf(b);
    const float scale = size > 1.2676506e30f ? 5.421011e-20f : size < 7.888609e-31f ? 1.8446744e19f : 1.0f;
    return (a * scale) * g_quick_reciprocal(b * scale);
}",
    ),
    (
        // What is below the normal numbers is zero.
        "g_quick_exp",
        "\
__device__ inline float g_quick_exp(float x) {
#ifdef __CUDA_ARCH__
    float y;
    asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x * 1.44269504f));
    return y;
#else
    return exp(x);
#endif
}",
    ),
    (
        "g_quick_tanh",
        "\
__device__ inline float g_quick_tanh(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
    float y;
    asm(\"tanh.approx.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x));
    return y;
#else
    return tanh(x);
#endif
}",
    ),
    (
        // NaN where either is one.
        "g_quick_maximum",
        "\
__device__ inline float g_quick_maximum(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float y;
    asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(y) : \"f\"(a), \"f\"(b));
    return y;
#else
    return a > b || a != a ? a : b;
#endif
}",
    ),
    (
        // What was made of these registers before is not known to the compiler any more.
        "g_keep",
        "\
template <class P> __device__ inline void g_keep(P& p) {
#ifdef __CUDA_ARCH__
    unsigned int* const words = (unsigned int*)&p;
#pragma unroll
    for (int i = 0; i < (int)(sizeof(P) / 4); ++i) asm volatile(\"\" : \"+r\"(words[i]));
#endif
}",
    ),
    (
        // Sixteen bytes into shared memory, without a register between.
        "g_copy_16",
        "\
__device__ inline void g_copy_16(unsigned char* to, const void* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(to);
    asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\" :: \"r\"(at), \"l\"(from) : \"memory\");
#else
    struct alignas(16) words { unsigned int x[4]; };
    *(words*)to = *(const words*)from;
#endif
}",
    ),
    (
        // A thread's own copies are there.
        "g_copied",
        "\
__device__ inline void g_copied() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile(\"cp.async.wait_all;\" ::: \"memory\");
#endif
}",
    ),
    (
        "g_f16_to_f32",
        "\
__device__ inline float g_f16_to_f32(unsigned short h) {
#ifdef __CUDA_ARCH__
    float f;
    asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f) : \"h\"(h));
    return f;
#else
    const unsigned int sign = (unsigned int)(h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 1023u;
    if (e == 31u) return __int_as_float((int)(sign | 0x7f800000u | (m << 13)));
    if (e != 0u) return __int_as_float((int)(sign | ((e + 112u) << 23) | (m << 13)));
    const float x = (float)m * 5.9604644775390625e-08f;
    return sign ? -x : x;
#endif
}",
    ),
    (
        // To the nearest, halves to even. Adding 0.5 aligns a subnormal's last bit with the float's.
        "g_f32_to_f16",
        "\
__device__ inline unsigned short g_f32_to_f16(float x) {
#ifdef __CUDA_ARCH__
    unsigned short h;
    asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(x));
    return h;
#else
    const unsigned int b = (unsigned int)__float_as_int(x), sign = (b >> 16) & 0x8000u, a = b & 0x7fffffffu;
    if (a > 0x7f800000u) return (unsigned short)(sign | 0x7e00u | ((a >> 13) & 0x3ffu));
    if (a >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u);
    if (a < 0x38800000u) {
        const float t = __int_as_float((int)a) + 0.5f;
        return (unsigned short)(sign | ((unsigned int)__float_as_int(t) - 0x3f000000u));
    }
    const unsigned int r = a + 0xfffu + ((a >> 13) & 1u);
    return (unsigned short)(sign | ((r - 0x38000000u) >> 13));
#endif
}",
    ),
    (
        "g_bf16_to_f32",
        "\
__device__ inline float g_bf16_to_f32(unsigned short h) {
    return __int_as_float((int)((unsigned int)h << 16));
}",
    ),
    (
        "g_f32_to_bf16",
        "\
__device__ inline unsigned short g_f32_to_bf16(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned short h;
    asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(x));
    return h;
#else
    const unsigned int b = (unsigned int)__float_as_int(x);
    if ((b & 0x7fffffffu) > 0x7f800000u) return (unsigned short)((b >> 16) | 0x40u);
    return (unsigned short)((b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
#endif
}",
    ),
    (
        // The f32 towards zero with its last bit set where anything was lost: a second rounding then sees that.
        "g_round_to_odd",
        "\
__device__ inline float g_round_to_odd(double x) {
    const float f = (float)x;
    const double back = (double)f;
    if (back == x || x != x) return f;
    int b = __float_as_int(f);
    if ((back > x) == (x > 0.0)) b -= 1;
    return __int_as_float(b | 1);
}",
    ),
    (
        "g_f64_to_f16",
        "\
__device__ inline unsigned short g_f64_to_f16(double x) {
    return g_f32_to_f16(g_round_to_odd(x));
}",
    ),
    (
        "g_f64_to_bf16",
        "\
__device__ inline unsigned short g_f64_to_bf16(double x) {
    return g_f32_to_bf16(g_round_to_odd(x));
}",
    ),
    (
        // Towards zero; NaN is 0, and what is too large is the largest.
        "g_to_i64",
        "\
template <class T> __device__ inline long long g_to_i64(T x) {
    if (x != x) return 0;
    if (x >= (T)9223372036854775808.0) return 9223372036854775807ll;
    if (x < (T)-9223372036854775808.0) return -9223372036854775807ll - 1;
    return (long long)x;
}",
    ),
    (
        "g_index",
        "\
__device__ inline long long g_index(long long i, long long n, unsigned int* err) {
    if (i >= 0 && i < n) return i;
    atomicOr(err, 1u);
    return i < 0 ? 0 : n - 1;
}",
    ),
    (
        "g_divisor",
        "\
__device__ inline long long g_divisor(long long b, unsigned int* err) {
    if (b != 0) return b;
    atomicOr(err, 2u);
    return 1;
}",
    ),
    (
        "g_philox",
        "\
__device__ inline void g_philox(unsigned long long counter, unsigned long long stream, unsigned long long seed, unsigned int* c) {
    c[0] = (unsigned int)counter;
    c[1] = (unsigned int)(counter >> 32);
    c[2] = (unsigned int)stream;
    c[3] = (unsigned int)(stream >> 32);
    unsigned int k0 = (unsigned int)seed, k1 = (unsigned int)(seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const unsigned long long p0 = (unsigned long long)c[0] * 0xD2511F53u, p1 = (unsigned long long)c[2] * 0xCD9E8D57u;
        c[0] = (unsigned int)(p1 >> 32) ^ c[1] ^ k0;
        c[2] = (unsigned int)(p0 >> 32) ^ c[3] ^ k1;
        c[1] = (unsigned int)p1;
        c[3] = (unsigned int)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}",
    ),
    (
        "g_rand_f32",
        "\
__device__ inline float g_rand_f32(unsigned long long i, unsigned long long stream, unsigned long long seed) {
    unsigned int w[4];
    g_philox(i / 4, stream, seed, w);
    return (float)(w[i % 4] >> 8) * 5.9604644775390625e-08f;
}",
    ),
    (
        "g_rand_f64",
        "\
__device__ inline double g_rand_f64(unsigned long long i, unsigned long long stream, unsigned long long seed) {
    unsigned int w[4];
    g_philox(i / 2, stream, seed, w);
    const int k = 2 * (int)(i % 2);
    const unsigned long long bits = ((unsigned long long)w[k + 1] << 32 | w[k]) >> 11;
    return (double)bits * 1.1102230246251565e-16;
}",
    ),
    (
        "g_ipow",
        "\
__device__ inline long long g_ipow(long long a, long long b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? 1 - 2 * (b & 1) : 0;
    unsigned long long base = (unsigned long long)a, out = 1, e = b > 4294967295ll ? 4294967295ull : (unsigned long long)b;
    for (; e != 0; e >>= 1) {
        if (e & 1) out *= base;
        base *= base;
    }
    return (long long)out;
}",
    ),
    (
        "g_shl",
        "\
__device__ inline long long g_shl(long long a, long long b) {
    return b >= 0 && b < 64 ? (long long)((unsigned long long)a << b) : 0;
}",
    ),
    (
        "g_shr",
        "\
__device__ inline long long g_shr(long long a, long long b) {
    return a >> (b >= 0 && b < 64 ? b : 63);
}",
    ),
    (
        "g_gcd",
        "\
__device__ inline long long g_gcd(long long a, long long b) {
    unsigned long long x = a < 0 ? 0ull - (unsigned long long)a : (unsigned long long)a;
    unsigned long long y = b < 0 ? 0ull - (unsigned long long)b : (unsigned long long)b;
    while (y != 0) {
        const unsigned long long r = x % y;
        x = y;
        y = r;
    }
    return (long long)x;
}",
    ),
    (
        "g_lcm",
        "\
__device__ inline long long g_lcm(long long a, long long b) {
    if (a == 0 || b == 0) return 0;
    const unsigned long long m = (unsigned long long)(a / g_gcd(a, b)) * (unsigned long long)b;
    return (long long)m < 0 ? (long long)(0ull - m) : (long long)m;
}",
    ),
    (
        // -1 apart: the least integer divided by -1 has no answer.
        "g_idivide",
        "\
__device__ inline long long g_idivide(long long a, long long b) {
    return b == -1 ? (long long)(0ull - (unsigned long long)a) : a / b;
}",
    ),
    (
        "g_ifmod",
        "\
__device__ inline long long g_ifmod(long long a, long long b) {
    return b == -1 ? 0 : a % b;
}",
    ),
    (
        "g_iremainder",
        "\
__device__ inline long long g_iremainder(long long a, long long b) {
    const long long r = g_ifmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}",
    ),
    (
        "g_ifloor_divide",
        "\
__device__ inline long long g_ifloor_divide(long long a, long long b) {
    const long long q = g_idivide(a, b);
    return g_ifmod(a, b) != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}",
    ),
    (
        "g_remainder",
        "\
template <class T> __device__ inline T g_remainder(T a, T b) {
    const T r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}",
    ),
    (
        "g_floor_divide",
        "\
template <class T> __device__ inline T g_floor_divide(T a, T b) {
    if (b == 0) return a / b;
    const T r = fmod(a, b);
    T d = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0)) d -= 1;
    if (d != 0) {
        const T f = floor(d);
        return d - f > (T)0.5 ? f + 1 : f;
    }
    return copysign(a - a, a / b);
}",
    ),
];
