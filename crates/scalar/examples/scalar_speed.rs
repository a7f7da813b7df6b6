//! What a node costs: `cargo run --release -p gradus-scalar --example scalar_speed [graph]`.
//!
//! Prints nanoseconds a node, medians over 15 runs, for building a graph of a million nodes, for its backward
//! pass, and for letting it go.

use gradus_scalar::{Value, constant, live_nodes, var};
use std::time::Instant;

const NODES: usize = 1_000_000;
const RUNS: usize = 15;

fn main() {
    println!(
        "{:<10} {:>8} {:>8} {:>10} {:>8} {:>8}   ns a node",
        "graph", "build", "backward", "both", "drop", "nodes"
    );
    report("chain", chain);
    report("wide", wide);
    report("mixed", mixed);
    report("unforeseen", unforeseen);
    report("scattered", scattered);
    report("sines", sines);
}

/// One long dependency: multiply, add, multiply, add.
fn chain() -> Value {
    let (w, b) = (var("w", 0.999), var("b", 0.01));
    let mut z = var("x", 1.0);
    for _ in 0..NODES / 2 {
        z = z * &w + &b;
    }
    z
}

/// Many variables, multiplied in pairs and summed: a dot product of a quarter million terms.
fn wide() -> Value {
    let terms = NODES / 4;
    let xs: Vec<Value> = (0..terms).map(|i| var("x", i as f64 * 1e-6)).collect();
    let ys: Vec<Value> = (0..terms).map(|i| var("y", 1.0 - i as f64 * 1e-6)).collect();
    xs.iter().zip(&ys).map(|(x, y)| x * y).sum()
}

/// A network of three layers over a batch of examples: products, sums, several activations, a loss.
fn mixed() -> Value {
    const WIDTH: usize = 16;
    let weights: Vec<Value> = (0..2 * WIDTH * WIDTH + WIDTH).map(|i| var("w", (i as f64).sin() * 0.3)).collect();
    let (first, rest) = weights.split_at(WIDTH * WIDTH);
    let (second, last) = rest.split_at(WIDTH * WIDTH);
    let neuron = |w: &[Value], x: &[Value]| w.iter().zip(x).map(|(w, x)| w * x).sum::<Value>();
    let example = |i: usize| {
        let x: Vec<Value> = (0..WIDTH).map(|j| constant(((i * 31 + j) as f64).cos())).collect();
        let x: Vec<Value> = first.chunks(WIDTH).map(|w| neuron(w, &x).tanh()).collect();
        let x: Vec<Value> = second.chunks(WIDTH).map(|w| neuron(w, &x).relu()).collect();
        let error = neuron(last, &x).sigmoid() - 0.5;
        &error * &error
    };
    (0..NODES / 1105).map(example).sum()
}

/// Operations of every kind and cost, in no order that a processor could foresee, on operands made lately.
fn unforeseen() -> Value {
    random(1000)
}

/// The same with operands from anywhere: the worst case, in which nearly every operand is a cache miss.
fn scattered() -> Value {
    random(NODES)
}

/// Half the nodes are operations on two of the latest `window` values, the other half sum up the results.
fn random(window: usize) -> Value {
    let mut nodes: Vec<Value> = (0..1000).map(|i| var("x", 0.5 + i as f64 * 1e-3)).collect();
    let mut state = 1u64;
    while nodes.len() < NODES / 2 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let recent = &nodes[nodes.len().saturating_sub(window)..];
        let a = &recent[(state >> 33) as usize % recent.len()];
        let b = &recent[(state >> 20) as usize % recent.len()];
        nodes.push(match (state >> 56) % 8 {
            0 => a + b,
            1 => a - b,
            2 => a * b,
            3 => a.max(b),
            4 => a.relu(),
            5 => -a,
            6 => a.tanh(),
            _ => a.sin(),
        });
    }
    nodes.into_iter().sum()
}

/// Nothing but calls of `sin` going up and `cos` coming down: mostly the mathematics library's time.
fn sines() -> Value {
    (0..NODES).fold(var("x", 1.0), |z, _| z.sin())
}

fn report(name: &str, build: impl Fn() -> Value) {
    if std::env::args().nth(1).is_some_and(|only| only != name) {
        return;
    }
    let mut times = [const { Vec::new() }; 4];
    let mut nodes = 0;
    for _ in 0..RUNS {
        let start = Instant::now();
        let z = build();
        let built = start.elapsed();
        nodes = live_nodes();

        let start = Instant::now();
        let grads = z.backward();
        let differentiated = start.elapsed();
        std::hint::black_box(&grads);

        let start = Instant::now();
        drop((z, grads));
        let dropped = start.elapsed();
        assert_eq!(live_nodes(), 0);
        for (times, time) in times.iter_mut().zip([built, differentiated, built + differentiated, dropped]) {
            times.push(time.as_secs_f64() * 1e9 / nodes as f64);
        }
    }
    let [build, backward, both, dropped] = times.map(median);
    println!("{name:<10} {build:>8.1} {backward:>8.1} {both:>10.1} {dropped:>8.1} {nodes:>8}");
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
