//! Single operations.

use super::Gpu;
use gradus_core::{AttentionOptions, DType, Result, Tensor, grad::grad_of, plan::realize};

impl Gpu {
    /// Normal numbers on the device.
    pub(super) fn randn(&self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        let t = Tensor::randn(shape).to_dtype(dtype).to(&self.device);
        t.eval()?;
        Ok(t)
    }
}

fn tflops(flops: f64) -> impl FnOnce(f64) -> String {
    move |ms| format!(r#", "TFLOPs": {:.1}"#, flops / ms / 1e9)
}

fn tbps(bytes: usize) -> impl FnOnce(f64) -> String {
    move |ms| format!(r#", "TBps": {:.3}"#, bytes as f64 / ms / 1e9)
}

fn ran(t: Result<Tensor>) -> Result<()> {
    t?.eval().map(|_| ())
}

/// In a function of its own: what a caller still holds when a plan runs is written to memory.
fn chain(x: &Tensor, a: &Tensor, b: &Tensor) -> Tensor {
    (x * a + b).tanh() * x.sigmoid() + x * x
}

fn name(d: DType) -> &'static str {
    if d == DType::F32 { "float32" } else { "bfloat16" }
}

/// Causal attention of 16 x 12 heads, forward alone and with the gradients of all three.
fn attention(gpu: &Gpu) -> Result<()> {
    if !gpu.wants("attn") {
        return Ok(());
    }
    let part = || gpu.randn(&[16, 12, 1024, 64], DType::BF16);
    let (q, k, v, g) = (part()?, part()?, part()?, part()?);
    let options = AttentionOptions { is_causal: true, ..Default::default() };
    let flops = 4.0 * 16.0 * 12.0 * 1024.0 * 1024.0 * 64.0 / 2.0;
    let forward = || ran(q.scaled_dot_product_attention(&k, &v, &options));
    gpu.time("attn_fwd_causal_b16h12t1024d64", forward, tflops(flops))?;
    let [q, k, v] = [q, k, v].map(|t| t.requires_grad_());
    let both = || {
        let y = q.scaled_dot_product_attention(&k, &v, &options)?;
        let grads = grad_of(&[(&y, &g)], &[&q, &k, &v])?;
        drop(y);
        let grads: Vec<&Tensor> = grads.iter().flatten().collect();
        realize(&grads)
    };
    gpu.time("attn_fwdbwd", both, tflops(3.5 * flops))
}

pub fn run(gpu: &Gpu) -> Result<()> {
    if gpu.wants("copy_2GB") {
        // Written by ones, so that the host need not make two gigabytes.
        let x = Tensor::ones([1 << 30], DType::BF16).contiguous().to(&gpu.device);
        x.eval()?;
        // The sign changes: a plain copy of what is there would be no work at all.
        gpu.time("copy_2GB", || ran(Ok(-&x)), tbps(4 << 30))?;
    }
    let products =
        [(DType::BF16, 8192), (DType::BF16, 4096), (DType::BF16, 1024), (DType::F32, 4096), (DType::F32, 1024)];
    for (d, n) in products {
        let work = format!("matmul_{n}_{}", name(d));
        if gpu.wants(&work) {
            let (a, b) = (gpu.randn(&[n, n], d)?, gpu.randn(&[n, n], d)?);
            gpu.time(&work, || ran(a.matmul(&b)), tflops(2.0 * (n as f64).powi(3)))?;
        }
    }
    attention(gpu)?;
    for (d, tag) in [(DType::F32, "f32"), (DType::BF16, "bf16")] {
        let n = 8192;
        let work = |w: &str| format!("{w}_{tag}");
        let all = ["chain", "gelu", "softmax", "layernorm", "sum_all", "sum_0", "transpose_copy"];
        if !all.iter().any(|w| gpu.wants(&work(w))) {
            continue;
        }
        let (x, a, b) = (gpu.randn(&[n, n], d)?, gpu.randn(&[n], d)?, gpu.randn(&[n], d)?);
        let bytes = n * n * d.size();
        gpu.time(&work("chain"), || ran(Ok(chain(&x, &a, &b))), tbps(2 * bytes))?;
        gpu.time(&work("gelu"), || ran(Ok(x.gelu_tanh())), tbps(2 * bytes))?;
        gpu.time(&work("softmax"), || ran(x.softmax(-1)), tbps(2 * bytes))?;
        gpu.time(&work("layernorm"), || ran(x.layer_norm([n], Some(&a), Some(&b), 1e-5)), tbps(2 * bytes))?;
        gpu.time(&work("sum_all"), || ran(Ok(x.sum())), tbps(bytes))?;
        gpu.time(&work("sum_0"), || ran(x.sum_dim(0, false)), tbps(bytes))?;
        gpu.time(&work("transpose_copy"), || ran(x.t().map(|t| t.contiguous())), tbps(2 * bytes))?;
    }
    Ok(())
}
