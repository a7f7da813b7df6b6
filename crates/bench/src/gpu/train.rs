//! ResNet-18 in mixed precision, and small training steps, where launches dominate.

use super::Gpu;
use crate::models::{Params, resnet18};
use gradus_core::{DType, Reduction, Result, Tensor, autocast};
use gradus_optim::{Optimizer, Sgd};

impl Gpu {
    /// A variable on the device, uniform within `1 / sqrt(fan_in)`.
    pub(super) fn parameter(&self, shape: &[usize], fan_in: usize) -> Result<Tensor> {
        let bound = 1.0 / (fan_in as f64).sqrt();
        let t = (Tensor::rand(shape) * (2.0 * bound) - bound).to(&self.device);
        t.eval()?;
        Ok(t.requires_grad_())
    }

    /// Whole numbers below `n` on the device.
    pub(super) fn labels(&self, shape: &[usize], n: i64) -> Result<Tensor> {
        let t = Tensor::randint(0, n, shape, DType::I64)?.to(&self.device);
        t.eval()?;
        Ok(t)
    }

    /// A training step: prints the milliseconds and how many `items` a second that is.
    pub(super) fn step(
        &self,
        name: &str,
        items: usize,
        sgd: &mut Sgd,
        data: [&Tensor; 2],
        f: impl FnMut(&mut Sgd, [&Tensor; 2]) -> Result<Tensor>,
    ) -> Result<()> {
        let (ms, host) = self.training(30, 8, sgd, data, f)?;
        let per_s = (items as f64 / ms * 1e3).round();
        println!(r#"{{"peer": "gradus", "work": "{name}", "ms": {ms:.5}, "host_ms": {host:.5}, "per_s": {per_s}}}"#);
        Ok(())
    }
}

/// Layers `widths[i] -> widths[i + 1]`: weights and biases.
fn layers(gpu: &Gpu, widths: &[usize]) -> Result<Vec<(Tensor, Tensor)>> {
    let make = |w: &[usize]| Ok((gpu.parameter(&[w[1], w[0]], w[0])?, gpu.parameter(&[w[1]], w[0])?));
    widths.windows(2).map(make).collect()
}

/// Images of CIFAR's size through ResNet-18: bf16 between f32 weights, as `torch.autocast` does it.
fn resnet(gpu: &Gpu) -> Result<()> {
    let name = "resnet18_cifar_b512_amp";
    if !gpu.wants(name) {
        return Ok(());
    }
    let mut p = Params::on(&gpu.device);
    let net = resnet18(&mut p, true)?;
    let (x, y) = (gpu.randn(&[512, 3, 32, 32], DType::F32)?, gpu.labels(&[512], 10)?);
    let mut sgd = Sgd::new(&p.all, 0.1).momentum(0.9);
    gradus_cuda::reset_peak_memory(&gpu.device)?;
    gpu.step(name, 512, &mut sgd, [&x, &y], |sgd, [x, y]| {
        let loss = autocast(DType::BF16, || net(x)?.cross_entropy(y))?;
        sgd.step(&loss.backward()?)?;
        Ok(loss)
    })?;
    if std::env::var_os("GRADUS_STATS").is_some() {
        eprintln!("{:?} {:?}", gradus_cuda::graph_stats(&gpu.device)?, gradus_cuda::memory_stats(&gpu.device)?);
    }
    Ok(())
}

pub fn run(gpu: &Gpu) -> Result<()> {
    resnet(gpu)?;
    if gpu.wants("mlp_b64_f32") {
        let net = layers(gpu, &[784, 128, 64, 10])?;
        let (x, y) = (gpu.randn(&[64, 784], DType::F32)?, gpu.labels(&[64], 10)?);
        let mut sgd = Sgd::new(net.iter().flat_map(|(w, b)| [w, b]), 1e-3).momentum(0.9);
        gpu.step("mlp_b64_f32", 64, &mut sgd, [&x, &y], |sgd, [x, y]| {
            let mut h = x.clone();
            for (i, (w, b)) in net.iter().enumerate() {
                h = h.linear(w, Some(b))?;
                if i + 1 < net.len() {
                    h = h.leaky_relu(0.1);
                }
            }
            let loss = h.cross_entropy(y)?;
            sgd.step(&loss.backward()?)?;
            Ok(loss)
        })?;
    }
    if gpu.wants("sine_f32") {
        let net = layers(gpu, &[1, 64, 1])?;
        let (x, y) = (gpu.randn(&[1000, 1], DType::F32)?, gpu.randn(&[1000, 1], DType::F32)?);
        let mut sgd = Sgd::new(net.iter().flat_map(|(w, b)| [w, b]), 0.01);
        gpu.step("sine_f32", 1000, &mut sgd, [&x, &y], |sgd, [x, y]| {
            let h = x.linear(&net[0].0, Some(&net[0].1))?.relu().linear(&net[1].0, Some(&net[1].1))?;
            let loss = h.mse_loss(y, Reduction::Mean)?;
            sgd.step(&loss.backward()?)?;
            Ok(loss)
        })?;
    }
    Ok(())
}
