//! A small convnet for 8x8 images.

use gradus::prelude::*;
use nn::{BatchNorm2d, Conv2d, Dropout, Linear, MaxPool2d};

/// Two convolutions with norms, a pooling and two dense layers: 38,330 numbers.
#[derive(Module)]
pub struct Convnet {
    conv1: Conv2d,
    norm1: BatchNorm2d,
    conv2: Conv2d,
    norm2: BatchNorm2d,
    pool: MaxPool2d,
    dropout: Dropout,
    fc1: Linear,
    fc2: Linear,
}

impl Convnet {
    /// Weights at random.
    pub fn new() -> Result<Convnet> {
        Ok(Convnet {
            // A norm subtracts the mean, and a bias with it.
            conv1: Conv2d::new(1, 16, 3)?.padding(1).bias(false),
            norm1: BatchNorm2d::new(16),
            conv2: Conv2d::new(16, 32, 3)?.padding(1).bias(false),
            norm2: BatchNorm2d::new(32),
            pool: MaxPool2d::new(2),
            dropout: Dropout::new(0.2),
            fc1: Linear::new(32 * 4 * 4, 64),
            fc2: Linear::new(64, 10),
        })
    }
}

impl Layer for Convnet {
    /// Scores `[n, 10]` of images `[n, 1, 8, 8]`.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let h = self.norm1.forward(&self.conv1.forward(x)?)?.relu();
        let h = self.norm2.forward(&self.conv2.forward(&h)?)?.relu();
        let h = self.dropout.forward(&self.pool.forward(&h)?.flatten(1, -1)?)?;
        self.fc2.forward(&self.fc1.forward(&h)?.relu())
    }
}
