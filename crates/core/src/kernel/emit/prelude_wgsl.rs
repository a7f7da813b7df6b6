//! Helper functions in WGSL. Its own functions lack some of these, and are inaccurate near zero in others.

/// Name and text, callees before callers.
pub(super) const HELPERS: &[(&str, &str)] = &[
    (
        // Through a variable: a constant expression that is not finite is an error.
        "g_bits",
        "\
fn g_bits(b: u32) -> f32 {
    var x: u32 = b;
    return bitcast<f32>(x);
}",
    ),
    (
        "g_index",
        "\
fn g_index(i: i32, n: i32) -> i32 {
    if (i >= 0 && i < n) { return i; }
    atomicOr(&err, 1u);
    return select(n - 1, 0, i < 0 || n == 0);
}",
    ),
    (
        "g_divisor",
        "\
fn g_divisor(b: i32) -> i32 {
    if (b != 0) { return b; }
    atomicOr(&err, 2u);
    return 1;
}",
    ),
    (
        // An i64 (low word, high word) that should fit an i32.
        "g_narrow",
        "\
fn g_narrow(x: vec2<i32>) -> i32 {
    if (x.y == (x.x >> 31u)) { return x.x; }
    atomicOr(&err, 4u);
    return select(2147483647, -2147483647 - 1, x.y < 0);
}",
    ),
    (
        // What an i64 would hold, as the i32 that wraps it does: beyond 2^63 the i64 is all ones or one bit.
        "g_to_i32",
        "\
fn g_to_i32(x: f32) -> i32 {
    if (x != x) { return 0; }
    if (abs(x) < 2147483648.0) { return i32(x); }
    if (x >= 9223372036854775808.0) { return -1; }
    if (x <= -9223372036854775808.0) { return 0; }
    let t = trunc(abs(x));
    let low = u32(t - floor(t / 4294967296.0) * 4294967296.0);
    return select(bitcast<i32>(low), bitcast<i32>(~low + 1u), x < 0.0);
}",
    ),
    (
        "g_mul_wide",
        "\
fn g_mul_wide(a: u32, b: u32) -> vec2<u32> {
    let a0 = a & 0xffffu;
    let a1 = a >> 16u;
    let b0 = b & 0xffffu;
    let b1 = b >> 16u;
    let low = a0 * b0;
    let mid = a1 * b0 + (low >> 16u);
    let mid2 = a0 * b1 + (mid & 0xffffu);
    return vec2<u32>(a * b, a1 * b1 + (mid >> 16u) + (mid2 >> 16u));
}",
    ),
    (
        "g_philox",
        "\
fn g_philox(counter: vec2<u32>, stream: vec2<u32>, seed: vec2<u32>) -> vec4<u32> {
    var c: vec4<u32> = vec4<u32>(counter, stream);
    var k: vec2<u32> = seed;
    for (var round: i32 = 0; round < 10; round += 1) {
        let p0 = g_mul_wide(c.x, 0xD2511F53u);
        let p1 = g_mul_wide(c.z, 0xCD9E8D57u);
        c = vec4<u32>(p1.y ^ c.y ^ k.x, p1.x, p0.y ^ c.w ^ k.y, p0.x);
        k = k + vec2<u32>(0x9E3779B9u, 0xBB67AE85u);
    }
    return c;
}",
    ),
    (
        "g_rand_f32",
        "\
fn g_rand_f32(i: u32, stream: vec2<u32>, seed: vec2<u32>) -> f32 {
    var w: vec4<u32> = g_philox(vec2<u32>(i / 4u, 0u), stream, seed);
    return f32(w[i % 4u] >> 8u) * 5.9604644775390625e-08;
}",
    ),
    (
        "g_ipow",
        "\
fn g_ipow(a: i32, b: i32) -> i32 {
    if (b < 0) { return select(select(0, 1 - 2 * (b & 1), a == -1), 1, a == 1); }
    var base: i32 = a;
    var out: i32 = 1;
    var e: i32 = b;
    while (e != 0) {
        if ((e & 1) != 0) { out = out * base; }
        base = base * base;
        e = e >> 1u;
    }
    return out;
}",
    ),
    (
        "g_shl",
        "\
fn g_shl(a: i32, b: i32) -> i32 {
    if (b < 0 || b > 31) { return 0; }
    return a << u32(b);
}",
    ),
    (
        "g_shr",
        "\
fn g_shr(a: i32, b: i32) -> i32 {
    return a >> select(31u, u32(b), b >= 0 && b < 32);
}",
    ),
    (
        "g_iremainder",
        "\
fn g_iremainder(a: i32, b: i32) -> i32 {
    let r = a % b;
    return select(r, r + b, r != 0 && (r < 0) != (b < 0));
}",
    ),
    (
        "g_ifloor_divide",
        "\
fn g_ifloor_divide(a: i32, b: i32) -> i32 {
    let q = a / b;
    return select(q, q - 1, a % b != 0 && (a < 0) != (b < 0));
}",
    ),
    (
        // Exact, on the mantissas: long division, eight bits at a time.
        "g_fmod",
        "\
fn g_fmod(a: f32, b: f32) -> f32 {
    let x = bitcast<u32>(a) & 0x7fffffffu;
    let y = bitcast<u32>(b) & 0x7fffffffu;
    if (x >= 0x7f800000u || y > 0x7f800000u || y == 0u) { return g_bits(0x7fc00000u); }
    if (x < y) { return a; }
    let exponent = max(i32(y >> 23u), 1);
    let divisor = (y & 0x7fffffu) | select(0u, 0x800000u, y >= 0x800000u);
    var left: u32 = ((x & 0x7fffffu) | select(0u, 0x800000u, x >= 0x800000u)) % divisor;
    var bits: i32 = max(i32(x >> 23u), 1) - exponent;
    while (bits > 0) {
        let step = min(bits, 8);
        left = (left << u32(step)) % divisor;
        bits = bits - step;
    }
    return g_copysign(ldexp(f32(left), exponent - 150), a);
}",
    ),
    (
        "g_remainder",
        "\
fn g_remainder(a: f32, b: f32) -> f32 {
    let r = g_fmod(a, b);
    return select(r, r + b, r != 0.0 && (r < 0.0) != (b < 0.0));
}",
    ),
    (
        "g_floor_divide",
        "\
fn g_floor_divide(a: f32, b: f32) -> f32 {
    if (b == 0.0) { return a / b; }
    let r = g_fmod(a, b);
    var d: f32 = (a - r) / b;
    if (r != 0.0 && (r < 0.0) != (b < 0.0)) { d = d - 1.0; }
    if (d == 0.0) { return g_copysign(0.0, a / b); }
    let f = floor(d);
    return select(f, f + 1.0, d - f > 0.5);
}",
    ),
    (
        "g_copysign",
        "\
fn g_copysign(a: f32, b: f32) -> f32 {
    return bitcast<f32>((bitcast<u32>(a) & 0x7fffffffu) | (bitcast<u32>(b) & 0x80000000u));
}",
    ),
    (
        "g_sign",
        "\
fn g_sign(x: f32) -> f32 {
    return select(select(0.0, -1.0, x < 0.0), 1.0, x > 0.0);
}",
    ),
    (
        // WGSL's pow is undefined for negative bases; an odd whole exponent keeps the sign.
        "g_pow",
        "\
fn g_pow(a: f32, b: f32) -> f32 {
    if (b == 0.0 || a == 1.0) { return 1.0; }
    let m = abs(a);
    var y: f32 = 0.0;
    if (m == 0.0) {
        y = select(0.0, g_bits(0x7f800000u), b < 0.0);
    } else {
        y = exp2(b * log2(m));
    }
    let whole = b == trunc(b);
    if (a < 0.0 && !whole) { return g_bits(0x7fc00000u); }
    let odd = whole && abs(b) < 16777216.0 && (i32(b) & 1) != 0;
    return select(y, -y, odd && (bitcast<u32>(a) >> 31u) != 0u);
}",
    ),
    (
        // Near zero a series; elsewhere e^x - 1 loses nothing that matters.
        "g_expm1",
        "\
fn g_expm1(x: f32) -> f32 {
    if (abs(x) > 0.35) { return exp(x) - 1.0; }
    return x * (1.0 + x * (0.5 + x * (0.16666667 + x * (0.041666668 + x * (0.008333334 + x * (0.0013888889 + x * 0.0001984127))))));
}",
    ),
    (
        // Near zero 2 artanh(x / (2 + x)) as a series.
        "g_log1p",
        "\
fn g_log1p(x: f32) -> f32 {
    if (!(abs(x) <= 0.4)) { return log(1.0 + x); }
    let s = x / (2.0 + x);
    let z = s * s;
    return 2.0 * s * (1.0 + z * (0.33333334 + z * (0.2 + z * (0.14285715 + z * (0.11111111 + z * 0.09090909)))));
}",
    ),
    (
        "g_tanh",
        "\
fn g_tanh(x: f32) -> f32 {
    let a = abs(x);
    if (a > 9.5) { return g_copysign(1.0, x); }
    let t = g_expm1(2.0 * a);
    return g_copysign(t / (t + 2.0), x);
}",
    ),
    (
        "g_sigmoid",
        "\
fn g_sigmoid(x: f32) -> f32 {
    let e = exp(-abs(x));
    return select(1.0, e, x < 0.0) / (1.0 + e);
}",
    ),
    (
        // A Chebyshev fit in 1 / (1 + x/2), with a relative error below 1.2e-7.
        "g_erfc_tail",
        "\
fn g_erfc_tail(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.5 * x);
    let p = -1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * (-0.18628806
        + t * (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277))))))));
    return t * exp(-x * x + p);
}",
    ),
    (
        // A rational fit up to 0.84, the tail beyond.
        "g_erf",
        "\
fn g_erf(x: f32) -> f32 {
    let a = abs(x);
    if (a < 0.84375) {
        let z = x * x;
        let p = 0.128379166 + z * (-0.3250421 + z * (-0.02848175 + z * (-0.0057702702 + z * -0.000023763017)));
        let q = 1.0 + z * (0.3979172 + z * (0.065022252 + z * (0.005081306 + z * (0.00013249473 + z * -0.0000039602282))));
        return x + x * (p / q);
    }
    return g_copysign(1.0 - g_erfc_tail(a), x);
}",
    ),
    (
        "g_erfc",
        "\
fn g_erfc(x: f32) -> f32 {
    if (abs(x) < 0.84375) { return 1.0 - g_erf(x); }
    let t = g_erfc_tail(abs(x));
    return select(t, 2.0 - t, x < 0.0);
}",
    ),
    (
        "g_hypot",
        "\
fn g_hypot(a: f32, b: f32) -> f32 {
    let hi = max(abs(a), abs(b));
    let lo = min(abs(a), abs(b));
    if (hi == 0.0 || hi == g_bits(0x7f800000u)) { return hi; }
    let q = lo / hi;
    return hi * sqrt(1.0 + q * q);
}",
    ),
];
