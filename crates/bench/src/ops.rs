//! Single operations, forward only, output computed.

use crate::Bench;
use gradus_core::{Result, Tensor};

/// Normal numbers, computed before timing.
fn randn<const N: usize>(shape: [usize; N]) -> Result<Tensor> {
    let t = Tensor::randn(shape);
    t.eval()?;
    Ok(t)
}

fn ran(t: Result<Tensor>) {
    let done = t.and_then(|t| t.eval().map(|_| ()));
    if let Err(e) = done {
        eprintln!("{e}");
        std::process::exit(1);
    }
}

/// Fused: `tanh(x a + b) sigmoid(x) + x x`.
fn chain(x: &Tensor, a: &Tensor, b: &Tensor) -> Tensor {
    (x * a + b).tanh() * x.sigmoid() + x * x
}

/// All of them.
pub fn run(bench: &Bench) -> Result<()> {
    for n in [64, 256, 512, 1024, 2048] {
        let name = format!("matmul_{n}");
        if bench.wants(&name) {
            let (a, b) = (randn([n, n])?, randn([n, n])?);
            bench.time(&name, || ran(a.matmul(&b)));
        }
    }
    let (a, b) = (randn([64, 128, 64])?, randn([64, 64, 128])?);
    bench.time("bmm", || ran(a.matmul(&b)));
    if bench.wants("matvec") {
        let (a, b) = (randn([4096, 4096])?, randn([4096, 1])?);
        bench.time("matvec", || ran(a.matmul(&b)));
    }
    let (x, a, b) = (randn([2048, 2048])?, randn([2048])?, randn([2048])?);
    bench.time("add_bcast", || ran(x.add(&a)));
    bench.time("chain", || ran(Ok(chain(&x, &a, &b))));
    bench.time("gelu", || ran(Ok(&x * 0.5 * (((&x * &x * &x * 0.044715 + &x) * 0.797_884_560_8).tanh() + 1.0))));
    bench.time("exp", || ran(Ok(x.exp())));
    bench.time("softmax", || {
        let e = x.amax(1, true).map(|m| (&x - m).exp());
        ran(e.and_then(|e| Ok(&e / e.sum_dim(1, true)?)));
    });
    bench.time("layernorm", || {
        let y = x.mean_dim(1, true).and_then(|m| {
            let c = &x - m;
            let v = c.square().mean_dim(1, true)?;
            Ok(c * (v + 1e-5).rsqrt() * &a + &b)
        });
        ran(y);
    });
    if ["sum_all", "sum_0", "sum_1", "transpose_copy"].iter().any(|n| bench.wants(n)) {
        let z = randn([4096, 4096])?;
        bench.time("sum_all", || ran(Ok(z.sum())));
        bench.time("sum_0", || ran(z.sum_dim(0, false)));
        bench.time("sum_1", || ran(z.sum_dim(1, false)));
        bench.time("transpose_copy", || ran(z.t().map(|t| t.contiguous())));
    }
    let (p, q) = (randn([8])?, randn([8])?);
    bench.time("small_add", || ran(p.add(&q)));
    if bench.wants("grad_chain") {
        let (x, a, b) = (x.requires_grad_(), a.requires_grad_(), b.requires_grad_());
        bench.time("grad_chain", || {
            let g = chain(&x, &a, &b).sum().backward();
            let all = g.and_then(|g| Tensor::eval_all(&[&g.wrt(&x)?, &g.wrt(&a)?, &g.wrt(&b)?]));
            if let Err(e) = all {
                eprintln!("{e}");
                std::process::exit(1);
            }
        });
    }
    Ok(())
}
