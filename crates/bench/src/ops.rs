//! Single operations, forward only, output computed.

use crate::Bench;
use gradus_core::{ConvOptions, DType, MaxPoolOptions, Result, Tensor};

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
    if bench.wants("bmm") {
        let (a, b) = (randn([64, 128, 64])?, randn([64, 64, 128])?);
        bench.time("bmm", || ran(a.matmul(&b)));
    }
    if bench.wants("matvec") {
        let (a, b) = (randn([4096, 4096])?, randn([4096, 1])?);
        bench.time("matvec", || ran(a.matmul(&b)));
    }
    if ["add_bcast", "chain", "gelu", "exp", "softmax", "layernorm", "grad_chain"].iter().any(|n| bench.wants(n)) {
        plane(bench)?;
    }
    if ["sum_all", "sum_0", "sum_1", "transpose_copy"].iter().any(|n| bench.wants(n)) {
        let z = randn([4096, 4096])?;
        bench.time("sum_all", || ran(Ok(z.sum())));
        bench.time("sum_0", || ran(z.sum_dim(0, false)));
        bench.time("sum_1", || ran(z.sum_dim(1, false)));
        bench.time("transpose_copy", || ran(z.t().map(|t| t.contiguous())));
    }
    if bench.wants("conv3x3") || bench.wants("maxpool") {
        let (x, w) = (randn([16, 64, 56, 56])?, randn([64, 64, 3, 3])?);
        let same = || ConvOptions { padding: 1.into(), ..ConvOptions::default() };
        bench.time("conv3x3", || ran(x.conv2d(&w, None, same())));
        bench.time("maxpool", || ran(x.max_pool2d(2, MaxPoolOptions::default())));
    }
    if bench.wants("conv1x1") {
        let (x, w) = (randn([16, 256, 28, 28])?, randn([64, 256, 1, 1])?);
        bench.time("conv1x1", || ran(x.conv2d(&w, None, ConvOptions::default())));
    }
    if bench.wants("embedding") {
        let table = randn([50257, 768])?;
        let index = Tensor::randint(0, 50257, [8192], DType::I64)?;
        index.eval()?;
        bench.time("embedding", || ran(table.embedding(&index)));
    }
    if bench.wants("small_add_50") {
        let (p, q) = (randn([8])?, randn([8])?);
        bench.time("small_add_50", || {
            let mut y = p.clone();
            for _ in 0..50 {
                y = &y + &q;
            }
            // It is read, not only computed.
            let read = y.to_vec::<f32>();
            ran(read.map(|_| y));
        });
    }
    let (p, q) = (randn([8])?, randn([8])?);
    bench.time("small_add", || ran(p.add(&q)));
    Ok(())
}

/// Work over one plane of 2048 x 2048.
fn plane(bench: &Bench) -> Result<()> {
    let (x, a, b) = (randn([2048, 2048])?, randn([2048])?, randn([2048])?);
    bench.time("add_bcast", || ran(x.add(&a)));
    bench.time("chain", || ran(Ok(chain(&x, &a, &b))));
    bench.time("gelu", || ran(Ok(x.gelu_tanh())));
    bench.time("exp", || ran(Ok(x.exp())));
    bench.time("softmax", || ran(x.softmax(-1)));
    bench.time("layernorm", || ran(x.layer_norm([2048], Some(&a), Some(&b), 1e-5)));
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
