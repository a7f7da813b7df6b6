//! Sequences against the formula in f64, and gradients against differences.

use super::{Lstm, lstm, lstm_grad};
use crate::testing::Random;

fn numbers(n: usize, seed: u64) -> Vec<f32> {
    Random(seed).f32s(n)
}

/// States of all steps and the last cell.
fn formula(s: &Lstm, gates: &[f64], w: &[f64], h0: &[f64], c0: &[f64]) -> Vec<f64> {
    let (n, one) = (s.hidden, s.state());
    let (mut h, mut c) = (h0.to_vec(), c0.to_vec());
    let mut out = vec![0.0; (s.steps + 1) * one];
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    for i in 0..s.steps {
        let t = s.at(i);
        let before = h.clone();
        for (r, j) in (0..s.rows).flat_map(|r| (0..n).map(move |j| (r, j))) {
            let gate = |q: usize| {
                let dot: f64 = (0..n).map(|k| before[r * n + k] * w[(q * n + j) * n + k]).sum();
                gates[(t * s.rows + r) * 4 * n + q * n + j] + dot
            };
            let at = r * n + j;
            c[at] = sigmoid(gate(1)) * c[at] + sigmoid(gate(0)) * gate(2).tanh();
            h[at] = sigmoid(gate(3)) * c[at].tanh();
        }
        out[t * one..(t + 1) * one].copy_from_slice(&h);
    }
    out[s.steps * one..].copy_from_slice(&c);
    out
}

fn shapes() -> impl Iterator<Item = Lstm> {
    let sizes = [(1, 1, 1), (3, 2, 5), (2, 1, 16), (4, 3, 17), (2, 13, 33), (3, 5, 100), (2, 40, 64), (0, 2, 3)];
    sizes.into_iter().flat_map(|(steps, rows, hidden)| {
        [(false, false), (true, false), (false, true), (true, true)].map(|(reversed, keep)| Lstm {
            steps,
            rows,
            hidden,
            reversed,
            keep,
        })
    })
}

fn inputs(s: &Lstm) -> [Vec<f32>; 4] {
    let scale = 1.0 / (s.hidden as f32).sqrt();
    let w = numbers(4 * s.hidden * s.hidden, 2).iter().map(|x| x * scale).collect();
    [numbers(4 * s.steps * s.state(), 1), w, numbers(s.state(), 3), numbers(s.state(), 4)]
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| x as f64).collect()
}

#[test]
fn sequences_follow_the_formula() {
    for s in shapes() {
        let [gates, w, h0, c0] = inputs(&s);
        let mut out = vec![f32::NAN; s.packed()];
        lstm(&s, &gates, &w, &h0, &c0, &mut out);
        let want = formula(&s, &wide(&gates), &wide(&w), &wide(&h0), &wide(&c0));
        for (i, (x, y)) in out.iter().zip(&want).enumerate() {
            assert!((*x as f64 - y).abs() < 3e-6, "{s:?}: number {i} is {x}, not {y}");
        }
        assert!(out.iter().all(|x| x.is_finite()), "{s:?}: something was not written");
    }
}

#[test]
fn gradients_follow_differences() {
    for s in shapes().filter(|s| s.keep && s.hidden <= 17) {
        let [gates, w, h0, c0] = inputs(&s);
        let asked = numbers((s.steps + 1) * s.state(), 5);
        let mut packed = vec![0.0; s.packed()];
        lstm(&s, &gates, &w, &h0, &c0, &mut packed);
        let mut out = vec![f32::NAN; s.gradients()];
        lstm_grad(&s, &w, &c0, &packed, &asked, &mut out);
        let given = [wide(&gates), wide(&h0), wide(&c0)];
        let value = |g: &[Vec<f64>; 3]| -> f64 {
            formula(&s, &g[0], &wide(&w), &g[1], &g[2]).iter().zip(&asked).map(|(y, &a)| y * a as f64).sum()
        };
        let mut at = 0;
        for k in 0..3 {
            for i in 0..given[k].len() {
                let moved = |by: f64| {
                    let mut g = given.clone();
                    g[k][i] += by;
                    value(&g)
                };
                let want = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!((out[at] as f64 - want).abs() < 2e-5, "{s:?}: gradient {k}, {i}: {} not {want}", out[at]);
                at += 1;
            }
        }
    }
}

#[test]
fn special_numbers_pass() {
    let s = Lstm { steps: 1, rows: 1, hidden: 3, reversed: false, keep: true };
    let mut gates = [0.0f32; 12];
    // Input, forget, cell and output of three units: far away, infinite, not a number.
    gates[..3].copy_from_slice(&[1e30, f32::INFINITY, f32::NAN]);
    gates[6..9].copy_from_slice(&[-1e30, f32::NEG_INFINITY, 0.0]);
    gates[9..].copy_from_slice(&[200.0, 200.0, 0.0]);
    let mut out = vec![0.0; s.packed()];
    lstm(&s, &gates, &[0.0; 36], &[0.0; 3], &[0.0; 3], &mut out);
    assert!(out[..2].iter().all(|x| (x - (-1f32).tanh()).abs() < 1e-6), "{out:?}");
    assert!(out[2].is_nan());
}
