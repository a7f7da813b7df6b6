//! Single operations.

use super::Gpu;
use gradus_core::{DType, Result, Tensor};

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
