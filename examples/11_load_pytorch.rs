//! A model that PyTorch trained and saved with `torch.save`, used here without PyTorch. Names are the same on both
//! sides, so weights find their places. The pickle inside the file is read by a machine that can execute nothing.
//!
//! cargo run --release --example 11_load_pytorch
//!
//! The other side is examples/data/make_torch_digits.py.

use gradus::{
    data::digits,
    io::{self, Meta},
    nn::{BatchNorm2d, Conv2d, Linear, MaxPool2d, Relu, Sequential},
    prelude::*,
};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/torch_digits.pt");

/// The fields are named as the attributes of the class in Python.
#[derive(Module)]
struct Net {
    features: Sequential,
    classifier: Linear,
}

impl Net {
    fn new() -> Result<Net> {
        Ok(Net {
            features: Sequential::from((Conv2d::new(1, 8, 3)?, BatchNorm2d::new(8), Relu, MaxPool2d::new(2))),
            classifier: Linear::new(72, 10),
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.classifier.forward(&self.features.forward(x)?.flatten(1, -1)?)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (right, there, apart) = compare()?;
    println!("{right} of 359 test images right; PyTorch: {there}. Scores are at most {apart:.1e} apart");
    Ok(())
}

/// How many digits are right here and there, and how far apart the scores are.
pub fn compare() -> Result<(i64, i64, f64), Box<dyn std::error::Error>> {
    // {"model": state_dict, "scores": tensor, "right": int, "epoch": int}: names of what is nested are joined by dots.
    let checkpoint = io::load(FILE)?;
    for (name, tensor) in checkpoint.iter() {
        println!("{name:38} {:?} {}", tensor.dims(), tensor.dtype());
    }
    let mut weights = StateDict::new();
    for (name, tensor) in checkpoint.iter() {
        if let Some(name) = name.strip_prefix("model.") {
            weights.insert(name, tensor.clone());
        }
    }

    let net = Net::new()?;
    net.load_state_dict(&weights)?; // a name that is missing or of another shape is an error that lists all of them
    net.eval();

    let d = digits()?;
    let scores = no_grad(|| net.forward(&d.test_images))?;
    let right = scores.argmax_dim(1, false)?.eq(&d.test_labels)?.to_dtype(DType::I64).sum().item::<i64>()?;
    let there = checkpoint.metadata().get("right").and_then(Meta::as_i64).unwrap_or(-1);
    let apart = (scores.narrow(0, 0, 4)? - checkpoint.tensor("scores")?).abs().max()?.item::<f64>()?;
    Ok((right, there, apart))
}
