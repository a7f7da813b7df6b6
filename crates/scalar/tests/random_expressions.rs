//! Random formulas: reverse mode, forward mode and finite differences must agree on all of them.

use gradus_scalar::{Dual, Value, finite_diff_grad, live_nodes, var};
use proptest::prelude::*;

/// One step of a program: an operation on two earlier results, by index modulo how many there are.
type Step = (u8, usize, usize);

const INPUTS: usize = 3;

fn programs() -> impl Strategy<Value = (Vec<f64>, Vec<Step>)> {
    let inputs = prop::collection::vec(-2.0..2.0, INPUTS);
    let steps = prop::collection::vec((0u8..12, 0usize..64, 0usize..64), 1..24);
    (inputs, steps)
}

/// Runs a program on any kind of number. Operations are smooth and bounded in growth everywhere, so that finite
/// differences mean something: divisors are at least 1, roots and logarithms are of at least 1.
macro_rules! run {
    ($name:ident, $T:ty) => {
        fn $name(inputs: Vec<$T>, steps: &[Step]) -> $T {
            let mut results = inputs;
            for &(op, i, j) in steps {
                let (a, b) = (&results[i % results.len()], &results[j % results.len()]);
                let next = match op {
                    0 => a + b,
                    1 => a - b,
                    2 => a.sin() * b.cos(),
                    3 => a / (b * b + 1.0),
                    4 => a.tanh(),
                    5 => (a * a + 1.0).sqrt(),
                    6 => 0.5 * (b * b + 1.0).ln(),
                    7 => -a,
                    8 => a.sigmoid() * b,
                    9 => (a.tanh() + 2.0).pow(&b.tanh()),
                    10 => a.atan().exp(),
                    _ => a.tanh().powi(2) - 0.25,
                };
                results.push(next);
            }
            results.pop().expect("programs have inputs")
        }
    };
}
run!(run_value, Value);
run!(run_dual, Dual);

fn variables(at: &[f64]) -> Vec<Value> {
    at.iter().map(|&x| var("x", x)).collect()
}

fn near(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * (1.0 + a.abs().max(b.abs()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn reverse_forward_and_differences_agree((at, steps) in programs()) {
        let plain = |v: &[f64]| run_dual(v.iter().map(|&x| Dual::constant(x)).collect(), &steps).value();
        let differences = finite_diff_grad(plain, &at, 1e-5);

        let inputs = variables(&at);
        let z = run_value(inputs.clone(), &steps);
        let grads = z.backward();
        let graphs = z.grad_graph(&inputs.iter().collect::<Vec<_>>());
        prop_assert_eq!(z.value(), plain(&at));
        for i in 0..INPUTS {
            let reverse = grads.wrt(&inputs[i]).unwrap_or(0.0);
            let moving = at.iter().enumerate().map(|(j, &x)| Dual::new(x, if i == j { 1.0 } else { 0.0 })).collect();
            let dual = run_dual(moving, &steps).derivative();
            prop_assert!(near(reverse, differences[i], 1e-5), "reverse {} differences {}", reverse, differences[i]);
            prop_assert!(near(reverse, dual, 1e-10), "reverse {} dual {}", reverse, dual);
            prop_assert!(near(reverse, z.jvp(&[(&inputs[i], 1.0)]), 1e-10));
            prop_assert!(near(reverse, graphs[i].value(), 1e-10));
        }
    }

    #[test]
    fn hessians_are_symmetric_and_differences_of_gradients((at, steps) in programs()) {
        let inputs = variables(&at);
        let hessian = run_value(inputs.clone(), &steps).hessian(&inputs.iter().collect::<Vec<_>>());
        for i in 0..INPUTS {
            let first = |v: &[f64]| {
                let inputs = variables(v);
                run_value(inputs.clone(), &steps).backward().wrt(&inputs[i]).unwrap_or(0.0)
            };
            let differences = finite_diff_grad(first, &at, 1e-5);
            for j in 0..INPUTS {
                prop_assert!(near(hessian[i][j], hessian[j][i], 1e-9));
                prop_assert!(near(hessian[i][j], differences[j], 1e-4), "{} {}", hessian[i][j], differences[j]);
            }
        }
    }

    /// Graphs built in the holes that others left, where slots are out of order.
    #[test]
    fn holes_in_the_tape_change_nothing((at, steps) in programs(), keep in prop::collection::vec(any::<bool>(), 64)) {
        let inputs = variables(&at);
        let expected = run_value(inputs.clone(), &steps);
        let expected = inputs.iter().map(|x| expected.backward().wrt(x)).collect::<Vec<_>>();

        let before = live_nodes();
        let mut filler: Vec<Option<Value>> = keep.iter().map(|_| Some(var("filler", 0.0))).collect();
        let half = steps.len() / 2;
        let inputs = variables(&at);
        // The first half lies above the filler; then holes open below, for the whole program over again.
        let above = run_value(inputs.clone(), &steps[..half]);
        filler.iter_mut().zip(&keep).filter(|(_, keep)| !**keep).for_each(|(slot, _)| *slot = None);
        let z = run_value(inputs.clone(), &steps) + &above * 0.0;
        let grads = z.backward();
        for (x, expected) in inputs.iter().zip(expected) {
            prop_assert!(near(grads.wrt(x).unwrap_or(0.0), expected.unwrap_or(0.0), 1e-12));
        }
        drop((inputs, above, z, grads, filler));
        prop_assert_eq!(live_nodes(), before);
    }
}
