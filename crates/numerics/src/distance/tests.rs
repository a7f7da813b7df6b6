use super::*;

fn numbers(n: usize, seed: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729 + 13) % 10007) as f64 / 5003.5 - 1.0).collect()
}

fn distance(order: Order, a: &[f64], b: &[f64]) -> f64 {
    let d = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    match order {
        Order::One => d.sum(),
        Order::Two => d.map(|d| d * d).sum::<f64>().sqrt(),
        Order::Infinity => d.fold(0.0, f64::max),
    }
}

fn close(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{i}: {a} {b}");
    }
}

fn narrow(x: &[f64]) -> Vec<f32> {
    x.iter().map(|x| *x as f32).collect()
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

const SIZES: [Sizes; 6] = [
    Sizes { batch: 1, n: 1, m: 1, d: 1 },
    Sizes { batch: 2, n: 5, m: 7, d: 3 },
    Sizes { batch: 1, n: 70, m: 33, d: 20 },
    Sizes { batch: 3, n: 17, m: 64, d: 130 },
    Sizes { batch: 1, n: 9, m: 100, d: 32 },
    Sizes { batch: 1, n: 66, m: 150, d: 41 },
];

#[test]
fn distances_are_norms_of_differences() {
    for order in [Order::One, Order::Two, Order::Infinity] {
        for s in SIZES {
            let Sizes { batch, n, m, d } = s;
            let (a, b) = (narrow(&numbers(batch * n * d, 1)), narrow(&numbers(batch * m * d, 2)));
            let (wa, wb) = (wide(&a), wide(&b));
            let mut expected = vec![];
            for t in 0..batch * n * m {
                let (i, j) = (t / m, t / (n * m) * m + t % m);
                expected.push(distance(order, &wa[i * d..][..d], &wb[j * d..][..d]));
            }
            let (mut y, mut yy) = (vec![0f32; batch * n * m], vec![0f64; batch * n * m]);
            f32::distances(order, s, &a, &b, &mut y);
            f64::distances(order, s, &wa, &wb, &mut yy);
            close(&wide(&y), &expected, 2e-6);
            close(&yy, &expected, 1e-14);
        }
    }
}

#[test]
fn pairs_are_the_upper_triangle() {
    for (n, d) in [(1, 4), (2, 1), (7, 5), (65, 20), (100, 140)] {
        let x = narrow(&numbers(n * d, 3));
        let count = n * (n - 1) / 2;
        for order in [Order::One, Order::Two, Order::Infinity] {
            let mut all = vec![0f32; n * n];
            f32::distances(order, Sizes { batch: 1, n, m: n, d }, &x, &x, &mut all);
            let expected: Vec<f32> = (0..n * n).filter(|t| t % n > t / n).map(|t| all[t]).collect();
            let (mut y, mut yy) = (vec![0f32; count], vec![0f64; count]);
            f32::pairs(order, [n, d], &x, &mut y);
            assert_eq!(y, expected);
            f64::pairs(order, [n, d], &wide(&x), &mut yy);
            close(&yy, &wide(&y), 1e-5);
        }
    }
}

#[test]
fn slopes_are_weighted_sums() {
    for s in SIZES {
        let Sizes { batch, n, m, d } = s;
        let (a, b, w) = (numbers(batch * n * d, 1), numbers(batch * m * d, 2), numbers(batch * n * m, 5));
        for (signs, turned) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut expected = vec![0.0; a.len()];
            for t in 0..batch * n * m * d {
                let (k, j, i, batch) = (t % d, t / d % m, t / (d * m) % n, t / (d * m * n));
                let at = (batch * n + i) * d + k;
                let x = a[at] - b[(batch * m + j) * d + k];
                let w = w[batch * n * m + if turned { j * n + i } else { i * m + j }];
                expected[at] += w * if signs { x.signum() * f64::from(u8::from(x != 0.0)) } else { x };
            }
            let way = Way { signs, turned };
            let (mut y, mut yy) = (vec![0f32; a.len()], vec![0f64; a.len()]);
            f32::slopes(way, s, &narrow(&a), &narrow(&b), &narrow(&w), &mut y);
            f64::slopes(way, s, &a, &b, &w, &mut yy);
            close(&wide(&y), &expected, 2e-5);
            close(&yy, &expected, 1e-12);
        }
    }
}

#[test]
fn slopes_of_pairs_are_those_of_both() {
    let (n, d) = (37, 21);
    let (x, w) = (numbers(n * d, 1), numbers(n * (n - 1) / 2, 2));
    let mut all = vec![0.0; n * n];
    back::unfold(n, &w, &mut all);
    let (mut dx, mut expected) = (vec![0.0; n * d], vec![0.0; n * d]);
    let mut next = w.iter();
    for i in 0..n {
        for j in i + 1..n {
            let w = *next.next().unwrap();
            for k in 0..d {
                expected[i * d + k] += w * (x[i * d + k] - x[j * d + k]);
                expected[j * d + k] -= w * (x[i * d + k] - x[j * d + k]);
            }
        }
    }
    f64::pair_slopes(Way { signs: false, turned: false }, [n, d], &x, &w, &mut dx);
    close(&dx, &expected, 1e-12);
}

#[test]
fn what_is_no_number_stays() {
    let mut x = [0.5f32; 40];
    x[25] = f32::NAN;
    for order in [Order::One, Order::Two, Order::Infinity] {
        let mut y = [0f32; 6];
        f32::pairs(order, [4, 10], &x, &mut y);
        assert_eq!(y.map(f32::is_nan), [false, true, false, true, false, true]);
    }
    let mut y = [0f32];
    f32::distances(Order::Two, Sizes { batch: 1, n: 1, m: 1, d: 1 }, &[f32::INFINITY], &[0.0], &mut y);
    assert_eq!(y, [f32::INFINITY]);
}
