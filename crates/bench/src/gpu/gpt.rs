//! GPT training steps: bf16 activations over f32 weights, the casts written out.

use super::Gpu;
use gradus_core::{AttentionOptions, DType, Result, Tensor};
use gradus_optim::{Adam, Optimizer};

struct Linear {
    w: Tensor,
    b: Option<Tensor>,
}

impl Linear {
    fn new(gpu: &Gpu, from: usize, to: usize) -> Result<Linear> {
        Ok(Linear { w: gpu.parameter(&[to, from], from)?, b: Some(gpu.parameter(&[to], from)?) })
    }

    /// In bf16, as autocast does it.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let half = |t: &Tensor| t.to_dtype(DType::BF16);
        half(x).linear(&half(&self.w), self.b.as_ref().map(half).as_ref())
    }

    fn parameters(&self) -> impl Iterator<Item = &Tensor> {
        [Some(&self.w), self.b.as_ref()].into_iter().flatten()
    }
}

struct Norm {
    w: Tensor,
    b: Tensor,
}

impl Norm {
    fn new(gpu: &Gpu, d: usize) -> Result<Norm> {
        let full = |x: f64| -> Result<Tensor> {
            let t = Tensor::full([d], x, DType::F32).contiguous().to(&gpu.device);
            t.eval()?;
            Ok(t.requires_grad_())
        };
        Ok(Norm { w: full(1.0)?, b: full(0.0)? })
    }

    /// In f32, as autocast does it.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let d = self.w.dims()[0];
        x.to_dtype(DType::F32).layer_norm([d], Some(&self.w), Some(&self.b), 1e-5)
    }
}

struct Block {
    norms: [Norm; 2],
    qkv: Linear,
    proj: Linear,
    up: Linear,
    down: Linear,
}

struct Gpt {
    heads: usize,
    tokens: Tensor,
    positions: Tensor,
    blocks: Vec<Block>,
    norm: Norm,
}

/// Sizes of a model and of a batch.
struct Sizes {
    layers: usize,
    heads: usize,
    width: usize,
    time: usize,
    batch: usize,
    vocabulary: usize,
}

impl Gpt {
    fn new(gpu: &Gpu, s: &Sizes) -> Result<Gpt> {
        let d = s.width;
        let block = |_| {
            Ok(Block {
                norms: [Norm::new(gpu, d)?, Norm::new(gpu, d)?],
                qkv: Linear::new(gpu, d, 3 * d)?,
                proj: Linear::new(gpu, d, d)?,
                up: Linear::new(gpu, d, 4 * d)?,
                down: Linear::new(gpu, 4 * d, d)?,
            })
        };
        Ok(Gpt {
            heads: s.heads,
            tokens: gpu.parameter(&[s.vocabulary, d], 2500)?,
            positions: gpu.parameter(&[s.time, d], 2500)?,
            blocks: (0..s.layers).map(block).collect::<Result<_>>()?,
            norm: Norm::new(gpu, d)?,
        })
    }

    fn parameters(&self) -> Vec<&Tensor> {
        let mut out = vec![&self.tokens, &self.positions, &self.norm.w, &self.norm.b];
        for b in &self.blocks {
            out.extend(b.norms.iter().flat_map(|n| [&n.w, &n.b]));
            out.extend([&b.qkv, &b.proj, &b.up, &b.down].into_iter().flat_map(Linear::parameters));
        }
        out
    }

    fn loss(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let (b, t, d) = (input.dims()[0], input.dims()[1], self.positions.dims()[1]);
        let mut x = self.tokens.embedding(input)? + &self.positions;
        for block in &self.blocks {
            let qkv = block.qkv.forward(&block.norms[0].forward(&x)?)?;
            let part = |i: usize| -> Result<Tensor> {
                qkv.narrow(2, i * d, d)?.view([b as i64, t as i64, self.heads as i64, -1])?.transpose(1, 2)
            };
            let options = AttentionOptions { is_causal: true, ..Default::default() };
            let y = part(0)?.scaled_dot_product_attention(&part(1)?, &part(2)?, &options)?;
            let y = y.transpose(1, 2)?.reshape([b, t, d])?;
            x = x + block.proj.forward(&y)?;
            let h = block.up.forward(&block.norms[1].forward(&x)?)?.gelu_tanh();
            x = x + block.down.forward(&h)?;
        }
        let half = |t: &Tensor| t.to_dtype(DType::BF16);
        let logits = half(&self.norm.forward(&x)?).linear(&half(&self.tokens), None)?;
        let v = self.tokens.dims()[0];
        logits.reshape([b * t, v])?.to_dtype(DType::F32).cross_entropy(&target.reshape([b * t])?)
    }
}

fn train(gpu: &Gpu, name: &str, s: &Sizes) -> Result<()> {
    if !gpu.wants(name) {
        return Ok(());
    }
    let model = Gpt::new(gpu, s)?;
    let mut adam = Adam::new(model.parameters(), 6e-4).decoupled(0.01);
    let v = s.vocabulary as i64;
    let (x, y) = (gpu.labels(&[s.batch, s.time], v)?, gpu.labels(&[s.batch, s.time], v)?);
    gpu.reset_peak()?;
    let (ms, host) = gpu.training(20, 6, &mut adam, [&x, &y], |adam, [x, y]| {
        let loss = model.loss(x, y)?;
        adam.step(&loss.backward()?)?;
        Ok(loss)
    })?;
    let Some(peak) = gpu.peak()? else { return Ok(()) };
    let rate = (s.batch * s.time) as f64 / ms * 1e3;
    println!(
        r#"{{"peer": "gradus", "work": "{name}", "ms": {ms:.5}, "host_ms": {host:.5}, "tok_s": {}, "peak_GB": {peak:.2}}}"#,
        rate.round()
    );
    if std::env::var_os("GRADUS_STATS").is_some() {
        eprintln!("{:?}", gradus_cuda::graph_stats(&gpu.device)?);
    }
    Ok(())
}

pub fn run(gpu: &Gpu) -> Result<()> {
    let mid = Sizes { layers: 6, heads: 6, width: 384, time: 256, batch: 4, vocabulary: 65 };
    train(gpu, "gpt_mid", &mid)?;
    let small = Sizes { layers: 12, heads: 12, width: 768, time: 1024, batch: 32, vocabulary: 50304 };
    train(gpu, "gpt2_124M_b32_t1024", &small)
}
