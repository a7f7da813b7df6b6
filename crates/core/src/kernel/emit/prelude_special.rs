//! Special functions in CUDA C: the algorithms of `gradus_math::f64`, where CUDA has no function of its own.

/// Name and text, callees before callers.
pub(super) const HELPERS: &[(&str, &str)] = &[
    (
        "g_sigmoid",
        "\
template <class T> __device__ inline T g_sigmoid(T x) {
    const T e = exp(-fabs(x));
    return (x < 0 ? e : (T)1) / (1 + e);
}
__device__ inline float g_sigmoid(float x) {
    const float e = exp(-fabs(x));
    return (x < 0 ? e : 1.0f) * g_quick_reciprocal(1.0f + e);
}",
    ),
    (
        // Two units in the last place, and no branch: four elements of a vector are computed at once. A polynomial near zero.
        "g_tanh",
        "\
template <class T> __device__ inline T g_tanh(T x) { return tanh(x); }
__device__ inline float g_tanh(float x) {
    const float a = fabsf(x), s = x * x;
    const float far = copysignf(fmaf(-2.0f, g_quick_reciprocal(1.0f + g_quick_exp(2.0f * a)), 1.0f), x);
    float p = fmaf(-0.0055151596f, s, 0.020469416f);
    p = fmaf(p, s, -0.053688023f);
    p = fmaf(p, s, 0.13330831f);
    p = fmaf(p, s, -0.3333326f);
    return a < 0.65f ? fmaf(p * s, x, x) : far;
}",
    ),
    (
        "g_sinc",
        "\
template <class T> __device__ inline T g_sinc(T x) {
    if (x == 0) return (T)1;
    if (x - x != 0 && x == x) return (T)0;
    return sinpi(x) / ((T)3.141592653589793 * x);
}",
    ),
    (
        "g_entr",
        "\
template <class T> __device__ inline T g_entr(T x) {
    if (x > 0) return -x * log(x);
    if (x == 0) return (T)0;
    return x != x ? x : (T)__int_as_float(0xff800000);
}",
    ),
    (
        "g_xlogy",
        "\
template <class T> __device__ inline T g_xlogy(T x, T y) {
    return x == 0 && y == y ? (T)0 : x * log(y);
}",
    ),
    (
        "g_xlog1py",
        "\
template <class T> __device__ inline T g_xlog1py(T x, T y) {
    return x == 0 && y == y ? (T)0 : x * log1p(y);
}",
    ),
    (
        "g_logaddexp",
        "\
template <class T> __device__ inline T g_logaddexp(T a, T b) {
    if (a == b) return a + (T)0.6931471805599453;
    const T d = a - b;
    if (d > 0) return a + log1p(exp(-d));
    return d <= 0 ? b + log1p(exp(d)) : d;
}",
    ),
    (
        "g_logaddexp2",
        "\
template <class T> __device__ inline T g_logaddexp2(T a, T b) {
    if (a == b) return a + 1;
    const T d = a - b;
    if (d > 0) return a + log1p(exp2(-d)) * (T)1.4426950408889634;
    return d <= 0 ? b + log1p(exp2(d)) * (T)1.4426950408889634 : d;
}",
    ),
    (
        "g_log_ndtr",
        "\
template <class T> __device__ inline T g_log_ndtr(T x) {
    const T h = x * (T)0.7071067811865476;
    if (x < -1) return (T)-0.5 * x * x + log(erfcx(-h)) - (T)0.6931471805599453;
    return log1p((T)-0.5 * erfc(h));
}",
    ),
    (
        "g_frexp_m",
        "\
template <class T> __device__ inline T g_frexp_m(T x) {
    int e = 0;
    return x - x != 0 ? x : (T)frexp(x, &e);
}",
    ),
    (
        "g_frexp_e",
        "\
template <class T> __device__ inline T g_frexp_e(T x) {
    int e = 0;
    if (x - x != 0) return (T)0;
    frexp(x, &e);
    return (T)e;
}",
    ),
    (
        "g_zeta",
        "\
__device__ inline double g_zeta(double s, double q) {
    const double inf = __longlong_as_double(0x7ff0000000000000ll), nan = __longlong_as_double(0x7ff8000000000000ll);
    if (s == 1.0) return inf;
    if (!(s > 1.0) || q != q) return nan;
    if (q <= 0.0) {
        if (q == floor(q)) return inf;
        if (s != floor(s)) return nan;
    }
    if (q > 1e8) return (1.0 / (s - 1.0) + 0.5 / q) * pow(q, 1.0 - s);
    const double coef[12] = {12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183793e9, 7.47242496e10,
        -2.950130727918164e12, 1.1646782814350068e14, -4.597978722407473e15, 1.8152105401943546e17, -7.166165256175667e18};
    double sum = pow(q, -s), a = q, b = 0.0;
    for (int i = 1;; ++i) {
        a += 1.0;
        b = pow(a, -s);
        sum += b;
        if (fabs(b / sum) < 1e-17 && a > 0.0) return sum;
        if (i >= 9 && a > 9.0) break;
    }
    const double w = a;
    sum += b * w / (s - 1.0) - 0.5 * b;
    double fac = 1.0, k = 0.0;
    for (int i = 0; i < 12; ++i) {
        fac *= s + k;
        b /= w;
        const double t = fac * b / coef[i];
        sum += t;
        if (fabs(t / sum) < 1e-17) break;
        k += 1.0;
        fac *= s + k;
        b /= w;
        k += 1.0;
    }
    return sum;
}",
    ),
    (
        "g_digamma",
        "\
__device__ inline double g_digamma(double x) {
    if (x == 0.0) return copysign(__longlong_as_double(0x7ff0000000000000ll), -x);
    double s = 0.0;
    if (x < 0.0) {
        if (x == floor(x)) return __longlong_as_double(0x7ff8000000000000ll);
        const double r = fmod(x, 1.0);
        s = -3.141592653589793 * sinpi(0.5 - r) / sinpi(r);
        x = 1.0 - x;
    }
    const double d = (x - 1.4616321449683622) - 9.549995429965697e-17;
    if (fabs(d) < 0.1) {
        const double c[14] = {0.9676722454476212, -0.4427631689835921, 0.258499760955651, -0.16394270544240652,
            0.10782405069126237, -0.07219956125645471, 0.04880428816414311, -0.03316112647484736, 0.022597648232218104,
            -0.01542476590494896, 0.010538791616612175, -0.007204534386356869, 0.004926781395729853, -0.003369801655439328};
        double y = 0.0;
        for (int i = 13; i >= 0; --i) y = y * d + c[i];
        return s + d * y;
    }
    while (x < 10.0) {
        s -= 1.0 / x;
        x += 1.0;
    }
    const double c[7] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
    const double z = 1.0 / (x * x);
    double t = 0.0;
    for (int i = 6; i >= 0; --i) t = t * z + c[i];
    return log(x) - 0.5 / x - t * z + s;
}",
    ),
    (
        "g_trigamma",
        "\
__device__ inline double g_trigamma(double x) {
    double s = 0.0, sign = 1.0;
    if (x <= 0.0) {
        if (x == floor(x)) return __longlong_as_double(0x7ff0000000000000ll);
        const double p = 3.141592653589793 / sinpi(x);
        s = p * p;
        sign = -1.0;
        x = 1.0 - x;
    }
    double t = 0.0;
    while (x < 12.0) {
        t += 1.0 / (x * x);
        x += 1.0;
    }
    const double c[7] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6};
    const double z = 1.0 / (x * x);
    double y = 0.0;
    for (int i = 6; i >= 0; --i) y = y * z + c[i];
    return s + sign * (t + 1.0 / x + 0.5 * z + y * z / x);
}",
    ),
    (
        // The zeta function takes negative arguments at whole orders, so no reflection is needed.
        "g_polygamma",
        "\
__device__ inline double g_polygamma(double n, double x) {
    n = n >= 1.0 ? floor(n) : 0.0;
    if (n == 0.0) return g_digamma(x);
    if (n == 1.0) return g_trigamma(x);
    return (fmod(n, 2.0) == 1.0 ? 1.0 : -1.0) * tgamma(n + 1.0) * g_zeta(n + 1.0, x);
}",
    ),
    (
        "g_bessel_series",
        "\
__device__ inline double g_bessel_series(double x, double nu) {
    const double q = 0.25 * x * x;
    double term = 1.0, sum = 1.0, k = 0.0;
    while (term > 1e-17 * sum) {
        k += 1.0;
        term *= q / (k * (k + nu));
        sum += term;
    }
    return sum;
}",
    ),
    (
        "g_bessel_hankel",
        "\
__device__ inline double g_bessel_hankel(double x, double nu) {
    const double mu = 4.0 * nu * nu;
    double term = 1.0, sum = 1.0;
    for (double k = 1.0; k < 40.0 && fabs(term) > 1e-17; k += 1.0) {
        const double odd = 2.0 * k - 1.0;
        term *= (odd * odd - mu) / (8.0 * k * x);
        sum += term;
    }
    return sum / sqrt(6.283185307179586 * x);
}",
    ),
    (
        "g_i0e",
        "\
__device__ inline double g_i0e(double x) {
    const double a = fabs(x);
    return a <= 20.0 ? g_bessel_series(a, 0.0) * exp(-a) : g_bessel_hankel(a, 0.0);
}",
    ),
    (
        "g_i1e",
        "\
__device__ inline double g_i1e(double x) {
    const double a = fabs(x);
    return copysign(a <= 20.0 ? 0.5 * a * g_bessel_series(a, 1.0) * exp(-a) : g_bessel_hankel(a, 1.0), x);
}",
    ),
    (
        "g_log1p_minus",
        "\
__device__ inline double g_log1p_minus(double u) {
    if (fabs(u) > 0.4) return log1p(u) - u;
    const double s = u / (2.0 + u), z = s * s;
    double term = z, sum = 0.0;
    for (double k = 3.0;; k += 2.0) {
        const double t = term / k;
        sum += t;
        if (t <= 1e-18 * sum || t == 0.0) break;
        term *= z;
    }
    return 2.0 * s * sum - u * s;
}",
    ),
    (
        "g_stirling_rest",
        "\
__device__ inline double g_stirling_rest(double a) {
    const double c[7] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360, 1.0 / 156};
    const double z = 1.0 / (a * a);
    double y = 0.0;
    for (int i = 6; i >= 0; --i) y = y * z + c[i];
    return y / a;
}",
    ),
    (
        // x^a e^-x / gamma(a + 1)
        "g_igamma_factor",
        "\
__device__ inline double g_igamma_factor(double a, double x) {
    if (a < 10.0) {
        if (!(x >= 1e-3 && x <= 100.0)) return exp(a * log(x) - x - lgamma(a + 1.0));
        return pow(x, a) * exp(-x) / tgamma(a + 1.0);
    }
    const double u = (x - a) / a, root = sqrt(6.283185307179586 * a);
    if (fabs(u) > 0.4 && a < 150.0 && x < 600.0) {
        const double p = pow(x / a, a);
        if (p > 2.2250738585072014e-308) return p * exp((a - x) - g_stirling_rest(a)) / root;
    }
    const double d = u - u == 0.0 ? g_log1p_minus(u) : -__longlong_as_double(0x7ff0000000000000ll);
    return exp(a * d - g_stirling_rest(a)) / root;
}",
    ),
    (
        "g_igamma_series",
        "\
__device__ inline double g_igamma_series(double a, double x) {
    double term = 1.0, sum = 1.0, k = a;
    while (term > 1e-17 * sum) {
        k += 1.0;
        term *= x / k;
        sum += term;
    }
    return sum * g_igamma_factor(a, x);
}",
    ),
    (
        "g_igamma_fraction",
        "\
__device__ inline double g_igamma_fraction(double a, double x) {
    const double tiny = 1e-300;
    double b = x + 1.0 - a, c = 1.0 / tiny, d = 1.0 / b, h = d;
    for (double i = 1.0; i < 1e6; i += 1.0) {
        const double an = -i * (i - a);
        b += 2.0;
        d = an * d + b;
        if (fabs(d) < tiny) d = tiny;
        c = b + an / c;
        if (fabs(c) < tiny) c = tiny;
        d = 1.0 / d;
        h *= d * c;
        if (fabs(d * c - 1.0) < 1e-16) break;
    }
    return h * a * g_igamma_factor(a, x);
}",
    ),
    (
        "g_lgamma1p",
        "\
__device__ inline double g_lgamma1p(double a) {
    if (a > 0.2) return lgamma(1.0 + a);
    const double c[14] = {0.3224670334241132, -0.0673523010531981, 0.020580808427784546, -0.007385551028673986,
        0.0028905103307415234, -0.001192753911703261, 0.0005096695247430425, -0.00022315475845357939, 9.945751278180853e-5,
        -4.492623673813314e-5, 2.050721277567069e-5, -9.439488275268397e-6, 4.374866789907488e-6, -2.039215753801366e-6};
    double y = 0.0;
    for (int i = 13; i >= 0; --i) y = y * a + c[i];
    return y * a * a + 0.42278433509846713 * a - log1p(a);
}",
    ),
    (
        "g_igamma_upper",
        "\
__device__ inline double g_igamma_upper(double a, double x) {
    double fac = 1.0, sum = 0.0;
    for (double n = 1.0;; n += 1.0) {
        fac *= -x / n;
        const double t = fac / (a + n);
        sum += t;
        if (fabs(t) <= 1e-17 * fabs(sum)) break;
    }
    const double l = a * log(x) - g_lgamma1p(a);
    return -expm1(l) - a * exp(l) * sum;
}",
    ),
    (
        // Temme's expansion for large a: the lower function for side -1, the upper one for side 1.
        "g_igamma_temme",
        "\
__device__ inline double g_igamma_temme(double a, double x, double side) {
    const double u = (x - a) / a, half = -g_log1p_minus(u), eta = copysign(sqrt(2.0 * half), u);
    const double e = eta < -1.0 ? -1.0 : eta > 1.0 ? 1.0 : eta;
    const double c[7] = {-1.0 / 3, 1.0 / 12, -2.0 / 135, 1.0 / 864, 1.0 / 2835, -139.0 / 777600, 1.0 / 25515};
    double c0 = 0.0;
    for (int i = 6; i >= 0; --i) c0 = c0 * e + c[i];
    const double c1 = (1.0 / 378 * e - 1.0 / 288) * e - 1.0 / 540;
    const double r = exp(-a * half) / sqrt(6.283185307179586 * a) * (c0 + c1 / a);
    return 0.5 * erfc(side * eta * sqrt(0.5 * a)) + side * r;
}",
    ),
    (
        // The value of the lower function where no computation is needed, and 2 elsewhere.
        "g_igamma_edge",
        "\
__device__ inline double g_igamma_edge(double a, double x) {
    const double inf = __longlong_as_double(0x7ff0000000000000ll), nan = __longlong_as_double(0x7ff8000000000000ll);
    if (!(a >= 0.0) || !(x >= 0.0)) return nan;
    if (a == 0.0) return x > 0.0 ? 1.0 : nan;
    if (x == 0.0) return 0.0;
    if (a == inf) return x == inf ? nan : 0.0;
    return x == inf ? 1.0 : 2.0;
}",
    ),
    (
        "g_igamma",
        "\
__device__ inline double g_igamma(double a, double x) {
    const double p = g_igamma_edge(a, x);
    if (p != 2.0) return p;
    if (a > 1e6) return g_igamma_temme(a, x, -1.0);
    return x <= a + 1.0 || x < 1.0 ? g_igamma_series(a, x) : 1.0 - g_igamma_fraction(a, x);
}",
    ),
    (
        "g_igammac",
        "\
__device__ inline double g_igammac(double a, double x) {
    const double p = g_igamma_edge(a, x);
    if (p != 2.0) return 1.0 - p;
    if (a > 1e6) return g_igamma_temme(a, x, 1.0);
    if (x <= 1.1 && (x <= 0.5 ? a <= -0.4 / log(x) : a <= 1.1 * x)) return g_igamma_upper(a, x);
    return x <= a + 1.0 || x < 1.0 ? 1.0 - g_igamma_series(a, x) : g_igamma_fraction(a, x);
}",
    ),
];
