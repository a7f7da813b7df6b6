//! Every layer against PyTorch: its weights load by name, and outputs, gradients and buffers agree to 1e-5.

mod common;

use common::Fixtures;
use gradus_core::{BagMode, InterpolateMode, MaxPoolOptions, Padding, Result, Tensor};
use gradus_nn::*;

fn fixtures() -> Fixtures {
    Fixtures::load("layers.safetensors")
}

#[test]
fn linear_maps() {
    let f = fixtures();
    f.layer("linear", Linear::new(4, 3));
    f.layer("linear_no_bias", Linear::new(4, 3).bias(false));
    let bilinear = Bilinear::new(3, 4, 2);
    f.check("bilinear", &bilinear, |x| Ok(vec![bilinear.forward(&x[0], &x[1])?]));
}

#[test]
fn convolutions() -> Result<()> {
    let f = fixtures();
    f.layer("conv1d", Conv1d::new(4, 6, 3)?.stride(2).padding(1).dilation(2).groups(2)?);
    f.layer("conv1d_same", Conv1d::new(2, 3, 4)?.padding(Padding::Same).bias(false));
    f.layer("conv2d", Conv2d::new(2, 3, [3, 2])?.stride([2, 1]).padding([1, 0]));
    for (mode, name) in
        [(PaddingMode::Reflect, "reflect"), (PaddingMode::Replicate, "replicate"), (PaddingMode::Circular, "circular")]
    {
        f.layer(&format!("conv2d_{name}"), Conv2d::new(1, 2, 3)?.padding([2, 1]).padding_mode(mode));
    }
    let same = Conv2d::new(1, 1, [2, 4])?.padding(Padding::Same).padding_mode(PaddingMode::Circular);
    f.layer("conv2d_same_circular", same);
    f.layer("conv2d_unbatched", Conv2d::new(2, 2, 2)?);
    f.layer("conv3d", Conv3d::new(2, 2, 2)?.stride(2).padding(1));
    Ok(())
}

#[test]
fn transposed_convolutions() -> Result<()> {
    let f = fixtures();
    let one = ConvTranspose1d::new(4, 6, 3)?.stride(2).padding(1).output_padding(1).dilation(2).groups(2)?;
    f.layer("conv_transpose1d", one);
    f.layer("conv_transpose2d", ConvTranspose2d::new(2, 3, 3)?.stride(2).padding(1));
    let to = ConvTranspose2d::new(2, 3, 3)?.stride(2).padding(1).bias(false);
    f.check("conv_transpose2d_to", &to, |x| Ok(vec![to.forward_to(&x[0], &[6, 8])?]));
    f.layer("conv_transpose3d", ConvTranspose3d::new(2, 1, 2)?.stride(2));
    Ok(())
}

#[test]
fn pooling() {
    let f = fixtures();
    f.layer("max_pool1d", MaxPool1d::new(3).stride(2).padding(1));
    f.layer("max_pool2d", MaxPool2d::new(3).stride(2).padding(1).ceil_mode(true));
    f.layer("max_pool2d_dilated", MaxPool2d::new(2).stride(1).dilation(2));
    f.layer("max_pool3d", MaxPool3d::new(2));
    f.layer("avg_pool1d", AvgPool1d::new(2));
    f.layer("avg_pool2d", AvgPool2d::new(3).stride(2).padding(1).count_include_pad(false));
    f.layer("avg_pool2d_divisor", AvgPool2d::new(2).divisor_override(3).ceil_mode(true));
    f.layer("avg_pool3d", AvgPool3d::new(2).stride(1));
    f.layer("lp_pool1d", LpPool1d::new(3.0, 2));
    f.layer("lp_pool2d", LpPool2d::new(2.0, 2).stride(1));
    f.layer("adaptive_avg_pool2d", AdaptiveAvgPool2d::new([3, 2]));
    f.layer("adaptive_avg_pool1d", AdaptiveAvgPool1d::new(1));
    f.layer("adaptive_max_pool2d", AdaptiveMaxPool2d::new([2, 4]));
    f.layer("adaptive_max_pool1d", AdaptiveMaxPool1d::new(4));
    let unpool = MaxUnpool2d::new(2);
    f.check("max_unpool2d", &unpool, |x| {
        let (y, at) = x[0].max_pool2d_with_indices(2, MaxPoolOptions::default())?;
        Ok(vec![unpool.forward(&y, &at, Some([6, 7].into()))?])
    });
}

#[test]
fn batch_norms() {
    let f = fixtures();
    f.layer("batch_norm1d", BatchNorm1d::new(3));
    f.layer("batch_norm1d_sequence", BatchNorm1d::new(3).eps(1e-3));
    let eval = BatchNorm1d::new(3);
    eval.eval();
    f.layer("batch_norm1d_eval", eval);
    f.layer("batch_norm2d", BatchNorm2d::new(2).momentum(0.3));
    let mean = BatchNorm2d::new(2).momentum(None);
    f.check("batch_norm2d_cumulative", &mean, |x| Ok(vec![mean.forward(&x[0])?, mean.forward(&x[1])?]));
    let plain = BatchNorm2d::new(2).affine(false).track_running_stats(false);
    plain.eval();
    f.layer("batch_norm2d_plain", plain);
    f.layer("batch_norm3d", BatchNorm3d::new(2));
}

#[test]
fn norms_of_one_sample() -> Result<()> {
    let f = fixtures();
    f.layer("layer_norm", LayerNorm::new(6));
    f.layer("layer_norm_two_axes", LayerNorm::new([3, 4]).eps(1e-3).bias(false));
    f.layer("layer_norm_plain", LayerNorm::new(5).elementwise_affine(false));
    f.layer("rms_norm", RmsNorm::new(6));
    f.layer("rms_norm_eps", RmsNorm::new(6).eps(1e-2));
    f.layer("group_norm", GroupNorm::new(2, 4)?);
    f.layer("group_norm_plain", GroupNorm::new(4, 4)?.affine(false));
    f.layer("instance_norm1d", InstanceNorm1d::new(3));
    f.layer("instance_norm2d", InstanceNorm2d::new(2).affine(true).track_running_stats(true));
    let eval = InstanceNorm2d::new(2).affine(true).track_running_stats(true);
    eval.eval();
    f.layer("instance_norm2d_eval", eval);
    f.layer("instance_norm3d_unbatched", InstanceNorm3d::new(2));
    f.layer("local_response_norm", LocalResponseNorm::new(3).with(0.5, 0.6, 2.0));
    Ok(())
}

#[test]
fn embeddings() -> Result<()> {
    let f = fixtures();
    f.layer("embedding", Embedding::new(6, 3));
    f.layer("embedding_padded", Embedding::new(6, 3).padding_idx(-2)?);
    f.layer("embedding_scaled", Embedding::new(6, 3).scale_grad_by_freq(true));
    let bag = EmbeddingBag::new(6, 3).mode(BagMode::Sum);
    f.check("embedding_bag_sum", &bag, |x| Ok(vec![bag.forward(&x[0], None, Some(&x[1]))?]));
    let bag = EmbeddingBag::new(6, 3).mode(BagMode::Max);
    f.check("embedding_bag_offsets", &bag, |x| Ok(vec![bag.forward(&x[0], Some(&x[1]), None)?]));
    Ok(())
}

#[test]
fn shapes_and_sizes() {
    let f = fixtures();
    f.layer("flatten", Flatten::default());
    f.layer("unflatten", Unflatten::new(1, [2, 3]));
    f.layer("upsample_nearest", Upsample::scale(2.0));
    f.layer("upsample_bilinear", Upsample::size([5, 3]).mode(InterpolateMode::Bilinear).align_corners(true));
    f.layer("upsample_bicubic", Upsample::scale(1.5).mode(InterpolateMode::Bicubic));
    f.layer("pixel_shuffle", PixelShuffle::new(2));
    f.layer("pixel_unshuffle", PixelUnshuffle::new(2));
    f.layer("channel_shuffle", ChannelShuffle::new(2));
}

/// Every activation of the fixtures, so that none is left out.
fn activation(name: &str) -> Option<Box<dyn Layer>> {
    let rrelu = RRelu::default();
    rrelu.eval();
    Some(match name {
        "relu" => Box::new(Relu),
        "relu6" => Box::new(Relu6),
        "silu" => Box::new(Silu),
        "mish" => Box::new(Mish),
        "selu" => Box::new(Selu),
        "tanh" => Box::new(Tanh),
        "sigmoid" => Box::new(Sigmoid),
        "log_sigmoid" => Box::new(LogSigmoid),
        "hardsigmoid" => Box::new(Hardsigmoid),
        "hardswish" => Box::new(Hardswish),
        "softsign" => Box::new(Softsign),
        "tanhshrink" => Box::new(Tanhshrink),
        "gelu" => Box::new(Gelu::default()),
        "gelu_tanh" => Box::new(Gelu::new(true)),
        "leaky_relu" => Box::new(LeakyRelu::new(0.2)),
        "elu" => Box::new(Elu::new(1.3)),
        "celu" => Box::new(Celu::new(0.7)),
        "softplus" => Box::new(Softplus::new(2.0, 3.0)),
        "hardtanh" => Box::new(Hardtanh::new(-0.5, 0.7)),
        "hardshrink" => Box::new(Hardshrink::new(0.6)),
        "softshrink" => Box::new(Softshrink::new(0.4)),
        "threshold" => Box::new(Threshold::new(0.1, -3.0)),
        "softmax" => Box::new(Softmax::new(0)),
        "softmin" => Box::new(Softmin::new(1)),
        "log_softmax" => Box::new(LogSoftmax::new(1)),
        "glu" => Box::new(Glu::default()),
        "prelu" => Box::new(PRelu::new(4)),
        "rrelu_eval" => Box::new(rrelu),
        _ => return None,
    })
}

#[test]
fn activations() {
    let f = fixtures();
    let names: Vec<String> = f.names().into_iter().filter(|n| n.starts_with("act_")).collect();
    assert_eq!(names.len(), 28);
    for case in names {
        let layer = activation(&case["act_".len()..]).unwrap_or_else(|| panic!("no layer for {case}"));
        f.layer(&case, layer);
    }
}

#[test]
fn dropout_drops_in_training_alone() -> Result<()> {
    let x = Tensor::randn([8, 6, 5]);
    let layers: [Box<dyn Layer>; 4] = [
        Box::new(Dropout::new(0.5)),
        Box::new(Dropout1d::new(0.5)),
        Box::new(Dropout2d::new(0.5)),
        Box::new(AlphaDropout::new(0.5)),
    ];
    for layer in layers {
        assert!(!layer.forward(&x)?.equal(&x)?, "{}", layer.kind());
        layer.eval();
        assert!(layer.forward(&x)?.equal(&x)?, "{}", layer.kind());
        layer.train();
        assert!(!layer.forward(&x)?.equal(&x)?, "{}", layer.kind());
    }
    // Whole channels at once.
    let y = Dropout1d::new(0.5).forward(&x)?.ne(0.0)?.to_dtype(gradus_core::DType::F32).sum_dim(2, false)?;
    assert!(y.to_vec::<f32>()?.iter().all(|&kept| kept == 0.0 || kept == 5.0));
    Ok(())
}
