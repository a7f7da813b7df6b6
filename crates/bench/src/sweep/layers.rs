//! Layers of other widths, forward and backward.

use super::{Sweep, normal};
use gradus_core::{
    AvgPoolOptions, BatchNormOptions, ConvOptions, DType, InterpolateMode, InterpolateOptions, MaxPoolOptions, Result,
    Tensor, no_grad,
};
use gradus_nn::{Gru, Lstm, Module};

pub fn run(w: &Sweep) -> Result<()> {
    convolutions(w)?;
    images(w)?;
    networks(w)
}

/// Channels in and out, side of the image, of the kernel, stride, padding, groups, images.
const CONVOLUTIONS: [[usize; 8]; 14] = [
    [3, 32, 32, 3, 1, 1, 1, 32],
    [3, 17, 45, 3, 2, 1, 1, 8],
    [30, 50, 27, 3, 1, 1, 1, 8],
    [64, 64, 28, 3, 2, 1, 1, 16],
    [64, 128, 28, 1, 1, 0, 1, 16],
    [64, 128, 28, 1, 2, 0, 1, 16],
    [24, 24, 28, 5, 1, 2, 1, 16],
    [3, 64, 64, 7, 2, 3, 1, 8],
    [64, 64, 28, 3, 1, 1, 64, 16],
    [64, 64, 28, 3, 2, 1, 64, 16],
    [64, 64, 28, 5, 1, 2, 64, 16],
    [64, 64, 28, 3, 1, 1, 16, 16],
    [64, 64, 28, 3, 2, 1, 16, 16],
    [64, 64, 28, 3, 1, 1, 8, 16],
];

fn convolutions(w: &Sweep) -> Result<()> {
    for [c, o, side, k, stride, padding, groups, n] in CONVOLUTIONS {
        let (x, weight) = (normal(&[n, c, side, side])?, normal(&[o, c / groups, k, k])?);
        let options =
            || ConvOptions { stride: stride.into(), padding: padding.into(), groups, ..ConvOptions::default() };
        let name = format!("{c}_{o}_{side}_k{k}_s{stride}_g{groups}");
        w.one(&format!("conv_forward_{name}"), || no_grad(|| x.conv2d(&weight, None, options())))?;
        let (vx, vw) = (Tensor::var("x", &x), Tensor::var("w", &weight));
        let up = no_grad(|| normal(x.conv2d(&weight, None, options())?.dims()))?;
        w.one(&format!("conv_input_{name}"), || {
            (vx.conv2d(&weight, None, options())? * &up).sum().backward()?.wrt(&vx)
        })?;
        w.one(&format!("conv_weight_{name}"), || (x.conv2d(&vw, None, options())? * &up).sum().backward()?.wrt(&vw))?;
    }
    Ok(())
}

fn images(w: &Sweep) -> Result<()> {
    for (name, shape) in [("odd", [8, 20, 45, 45]), ("even", [16, 32, 28, 28])] {
        let x = normal(&shape)?;
        let max = |k: usize, s: usize, p: usize| {
            move |x: &Tensor| {
                x.max_pool2d(k, MaxPoolOptions { stride: Some(s.into()), padding: p.into(), ..Default::default() })
            }
        };
        let mean = |k: usize, s: usize, p: usize| {
            move |x: &Tensor| {
                x.avg_pool2d(k, AvgPoolOptions { stride: Some(s.into()), padding: p.into(), ..Default::default() })
            }
        };
        w.gradient(&format!("img_max2_{name}"), &x, max(2, 2, 0))?;
        w.gradient(&format!("img_max3s2_{name}"), &x, max(3, 2, 1))?;
        w.gradient(&format!("img_avg3s3_{name}"), &x, mean(3, 3, 0))?;
        w.gradient(&format!("img_avg3s1_{name}"), &x, mean(3, 1, 1))?;
        w.gradient(&format!("img_adaptive1_{name}"), &x, |x| x.adaptive_avg_pool2d(1))?;
        w.gradient(&format!("img_adaptive7_{name}"), &x, |x| x.adaptive_avg_pool2d(7))?;
        for (mode_name, mode) in [("nearest", InterpolateMode::Nearest), ("bilinear", InterpolateMode::Bilinear)] {
            let o = move || InterpolateOptions { scale_factor: Some(vec![2.0]), mode, ..Default::default() };
            w.gradient(&format!("img_{mode_name}2_{name}"), &x, |x| x.interpolate(o()))?;
        }
        let (scale, shift) = (normal(&[shape[1]])?, normal(&[shape[1]])?);
        w.gradient(&format!("img_batch_norm_{name}"), &x, |x| {
            let o = BatchNormOptions { training: true, ..Default::default() };
            x.batch_norm(None, Some(&scale), Some(&shift), &o).map(|y| y.0)
        })?;
        w.gradient(&format!("img_relu_{name}"), &x, |x| Ok(x.relu()))?;
    }
    Ok(())
}

fn networks(w: &Sweep) -> Result<()> {
    for (inputs, hidden, outputs, batch) in [(100, 300, 10, 50), (37, 1111, 5, 33), (784, 64, 10, 128)] {
        let x = normal(&[batch, inputs])?;
        let parts = [[hidden, inputs], [outputs, hidden]]
            .map(|s| normal(&s).map(|t| Tensor::var("w", t * (1.0 / (s[1] as f64).sqrt()))));
        let [a, b] = parts;
        let (a, b) = (a?, b?);
        let classes = Tensor::randint(0, outputs as i64, [batch], DType::I64)?;
        classes.eval()?;
        w.time(&format!("net_mlp_{inputs}_{hidden}_{outputs}"), || {
            let loss = x.linear(&a, None)?.gelu().linear(&b, None)?.cross_entropy(&classes)?;
            let g = loss.backward()?;
            Ok(vec![g.wrt(&a)?, g.wrt(&b)?])
        })?;
    }
    let t = normal(&[16, 50, 30])?;
    let gru = Gru::new(30, 48)?;
    let lstm = Lstm::new(30, 48)?;
    w.one("net_gru_forward", || no_grad(|| gru.forward(&t, None).map(|o| o.0)))?;
    w.one("net_lstm_forward", || no_grad(|| lstm.forward(&t, None).map(|o| o.0)))?;
    w.time("net_gru", || {
        let g = gru.forward(&t, None)?.0.square().sum().backward()?;
        gru.parameters().iter().map(|p| g.wrt(p)).collect()
    })?;
    w.time("net_lstm", || {
        let g = lstm.forward(&t, None)?.0.square().sum().backward()?;
        lstm.parameters().iter().map(|p| g.wrt(p)).collect()
    })
}
