use gradus_core::*;
use std::time::Instant;
fn main() {
    let rows: usize = std::env::var("ROWS").map_or(2048, |r| r.parse().unwrap());
    let x = Tensor::randn([rows, 2048]);
    let (a, b) = (Tensor::randn([2048]), Tensor::randn([2048]));
    Tensor::eval_all(&[&x, &a, &b]).unwrap();
    let which: Vec<String> = std::env::args().skip(1).collect();
    let mk = |n: &str| match n {
        "ln" => x.layer_norm([2048], Some(&a), Some(&b), 1e-5).unwrap(),
        "softmax" => x.softmax(-1).unwrap(),
        "gelu" => x.gelu_tanh(),
        "sum1" => x.sum_dim(1, false).unwrap(),
        "sum0" => x.sum_dim(0, false).unwrap(),
        "exp" => x.exp(),
        "addb" => &x + &a,
        "muladd" => &x * &a + &b,
        "mul3" => &x * &a + &b * &x + &a,
        _ => (&x * &a + &b).tanh() * x.sigmoid() + &x * &x,
    };
    for w in &which {
        println!("{}", mk(w).explain().unwrap());
        let mut best = f64::MAX;
        for _ in 0..100 {
            let t = Instant::now();
            mk(w).eval().unwrap();
            best = best.min(t.elapsed().as_secs_f64());
        }
        println!("{w}: {:.3} ms", best * 1e3);
    }
}
