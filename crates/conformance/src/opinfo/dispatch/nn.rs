//! Neural functions: activations, dropout, maps, attention, embeddings and norms. Losses are in `nn_loss`.

use super::{Answer, mt19937, nn_loss};
use crate::opinfo::{Args, KW, OpError, gradus::dtype};
use gradus_core::{
    AttentionOptions, BagMode, BatchNormOptions, EmbeddingBagOptions, EmbeddingOptions, InProjection, MultiHeadOptions,
    Tensor,
};

type One = Result<Tensor, OpError>;
type Many = Result<Vec<Tensor>, OpError>;

/// Operators of this family.
pub fn call(op: &str, a: &Args<'_, Tensor>) -> Answer {
    // `softmax__with_dtype` is `softmax` with a dtype given: the arguments tell.
    let base = op.split("__").next().unwrap_or(op);
    let short = base.strip_prefix("nn.functional.").unwrap_or(base);
    let named = base != short;
    match short {
        "softmax" | "log_softmax" | "softmin" => return Some(softmax(short, a).map(|t| vec![t])),
        "native_layer_norm" => return Some(layer_norm(a, true)),
        _ if !named && !BOTH.contains(&short) => return None,
        _ => {}
    }
    let many = match short {
        "batch_norm" => batch_norm(a),
        "instance_norm" => instance_norm(a),
        "multi_head_attention_forward" => multi_head(a),
        _ => {
            let one = activation(short, a).or_else(|| function(short, a)).or_else(|| nn_loss::call(short, a))?;
            one.map(|t| vec![t])
        }
    };
    Some(many)
}

/// Names that PyTorch also has outside of `nn.functional`.
const BOTH: &[&str] = &[
    "prelu",
    "rrelu",
    "celu",
    "selu",
    "dropout",
    "feature_dropout",
    "alpha_dropout",
    "feature_alpha_dropout",
    "layer_norm",
    "group_norm",
    "rms_norm",
    "batch_norm",
    "instance_norm",
    "cosine_similarity",
    "pairwise_distance",
    "embedding",
    "embedding_bag",
    "bilinear",
    "hardshrink",
    "threshold",
    "ctc_loss",
    "kl_div",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "poisson_nll_loss",
    "triplet_margin_loss",
];

fn softmax(name: &str, a: &Args<'_, Tensor>) -> One {
    let x = a.tensor(0, "input")?;
    let dim = match a.opt_int(1, "dim")? {
        Some(dim) => dim,
        // PyTorch's implicit choice.
        None => i64::from(!matches!(x.rank(), 0 | 1 | 3)),
    };
    a.ignore("_stacklevel");
    let x = match a.opt_dtype(KW, "dtype")? {
        Some(d) => x.to_dtype(dtype(d).ok_or("no such dtype")?),
        None => x,
    };
    Ok(match name {
        "softmax" => x.softmax(dim)?,
        "log_softmax" => x.log_softmax(dim)?,
        _ => x.softmin(dim)?,
    })
}

fn activation(name: &str, a: &Args<'_, Tensor>) -> Option<One> {
    let plain: fn(&Tensor) -> Tensor = match name {
        "relu" => Tensor::relu,
        "sigmoid" => Tensor::sigmoid,
        "tanh" => Tensor::tanh,
        "silu" => Tensor::silu,
        "mish" => Tensor::mish,
        "selu" => Tensor::selu,
        "relu6" => Tensor::relu6,
        "hardsigmoid" => Tensor::hardsigmoid,
        "hardswish" => Tensor::hardswish,
        "tanhshrink" => Tensor::tanhshrink,
        "softsign" => Tensor::softsign,
        "logsigmoid" => Tensor::logsigmoid,
        _ => return with_numbers(name, a),
    };
    let run = || {
        a.bool_or(1, "inplace", false)?;
        Ok(plain(&a.tensor(0, "input")?))
    };
    Some(run())
}

fn with_numbers(name: &str, a: &Args<'_, Tensor>) -> Option<One> {
    let run = || -> Result<Option<Tensor>, OpError> {
        let x = || a.tensor(0, "input");
        a.ignore("inplace");
        Ok(Some(match name {
            "gelu" => match a.str_or(1, "approximate", "none")? {
                "none" => x()?.gelu(),
                "tanh" => x()?.gelu_tanh(),
                other => return Err(format!("gelu has no approximation {other}").into()),
            },
            "elu" => x()?.elu(a.float_or(1, "alpha", 1.0)?),
            "celu" => x()?.celu(a.float_or(1, "alpha", 1.0)?)?,
            "leaky_relu" => x()?.leaky_relu(a.float_or(1, "negative_slope", 0.01)?),
            "prelu" => x()?.prelu(&a.tensor(1, "weight")?)?,
            "rrelu" => {
                let (lo, hi) = (a.float_or(1, "lower", 1.0 / 8.0)?, a.float_or(2, "upper", 1.0 / 3.0)?);
                x()?.rrelu(lo, hi, a.bool_or(3, "training", false)?)?
            }
            "hardtanh" => x()?.hardtanh(a.float_or(1, "min_val", -1.0)?, a.float_or(2, "max_val", 1.0)?)?,
            "hardshrink" => x()?.hardshrink(a.float_or(1, "lambd", 0.5)?),
            "softshrink" => x()?.softshrink(a.float_or(1, "lambd", 0.5)?)?,
            "softplus" => x()?.softplus(a.float_or(1, "beta", 1.0)?, a.float_or(2, "threshold", 20.0)?)?,
            "threshold" => x()?.threshold(a.float(1, "threshold")?, a.float(2, "value")?),
            "glu" => x()?.glu(a.int_or(1, "dim", -1)?)?,
            _ => return Ok(None),
        }))
    };
    run().transpose()
}

fn function(name: &str, a: &Args<'_, Tensor>) -> Option<One> {
    Some(match name {
        "dropout"
        | "alpha_dropout"
        | "dropout1d"
        | "dropout2d"
        | "dropout3d"
        | "feature_dropout"
        | "feature_alpha_dropout" => dropout(name, a),
        "normalize" => normalize(a),
        "cosine_similarity" => cosine(a),
        "pairwise_distance" => pairwise(a),
        "linear" => linear(a),
        "bilinear" => bilinear(a),
        "scaled_dot_product_attention" => attention(a),
        "embedding" => embedding(a),
        "embedding_bag" => embedding_bag(a),
        "layer_norm" => layer_norm(a, false).map(|mut t| t.swap_remove(0)),
        "group_norm" => group_norm(a),
        "rms_norm" => rms_norm(a),
        "local_response_norm" => response_norm(a),
        _ => return None,
    })
}

/// Dropout with the mask that PyTorch's CPU generator gives under the seed of the samples.
fn dropout(name: &str, a: &Args<'_, Tensor>) -> One {
    let (x, p) = (a.tensor(0, "input")?, a.float_or(1, "p", 0.5)?);
    // `nn.functional.dropout` trains unless told otherwise; the alpha dropouts do not.
    let training = a.bool_or(2, "training", !name.contains("alpha"))?;
    a.bool_or(3, "inplace", false)?;
    if !training || p == 0.0 {
        return Ok(x);
    }
    let features = name.starts_with("feature") || name.ends_with('d');
    let shape: Vec<usize> = x.dims().iter().enumerate().map(|(d, &n)| if features && d > 1 { 1 } else { n }).collect();
    let keep = mt19937::keep_mask(&shape, p)?.to(&x.device());
    Ok(if name.contains("alpha") { x.alpha_dropout_with(&keep, p)? } else { x.dropout_with(&keep, p)? })
}

fn normalize(a: &Args<'_, Tensor>) -> One {
    let x = a.tensor(0, "input")?;
    Ok(x.normalize(a.float_or(1, "p", 2.0)?, a.int_or(2, "dim", 1)?, a.float_or(3, "eps", 1e-12)?)?)
}

fn cosine(a: &Args<'_, Tensor>) -> One {
    let (x, y) = (a.tensor(0, "x1")?, a.tensor(1, "x2")?);
    Ok(x.cosine_similarity(&y, a.int_or(2, "dim", 1)?, a.float_or(3, "eps", 1e-8)?)?)
}

fn pairwise(a: &Args<'_, Tensor>) -> One {
    let (x, y) = (a.tensor(0, "x1")?, a.tensor(1, "x2")?);
    let (p, eps) = (a.float_or(2, "p", 2.0)?, a.float_or(3, "eps", 1e-6)?);
    Ok(x.pairwise_distance(&y, p, eps, a.bool_or(4, "keepdim", false)?)?)
}

fn linear(a: &Args<'_, Tensor>) -> One {
    let bias = a.opt_tensor(2, "bias")?;
    Ok(a.tensor(0, "input")?.linear(&a.tensor(1, "weight")?, bias.as_ref())?)
}

fn bilinear(a: &Args<'_, Tensor>) -> One {
    let bias = a.opt_tensor(3, "bias")?;
    let (x, y, w) = (a.tensor(0, "input1")?, a.tensor(1, "input2")?, a.tensor(2, "weight")?);
    Ok(x.bilinear(&y, &w, bias.as_ref())?)
}

fn attention(a: &Args<'_, Tensor>) -> One {
    let (q, k, v) = (a.tensor(0, "query")?, a.tensor(1, "key")?, a.tensor(2, "value")?);
    let dropout_p = a.float_or(4, "dropout_p", 0.0)?;
    let weights: Vec<usize> = q.dims()[..q.rank() - 1].iter().copied().chain([k.dims()[k.rank() - 2]]).collect();
    let options = AttentionOptions {
        attn_mask: a.opt_tensor(3, "attn_mask")?,
        dropout_p,
        dropout_mask: if dropout_p > 0.0 {
            Some(mt19937::keep_mask(&weights, dropout_p)?.to(&q.device()))
        } else {
            None
        },
        is_causal: a.bool_or(5, "is_causal", false)?,
        scale: a.opt_float(KW, "scale")?,
        enable_gqa: a.bool_or(KW, "enable_gqa", false)?,
    };
    Ok(q.scaled_dot_product_attention(&k, &v, &options)?)
}

fn multi_head(a: &Args<'_, Tensor>) -> Many {
    let (q, k, v) = (a.tensor(0, "query")?, a.tensor(1, "key")?, a.tensor(2, "value")?);
    a.int(3, "embed_dim_to_check")?;
    let heads = a.size(4, "num_heads")?;
    let packed = a.opt_tensor(5, "in_proj_weight")?;
    let [wq, wk, wv] = ["q_proj_weight", "k_proj_weight", "v_proj_weight"].map(|n| a.opt_tensor(KW, n));
    let in_proj = match (a.bool_or(KW, "use_separate_proj_weight", false)?, packed, wq?, wk?, wv?) {
        (false, Some(w), ..) => InProjection::Packed(w),
        (true, _, Some(query), Some(key), Some(value)) => InProjection::Separate { query, key, value },
        _ => return Err("the projection weights are missing".into()),
    };
    let mut o = MultiHeadOptions::new(heads, in_proj, a.tensor(11, "out_proj_weight")?);
    o.in_proj_bias = a.opt_tensor(6, "in_proj_bias")?;
    o.bias_kv = a.opt_tensor(7, "bias_k")?.zip(a.opt_tensor(8, "bias_v")?);
    o.add_zero_attn = a.bool(9, "add_zero_attn")?;
    o.dropout_p = a.float(10, "dropout_p")?;
    o.out_proj_bias = a.opt_tensor(12, "out_proj_bias")?;
    o.training = a.bool_or(13, "training", true)?;
    o.key_padding_mask = a.opt_tensor(14, "key_padding_mask")?;
    let need_weights = a.bool_or(15, "need_weights", true)?;
    o.attn_mask = a.opt_tensor(16, "attn_mask")?;
    o.average_attn_weights = a.bool_or(KW, "average_attn_weights", true)?;
    if a.bool_or(KW, "is_causal", false)? && o.attn_mask.is_none() {
        return Err("is_causal is a hint about the mask, which is missing".into());
    }
    if o.training && o.dropout_p > 0.0 {
        let extra = usize::from(o.bias_kv.is_some()) + usize::from(o.add_zero_attn);
        let batch = if q.rank() == 3 { q.dims()[1] } else { 1 };
        o.dropout_mask =
            Some(mt19937::keep_mask(&[batch * heads, q.dims()[0], k.dims()[0] + extra], o.dropout_p)?.to(&q.device()));
    }
    let (out, weights) = q.multi_head_attention_forward(&k, &v, &o)?;
    Ok(if need_weights { vec![out, weights] } else { vec![out] })
}

fn embedding(a: &Args<'_, Tensor>) -> One {
    let (table, index) = table_and_index(a)?;
    let options = EmbeddingOptions {
        padding_idx: a.opt_int(2, "padding_idx")?,
        max_norm: a.opt_float(3, "max_norm")?,
        norm_type: a.float_or(4, "norm_type", 2.0)?,
        scale_grad_by_freq: a.bool_or(5, "scale_grad_by_freq", false)?,
    };
    a.bool_or(6, "sparse", false)?;
    Ok(table.embedding_with(&index, &options)?)
}

/// PyTorch's functions take the indices first, its samples the table: the types tell.
fn table_and_index(a: &Args<'_, Tensor>) -> Result<(Tensor, Tensor), OpError> {
    let (x, y) = (a.tensor(0, "input")?, a.tensor(1, "weight")?);
    Ok(if x.dtype().is_float() { (x, y) } else { (y, x) })
}

fn embedding_bag(a: &Args<'_, Tensor>) -> One {
    let (table, index) = table_and_index(a)?;
    if a.has(3, "max_norm") || a.bool_or(5, "scale_grad_by_freq", false)? {
        return Err("embedding_bag with max_norm or scale_grad_by_freq".into());
    }
    a.opt_float(3, "max_norm")?;
    a.float_or(4, "norm_type", 2.0)?;
    a.bool_or(7, "sparse", false)?;
    let options = EmbeddingBagOptions {
        offsets: a.opt_tensor(2, "offsets")?,
        mode: match a.str_or(6, "mode", "mean")? {
            "sum" => BagMode::Sum,
            "mean" => BagMode::Mean,
            "max" => BagMode::Max,
            other => return Err(format!("no mode {other}").into()),
        },
        per_sample_weights: a.opt_tensor(8, "per_sample_weights")?,
        include_last_offset: a.bool_or(9, "include_last_offset", false)?,
        padding_idx: a.opt_int(10, "padding_idx")?,
    };
    Ok(table.embedding_bag(&index, &options)?)
}

fn sizes(v: Vec<i64>) -> Result<Vec<usize>, OpError> {
    v.into_iter().map(|n| usize::try_from(n).map_err(OpError::from)).collect()
}

/// Weight, bias and the rest of a norm.
fn layer_norm(a: &Args<'_, Tensor>, native: bool) -> Many {
    let shape = sizes(a.ints(1, "normalized_shape")?)?;
    let (w, b) = (a.opt_tensor(2, "weight")?, a.opt_tensor(3, "bias")?);
    let eps = a.float_or(4, "eps", 1e-5)?;
    let (out, mean, rstd) = a.tensor(0, "input")?.native_layer_norm(shape, w.as_ref(), b.as_ref(), eps)?;
    Ok(if native { vec![out, mean, rstd] } else { vec![out] })
}

fn group_norm(a: &Args<'_, Tensor>) -> One {
    let (w, b) = (a.opt_tensor(2, "weight")?, a.opt_tensor(3, "bias")?);
    let (groups, eps) = (a.size(1, "num_groups")?, a.float_or(4, "eps", 1e-5)?);
    Ok(a.tensor(0, "input")?.group_norm(groups, w.as_ref(), b.as_ref(), eps)?)
}

fn rms_norm(a: &Args<'_, Tensor>) -> One {
    let shape = sizes(a.ints(1, "normalized_shape")?)?;
    let w = a.opt_tensor(2, "weight")?;
    Ok(a.tensor(0, "input")?.rms_norm(shape, w.as_ref(), a.opt_float(3, "eps")?)?)
}

fn response_norm(a: &Args<'_, Tensor>) -> One {
    let (alpha, beta) = (a.float_or(2, "alpha", 1e-4)?, a.float_or(3, "beta", 0.75)?);
    Ok(a.tensor(0, "input")?.local_response_norm(a.size(1, "size")?, alpha, beta, a.float_or(4, "k", 1.0)?)?)
}

fn batch_norm(a: &Args<'_, Tensor>) -> Many {
    let running = a.opt_tensor(1, "running_mean")?.zip(a.opt_tensor(2, "running_var")?);
    let (w, b) = (a.opt_tensor(3, "weight")?, a.opt_tensor(4, "bias")?);
    let options = BatchNormOptions {
        training: a.bool_or(5, "training", false)?,
        momentum: a.float_or(6, "momentum", 0.1)?,
        eps: a.float_or(7, "eps", 1e-5)?,
    };
    Ok(vec![a.tensor(0, "input")?.batch_norm(running.as_ref(), w.as_ref(), b.as_ref(), &options)?.0])
}

fn instance_norm(a: &Args<'_, Tensor>) -> Many {
    let running = a.opt_tensor(1, "running_mean")?.zip(a.opt_tensor(2, "running_var")?);
    let (w, b) = (a.opt_tensor(3, "weight")?, a.opt_tensor(4, "bias")?);
    let options = BatchNormOptions {
        training: a.bool_or(5, "use_input_stats", true)?,
        momentum: a.float_or(6, "momentum", 0.1)?,
        eps: a.float_or(7, "eps", 1e-5)?,
    };
    Ok(vec![a.tensor(0, "input")?.instance_norm(running.as_ref(), w.as_ref(), b.as_ref(), &options)?.0])
}
