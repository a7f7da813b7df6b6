//! The scalar engine: automatic differentiation of plain `f64` formulas, one node an operation, and no tensor in sight.
//! This is how it all works inside, small enough to look at.
//!
//! cargo run --release --example 12_scalar

use gradus::scalar::{Value, constant, finite_diff_grad, live_nodes, var};

fn main() {
    formulas();
    let wrong = xor(400);
    println!("largest error on XOR: {wrong:.4}; nodes left: {}", live_nodes());
}

/// Derivatives of a formula.
fn formulas() {
    let (x, y) = (var("x", 2.0), var("y", 3.0));
    let z = &x * &y + x.sin();
    println!("z = x y + sin x, as a graph:\n{:.4}", z.graph());

    // One walk from the top gives the derivative for every variable.
    let grads = z.backward();
    println!("dz/dx = y + cos x = {:?}, dz/dy = x = {:?}", grads.wrt(&x), grads.wrt(&y));

    // Differences of values come near, and not nearer.
    println!("by differences: {:?}", finite_diff_grad(|v| v[0] * v[1] + v[0].sin(), &[2.0, 3.0], 1e-6));

    // Derivatives as graphs, to be differentiated again; and all second derivatives at once.
    let dz = z.grad_graph(&[&x, &y]);
    println!("d2z/dx2 = -sin x = {:?}", dz[0].backward().wrt(&x));
    println!("second derivatives: {:.4?}\n", z.hessian(&[&x, &y]));
}

/// A network 2-4-1 of single numbers learns XOR in so many steps; its largest error.
pub fn xor(steps: usize) -> f64 {
    const CASES: [([f64; 2], f64); 4] = [([0.0, 0.0], 0.0), ([0.0, 1.0], 1.0), ([1.0, 0.0], 1.0), ([1.0, 1.0], 0.0)];
    // Four hidden neurons of two weights and a bias, then four weights and a bias. Starts that differ, without chance.
    let mut numbers: Vec<f64> = (0..17).map(|i| (1.7 * f64::from(i) + 0.3).sin()).collect();

    let network = |w: &[Value], [a, b]: [f64; 2]| -> Value {
        let mut out = w[16].clone();
        for k in 0..4 {
            let h = (&w[3 * k] * a + &w[3 * k + 1] * b + &w[3 * k + 2]).tanh();
            out += h * &w[12 + k];
        }
        out
    };

    for step in 0..steps {
        // Values never change: each step makes new variables from the numbers, and the old graph is freed.
        let w: Vec<Value> = numbers.iter().map(|&n| var("w", n)).collect();
        let loss = CASES.iter().fold(constant(0.0), |sum, &(input, target)| {
            let error = network(&w, input) - target;
            sum + &error * &error
        });
        let grads = loss.backward();
        for (number, w) in numbers.iter_mut().zip(&w) {
            *number -= 0.1 * grads.wrt(w).unwrap_or(0.0);
        }
        if step % 100 == 0 {
            println!("step {step:3}: loss {:.5}, {} nodes", loss.value(), live_nodes());
        }
    }
    let w: Vec<Value> = numbers.iter().map(|&n| constant(n)).collect();
    let mut worst = 0f64;
    for (input, target) in CASES {
        let out = network(&w, input).value();
        println!("{input:?} -> {out:.4}");
        worst = worst.max((out - target).abs());
    }
    worst
}
