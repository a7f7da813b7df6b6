use gradus_numerics::gemm::*;
use std::time::Instant;
fn main() {
    for (m, k, n) in [
        (64, 784, 128),
        (256, 1024, 1024),
        (256, 784, 1024),
        (768, 128, 512),
        (768, 512, 128),
        (32, 128, 512),
        (1024, 1536, 384),
        (256, 1536, 384),
        (256, 384, 1152),
    ] {
        let a: Vec<f32> = (0..m * k).map(|i| (i % 17) as f32).collect();
        let b: Vec<f32> = (0..k * n).map(|i| (i % 13) as f32).collect();
        let mut c = vec![0f32; m * n];
        for (name, la, lb) in [
            ("NN", Layout::row_major(k), Layout::row_major(n)),
            ("NT", Layout::row_major(k), Layout::row_major(k).transposed()),
            ("TN", Layout::row_major(m).transposed(), Layout::row_major(n)),
        ] {
            let mut best = f64::MAX;
            for _ in 0..40 {
                let t = Instant::now();
                batched_gemm(
                    Dims::new(m, n, k),
                    1.0,
                    Operand::new(&a, la),
                    Operand::new(&b, lb),
                    0.0,
                    &mut c,
                    Layout::row_major(n),
                    &[BatchOffset { a: 0, b: 0, c: 0 }],
                );
                best = best.min(t.elapsed().as_secs_f64());
            }
            print!(
                "[{m},{k}]x[{k},{n}] {name} {:.3} ms {:.0} GF/s   ",
                best * 1e3,
                2.0 * (m * n * k) as f64 / best / 1e9
            );
        }
        println!();
    }
}
