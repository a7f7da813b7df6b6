//! Losses.

use crate::opinfo::{Arg, Args, KW, OpError};
use gradus_core::{
    CrossEntropyOptions, CtcOptions, MultiMarginOptions, NllLossOptions, PoissonNllOptions, Reduction, Tensor,
    TripletMarginOptions,
};

type One = Result<Tensor, OpError>;

/// A loss by PyTorch's name, without `nn.functional`.
pub fn call(name: &str, a: &Args<'_, Tensor>) -> Option<One> {
    Some(match name {
        "mse_loss" => plain(a, Tensor::mse_loss),
        "l1_loss" => plain(a, Tensor::l1_loss),
        "soft_margin_loss" => plain(a, Tensor::soft_margin_loss),
        "multilabel_margin_loss" => plain(a, Tensor::multilabel_margin_loss),
        "smooth_l1_loss" => smooth_l1(a),
        "huber_loss" => huber(a),
        "binary_cross_entropy" => bce(a),
        "binary_cross_entropy_with_logits" => bce_logits(a),
        "cross_entropy" => cross_entropy(a),
        "nll_loss" => nll(a),
        "kl_div" => kl_div(a),
        "gaussian_nll_loss" => gaussian(a),
        "poisson_nll_loss" => poisson(a),
        "hinge_embedding_loss" => hinge(a),
        "margin_ranking_loss" => ranking(a),
        "cosine_embedding_loss" => cosine(a),
        "triplet_margin_loss" => triplet(a),
        "triplet_margin_with_distance_loss" => triplet(a),
        "multi_margin_loss" => multi_margin(a),
        "multilabel_soft_margin_loss" => multilabel_soft(a),
        "ctc_loss" => ctc(a),
        _ => return None,
    })
}

/// The reduction: by name, or by the older `size_average` and `reduce` just before it.
fn reduction(a: &Args<'_, Tensor>, position: usize) -> Result<Reduction, OpError> {
    let old = position.checked_sub(2).filter(|_| position != KW);
    let average = a.opt_bool(KW, "size_average")?;
    let reduce = a.opt_bool(KW, "reduce")?;
    // At their own positions only None is taken: PyTorch's samples name them.
    if let Some(p) = old {
        for i in [p, p + 1] {
            if matches!(a.peek(i, ""), Some(Arg::None)) {
                a.ignore_at(i);
            }
        }
    }
    if average.is_some() || reduce.is_some() {
        return Ok(match (reduce.unwrap_or(true), average.unwrap_or(true)) {
            (false, _) => Reduction::None,
            (true, true) => Reduction::Mean,
            (true, false) => Reduction::Sum,
        });
    }
    // A number is what PyTorch's inner functions take.
    if let Ok(Some(Arg::Int(n))) = a.raw(position, "reduction") {
        return match n {
            0 => Ok(Reduction::None),
            1 => Ok(Reduction::Mean),
            2 => Ok(Reduction::Sum),
            n => Err(format!("no reduction {n}").into()),
        };
    }
    match a.str_or(position, "reduction", "mean")? {
        "none" => Ok(Reduction::None),
        "mean" => Ok(Reduction::Mean),
        "sum" => Ok(Reduction::Sum),
        "batchmean" => Ok(Reduction::BatchMean),
        other => Err(format!("no reduction {other}").into()),
    }
}

fn pair(a: &Args<'_, Tensor>) -> Result<(Tensor, Tensor), OpError> {
    Ok((a.tensor(0, "input")?, a.tensor(1, "target")?))
}

fn plain(a: &Args<'_, Tensor>, f: fn(&Tensor, &Tensor, Reduction) -> gradus_core::Result<Tensor>) -> One {
    let (x, y) = pair(a)?;
    Ok(f(&x, &y, reduction(a, 4)?)?)
}

fn smooth_l1(a: &Args<'_, Tensor>) -> One {
    let (x, y) = pair(a)?;
    Ok(x.smooth_l1_loss(&y, a.float_or(5, "beta", 1.0)?, reduction(a, 4)?)?)
}

fn huber(a: &Args<'_, Tensor>) -> One {
    let (x, y) = pair(a)?;
    weight_of(x.huber_loss(&y, a.float_or(3, "delta", 1.0)?, reduction(a, 2)?)?, a)
}

/// Newer PyTorch has a `weight` for a few losses; `None` is all that means nothing.
fn weight_of(loss: Tensor, a: &Args<'_, Tensor>) -> One {
    match a.opt_tensor(KW, "weight")? {
        None => Ok(loss),
        Some(_) => Err("a weight of this loss".into()),
    }
}

fn bce(a: &Args<'_, Tensor>) -> One {
    let ((x, y), w) = (pair(a)?, a.opt_tensor(2, "weight")?);
    Ok(x.binary_cross_entropy(&y, w.as_ref(), reduction(a, 5)?)?)
}

fn bce_logits(a: &Args<'_, Tensor>) -> One {
    let ((x, y), w) = (pair(a)?, a.opt_tensor(2, "weight")?);
    let positive = a.opt_tensor(6, "pos_weight")?;
    Ok(x.binary_cross_entropy_with_logits(&y, w.as_ref(), positive.as_ref(), reduction(a, 5)?)?)
}

fn cross_entropy(a: &Args<'_, Tensor>) -> One {
    let (x, y) = pair(a)?;
    let options = CrossEntropyOptions {
        weight: a.opt_tensor(2, "weight")?,
        ignore_index: a.int_or(4, "ignore_index", -100)?,
        reduction: reduction(a, 6)?,
        label_smoothing: a.float_or(7, "label_smoothing", 0.0)?,
    };
    if a.positional() > 3 {
        a.ignore_at(3);
    }
    Ok(x.cross_entropy_with(&y, &options)?)
}

fn nll(a: &Args<'_, Tensor>) -> One {
    let (x, y) = pair(a)?;
    let options = NllLossOptions {
        weight: a.opt_tensor(2, "weight")?,
        ignore_index: a.int_or(4, "ignore_index", -100)?,
        reduction: reduction(a, 6)?,
    };
    if a.positional() > 3 {
        a.ignore_at(3);
    }
    Ok(x.nll_loss_with(&y, &options)?)
}

fn kl_div(a: &Args<'_, Tensor>) -> One {
    let (x, y) = pair(a)?;
    Ok(x.kl_div(&y, a.bool_or(5, "log_target", false)?, reduction(a, 4)?)?)
}

fn gaussian(a: &Args<'_, Tensor>) -> One {
    let ((x, y), var) = (pair(a)?, a.tensor(2, "var")?);
    let (full, eps) = (a.bool_or(3, "full", false)?, a.float_or(4, "eps", 1e-6)?);
    // Its reduction has no older forms before it.
    let how = match a.str_or(5, "reduction", "mean")? {
        "none" => Reduction::None,
        "sum" => Reduction::Sum,
        _ => Reduction::Mean,
    };
    Ok(x.gaussian_nll_loss(&y, &var, full, eps, how)?)
}

fn poisson(a: &Args<'_, Tensor>) -> One {
    let (x, y) = pair(a)?;
    let options = PoissonNllOptions {
        log_input: a.bool_or(2, "log_input", true)?,
        full: a.bool_or(3, "full", false)?,
        eps: a.float_or(5, "eps", 1e-8)?,
        reduction: reduction(a, 7)?,
    };
    Ok(x.poisson_nll_loss(&y, &options)?)
}

fn hinge(a: &Args<'_, Tensor>) -> One {
    let (x, y) = pair(a)?;
    Ok(x.hinge_embedding_loss(&y, a.float_or(2, "margin", 1.0)?, reduction(a, 5)?)?)
}

fn ranking(a: &Args<'_, Tensor>) -> One {
    let (x1, x2, y) = (a.tensor(0, "input1")?, a.tensor(1, "input2")?, a.tensor(2, "target")?);
    Ok(x1.margin_ranking_loss(&x2, &y, a.float_or(3, "margin", 0.0)?, reduction(a, 6)?)?)
}

fn cosine(a: &Args<'_, Tensor>) -> One {
    let (x1, x2, y) = (a.tensor(0, "input1")?, a.tensor(1, "input2")?, a.tensor(2, "target")?);
    Ok(x1.cosine_embedding_loss(&x2, &y, a.float_or(3, "margin", 0.0)?, reduction(a, 6)?)?)
}

fn triplet(a: &Args<'_, Tensor>) -> One {
    let (x, near, far) = (a.tensor(0, "anchor")?, a.tensor(1, "positive")?, a.tensor(2, "negative")?);
    // With `distance_function=None` the other form of this loss is the same.
    a.opt_str(KW, "distance_function")?;
    let options = TripletMarginOptions {
        margin: a.float_or(3, "margin", 1.0)?,
        p: a.float_or(4, "p", 2.0)?,
        eps: a.float_or(5, "eps", 1e-6)?,
        swap: a.bool_or(6, "swap", false)?,
        reduction: reduction(a, 9)?,
    };
    Ok(x.triplet_margin_loss(&near, &far, &options)?)
}

fn multi_margin(a: &Args<'_, Tensor>) -> One {
    let (x, y) = pair(a)?;
    let options = MultiMarginOptions {
        p: u32::try_from(a.int_or(2, "p", 1)?)?,
        margin: a.float_or(3, "margin", 1.0)?,
        weight: a.opt_tensor(4, "weight")?,
        reduction: reduction(a, 7)?,
    };
    Ok(x.multi_margin_loss(&y, &options)?)
}

fn multilabel_soft(a: &Args<'_, Tensor>) -> One {
    let ((x, y), w) = (pair(a)?, a.opt_tensor(2, "weight")?);
    Ok(x.multilabel_soft_margin_loss(&y, w.as_ref(), reduction(a, 5)?)?)
}

fn ctc(a: &Args<'_, Tensor>) -> One {
    let (x, targets) = (a.tensor(0, "log_probs")?, a.tensor(1, "targets")?);
    let lengths = |position, name| -> Result<Vec<usize>, OpError> {
        let all = if a.is_tensor(position, name) {
            a.tensor(position, name)?.to_vec::<i64>()?
        } else {
            a.ints(position, name)?
        };
        all.into_iter().map(|n| usize::try_from(n).map_err(OpError::from)).collect()
    };
    let (inputs, outputs) = (lengths(2, "input_lengths")?, lengths(3, "target_lengths")?);
    let how = match a.str_or(5, "reduction", "mean")? {
        "none" => Reduction::None,
        "sum" => Reduction::Sum,
        _ => Reduction::Mean,
    };
    let options = CtcOptions {
        blank: a.int_or(4, "blank", 0)?,
        reduction: how,
        zero_infinity: a.bool_or(6, "zero_infinity", false)?,
    };
    Ok(x.ctc_loss(&targets, &inputs, &outputs, &options)?)
}
