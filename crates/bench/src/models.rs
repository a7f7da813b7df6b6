//! The networks of the benchmark, written on tensors alone: parameters by name, and a forward pass.

use gradus_core::{
    AttentionOptions, BatchNormOptions, ConvOptions, DType, Device, MaxPoolOptions, Result, Tensor, no_grad,
};
use gradus_nn::{Lstm, Module, RnnOptions};

/// The parameters of a model, made in order.
pub struct Params {
    /// All of them.
    pub all: Vec<Tensor>,
    device: Device,
}

impl Default for Params {
    fn default() -> Params {
        Params::on(&Device::cpu())
    }
}

impl Params {
    /// On a device.
    pub fn on(device: &Device) -> Params {
        Params { all: vec![], device: *device }
    }

    fn add(&mut self, init: Tensor) -> Result<Tensor> {
        let init = init.to(&self.device);
        init.eval()?;
        let v = Tensor::var(format!("p{}", self.all.len()), init);
        self.all.push(v.clone());
        Ok(v)
    }

    /// A weight as PyTorch starts one: uniform within one over the root of the fan-in.
    fn weight<const N: usize>(&mut self, shape: [usize; N]) -> Result<Tensor> {
        let fan_in: usize = shape[1..].iter().product();
        let bound = 1.0 / (fan_in as f64).sqrt();
        self.add(Tensor::rand(shape) * (2.0 * bound) - bound)
    }

    fn full<const N: usize>(&mut self, shape: [usize; N], value: f64) -> Result<Tensor> {
        self.add(Tensor::zeros(shape, DType::F32) + value)
    }

    /// A dense layer.
    pub fn linear(&mut self, inputs: usize, outputs: usize) -> Result<Linear> {
        Ok(Linear { weight: self.weight([outputs, inputs])?, bias: Some(self.full([outputs], 0.0)?) })
    }

    /// A convolution of 3x3 or 1x1.
    fn conv(&mut self, inputs: usize, outputs: usize, size: usize) -> Result<Tensor> {
        self.weight([outputs, inputs, size, size])
    }
}

/// `x W^T + b`.
pub struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    /// The layer on `x`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.linear(&self.weight, self.bias.as_ref())
    }
}

/// What a model is for the benchmark.
pub type Forward = Box<dyn Fn(&Tensor) -> Result<Tensor>>;

/// Dense layers with an activation in between.
pub fn mlp(p: &mut Params, sizes: &[usize], activation: fn(&Tensor) -> Tensor) -> Result<Forward> {
    let layers = sizes.windows(2).map(|s| p.linear(s[0], s[1])).collect::<Result<Vec<_>>>()?;
    Ok(Box::new(move |x| {
        let mut h = layers[0].forward(x)?;
        for l in &layers[1..] {
            h = l.forward(&activation(&h))?;
        }
        Ok(h)
    }))
}

fn conv_options(stride: usize, padding: usize) -> ConvOptions {
    ConvOptions { stride: stride.into(), padding: padding.into(), ..ConvOptions::default() }
}

/// The shape of a small convolutional network.
#[derive(Clone, Copy)]
pub struct CnnShape {
    /// Channels of the images.
    pub inputs: usize,
    /// Their side.
    pub side: usize,
    /// Channels of the two convolutions.
    pub channels: [usize; 2],
    /// Width of the dense layer.
    pub hidden: usize,
}

/// Two convolutions with pooling, two dense layers.
pub fn cnn(p: &mut Params, s: CnnShape) -> Result<Forward> {
    let [c1, c2] = s.channels;
    let (w1, b1, w2, b2) = (p.conv(s.inputs, c1, 3)?, p.full([c1], 0.0)?, p.conv(c1, c2, 3)?, p.full([c2], 0.0)?);
    let side = s.side / 2 / 2;
    let (f1, f2) = (p.linear(c2 * side * side, s.hidden)?, p.linear(s.hidden, 10)?);
    Ok(Box::new(move |x| {
        let pool = |h: Tensor| h.max_pool2d(2, MaxPoolOptions::default());
        let h = pool(x.conv2d(&w1, Some(&b1), conv_options(1, 1))?.relu())?;
        let h = pool(h.conv2d(&w2, Some(&b2), conv_options(1, 1))?.relu())?;
        f2.forward(&f1.forward(&h.flatten(1, -1)?)?.relu())
    }))
}

struct BatchNorm {
    weight: Tensor,
    bias: Tensor,
    running: (Tensor, Tensor),
    training: bool,
}

impl BatchNorm {
    fn new(p: &mut Params, channels: usize, training: bool) -> Result<BatchNorm> {
        let stat = |x: f64| -> Result<Tensor> {
            let t = (Tensor::zeros([channels], DType::F32) + x).to(&p.device);
            Ok(Tensor::var("running", t.eval()?.clone()))
        };
        let running = (stat(0.0)?, stat(1.0)?);
        Ok(BatchNorm { weight: p.full([channels], 1.0)?, bias: p.full([channels], 0.0)?, running, training })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let options = BatchNormOptions { training: self.training, ..BatchNormOptions::default() };
        let stats = (self.running.0.detach(), self.running.1.detach());
        let (y, new) = x.batch_norm(Some(&stats), Some(&self.weight), Some(&self.bias), &options)?;
        if let (true, Some((mean, var))) = (self.training, new) {
            no_grad(|| self.running.0.set(&mean.detach()).and_then(|()| self.running.1.set(&var.detach())))?;
        }
        Ok(y)
    }
}

struct Basic {
    c1: Tensor,
    b1: BatchNorm,
    c2: Tensor,
    b2: BatchNorm,
    down: Option<(Tensor, BatchNorm)>,
    stride: usize,
}

impl Basic {
    fn new(p: &mut Params, i: usize, o: usize, stride: usize, training: bool) -> Result<Basic> {
        let down = if stride != 1 || i != o { Some((p.conv(i, o, 1)?, BatchNorm::new(p, o, training)?)) } else { None };
        Ok(Basic {
            c1: p.conv(i, o, 3)?,
            b1: BatchNorm::new(p, o, training)?,
            c2: p.conv(o, o, 3)?,
            b2: BatchNorm::new(p, o, training)?,
            down,
            stride,
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let h = self.b1.forward(&x.conv2d(&self.c1, None, conv_options(self.stride, 1))?)?.relu();
        let y = self.b2.forward(&h.conv2d(&self.c2, None, conv_options(1, 1))?)?;
        Ok(match &self.down {
            Some((w, b)) => (y + b.forward(&x.conv2d(w, None, conv_options(self.stride, 0))?)?).relu(),
            None => (y + x).relu(),
        })
    }
}

/// ResNet-18 with a CIFAR stem.
pub fn resnet18(p: &mut Params, training: bool) -> Result<Forward> {
    let (stem, norm) = (p.conv(3, 64, 3)?, BatchNorm::new(p, 64, training)?);
    let mut blocks = vec![];
    let mut i = 64;
    for (o, stride) in [(64, 1), (128, 2), (256, 2), (512, 2)] {
        blocks.push(Basic::new(p, i, o, stride, training)?);
        blocks.push(Basic::new(p, o, o, 1, training)?);
        i = o;
    }
    let head = p.linear(512, 10)?;
    Ok(Box::new(move |x| {
        let mut h = norm.forward(&x.conv2d(&stem, None, conv_options(1, 1))?)?.relu();
        for b in &blocks {
            h = b.forward(&h)?;
        }
        head.forward(&h.mean_dim([2, 3], false)?)
    }))
}

struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
}

impl LayerNorm {
    fn new(p: &mut Params, d: usize) -> Result<LayerNorm> {
        Ok(LayerNorm { weight: p.full([d], 1.0)?, bias: p.full([d], 0.0)? })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let d = x.dims()[x.rank() - 1];
        x.layer_norm([d], Some(&self.weight), Some(&self.bias), 1e-5)
    }
}

/// The shape of a GPT.
#[derive(Clone, Copy)]
pub struct GptShape {
    /// Blocks.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// Width.
    pub width: usize,
    /// Tokens it looks at.
    pub block: usize,
}

/// Size of the vocabulary.
pub const VOCAB: usize = 65;

/// A transformer of nanoGPT's layout over token numbers `[batch, time]`.
pub fn gpt(p: &mut Params, s: GptShape) -> Result<Forward> {
    let (d, heads) = (s.width, s.heads);
    let tokens = p.add(Tensor::randn([VOCAB, d]))?;
    let places = p.add(Tensor::randn([s.block, d]) * 0.02)?;
    struct Block {
        ln1: LayerNorm,
        qkv: Linear,
        proj: Linear,
        ln2: LayerNorm,
        fc: Linear,
        out: Linear,
    }
    let blocks = (0..s.layers)
        .map(|_| {
            Ok(Block {
                ln1: LayerNorm::new(p, d)?,
                qkv: p.linear(d, 3 * d)?,
                proj: p.linear(d, d)?,
                ln2: LayerNorm::new(p, d)?,
                fc: p.linear(d, 4 * d)?,
                out: p.linear(4 * d, d)?,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let last = LayerNorm::new(p, d)?;
    let head = Linear { weight: p.weight([VOCAB, d])?, bias: None };
    Ok(Box::new(move |tokens_in| {
        let (b, t) = (tokens_in.dims()[0], tokens_in.dims()[1]);
        let mut x = tokens.embedding(tokens_in)? + &places.narrow(0, 0, t)?;
        for k in &blocks {
            let qkv = k.qkv.forward(&k.ln1.forward(&x)?)?;
            let part = |n: usize| -> Result<Tensor> {
                let t4 = [b, t, heads, d / heads];
                qkv.narrow(2, n * d, d)?.reshape(t4)?.transpose(1, 2)
            };
            let causal = AttentionOptions { is_causal: true, ..Default::default() };
            let a = part(0)?.scaled_dot_product_attention(&part(1)?, &part(2)?, &causal)?;
            x = &x + k.proj.forward(&a.transpose(1, 2)?.reshape([b, t, d])?)?;
            x = &x + k.out.forward(&k.fc.forward(&k.ln2.forward(&x)?)?.gelu_tanh())?;
        }
        head.forward(&last.forward(&x)?)
    }))
}

/// One layer of LSTM over `[batch, time, input]`, then a dense layer on its last state.
pub fn lstm(p: &mut Params, input: usize, hidden: usize) -> Result<Forward> {
    let lstm = Lstm::with(input, hidden, RnnOptions { batch_first: true, ..Default::default() })?;
    p.all.extend(lstm.parameters());
    let head = p.linear(hidden, 10)?;
    Ok(Box::new(move |x| {
        let (_, (h, _)) = lstm.forward(x, None)?;
        head.forward(&h.select(0, -1)?)
    }))
}
