//! Convolution, pooling, resampling.

use super::Answer;
use crate::opinfo::{Args, OpError};
use gradus_core::{
    AvgPoolOptions, ConvOptions, ConvTransposeOptions, GridPadding, GridSampleMode, InterpolateMode,
    InterpolateOptions, MaxPoolOptions, Padding, PatchOptions, Result, Sizes, Tensor,
};

type A<'a> = Args<'a, Tensor>;
type Outs = std::result::Result<Vec<Tensor>, OpError>;

/// Operators of this family.
pub fn call(op: &str, a: &A<'_>) -> Answer {
    let name = op.strip_prefix("nn.functional.").unwrap_or(op);
    // Samples of one operator under several names (`interpolate__area`, `max_unpool1d__grad`).
    let name = name.split("__").next().unwrap_or(name);
    Some(match name {
        "conv1d" => conv(a, 1, Tensor::conv1d),
        "conv2d" => conv(a, 2, Tensor::conv2d),
        "conv3d" => conv(a, 3, Tensor::conv3d),
        "conv_transpose1d" => conv_transpose(a, 1, Tensor::conv_transpose1d),
        "conv_transpose2d" => conv_transpose(a, 2, Tensor::conv_transpose2d),
        "conv_transpose3d" => conv_transpose(a, 3, Tensor::conv_transpose3d),
        "max_pool1d" => max_pool(a, 1, Tensor::max_pool1d, Tensor::max_pool1d_with_indices),
        "max_pool2d" => max_pool(a, 2, Tensor::max_pool2d, Tensor::max_pool2d_with_indices),
        "max_pool3d" => max_pool(a, 3, Tensor::max_pool3d, Tensor::max_pool3d_with_indices),
        "max_pool2d_with_indices_backward" => max_pool2d_backward(a),
        "avg_pool1d" => avg_pool(a, 1, Tensor::avg_pool1d),
        "avg_pool2d" => avg_pool(a, 2, Tensor::avg_pool2d),
        "avg_pool3d" => avg_pool(a, 3, Tensor::avg_pool3d),
        "lp_pool1d" => lp_pool(a, 1, Tensor::lp_pool1d),
        "lp_pool2d" => lp_pool(a, 2, Tensor::lp_pool2d),
        "lp_pool3d" => lp_pool(a, 3, Tensor::lp_pool3d),
        "adaptive_avg_pool1d" => adaptive_avg(a, 1, Tensor::adaptive_avg_pool1d),
        "adaptive_avg_pool2d" => adaptive_avg(a, 2, Tensor::adaptive_avg_pool2d),
        "adaptive_avg_pool3d" => adaptive_avg(a, 3, Tensor::adaptive_avg_pool3d),
        "adaptive_max_pool1d" => adaptive_max(a, 1, Tensor::adaptive_max_pool1d_with_indices),
        "adaptive_max_pool2d" => adaptive_max(a, 2, Tensor::adaptive_max_pool2d_with_indices),
        "adaptive_max_pool3d" => adaptive_max(a, 3, Tensor::adaptive_max_pool3d_with_indices),
        "max_unpool1d" => max_unpool(a, 1, Tensor::max_unpool1d),
        "max_unpool2d" => max_unpool(a, 2, Tensor::max_unpool2d),
        "max_unpool3d" => max_unpool(a, 3, Tensor::max_unpool3d),
        "interpolate" | "upsample" => interpolate(a),
        "upsample_bilinear" => upsample(a, Tensor::upsample_bilinear),
        "upsample_nearest" => upsample(a, Tensor::upsample_nearest),
        "grid_sample" => grid_sample(a),
        "grid_sampler_2d" | "grid_sampler_3d" | "grid_sampler" => grid_sampler(a),
        "affine_grid" => affine_grid(a),
        "unfold" if op != name => im2col(a),
        "fold" => col2im(a),
        "local_response_norm" => local_response_norm(a),
        _ => return None,
    })
}

fn one(y: Result<Tensor>) -> Outs {
    Ok(vec![y?])
}

fn sizes(ints: Vec<i64>) -> std::result::Result<Sizes, OpError> {
    let ints = ints.into_iter().map(usize::try_from).collect::<std::result::Result<Vec<usize>, _>>();
    Ok(ints.map_err(|_| "a size must not be negative")?.into())
}

/// `d` sizes, else `default` for all.
fn sizes_or(a: &A<'_>, i: usize, name: &str, d: usize, default: i64) -> std::result::Result<Sizes, OpError> {
    sizes(a.ints_n_or(i, name, d, default)?)
}

fn opt_sizes(a: &A<'_>, i: usize, name: &str, d: usize) -> std::result::Result<Option<Sizes>, OpError> {
    a.opt_ints_n(i, name, d)?.map(sizes).transpose()
}

fn conv(a: &A<'_>, d: usize, f: impl Fn(&Tensor, &Tensor, Option<&Tensor>, ConvOptions) -> Result<Tensor>) -> Outs {
    let (x, w, b) = (a.tensor(0, "input")?, a.tensor(1, "weight")?, a.opt_tensor(2, "bias")?);
    let padding = match a.is_str(4, "padding").then(|| a.str(4, "padding")).transpose()? {
        Some("same") => Padding::Same,
        Some("valid") => Padding::Valid,
        Some(other) => return Err(format!("no padding {other}").into()),
        None => sizes_or(a, 4, "padding", d, 0)?.into(),
    };
    let options = ConvOptions {
        stride: sizes_or(a, 3, "stride", d, 1)?,
        padding,
        dilation: sizes_or(a, 5, "dilation", d, 1)?,
        groups: a.size_or(6, "groups", 1)?,
    };
    one(f(&x, &w, b.as_ref(), options))
}

fn conv_transpose(
    a: &A<'_>,
    d: usize,
    f: impl Fn(&Tensor, &Tensor, Option<&Tensor>, ConvTransposeOptions) -> Result<Tensor>,
) -> Outs {
    let (x, w, b) = (a.tensor(0, "input")?, a.tensor(1, "weight")?, a.opt_tensor(2, "bias")?);
    let options = ConvTransposeOptions {
        stride: sizes_or(a, 3, "stride", d, 1)?,
        padding: sizes_or(a, 4, "padding", d, 0)?,
        output_padding: sizes_or(a, 5, "output_padding", d, 0)?,
        groups: a.size_or(6, "groups", 1)?,
        dilation: sizes_or(a, 7, "dilation", d, 1)?,
    };
    one(f(&x, &w, b.as_ref(), options))
}

fn max_options(a: &A<'_>, d: usize) -> std::result::Result<(Sizes, MaxPoolOptions), OpError> {
    let options = MaxPoolOptions {
        stride: opt_sizes(a, 2, "stride", d)?,
        padding: sizes_or(a, 3, "padding", d, 0)?,
        dilation: sizes_or(a, 4, "dilation", d, 1)?,
        ceil_mode: a.bool_or(5, "ceil_mode", false)?,
    };
    Ok((sizes(a.ints_n(1, "kernel_size", d)?)?, options))
}

fn max_pool(
    a: &A<'_>,
    d: usize,
    values: impl Fn(&Tensor, Sizes, MaxPoolOptions) -> Result<Tensor>,
    both: impl Fn(&Tensor, Sizes, MaxPoolOptions) -> Result<(Tensor, Tensor)>,
) -> Outs {
    let (x, (kernel, options)) = (a.tensor(0, "input")?, max_options(a, d)?);
    if a.bool_or(6, "return_indices", false)? {
        let (y, at) = both(&x, kernel, options)?;
        return Ok(vec![y, at]);
    }
    one(values(&x, kernel, options))
}

/// The gradient of `max_pool2d` for a gradient of ones.
fn max_pool2d_backward(a: &A<'_>) -> Outs {
    let (x, (kernel, options)) = (a.tensor(0, "input")?, max_options(a, 2)?);
    a.bool_or(6, "return_indices", false)?;
    let (y, at) = x.max_pool2d_with_indices(kernel, options)?;
    one(y.ones_like().max_pool2d_with_indices_backward(&x, &at))
}

fn avg_pool(a: &A<'_>, d: usize, f: impl Fn(&Tensor, Sizes, AvgPoolOptions) -> Result<Tensor>) -> Outs {
    let options = AvgPoolOptions {
        stride: opt_sizes(a, 2, "stride", d)?,
        padding: sizes_or(a, 3, "padding", d, 0)?,
        ceil_mode: a.bool_or(4, "ceil_mode", false)?,
        count_include_pad: a.bool_or(5, "count_include_pad", true)?,
        divisor_override: a.opt_int(6, "divisor_override")?,
    };
    one(f(&a.tensor(0, "input")?, sizes(a.ints_n(1, "kernel_size", d)?)?, options))
}

fn lp_pool(a: &A<'_>, d: usize, f: impl Fn(&Tensor, f64, Sizes, Option<Sizes>, bool) -> Result<Tensor>) -> Outs {
    let (x, p, kernel) = (a.tensor(0, "input")?, a.float(1, "norm_type")?, sizes(a.ints_n(2, "kernel_size", d)?)?);
    one(f(&x, p, kernel, opt_sizes(a, 3, "stride", d)?, a.bool_or(4, "ceil_mode", false)?))
}

/// The output size of an adaptive pooling, where `None` keeps an axis.
fn adaptive_size(a: &A<'_>, x: &Tensor, d: usize) -> std::result::Result<Sizes, OpError> {
    let keep = &x.dims()[x.rank().saturating_sub(d)..];
    let size = a.maybe_ints_n(1, "output_size", d)?;
    sizes(size.into_iter().zip(keep).map(|(n, &k)| n.unwrap_or(k as i64)).collect())
}

fn adaptive_avg(a: &A<'_>, d: usize, f: impl Fn(&Tensor, Sizes) -> Result<Tensor>) -> Outs {
    let x = a.tensor(0, "input")?;
    let size = adaptive_size(a, &x, d)?;
    one(f(&x, size))
}

fn adaptive_max(a: &A<'_>, d: usize, f: impl Fn(&Tensor, Sizes) -> Result<(Tensor, Tensor)>) -> Outs {
    let x = a.tensor(0, "input")?;
    let (y, at) = f(&x, adaptive_size(a, &x, d)?)?;
    Ok(if a.bool_or(2, "return_indices", false)? { vec![y, at] } else { vec![y] })
}

fn max_unpool(
    a: &A<'_>,
    d: usize,
    f: impl Fn(&Tensor, &Tensor, Sizes, Option<Sizes>, Sizes, Option<Sizes>) -> Result<Tensor>,
) -> Outs {
    let (x, at, kernel) = (a.tensor(0, "input")?, a.tensor(1, "indices")?, sizes(a.ints_n(2, "kernel_size", d)?)?);
    let (stride, padding) = (opt_sizes(a, 3, "stride", d)?, sizes_or(a, 4, "padding", d, 0)?);
    // The whole shape of the output, or its spatial part.
    let size = a.opt_ints(5, "output_size")?.map(|s| sizes(s[s.len().saturating_sub(d)..].to_vec())).transpose()?;
    one(f(&x, &at, kernel, stride, padding, size))
}

/// One size for all axes or one an axis.
fn free_sizes(a: &A<'_>, i: usize, name: &str) -> std::result::Result<Option<Sizes>, OpError> {
    a.opt_ints(i, name)?.map(sizes).transpose()
}

fn interpolate(a: &A<'_>) -> Outs {
    let options = InterpolateOptions {
        size: free_sizes(a, 1, "size")?,
        scale_factor: a.opt_floats(2, "scale_factor")?,
        mode: match a.str_or(3, "mode", "nearest")? {
            "nearest" => InterpolateMode::Nearest,
            "nearest-exact" => InterpolateMode::NearestExact,
            "linear" => InterpolateMode::Linear,
            "bilinear" => InterpolateMode::Bilinear,
            "bicubic" => InterpolateMode::Bicubic,
            "trilinear" => InterpolateMode::Trilinear,
            "area" => InterpolateMode::Area,
            other => return Err(format!("no mode {other}").into()),
        },
        align_corners: a.opt_bool(4, "align_corners")?,
        recompute_scale_factor: a.bool_or(5, "recompute_scale_factor", false)?,
        antialias: a.bool_or(6, "antialias", false)?,
    };
    one(a.tensor(0, "input")?.interpolate(options))
}

fn upsample(a: &A<'_>, f: impl Fn(&Tensor, Option<Sizes>, Option<Vec<f64>>) -> Result<Tensor>) -> Outs {
    one(f(&a.tensor(0, "input")?, free_sizes(a, 1, "size")?, a.opt_floats(2, "scale_factor")?))
}

fn grid_sample(a: &A<'_>) -> Outs {
    let mode = match a.str_or(2, "mode", "bilinear")? {
        "bilinear" => GridSampleMode::Bilinear,
        "nearest" => GridSampleMode::Nearest,
        "bicubic" => GridSampleMode::Bicubic,
        other => return Err(format!("no mode {other}").into()),
    };
    let padding = match a.str_or(3, "padding_mode", "zeros")? {
        "zeros" => GridPadding::Zeros,
        "border" => GridPadding::Border,
        "reflection" => GridPadding::Reflection,
        other => return Err(format!("no padding {other}").into()),
    };
    let align = a.bool_or(4, "align_corners", false)?;
    one(a.tensor(0, "input")?.grid_sample(&a.tensor(1, "grid")?, mode, padding, align))
}

/// `grid_sample` with its modes as numbers.
fn grid_sampler(a: &A<'_>) -> Outs {
    let modes = [GridSampleMode::Bilinear, GridSampleMode::Nearest, GridSampleMode::Bicubic];
    let paddings = [GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection];
    let mode = modes.get(a.size(2, "interpolation_mode")?).ok_or("no such mode")?;
    let padding = paddings.get(a.size(3, "padding_mode")?).ok_or("no such padding")?;
    let align = a.bool(4, "align_corners")?;
    one(a.tensor(0, "input")?.grid_sample(&a.tensor(1, "grid")?, *mode, *padding, align))
}

fn affine_grid(a: &A<'_>) -> Outs {
    let size = a.ints(1, "size")?.into_iter().map(|n| n.try_into().unwrap_or(0)).collect::<Vec<usize>>();
    one(a.tensor(0, "theta")?.affine_grid(size, a.bool_or(2, "align_corners", false)?))
}

fn patch_options(a: &A<'_>, from: usize) -> std::result::Result<PatchOptions, OpError> {
    Ok(PatchOptions {
        dilation: sizes_or(a, from, "dilation", 2, 1)?,
        padding: sizes_or(a, from + 1, "padding", 2, 0)?,
        stride: sizes_or(a, from + 2, "stride", 2, 1)?,
    })
}

fn im2col(a: &A<'_>) -> Outs {
    one(a.tensor(0, "input")?.im2col(sizes(a.ints_n(1, "kernel_size", 2)?)?, patch_options(a, 2)?))
}

fn col2im(a: &A<'_>) -> Outs {
    let (size, kernel) = (sizes(a.ints_n(1, "output_size", 2)?)?, sizes(a.ints_n(2, "kernel_size", 2)?)?);
    one(a.tensor(0, "input")?.col2im(size, kernel, patch_options(a, 3)?))
}

fn local_response_norm(a: &A<'_>) -> Outs {
    let (x, size) = (a.tensor(0, "input")?, a.size(1, "size")?);
    let (alpha, beta) = (a.float_or(2, "alpha", 1e-4)?, a.float_or(3, "beta", 0.75)?);
    one(x.local_response_norm(size, alpha, beta, a.float_or(4, "k", 1.0)?))
}
