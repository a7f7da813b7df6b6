"""Makes special_f64.csv: values of the special functions by mpmath at 60 digits.

    pip install mpmath && python special_f64.py > special_f64.csv
"""

from mpmath import mp, mpf
import mpmath as m

mp.dps = 60


def row(name, args, value):
    if value is None:
        return
    v = float(value)
    if v == 0.0 or v in (float("inf"), float("-inf")) or abs(v) < 2.3e-308:
        return
    print(",".join([name] + [repr(a) for a in args] + [repr(v)]))


def each(name, f, xs):
    for x in xs:
        x = float(x)
        row(name, [x], f(mpf(x)))


def ndtr(x):
    return m.erfc(-x / m.sqrt(2)) / 2


def erfcx(x):
    with mp.workdps(60 + int(abs(x) * abs(x) / 2) if abs(x) < 40 else 60):
        if x > 1e4:
            return (1 - 1 / (2 * x * x) + 3 / (4 * x**4)) / (x * m.sqrt(m.pi))
        return m.exp(x * x) * m.erfc(x)


def log_ndtr(x):
    if x > 3:
        return m.log1p(-ndtr(-x))
    if x < -1000:
        t = x * x
        return -t / 2 - m.log(-x) - m.log(2 * m.pi) / 2 + m.log1p(-1 / t + 3 / t**2 - 15 / t**3)
    return m.log(ndtr(x))


def ndtri(p):
    if p < 1e-5:
        t = m.sqrt(-2 * m.log(p))
        start = -(t - m.log(t) / t - 1 / t)
        return m.findroot(lambda x: log_ndtr(x) - m.log(p), start)
    return m.sqrt(2) * m.erfinv(2 * p - 1)


def igamma(a, x, regularized_upper=False):
    # The series with more digits than the cancellation in 1 - P can use up.
    with mp.workdps(200 if a < 200 else 120):
        term = total = mpf(1)
        k = a
        while term > total * mpf(10) ** (-mp.dps):
            k += 1
            term *= x / k
            total += term
        lower = m.exp(a * m.log(x) - x - m.loggamma(a + 1)) * total
        return 1 - lower if regularized_upper else lower


def zeta(s, q):
    # Euler-Maclaurin: mpmath's own zeta(60, 1000) is right to ten digits only.
    n = 40
    w = q + n
    total = sum((q + k) ** -s for k in range(n)) + w ** (1 - s) / (s - 1) + w**-s / 2
    for k in range(1, 40):
        total += m.bernoulli(2 * k) / m.factorial(2 * k) * m.rf(s, 2 * k - 1) * w ** (1 - s - 2 * k)
    return total


signed = [s * x for x in (1e-300, 1e-20, 1e-8, 0.001, 0.1, 0.3, 0.5, 0.84375, 1.0, 1.5, 2.0, 3.0, 5.0) for s in (1, -1)]
each("erf", m.erf, signed)
each("erfc", m.erfc, signed + [0.2, 1.25, 4.0, 7.5, 10.0, 15.0, 20.0, 25.0, 26.0])
each("erfcx", erfcx, signed + [-20.0, -10.0, 0.7, 4.0, 8.0, 11.9, 12.0, 12.1, 15.0, 25.0, 30.0, 100.0, 1e6, 1e150])
each("erfinv", m.erfinv, [s * y for y in (1e-300, 1e-10, 0.01, 0.2, 0.49, 0.5, 0.51, 0.7, 0.9, 0.99, 0.999999) for s in (1, -1)])
row("erfinv", [1 - 2.0**-53], m.erfinv(1 - mpf(2) ** -53))
each("ndtr", ndtr, signed + [-38.0, -37.3, -30.1, -20.7, -10.3, -8.0, -1.1, -0.9, 8.0])
each("log_ndtr", log_ndtr, signed + [-1e10, -1e5, -100.0, -38.0, -10.3, -1.1, -0.9, 6.0, 8.0, 10.0, 20.0, 37.0])
each("ndtri", ndtri, [1e-300, 1e-100, 1e-20, 1e-10, 1e-5, 0.001, 0.02, 0.1, 0.24, 0.25, 0.26, 0.4, 0.499, 0.5001, 0.6, 0.75, 0.76, 0.9, 0.99, 0.9999999])

positive = [1e-300, 1e-10, 0.001, 0.1, 0.5, 0.9, 1.1, 1.3, 1.5, 1.9, 2.1, 2.5, 3.0, 5.5, 7.0, 9.9, 10.1, 12.0, 20.0, 100.0, 1e5, 1e10]
negative = [-1e-10, -0.1, -0.3, -0.5, -0.75, -1.3, -1.5, -2.2, -3.75, -5.5, -10.3, -50.7, -100.5, -1000.25]
each("lgamma", lambda x: m.re(m.loggamma(x)), positive + negative + [1e100, 1e300])
each("digamma", lambda x: m.psi(0, x), positive + negative + [1.46, 1.47, 1e100])
each("trigamma", lambda x: m.psi(1, x), [x for x in positive if x > 1e-200] + negative + [1e100])
for n in (2, 3, 4, 5, 8, 15):
    for x in (0.001, 0.1, 0.5, 1.0, 1.5, 2.0, 3.3, 9.0, 11.0, 40.0, 1000.0, -0.3, -0.75, -1.3, -2.2, -10.3, -50.7):
        row("polygamma", [float(n), x], m.psi(n, mpf(x)))
for s in (1.01, 1.5, 2.0, 2.5, 3.0, 5.0, 10.0, 30.0, 60.0):
    for q in (0.001, 0.1, 0.5, 1.0, 2.0, 3.7, 9.5, 10.5, 30.0, 1000.0, 1e9):
        row("zeta", [s, q], zeta(mpf(s), mpf(q)))
for a in (0.01, 0.5, 1.0, 2.5, 5.0, 9.5, 10.5, 20.0, 50.0, 100.0, 1000.0, 1e4, 1e6):
    wide = (0.01, 0.1, 0.5, 0.9, 0.99, 1.0, 1.01, 1.1, 1.5, 2.0, 5.0)
    for f in wide if a < 1e4 else (0.9, 0.98, 0.99, 1.0, 1.01, 1.02) if a < 1e6 else (0.99, 0.999, 1.0, 1.001, 1.005):
        x = a * f
        row("igamma", [a, x], igamma(mpf(a), mpf(x)))
        if not (a > 100 and f > 1.6):
            row("igammac", [a, x], igamma(mpf(a), mpf(x), True))
for a, x in ((0.5, 1e-10), (0.1, 0.2), (0.3, 1.05), (1.0, 0.9), (0.05, 0.45), (0.19, 1e-3), (0.21, 1e-3), (0.5, 20.0), (0.01, 1e-5), (0.01, 3.0), (3.0, 50.0), (1e-5, 0.5), (1e-5, 1e-8), (2e6, 2.001e6), (2e6, 1.996e6)):
    row("igamma", [a, x], igamma(mpf(a), mpf(x)))
    row("igammac", [a, x], igamma(mpf(a), mpf(x), True))
bessel = [1e-10, 0.01, 0.5, 1.0, 2.0, 3.0, 5.0, 7.9, 8.1, 10.0, 15.0, 19.9, 20.1, 30.0, 50.0, 100.0, 300.0, 700.0]
both = bessel + [-x for x in bessel]
each("i0", lambda x: m.besseli(0, x), both)
each("i1", lambda x: m.besseli(1, x), both)
each("i0e", lambda x: m.exp(-abs(x)) * m.besseli(0, x), both + [1e4, 1e8])
each("i1e", lambda x: m.exp(-abs(x)) * m.besseli(1, x), both + [1e4, 1e8])
each("j0", lambda x: m.besselj(0, x), both)
each("j1", lambda x: m.besselj(1, x), both)
each("y0", lambda x: m.bessely(0, x), bessel)
each("y1", lambda x: m.bessely(1, x), bessel)
for p in (1, 2, 3, 5):
    for a in (2.6, 3.0, 10.5, 100.0, 1e5):
        v = mpf(p) * (p - 1) / 4 * m.log(m.pi) + sum(m.loggamma(mpf(a) - mpf(i) / 2) for i in range(p))
        row("mvlgamma", [a, float(p)], v)
each("sinc", lambda x: m.sincpi(x), [1e-10, 0.1, 0.5, 0.9, 1.5, -0.7, 10.3, 1000.1, 1e6 + 0.25])
each("entr", lambda x: -x * m.log(x), [1e-300, 0.1, 0.5, 0.9, 2.0, 1e10])
for a, b in ((0.0, 0.0), (1.0, 2.0), (-1000.0, -1001.0), (1000.0, 990.0), (0.0, -40.0), (-3.0, 2.5)):
    row("logaddexp", [a, b], m.log(m.exp(mpf(a)) + m.exp(mpf(b))))
    row("logaddexp2", [a, b], m.log(mpf(2) ** a + mpf(2) ** b, 2))
