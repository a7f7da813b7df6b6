//! Initialisers: their moments and structure.

use gradus_core::{DType, Fan, Gain, Result, Tensor, manual_seed};
use gradus_nn::{Conv2d, Embedding, Linear, Param, init::*};

fn moments(t: &Tensor) -> (f64, f64, f64, f64) {
    let v = t.to_vec::<f64>().unwrap();
    let mean = v.iter().sum::<f64>() / v.len() as f64;
    let var = v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / v.len() as f64;
    let (lo, hi) = v.iter().fold((f64::MAX, f64::MIN), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
    (mean, var.sqrt(), lo, hi)
}

/// Uniform within `bound` of 0.
#[track_caller]
fn uniform(t: &Tensor, bound: f64) {
    let (mean, std, lo, hi) = moments(t);
    assert!(mean.abs() < 0.03 * bound, "mean {mean}");
    assert!((std / (bound / 3f64.sqrt()) - 1.0).abs() < 0.03, "deviation {std}");
    assert!(lo >= -bound && lo < -0.98 * bound && hi <= bound && hi > 0.98 * bound, "{lo}..{hi}");
}

#[track_caller]
fn normal(t: &Tensor, want: f64) {
    let (mean, std, ..) = moments(t);
    assert!(mean.abs() < 0.03 * want && (std / want - 1.0).abs() < 0.03, "mean {mean}, deviation {std}");
}

#[test]
fn scales() -> Result<()> {
    manual_seed(1);
    let w = Param::new(Tensor::zeros([120, 100], DType::F32));
    uniform_(&w, -0.5, 0.5)?;
    uniform(&w, 0.5);
    normal_(&w, 0.0, 0.2)?;
    normal(&w, 0.2);
    xavier_uniform_(&w, 2.0)?;
    uniform(&w, 2.0 * (6f64 / 220.0).sqrt());
    xavier_normal_(&w, 1.0)?;
    normal(&w, (2f64 / 220.0).sqrt());
    kaiming_uniform_(&w, Fan::Out, Gain::LeakyRelu(0.2))?;
    uniform(&w, (2f64 / 1.04).sqrt() * (3f64 / 120.0).sqrt());
    kaiming_normal_(&w, Fan::In, Gain::Relu)?;
    normal(&w, (2f64 / 100.0).sqrt());
    trunc_normal_(&w, 0.0, 1.0, -0.5, 2.0)?;
    let (_, _, lo, hi) = moments(&w);
    assert!((-0.5..-0.49).contains(&lo) && hi <= 2.0 && hi > 1.9);
    constant_(&w, 3.0)?;
    assert_eq!(moments(&w), (3.0, 0.0, 3.0, 3.0));
    ones_(&w)?;
    zeros_(&w)?;
    assert_eq!(moments(&w).0, 0.0);
    assert!(w.is_trainable() && w.dtype() == DType::F32);
    Ok(())
}

#[test]
fn structure() -> Result<()> {
    manual_seed(2);
    let eye = Param::new(Tensor::zeros([2, 3], DType::F32));
    eye_(&eye)?;
    assert_eq!(eye.to_vec::<f32>()?, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    for shape in [[6, 4], [4, 6]] {
        let w = Param::new(Tensor::zeros(shape, DType::F64));
        orthogonal_(&w, 2.0)?;
        let small = if shape[0] > shape[1] { w.t()?.matmul(&w)? } else { w.matmul(&w.t()?)? };
        let d = (small - Tensor::eye(4, 4, DType::F64) * 4.0).abs().max()?.item::<f64>()?;
        assert!(d < 1e-12, "{d}");
    }
    // A convolution that passes its channels on, in two groups.
    let conv = Conv2d::new(4, 4, 3)?.padding(1).groups(2)?.bias(false);
    dirac_(&conv.weight, 2)?;
    let x = Tensor::randn([1, 4, 5, 5]);
    assert!(gradus_nn::Layer::forward(&conv, &x)?.equal(&x)?);
    let w = Param::new(Tensor::zeros([10, 7], DType::F32));
    sparse_(&w, 0.25, 0.1)?;
    let zeros = w.eq(0.0)?.to_dtype(DType::I64).sum_dim(0, false)?.to_vec::<i64>()?;
    assert_eq!(zeros, [3; 7]);
    Ok(())
}

#[test]
fn layers_start_as_in_pytorch() -> Result<()> {
    manual_seed(3);
    let linear = Linear::new(64, 400);
    uniform(&linear.weight, 1.0 / 8.0);
    let conv = Conv2d::new(8, 64, 4)?.groups(2)?;
    uniform(&conv.weight, 1.0 / (4.0f64 * 16.0).sqrt());
    let (_, _, lo, hi) = moments(conv.bias.as_ref().unwrap());
    assert!(lo > -0.125 && hi < 0.125 && hi - lo > 0.2);
    normal(&Embedding::new(100, 80).weight, 1.0);
    let padded = Embedding::new(4, 3).padding_idx(1)?;
    assert_eq!(padded.weight.select(0, 1)?.to_vec::<f32>()?, [0.0; 3]);
    Ok(())
}

#[test]
fn mistakes_have_numbers() {
    let v = Param::new(Tensor::zeros([5], DType::F32));
    let text = |r: Result<()>| r.unwrap_err().to_string();
    assert!(text(xavier_uniform_(&v, 1.0)).contains("two axes or more, not [5]"));
    assert!(text(eye_(&v)).contains("an identity is a matrix, not [5]"));
    assert!(text(dirac_(&v, 1)).contains("not [5] in 1 groups"));
    assert!(text(orthogonal_(&v, 1.0)).contains("two axes or more, not [5]"));
    assert!(text(normal_(&v, 0.0, -1.0)).contains("cannot be -1"));
    assert!(text(zeros_(&Tensor::randn([2]))).contains("not a variable"));
}
