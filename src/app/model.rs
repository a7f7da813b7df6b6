//! A small convnet for 8x8 images.

use gradus::{ConvOptions, MaxPoolOptions, Result, Tensor};

/// Two convolutions, a pooling and two dense layers: 38,282 numbers.
pub struct Convnet {
    params: Vec<Tensor>,
}

impl Convnet {
    /// Weights at random, biases zero.
    pub fn new() -> Result<Convnet> {
        let conv = |name: &str, shape: [usize; 4]| -> Result<Tensor> {
            let fan_in: usize = shape[1..].iter().product();
            Ok(Tensor::var(name, Tensor::randn(shape) * (2.0 / fan_in as f64).sqrt()))
        };
        let dense =
            |name: &str, shape: [usize; 2]| -> Result<Tensor> { Ok(Tensor::var(name, Tensor::kaiming(shape)?)) };
        let bias = |name: &str, n: usize| Tensor::var(name, Tensor::zeros([n], gradus::DType::F32));
        let params = vec![
            conv("conv1.weight", [16, 1, 3, 3])?,
            bias("conv1.bias", 16),
            conv("conv2.weight", [32, 16, 3, 3])?,
            bias("conv2.bias", 32),
            dense("fc1.weight", [512, 64])?,
            bias("fc1.bias", 64),
            dense("fc2.weight", [64, 10])?,
            bias("fc2.bias", 10),
        ];
        Tensor::eval_all(&params.iter().collect::<Vec<_>>())?;
        Ok(Convnet { params })
    }

    /// All variables.
    pub fn params(&self) -> &[Tensor] {
        &self.params
    }

    /// Scores `[n, 10]` of images `[n, 1, 8, 8]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let [w1, b1, w2, b2, w3, b3, w4, b4] = &self.params[..] else {
            return Err(gradus::Error::value("convnet", "the model must have eight variables"));
        };
        let same = || ConvOptions { padding: 1.into(), ..ConvOptions::default() };
        let h = x.conv2d(w1, Some(b1), same())?.relu();
        let h = h.conv2d(w2, Some(b2), same())?.relu().max_pool2d(2, MaxPoolOptions::default())?;
        let h = (h.flatten(1, -1)?.matmul(w3)? + b3).relu();
        Ok(h.matmul(w4)? + b4)
    }
}
