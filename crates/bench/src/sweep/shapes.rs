//! Convolutions, pooling and products of the shapes that networks outside of this benchmark have: single images, odd sides,
//! few and many channels, long kernels, groups, one and three axes, operands that are views, other types.

use super::{Sweep, normal};
use gradus_core::{
    AvgPoolOptions, ConvOptions, ConvTransposeOptions, DType, InterpolateMode, InterpolateOptions, MaxPoolOptions,
    Result, Tensor, no_grad,
};

pub fn run(w: &Sweep) -> Result<()> {
    convolutions(w)?;
    transposed(w)?;
    no_grad(|| views(w))?;
    images(w)?;
    no_grad(|| products(w))
}

/// Input, weight, stride, whether zeros go around it that keep the extents, dilation, groups.
type Convolution = (&'static [usize], &'static [usize], usize, bool, usize, usize);

const CONVOLUTIONS: [Convolution; 37] = [
    (&[1, 3, 112, 112], &[64, 3, 7, 7], 2, true, 1, 1),
    (&[1, 64, 56, 56], &[64, 64, 3, 3], 1, true, 1, 1),
    (&[1, 256, 56, 56], &[64, 256, 1, 1], 1, true, 1, 1),
    (&[1, 512, 7, 7], &[512, 512, 3, 3], 1, true, 1, 1),
    (&[3, 256, 14, 14], &[256, 256, 3, 3], 1, true, 1, 1),
    (&[1, 512, 7, 7], &[1024, 512, 1, 1], 1, true, 1, 1),
    (&[3, 96, 14, 14], &[96, 96, 3, 3], 1, true, 1, 1),
    (&[3, 48, 31, 31], &[48, 48, 3, 3], 1, true, 1, 1),
    (&[3, 10, 31, 31], &[20, 10, 5, 5], 1, false, 1, 1),
    (&[64, 1, 28, 28], &[32, 1, 5, 5], 1, false, 1, 1),
    (&[3, 3, 112, 112], &[48, 3, 11, 11], 4, true, 1, 1),
    (&[1, 3, 224, 224], &[192, 3, 16, 16], 16, false, 1, 1),
    (&[3, 48, 31, 31], &[48, 48, 1, 7], 1, true, 1, 1),
    (&[3, 48, 31, 31], &[48, 48, 7, 1], 1, true, 1, 1),
    (&[3, 48, 28, 28], &[96, 48, 2, 2], 2, false, 1, 1),
    (&[3, 96, 56, 56], &[96, 1, 7, 7], 1, true, 1, 96),
    (&[1, 128, 28, 28], &[128, 4, 3, 3], 1, true, 1, 32),
    (&[3, 128, 28, 28], &[128, 4, 3, 3], 2, true, 1, 32),
    (&[3, 64, 28, 28], &[64, 64, 3, 3], 1, true, 2, 1),
    (&[3, 64, 31, 31], &[64, 32, 3, 3], 1, true, 1, 2),
    (&[3, 64, 31, 31], &[64, 16, 1, 1], 1, true, 1, 4),
    (&[3, 32, 31, 31], &[32, 32, 3, 3], 3, false, 1, 1),
    (&[1, 32, 112, 112], &[32, 1, 3, 3], 1, true, 1, 32),
    (&[1, 96, 56, 56], &[96, 1, 3, 3], 2, true, 1, 96),
    (&[1, 16, 112, 112], &[96, 16, 1, 1], 1, true, 1, 1),
    (&[1, 96, 56, 56], &[24, 96, 1, 1], 1, true, 1, 1),
    (&[3, 256, 14, 14], &[512, 256, 1, 1], 2, true, 1, 1),
    (&[1, 3, 31, 31], &[10, 3, 3, 3], 1, true, 1, 1),
    (&[3, 1, 16000], &[32, 1, 25], 4, true, 1, 1),
    (&[3, 32, 4000], &[32, 32, 9], 1, true, 1, 1),
    (&[8, 64, 500], &[64, 64, 3], 1, true, 1, 1),
    (&[1, 80, 300], &[256, 80, 3], 1, true, 1, 1),
    (&[3, 32, 4000], &[32, 32, 3], 1, true, 4, 1),
    (&[3, 144, 400], &[144, 1, 31], 1, true, 1, 144),
    (&[2, 3, 8, 32, 32], &[16, 3, 3, 3, 3], 1, true, 1, 1),
    (&[1, 16, 8, 28, 28], &[32, 16, 3, 3, 3], 1, true, 1, 1),
    (&[1, 16, 8, 28, 28], &[32, 16, 3, 3, 3], 2, true, 1, 1),
];

/// Sizes with an `x` between them.
fn join(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}

fn convolve(x: &Tensor, weight: &Tensor, o: ConvOptions) -> Result<Tensor> {
    match x.rank() {
        3 => x.conv1d(weight, None, o),
        4 => x.conv2d(weight, None, o),
        _ => x.conv3d(weight, None, o),
    }
}

fn convolutions(w: &Sweep) -> Result<()> {
    for (input, kernel, stride, padded, dilation, groups) in CONVOLUTIONS {
        let (x, weight) = (normal(input)?, normal(kernel)?);
        let padding: Vec<usize> = kernel[2..].iter().map(|k| if padded { dilation * (k - 1) / 2 } else { 0 }).collect();
        let o = || ConvOptions {
            stride: stride.into(),
            padding: padding.clone().into(),
            dilation: dilation.into(),
            groups,
        };
        let name = format!("{}_{}_s{stride}_d{dilation}_g{groups}", join(input), join(kernel));
        w.one(&format!("cv_forward_{name}"), || no_grad(|| convolve(&x, &weight, o())))?;
        let (vx, vw) = (Tensor::var("x", &x), Tensor::var("w", &weight));
        let up = no_grad(|| normal(convolve(&x, &weight, o())?.dims()))?;
        w.one(&format!("cv_input_{name}"), || (convolve(&vx, &weight, o())? * &up).sum().backward()?.wrt(&vx))?;
        w.one(&format!("cv_weight_{name}"), || (convolve(&x, &vw, o())? * &up).sum().backward()?.wrt(&vw))?;
    }
    Ok(())
}

fn transposed(w: &Sweep) -> Result<()> {
    for (n, c, o, side, k, stride, padding) in [
        (3, 64, 32, 14, 2, 2, 0),
        (3, 64, 32, 16, 4, 2, 1),
        (1, 256, 128, 8, 4, 2, 1),
        (8, 100, 128, 1, 4, 1, 0),
        (3, 32, 16, 31, 3, 2, 1),
        (3, 16, 3, 31, 5, 1, 2),
    ] {
        let (x, weight) = (normal(&[n, c, side, side])?, normal(&[c, o, k, k])?);
        let options = || ConvTransposeOptions { stride: stride.into(), padding: padding.into(), ..Default::default() };
        let name = format!("{n}_{c}_{o}_{side}_k{k}_s{stride}");
        w.one(&format!("ct_forward_{name}"), || no_grad(|| x.conv_transpose2d(&weight, None, options())))?;
        let (vx, vw) = (Tensor::var("x", &x), Tensor::var("w", &weight));
        let up = no_grad(|| normal(x.conv_transpose2d(&weight, None, options())?.dims()))?;
        w.time(&format!("ct_both_{name}"), || {
            let g = (vx.conv_transpose2d(&vw, None, options())? * &up).sum().backward()?;
            Ok(vec![g.wrt(&vx)?, g.wrt(&vw)?])
        })?;
    }
    Ok(())
}

/// Convolutions and pooling of images that are views, and convolutions in other types.
fn views(w: &Sweep) -> Result<()> {
    let padded = || ConvOptions { padding: 1.into(), ..ConvOptions::default() };
    let all = normal(&[8, 64, 30, 30])?;
    let last = normal(&[8, 28, 28, 32])?;
    for (name, x) in [
        ("channels", all.narrow(1, 3, 32)?),
        ("crop", all.narrow(1, 0, 32)?.narrow(2, 1, 28)?.narrow(3, 1, 28)?),
        ("last", last.permute([0, 3, 1, 2])?),
    ] {
        let (three, one, own) = (normal(&[32, 32, 3, 3])?, normal(&[32, 32, 1, 1])?, normal(&[32, 1, 3, 3])?);
        w.one(&format!("cview_k3_{name}"), || x.conv2d(&three, None, padded()))?;
        w.one(&format!("cview_k1_{name}"), || x.conv2d(&one, None, ConvOptions::default()))?;
        w.one(&format!("cview_own_{name}"), || x.conv2d(&own, None, ConvOptions { groups: 32, ..padded() }))?;
        w.one(&format!("cview_max_{name}"), || x.max_pool2d(2, MaxPoolOptions::default()))?;
        w.one(&format!("cview_mean_{name}"), || x.avg_pool2d(2, AvgPoolOptions::default()))?;
    }
    let (x, bias) = (all.narrow(1, 0, 32)?.contiguous(), normal(&[48])?);
    let three = normal(&[48, 32, 3, 3])?;
    x.eval()?;
    w.one("cview_bias_relu", || Ok(x.conv2d(&three, Some(&bias), padded())?.relu()))?;
    for (name, d) in [("f64", DType::F64), ("bf16", DType::BF16), ("f16", DType::F16)] {
        let (x, three, one) = (typed(&[2, 32, 30, 30], d)?, typed(&[48, 32, 3, 3], d)?, typed(&[48, 32, 1, 1], d)?);
        w.one(&format!("ctype_k3_{name}"), || x.conv2d(&three, None, padded()))?;
        w.one(&format!("ctype_k1_{name}"), || x.conv2d(&one, None, ConvOptions::default()))?;
        w.one(&format!("ctype_max_{name}"), || x.max_pool2d(2, MaxPoolOptions::default()))?;
        w.one(&format!("ctype_mean_{name}"), || x.adaptive_avg_pool2d(1))?;
    }
    Ok(())
}

fn typed(shape: &[usize], d: DType) -> Result<Tensor> {
    let t = normal(shape)?.to_dtype(d).contiguous();
    t.eval()?;
    Ok(t)
}

/// A way of pooling or resizing, both ways.
fn image(w: &Sweep, name: &str, shape: &[usize], f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<()> {
    let x = normal(shape)?;
    let name = format!("{name}_{}", join(shape));
    w.one(&format!("pool_{name}"), || no_grad(|| f(&x)))?;
    w.gradient(&format!("poolgrad_{name}"), &x, f)
}

fn images(w: &Sweep) -> Result<()> {
    let max =
        |s: usize, p: usize| MaxPoolOptions { stride: Some(s.into()), padding: p.into(), ..MaxPoolOptions::default() };
    let mean =
        |s: usize, p: usize| AvgPoolOptions { stride: Some(s.into()), padding: p.into(), ..AvgPoolOptions::default() };
    image(w, "max3s2", &[1, 64, 112, 112], |x| x.max_pool2d(3, max(2, 1)))?;
    image(w, "max3s2", &[3, 48, 31, 31], |x| x.max_pool2d(3, max(2, 0)))?;
    image(w, "max2", &[3, 10, 31, 31], |x| x.max_pool2d(2, max(2, 0)))?;
    image(w, "max5s1", &[1, 64, 14, 14], |x| x.max_pool2d(5, max(1, 2)))?;
    image(w, "max1d4", &[3, 32, 4000], |x| x.max_pool1d(4, max(4, 0)))?;
    image(w, "max3d2", &[2, 16, 8, 28, 28], |x| x.max_pool3d(2, max(2, 0)))?;
    image(w, "mean2", &[3, 48, 31, 31], |x| x.avg_pool2d(2, mean(2, 0)))?;
    image(w, "mean7s1", &[3, 48, 14, 14], |x| x.avg_pool2d(7, mean(1, 0)))?;
    image(w, "mean3s2", &[3, 48, 56, 56], |x| x.avg_pool2d(3, mean(2, 1)))?;
    image(w, "mean1d4", &[3, 32, 4000], |x| x.avg_pool1d(4, mean(4, 0)))?;
    image(w, "global", &[1, 512, 7, 7], |x| x.adaptive_avg_pool2d(1))?;
    image(w, "global", &[3, 256, 14, 14], |x| x.adaptive_avg_pool2d(1))?;
    image(w, "globalmax", &[3, 256, 14, 14], |x| x.adaptive_max_pool2d(1))?;
    image(w, "adaptive6", &[3, 256, 13, 13], |x| x.adaptive_avg_pool2d(6))?;
    image(w, "adaptive5", &[3, 10, 31, 31], |x| x.adaptive_max_pool2d(5))?;
    for (shape, to) in [([1, 64, 28, 28], 56), ([3, 10, 31, 31], 17), ([1, 3, 112, 112], 224), ([3, 48, 17, 17], 31)] {
        let modes = [InterpolateMode::Nearest, InterpolateMode::Bilinear, InterpolateMode::Bicubic];
        for (name, mode) in ["nearest", "bilinear", "bicubic"].into_iter().zip(modes) {
            let o = || InterpolateOptions { size: Some(to.into()), mode, ..Default::default() };
            image(w, &format!("{name}{to}"), &shape, |x| x.interpolate(o()))?;
        }
    }
    Ok(())
}

/// Rows, the length of a sum, columns.
const PRODUCTS: [[usize; 3]; 15] = [
    [1, 1000, 10],
    [3, 3000, 100],
    [10, 10, 3000],
    [31, 127, 255],
    [129, 257, 65],
    [64, 2048, 512],
    [7, 768, 768],
    [128, 768, 50],
    [200, 200, 200],
    [512, 512, 512],
    [1500, 31, 700],
    [2999, 17, 5],
    [5, 2999, 17],
    [17, 5, 2999],
    [2, 3, 1000],
];

fn products(w: &Sweep) -> Result<()> {
    for [m, k, n] in PRODUCTS {
        let (a, b, at, bt) = (normal(&[m, k])?, normal(&[k, n])?, normal(&[k, m])?, normal(&[n, k])?);
        let (wide_a, wide_b) = (normal(&[m, k + 9])?, normal(&[k, n + 9])?);
        w.one(&format!("prod_{m}_{k}_{n}"), || a.matmul(&b))?;
        w.one(&format!("prodt_{m}_{k}_{n}"), || a.matmul(&bt.t()?))?;
        w.one(&format!("tprod_{m}_{k}_{n}"), || at.t()?.matmul(&b))?;
        w.one(&format!("prodview_{m}_{k}_{n}"), || wide_a.narrow(1, 5, k)?.matmul(&wide_b.narrow(1, 3, n)?))?;
    }
    for (name, d) in [("f64", DType::F64), ("bf16", DType::BF16), ("f16", DType::F16)] {
        for [m, k, n] in [
            [100, 300, 77],
            [512, 512, 512],
            [64, 1024, 1024],
            [8, 768, 3072],
            [129, 257, 65],
            [33, 33, 33],
            [1, 768, 768],
        ] {
            let (a, b, at, bt) = (typed(&[m, k], d)?, typed(&[k, n], d)?, typed(&[k, m], d)?, typed(&[n, k], d)?);
            let bias = typed(&[n], d)?;
            w.one(&format!("prod_{name}_{m}_{k}_{n}"), || a.matmul(&b))?;
            w.one(&format!("tprod_{name}_{m}_{k}_{n}"), || at.t()?.matmul(&b))?;
            w.one(&format!("linear_{name}_{m}_{k}_{n}"), || a.linear(&bt, Some(&bias)))?;
        }
        let (q, k) = (typed(&[24, 128, 64], d)?, typed(&[24, 128, 64], d)?);
        w.one(&format!("batch_{name}_qk"), || q.matmul(&k.transpose(1, 2)?))?;
    }
    for [b, m, k, n] in [[24, 128, 64, 128], [32, 1, 64, 100], [100, 5, 7, 3], [8, 50, 70, 30], [2, 300, 300, 300]] {
        let (x, y, turned, flat) = (normal(&[b, m, k])?, normal(&[b, k, n])?, normal(&[b, n, k])?, normal(&[k, n])?);
        w.one(&format!("batch_{b}_{m}_{k}_{n}"), || x.matmul(&y))?;
        w.one(&format!("batcht_{b}_{m}_{k}_{n}"), || x.matmul(&turned.transpose(1, 2)?))?;
        w.one(&format!("batchflat_{b}_{m}_{k}_{n}"), || x.matmul(&flat))?;
    }
    let heads = normal(&[2, 100, 8, 64])?;
    w.one("batch_heads", || {
        let q = heads.transpose(1, 2)?;
        q.matmul(&q.transpose(2, 3)?)
    })
}
