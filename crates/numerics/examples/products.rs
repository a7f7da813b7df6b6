//! Times of matrix products: `cargo run --release -p gradus-numerics --example products [threads] [filter]`.
//!
//! One line a product: its sizes `m k n`, which operands are transposed, the time in microseconds
//! and GFLOP/s. The sizes are those of training steps of small and middle models.

mod common;

use common::random;
use gradus_numerics::gemm::{Dims, Layout, Operand, gemm};
use std::time::Instant;

/// A low quantile of many runs, in microseconds: what others do on the machine hardly counts.
fn time(mut f: impl FnMut()) -> f64 {
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < 0.03 {
        f();
    }
    let mut times = vec![];
    let start = Instant::now();
    while times.len() < 5 || (times.len() < 2000 && start.elapsed().as_secs_f64() < 0.12) {
        let t = Instant::now();
        f();
        times.push(t.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 20]
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let threads = args.get(1).and_then(|a| a.parse().ok()).unwrap_or(2);
    let filter = args.get(2).map_or("", String::as_str);
    // A linear layer of x [m, k] with weights [n, k]: the product and its two gradients.
    let layer = |m, k, n| [(m, k, n, ' ', 't'), (m, n, k, ' ', ' '), (n, m, k, 't', ' ')];
    let layers = [
        (64, 784, 128),
        (64, 128, 10),
        (1000, 1, 64),
        (1000, 64, 64),
        (1000, 64, 1),
        (768, 128, 128),
        (768, 128, 384),
        (768, 128, 512),
        (768, 512, 128),
        (768, 128, 96),
        (1024, 384, 384),
        (1024, 384, 1152),
        (1024, 384, 1536),
        (1024, 1536, 384),
        (32, 128, 512),
        (256, 784, 1024),
        (256, 1024, 1024),
        (256, 1024, 10),
        (100, 300, 200),
        (37, 211, 113),
    ];
    let square = [64, 128, 256, 512, 1024, 2048].map(|n| (n, n, n, ' ', ' '));
    let cases = layers.into_iter().flat_map(|(m, k, n)| layer(m, k, n)).chain(square);
    let run = || {
        for (m, k, n, ta, tb) in cases.clone() {
            let name = format!("{m} {k} {n} {ta}{tb}");
            if !name.contains(filter) {
                continue;
            }
            let (a, b) = (random(m * k, 1), random(k * n, 2));
            let mut c = vec![0.0; m * n];
            let la = if ta == 't' { Layout::row_major(m).transposed() } else { Layout::row_major(k) };
            let lb = if tb == 't' { Layout::row_major(k).transposed() } else { Layout::row_major(n) };
            let (a, b, d) = (Operand::new(&a[..], la), Operand::new(&b[..], lb), Dims::new(m, n, k));
            let t = time(|| gemm(d, 1.0, a, b, 0.0, &mut c, Layout::row_major(n)));
            println!("{name:20} {t:10.2} {:6.1}", 2e-3 * (m * k * n) as f64 / t);
        }
    };
    match rayon::ThreadPoolBuilder::new().num_threads(threads).build_global() {
        Ok(()) => run(),
        Err(e) => eprintln!("{e}"),
    }
}
