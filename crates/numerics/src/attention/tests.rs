use super::*;
use crate::testing::{Random, bits, same_on_any_threads};
use proptest::prelude::*;

struct Case {
    a: Attention,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    g: Vec<f32>,
    /// Rows are this much apart; matrices follow each other.
    rows: [usize; 4],
    mask: Option<(Vec<f32>, Vec<u8>, bool)>,
}

impl Case {
    fn new(seed: u64, a: Attention, gap: usize, mask: usize) -> Case {
        let mut r = Random(seed);
        let rows = [a.width + gap, a.width + gap, a.value + gap, a.value + 2 * gap];
        let counts = [a.queries, a.keys, a.keys, a.queries];
        let [q, k, v, g] = std::array::from_fn(|i| r.f32s(a.batch * counts[i] * rows[i]));
        let n = a.batch * a.queries * a.keys;
        let mask = (mask > 0).then(|| {
            let keep: Vec<u8> = (0..n).map(|_| u8::from(r.below(3) > 0)).collect();
            (r.f32s(n), keep, mask == 1)
        });
        Case { a, q, k, v, g, rows, mask }
    }

    fn starts(&self, rows: usize, row: usize) -> Vec<usize> {
        (0..self.a.batch).map(|i| i * rows * row).collect()
    }

    /// The definition in f64: result and gradients.
    fn expected(&self) -> [Vec<f64>; 4] {
        let a = &self.a;
        let w = |x: &[f32], i: usize| f64::from(x[i]);
        let [mut out, mut dq, mut dk, mut dv] =
            [a.queries * a.value, a.queries * a.width, a.keys * a.width, a.keys * a.value]
                .map(|n| vec![0.0; a.batch * n]);
        for b in 0..a.batch {
            for i in 0..a.queries {
                let at = |rows: usize, r: usize, which: usize| (b * rows + r) * self.rows[which];
                let scores: Vec<f64> = (0..a.keys)
                    .map(|j| {
                        let (q, k) = (at(a.queries, i, 0), at(a.keys, j, 1));
                        let dot: f64 = (0..a.width).map(|e| w(&self.q, q + e) * w(&self.k, k + e)).sum();
                        let m = (b * a.queries + i) * a.keys + j;
                        let extra = match &self.mask {
                            None => 0.0,
                            Some((add, _, true)) => f64::from(add[m]),
                            Some((_, keep, false)) if keep[m] == 0 => f64::NEG_INFINITY,
                            Some((_, _, false)) => 0.0,
                        };
                        if a.causal && j > i { f64::NEG_INFINITY } else { dot * f64::from(a.scale) + extra }
                    })
                    .collect();
                let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                if max == f64::NEG_INFINITY {
                    continue;
                }
                let total: f64 = scores.iter().map(|s| (s - max).exp()).sum();
                let p: Vec<f64> = scores.iter().map(|s| (s - max).exp() / total).collect();
                let g = |e: usize| w(&self.g, at(a.queries, i, 3) + e);
                let v = |j: usize, e: usize| w(&self.v, at(a.keys, j, 2) + e);
                for e in 0..a.value {
                    out[(b * a.queries + i) * a.value + e] = (0..a.keys).map(|j| p[j] * v(j, e)).sum();
                }
                let dp: Vec<f64> = (0..a.keys).map(|j| (0..a.value).map(|e| g(e) * v(j, e)).sum()).collect();
                let mean: f64 = (0..a.keys).map(|j| p[j] * dp[j]).sum();
                for j in 0..a.keys {
                    let ds = p[j] * (dp[j] - mean) * f64::from(a.scale);
                    for e in 0..a.width {
                        dq[(b * a.queries + i) * a.width + e] += ds * w(&self.k, at(a.keys, j, 1) + e);
                        dk[(b * a.keys + j) * a.width + e] += ds * w(&self.q, at(a.queries, i, 0) + e);
                    }
                    for e in 0..a.value {
                        dv[(b * a.keys + j) * a.value + e] += p[j] * g(e);
                    }
                }
            }
        }
        [out, dq, dk, dv]
    }

    fn run(&self, isa: Isa) -> [Vec<f32>; 4] {
        let a = &self.a;
        let counts = [a.queries, a.keys, a.keys, a.queries];
        let starts: [Vec<usize>; 4] = std::array::from_fn(|i| self.starts(counts[i], self.rows[i]));
        let rows = |data, i: usize| Rows { data, starts: &starts[i], row: self.rows[i] };
        let (q, k, v, grad) = (rows(&self.q, 0), rows(&self.k, 1), rows(&self.v, 2), rows(&self.g, 3));
        let masks: Vec<usize> = (0..a.batch).map(|i| i * a.queries * a.keys).collect();
        let mask = self.mask.as_ref().map(|(add, keep, which)| Mask {
            data: if *which { MaskData::Add(add) } else { MaskData::Keep(keep) },
            starts: &masks,
            row: a.keys,
            column: 1,
        });
        let [mut out, mut dq, mut dk, mut dv] =
            [a.queries * a.value, a.queries * a.width, a.keys * a.width, a.keys * a.value]
                .map(|n| vec![f32::NAN; a.batch * n]);
        let mut sums = vec![f32::NAN; a.batch * a.queries];
        forward(isa, a, q, k, v, mask, &mut out, &mut sums);
        let saved = Saved { q, k, v, mask, out: &out, sums: &sums };
        grad::backward(isa, a, &saved, grad, &mut dq, &mut dk, &mut dv);
        [out, dq, dk, dv]
    }

    fn check(&self) {
        let expected = self.expected();
        for isa in Isa::every() {
            for (name, (got, expected)) in ["out", "dq", "dk", "dv"].iter().zip(self.run(isa).iter().zip(&expected)) {
                for (i, (x, y)) in got.iter().zip(expected).enumerate() {
                    assert!((f64::from(*x) - y).abs() < 2e-5, "{isa:?} {:?} {name} {i}: {x} {y}", self.a);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn all_sizes_match_the_definition(
        seed: u64,
        batch in 1usize..4,
        queries in 1usize..90,
        keys in 1usize..90,
        width in 1usize..40,
        value in 1usize..40,
        causal: bool,
        gap in 0usize..3,
        mask in 0usize..3,
    ) {
        let a = Attention { batch, queries, keys, width, value, scale: 0.3, causal, heads: 1 };
        Case::new(seed, a, gap, mask).check();
    }
}

#[test]
fn chunks_of_keys_agree() {
    let a = Attention { batch: 1, queries: 70, keys: 1100, width: 16, value: 20, scale: 2.0, causal: false, heads: 1 };
    Case::new(1, a, 0, 0).check();
    Case::new(2, a, 0, 2).check();
    Case::new(3, Attention { queries: 600, keys: 600, causal: true, ..a }, 1, 0).check();
}

#[test]
fn queries_that_see_nothing_are_zeros() {
    let a = Attention { batch: 2, queries: 3, keys: 4, width: 2, value: 2, scale: 1.0, causal: false, heads: 1 };
    let mut c = Case::new(1, a, 0, 2);
    if let Some((_, keep, _)) = &mut c.mask {
        keep.fill(0);
    }
    for part in c.run(Isa::detect()) {
        assert!(part.iter().all(|&x| x == 0.0), "{part:?}");
    }
    // No keys at all, and no queries.
    let none = Case::new(1, Attention { keys: 0, ..a }, 0, 0).run(Isa::detect());
    assert!(none[0].iter().all(|&x| x == 0.0) && none[1].iter().all(|&x| x == 0.0));
    Case::new(1, Attention { queries: 0, ..a }, 0, 0).run(Isa::detect());
    Case::new(1, Attention { batch: 0, ..a }, 0, 0).run(Isa::detect());
}

#[test]
fn nan_is_not_hidden() {
    let a = Attention { batch: 1, queries: 2, keys: 40, width: 3, value: 3, scale: 1.0, causal: false, heads: 1 };
    let mut c = Case::new(1, a, 0, 0);
    c.k[3 * 7] = f32::NAN;
    assert!(c.run(Isa::detect())[0].iter().all(|x| x.is_nan()));
}

#[test]
fn threads_do_not_change_a_bit() {
    for causal in [true, false] {
        let a = Attention { batch: 3, queries: 130, keys: 150, width: 24, value: 24, scale: 0.2, causal, heads: 1 };
        let c = Case::new(5, a, 3, 0);
        same_on_any_threads(|| c.run(Isa::detect()).map(|x| bits(&x)));
    }
}

/// Heads side by side in a row hold what they hold one after the other.
#[test]
fn heads_may_lie_inside_the_rows() {
    let (batch, heads, queries, keys, width, value) = (2, 3, 37, 41, 8, 5);
    let apart = Attention { batch: batch * heads, queries, keys, width, value, scale: 0.3, causal: false, heads: 1 };
    let n = batch * heads;
    let data = |count: usize, seed: f32| (0..count).map(|i| (i as f32 * seed).sin()).collect::<Vec<f32>>();
    let (q, k, v) = (data(n * queries * width, 0.37), data(n * keys * width, 0.73), data(n * keys * value, 0.19));
    let g = data(n * queries * value, 0.91);
    let starts = |rows: usize, width: usize| (0..n).map(|i| i * rows * width).collect::<Vec<_>>();
    let (qs, ks, vs, gs) = (starts(queries, width), starts(keys, width), starts(keys, value), starts(queries, value));
    let rows = |data, starts, row| Rows { data, starts, row };
    let (q, k, v) = (rows(&q, &qs, width), rows(&k, &ks, width), rows(&v, &vs, value));
    let run = |a: &Attention| {
        let (mut out, mut sums) = (vec![0.0; n * queries * value], vec![0.0; n * queries]);
        attention(a, q, k, v, None, &mut out, &mut sums);
        let mut grads = [vec![0.0; n * queries * width], vec![0.0; n * keys * width], vec![0.0; n * keys * value]];
        let [dq, dk, dv] = &mut grads;
        let saved = Saved { q, k, v, mask: None, out: &out, sums: &sums };
        attention_grad(a, &saved, rows(&g, &gs, value), dq, dk, dv);
        let [dq, dk, dv] = grads;
        [(out, queries, value), (dq, queries, width), (dk, keys, width), (dv, keys, value)]
    };
    let inside = run(&Attention { heads, ..apart });
    for ((plain, rows, width), (other, ..)) in run(&apart).into_iter().zip(inside) {
        for (i, x) in plain.chunks(width).enumerate() {
            let (matrix, r) = (i / rows, i % rows);
            let at = ((matrix / heads * rows + r) * heads + matrix % heads) * width;
            assert_eq!(x, &other[at..at + width], "row {r} of matrix {matrix}");
        }
    }
}
