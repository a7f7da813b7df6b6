//! A small convnet for 8x8 images.

use gradus::prelude::*;
use nn::{Conv2d, Linear, MaxPool2d};

/// Two convolutions, a pooling and two dense layers: 38,282 numbers.
#[derive(Module)]
pub struct Convnet {
    conv1: Conv2d,
    conv2: Conv2d,
    pool: MaxPool2d,
    fc1: Linear,
    fc2: Linear,
}

impl Convnet {
    /// Weights at random.
    pub fn new() -> Result<Convnet> {
        Ok(Convnet {
            conv1: Conv2d::new(1, 16, 3)?.padding(1),
            conv2: Conv2d::new(16, 32, 3)?.padding(1),
            pool: MaxPool2d::new(2),
            fc1: Linear::new(32 * 4 * 4, 64),
            fc2: Linear::new(64, 10),
        })
    }
}

impl Layer for Convnet {
    /// Scores `[n, 10]` of images `[n, 1, 8, 8]`.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let h = self.conv1.forward(x)?.relu();
        let h = self.pool.forward(&self.conv2.forward(&h)?.relu())?;
        let h = self.fc1.forward(&h.flatten(1, -1)?)?.relu();
        self.fc2.forward(&h)
    }
}
