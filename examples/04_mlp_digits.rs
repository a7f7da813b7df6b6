//! Handwritten digits with dense layers and gradient descent with momentum: data, batches, a loop, an accuracy.
//!
//! cargo run --release --example 04_mlp_digits

use gradus::{
    data::{DataLoader, LoaderOptions, TensorDataset, digits},
    prelude::*,
};

/// The derive finds parameters by the fields, and names them as PyTorch does: `hidden.weight`, `hidden.bias`, ...
#[derive(Module)]
struct Mlp {
    hidden: nn::Linear,
    middle: nn::Linear,
    out: nn::Linear,
}

impl Mlp {
    fn new() -> Mlp {
        Mlp { hidden: nn::Linear::new(64, 128), middle: nn::Linear::new(128, 64), out: nn::Linear::new(64, 10) }
    }

    /// Scores for each of the ten digits.
    fn forward(&self, images: &Tensor) -> Result<Tensor> {
        let x = images.flatten(1, -1)?; // [n, 1, 8, 8] -> [n, 64]
        let x = self.hidden.forward(&x)?.relu();
        let x = self.middle.forward(&x)?.relu();
        self.out.forward(&x)
    }
}

fn main() -> Result<()> {
    println!("test accuracy {:.4}", learn(30)?);
    Ok(())
}

/// Learns for so many passes over the data; the share of test images that are read right.
pub fn learn(epochs: usize) -> Result<f64> {
    manual_seed(0);
    let d = digits()?; // 1,438 images to learn from and 359 to test, inside the library
    let data = TensorDataset::new(&d.train_images, &d.train_labels)?;
    let loader = DataLoader::new(data, LoaderOptions { batch_size: 32, shuffle: true, ..Default::default() })?;
    let model = Mlp::new();
    let mut opt = Sgd::new(&model.parameters(), 0.05).momentum(0.9);
    for epoch in 1..=epochs {
        let mut total = 0.0;
        for batch in &loader {
            let (images, labels) = batch?;
            let loss = model.forward(&images)?.cross_entropy(&labels)?;
            opt.step(&loss.backward()?)?;
            total += loss.item::<f64>()?; // already computed by the step
        }
        if epoch % 5 == 0 {
            println!("epoch {epoch:2}: mean loss {:.4}", total / loader.len() as f64);
        }
    }
    // Without a graph for gradients: nothing of the forward pass is kept.
    let read = no_grad(|| model.forward(&d.test_images))?.argmax_dim(1, false)?;
    read.eq(&d.test_labels)?.to_dtype(DType::F64).mean().item()
}
