//! Random numbers: the same on any number of threads, and distributed as they should be. Seeds are fixed, so nothing
//! here fails by chance; bounds are five standard errors or wider.

use gradus_core::{DType, Fan, Gain, Tensor, get_rng_state, manual_seed, set_rng_state};
use std::sync::Mutex;

/// The generator belongs to the process: tests that seed it take turns.
static TURN: Mutex<()> = Mutex::new(());

fn seeded<R>(seed: u64, f: impl FnOnce() -> R) -> R {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    manual_seed(seed);
    f()
}

fn moments(t: &Tensor) -> (f64, f64) {
    let v = t.to_vec::<f64>().unwrap();
    let n = v.len() as f64;
    let mean = v.iter().sum::<f64>() / n;
    (mean, v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n)
}

#[track_caller]
fn near(got: f64, want: f64, within: f64) {
    assert!((got - want).abs() <= within, "{got} instead of {want} within {within}");
}

#[track_caller]
fn fails<T>(r: gradus_core::Result<T>, text: &str) {
    let e = r.err().expect("an error").to_string();
    assert!(e.starts_with(text), "{e}");
}

const N: usize = 100_000;

#[test]
fn the_same_on_any_number_of_threads() {
    let all = || {
        seeded(42, || {
            let w = Tensor::rand([7]);
            let parts = [
                Tensor::rand([N]).to_bytes(),
                Tensor::randn([300, 333]).to_bytes(),
                Tensor::randn_of([N], DType::F64).unwrap().to_bytes(),
                Tensor::randint(-5, 1000, [N], DType::I32).unwrap().to_bytes(),
                Tensor::randperm(5000).to_bytes(),
                Tensor::bernoulli_p(0.3, [N]).unwrap().to_bytes(),
                w.multinomial(N, true).unwrap().to_bytes(),
                w.multinomial(5, false).unwrap().to_bytes(),
                Tensor::exponential(2.0, [N]).unwrap().to_bytes(),
                Tensor::trunc_normal(0.0, 1.0, -2.0, 2.0, [N]).unwrap().to_bytes(),
                Tensor::kaiming([784, 10]).unwrap().to_bytes(),
            ];
            parts.map(|p| p.unwrap())
        })
    };
    let runs = [1, 2, 4, 8].map(|n| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap().install(all));
    assert!(runs.iter().all(|r| *r == runs[0]));
}

#[test]
fn state_and_streams() {
    seeded(3, || {
        let first = Tensor::rand([8]).to_vec::<f32>().unwrap();
        let at = get_rng_state();
        let second = Tensor::rand([8]).to_vec::<f32>().unwrap();
        assert_ne!(first, second);
        set_rng_state(at);
        assert_eq!(second, Tensor::rand([8]).to_vec::<f32>().unwrap());
        manual_seed(4);
        assert_ne!(first, Tensor::rand([8]).to_vec::<f32>().unwrap());
    });
}

#[test]
fn moments_of_every_distribution() {
    seeded(7, || {
        let se = 5.0 / (N as f64).sqrt();
        let (m, v) = moments(&Tensor::uniform(-1.0, 3.0, [N]));
        near(m, 1.0, 1.2 * se);
        near(v, 16.0 / 12.0, 1.2 * se);
        for d in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            let u = Tensor::rand_of([N], d).unwrap();
            assert_eq!(u.dtype(), d);
            assert!(u.to_vec::<f64>().unwrap().iter().all(|x| (0.0..1.0).contains(x)), "{d}");
            near(moments(&u).0, 0.5, 0.3 * se + 0.5 / 256.0);
            let (m, v) = moments(&Tensor::randn_of([N], d).unwrap());
            near(m, 0.0, se);
            near(v, 1.0, 1.5 * se);
        }
        let (m, v) = moments(&Tensor::exponential(4.0, [N]).unwrap());
        near(m, 0.25, 0.25 * se);
        near(v, 1.0 / 16.0, 0.2 * se);
        // Within two deviations the variance of a normal is 0.7737.
        let t = Tensor::trunc_normal(10.0, 2.0, 6.0, 14.0, [N]).unwrap();
        let (m, v) = moments(&t);
        near(m, 10.0, 2.0 * se);
        near(v, 4.0 * 0.773741, 4.0 * se);
        assert!(t.to_vec::<f32>().unwrap().iter().all(|x| (6.0..=14.0).contains(x)));
        // Far out in a tail: the mean of what lies beyond 6 deviations is 6.158.
        let tail = Tensor::trunc_normal(0.0, 1.0, 6.0, 50.0, [N]).unwrap();
        near(moments(&tail).0, 6.158, 0.01);
    });
}

#[test]
fn normal_numbers_fill_their_bins() {
    seeded(11, || {
        let v = Tensor::randn_of([N], DType::F64).unwrap().to_vec::<f64>().unwrap();
        // Shares of a normal below -2, -1, 0, 1, 2.
        for (x, share) in [(-2.0, 0.022750), (-1.0, 0.158655), (0.0, 0.5), (1.0, 0.841345), (2.0, 0.977250)] {
            let got = v.iter().filter(|y| **y < x).count() as f64 / N as f64;
            near(got, share, 5.0 * (share * (1.0f64 - share) / N as f64).sqrt());
        }
    });
}

#[test]
fn integers_and_permutations() {
    seeded(5, || {
        let dice = Tensor::randint(1, 7, [N], DType::I64).unwrap().to_vec::<i64>().unwrap();
        for face in 1..7 {
            near(
                dice.iter().filter(|d| **d == face).count() as f64,
                N as f64 / 6.0,
                5.0 * (N as f64 * 5.0 / 36.0).sqrt(),
            );
        }
        assert!(dice.iter().all(|d| (1..7).contains(d)));
        let p = Tensor::randperm(1000).to_vec::<i64>().unwrap();
        let mut sorted = p.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<i64>>());
        assert_ne!(p, sorted);
        assert_eq!(Tensor::randperm(0).dims(), [0]);
    });
    fails(Tensor::randint(3, 3, [1], DType::I64), "randint: cannot choose from 3..3");
    fails(Tensor::randint(i64::MIN, i64::MAX, [1], DType::I64), "randint: cannot choose from");
    fails(Tensor::zeros([2], DType::I64).rand_like(), "rand_like: makes floats, not i64");
}

#[test]
fn draws_by_weight() {
    seeded(9, || {
        let w = Tensor::from([[1.0f64, 0.0, 3.0], [0.0, 5.0, 0.0]]);
        let d = w.multinomial(N, true).unwrap();
        assert_eq!(d.dims(), [2, N]);
        let v = d.to_vec::<i64>().unwrap();
        near(v[..N].iter().filter(|i| **i == 2).count() as f64 / N as f64, 0.75, 5.0 * (0.1875 / N as f64).sqrt());
        assert!(v[..N].iter().all(|i| *i != 1) && v[N..].iter().all(|i| *i == 1));
        // Without replacement, the first draw goes by weight too.
        let rows = Tensor::from([1.0f64, 2.0, 5.0]).expand([20_000, 3]).unwrap();
        let two = rows.multinomial(2, false).unwrap().to_vec::<i64>().unwrap();
        let first = two.chunks(2).filter(|p| p[0] == 2).count() as f64 / 20_000.0;
        near(first, 5.0 / 8.0, 5.0 * (0.625f64 * 0.375 / 20_000.0).sqrt());
        // Then by what is left: P(0 then 1) = 1/8 * 2/7.
        let pair = two.chunks(2).filter(|p| *p == [0, 1]).count() as f64 / 20_000.0;
        near(pair, 2.0 / 56.0, 5.0 * (0.0357f64 * 0.9643 / 20_000.0).sqrt());
        let ones = Tensor::full([N], 0.25, DType::F64).bernoulli().unwrap();
        near(moments(&ones).0, 0.25, 5.0 * (0.1875 / N as f64).sqrt());
    });
    let w = |v: [f32; 3]| Tensor::from(v);
    fails(w([1.0, -1.0, 0.0]).multinomial(1, true), "multinomial: a weight cannot be -1 (row 0)");
    fails(w([1.0, f32::NAN, 0.0]).multinomial(1, true), "multinomial: a weight cannot be NaN (row 0)");
    fails(w([0.0; 3]).multinomial(1, true), "multinomial: cannot draw 1 of 0 places with a weight (row 0)");
    fails(w([1.0, 1.0, 0.0]).multinomial(3, false), "multinomial: cannot draw 3 of 2 places with a weight (row 0)");
    fails(w([1.0; 3]).multinomial(0, true), "multinomial: cannot draw 0 of 3 places");
    fails(Tensor::from([1.5f32]).bernoulli(), "bernoulli: a probability cannot be 1.5");
    fails(Tensor::bernoulli_p(f64::NAN, [2]), "bernoulli: a probability cannot be NaN");
    fails(Tensor::exponential(0.0, [2]), "exponential: a rate cannot be 0");
    fails(Tensor::trunc_normal(0.0, 1.0, 1.0, 1.0, [2]), "trunc_normal: nothing lies between 1 and 1");
}

#[test]
fn weights_start_with_the_right_variance() {
    seeded(13, || {
        // x @ w keeps the mean square of a relu's output: variance 2 / inputs.
        near(moments(&Tensor::kaiming([500, 200]).unwrap()).1, 2.0 / 500.0, 0.02 * 2.0 / 500.0 * 2.0);
        near(moments(&Tensor::kaiming([64, 32, 5, 5]).unwrap()).1, 2.0 / 800.0, 0.05 * 2.0 / 800.0);
        let u = Tensor::kaiming_uniform([200, 500], Fan::In, Gain::LeakyRelu(5f64.sqrt()), DType::F64).unwrap();
        let bound = 1.0 / 500f64.sqrt();
        assert!(u.to_vec::<f64>().unwrap().iter().all(|x| x.abs() <= bound));
        near(moments(&u).1, bound * bound / 3.0, 0.03 * bound * bound / 3.0);
        let x = Tensor::xavier_normal([300, 100], Gain::Tanh.factor(), DType::F32).unwrap();
        near(moments(&x).1, 25.0 / 9.0 * 2.0 / 400.0, 0.05 * 25.0 / 9.0 * 2.0 / 400.0);
        let x = Tensor::xavier_uniform([300, 100], 1.0, DType::F32).unwrap();
        near(moments(&x).1, 2.0 / 400.0, 0.05 * 2.0 / 400.0);
    });
    fails(Tensor::kaiming([3]), "kaiming_normal: a weight has two axes or more, not [3]");
    fails(Tensor::xavier_uniform([3, 3], 1.0, DType::I64), "xavier_uniform: makes floats, not i64");
}

#[test]
fn ranges_count_exactly() {
    let big = 1i64 << 60;
    assert_eq!(Tensor::arange(big, big + 5, 2, DType::I64).unwrap().to_vec::<i64>().unwrap(), [big, big + 2, big + 4]);
    assert_eq!(Tensor::arange(5, 0, -2, DType::I64).unwrap().to_vec::<i64>().unwrap(), [5, 3, 1]);
    assert_eq!(Tensor::arange(3, 3, 1, DType::I64).unwrap().dims(), [0]);
    assert_eq!(Tensor::linspace(0.0, 10.0, 5, DType::I64).to_vec::<i64>().unwrap(), [0, 2, 5, 7, 10]);
    assert_eq!(Tensor::logspace(0.0, 3.0, 4, 2.0, DType::I32).to_vec::<i64>().unwrap(), [1, 2, 4, 8]);
    fails(Tensor::arange(0, 5, -1, DType::I64), "arange: cannot step from 0 to 5 by -1");
}
