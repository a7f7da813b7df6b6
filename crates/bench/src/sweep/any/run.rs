//! Makes a drawn case of its name and times it.

use super::super::{
    Sweep, normal,
    steps::{self, both},
    wide::{TYPES, below, of},
};
use crate::{
    models::{self, CnnShape, GptShape, VOCAB},
    training::{labels, made},
};
use gradus_core::{
    AttentionOptions, AvgPoolOptions, ConvOptions, DType, Error, MaxPoolOptions, PadMode, Result, Tensor, no_grad,
};

/// Times the case of a name.
pub fn run(w: &Sweep, name: &str) -> Result<()> {
    let fields: Vec<&str> = name.split(':').collect();
    let wrong = || Error::value("--sweep", format!("{name:?} is not the name of a drawn case"));
    match fields[1..] {
        ["un", f, x] => {
            let (f, x) = (element(f).ok_or_else(wrong)?, operand(x)?);
            w.one(name, || no_grad(|| f(&x)))
        }
        ["ung", f, x] => w.gradient(name, &operand(x)?.contiguous(), element(f).ok_or_else(wrong)?),
        ["bin", f, a, b] => {
            let (f, a, b) = (pair(f).ok_or_else(wrong)?, operand(a)?, operand(b)?);
            w.one(name, || no_grad(|| f(&a, &b)))
        }
        ["red", f, x, axis] => {
            let (f, x, axis) = (along(f).ok_or_else(wrong)?, operand(x)?, number(axis)? as i64);
            w.time(name, || no_grad(|| f(&x, axis)))
        }
        ["redg", f, x, axis] => {
            let (f, axis) = (along(f).ok_or_else(wrong)?, number(axis)? as i64);
            w.gradient(name, &operand(x)?.contiguous(), |x| Ok(f(x, axis)?.swap_remove(0)))
        }
        ["norm", f, x] => norm(w, name, f, &operand(x)?),
        ["mm", a, b] => {
            let (a, b) = (operand(a)?, operand(b)?);
            w.one(name, || no_grad(|| a.matmul(&b)))
        }
        ["linear", how, kind, sizes] => linear(w, name, how == "g", dtype(kind)?, &numbers(sizes)?),
        ["conv", what, x, kernel, stride, padding, dilation, groups] => {
            let o = [number(stride)?, number(padding)?, number(dilation)?, number(groups)?];
            convolution(w, name, what, &operand(x)?, &numbers(kernel)?, o)
        }
        ["pool", f, x, k, stride, padding] => {
            pool(w, name, f, &operand(x)?, [number(k)?, number(stride)?, number(padding)?])
        }
        ["move", f, x, argument] => movement(w, name, f, &operand(x)?, argument),
        ["ind", f, x, axis, count] => look_up(w, name, f, &operand(x)?, number(axis)?, number(count)?),
        ["net", how, kind, sizes, batch] => network(w, name, how, kind, &numbers(sizes)?, number(batch)?),
        ["attention", how, sizes, causal] => attention(w, name, how, &numbers(sizes)?, causal == "1"),
        _ => Err(wrong()),
    }
}

fn number(text: &str) -> Result<usize> {
    text.parse().map_err(|_| Error::value("--sweep", format!("{text:?} is no number")))
}

fn numbers(text: &str) -> Result<Vec<usize>> {
    text.split('x').map(number).collect()
}

fn dtype(name: &str) -> Result<DType> {
    let found = TYPES.iter().find(|t| t.0 == name);
    found.map(|t| t.1).ok_or_else(|| Error::value("--sweep", format!("{name:?} is no type")))
}

/// `type@shape@layout@values`. Layouts: `c` one element after the other, `t` the last two axes turned, `s` cut from longer rows, `r` every
/// other row, `e` every other element, `k` images with their channels last. Values: those of [`of`] where nothing is said, or as in [`values`].
pub fn operand(text: &str) -> Result<Tensor> {
    let parts: Vec<&str> = text.split('@').collect();
    let (kind, shape, layout, value) = match parts[..] {
        [kind, shape] => (kind, shape, "c", ""),
        [kind, shape, layout] => (kind, shape, layout, ""),
        [kind, shape, layout, value] => (kind, shape, layout, value),
        _ => return Err(Error::value("--sweep", format!("{text:?} is not type@shape@layout@values"))),
    };
    let (kind, shape) = (dtype(kind)?, numbers(shape)?);
    let last = shape.len() - 1;
    let mut held = shape.clone();
    match layout {
        "t" => held.swap(last - 1, last),
        "s" => held[last] += 5,
        "r" => held[0] *= 2,
        "e" => held[last] *= 2,
        "k" => held = vec![shape[0], shape[2], shape[3], shape[1]],
        _ => {}
    }
    let x = values(&held, kind, value)?;
    match layout {
        "t" => x.transpose(-2, -1),
        "s" => x.narrow(-1, 3, shape[last]),
        "r" => x.slice(0, None, None, 2),
        "e" => x.slice(-1, None, None, 2),
        "k" => x.permute([0, 3, 1, 2]),
        _ => Ok(x),
    }
}

/// Numbers in a type: `p` above zero, `o` above one, `u` from 0.05 to 0.95, `bN` integers below N, `spd` a matrix that is positive definite.
fn values(shape: &[usize], kind: DType, value: &str) -> Result<Tensor> {
    let cast = |x: Tensor| made(x.to_dtype(kind));
    match value {
        "" => of(shape, kind),
        "p" => cast(normal(shape)?.abs() + 0.1),
        "o" => cast(normal(shape)?.abs() + 1.1),
        "u" => cast(Tensor::rand(shape) * 0.9 + 0.05),
        "spd" => {
            let (x, n) = (normal(shape)?, shape[shape.len() - 1]);
            cast((x.matmul(&x.transpose(-2, -1)?)? * (1.0 / n as f64)).add(Tensor::eye(n, n, DType::F32))?)
        }
        _ => cast(below(number(value.trim_start_matches('b'))? as i64, shape)?),
    }
}

type One = fn(&Tensor) -> Result<Tensor>;
type Two = fn(&Tensor, &Tensor) -> Result<Tensor>;
type Along = fn(&Tensor, i64) -> Result<Vec<Tensor>>;

fn element(name: &str) -> Option<One> {
    Some(match name {
        "exp" => |x| Ok(x.exp()),
        "tanh" => |x| Ok(x.tanh()),
        "sigmoid" => |x| Ok(x.sigmoid()),
        "gelu" => |x| Ok(x.gelu()),
        "silu" => |x| Ok(x.silu()),
        "relu" => |x| Ok(x.relu()),
        "sin" => |x| Ok(x.sin()),
        "sqrt" => |x| Ok(x.sqrt()),
        "log" => |x| Ok(x.log()),
        "square" => |x| Ok(x.square()),
        "abs" => |x| Ok(x.abs()),
        "neg" => |x| Ok(x.neg()),
        "reciprocal" => |x| Ok(x.reciprocal()),
        "rsqrt" => |x| Ok(x.rsqrt()),
        "softplus" => |x| x.softplus(1.0, 20.0),
        "elu" => |x| Ok(x.elu(1.0)),
        "round" => |x| Ok(x.round()),
        _ => return None,
    })
}

fn pair(name: &str) -> Option<Two> {
    Some(match name {
        "add" => |a, b| a.add(b),
        "mul" => |a, b| a.mul(b),
        "sub" => |a, b| a.sub(b),
        "div" => |a, b| a.div(b),
        "maximum" => |a, b| a.maximum(b),
        "lt" => |a, b| a.lt(b),
        "eq" => |a, b| a.eq(b),
        "where" => |a, b| a.gt(0)?.where_(a, b),
        _ => return None,
    })
}

fn along(name: &str) -> Option<Along> {
    Some(match name {
        "sum" => |x, d| Ok(vec![x.sum_dim(d, false)?]),
        "mean" => |x, d| Ok(vec![x.mean_dim(d, false)?]),
        "prod" => |x, d| Ok(vec![x.prod_dim(d, false)?]),
        "amax" => |x, d| Ok(vec![x.amax(d, false)?]),
        "argmax" => |x, d| Ok(vec![x.argmax_dim(d, false)?]),
        "max" => |x, d| x.max_dim(d, false).map(|p| vec![p.0, p.1]),
        "all" => |x, d| Ok(vec![x.all_dim(d, false)?]),
        "var" => |x, d| Ok(vec![x.var_dim(d, 1, false)?]),
        "norm" => |x, d| Ok(vec![x.norm_dim(2.0, d, false)?]),
        "logsumexp" => |x, d| Ok(vec![x.logsumexp(d, false)?]),
        "softmax" => |x, d| Ok(vec![x.softmax(d)?]),
        "log_softmax" => |x, d| Ok(vec![x.log_softmax(d)?]),
        "cumsum" => |x, d| Ok(vec![x.cumsum(d)?]),
        "sort" => |x, d| x.sort(d, false).map(|p| vec![p.0, p.1]),
        "topk" => |x, d| {
            let n = x.dims()[d as usize];
            x.topk(n.min(5), d, true).map(|p| vec![p.0, p.1])
        },
        _ => return None,
    })
}

fn norm(w: &Sweep, name: &str, f: &str, x: &Tensor) -> Result<()> {
    let scale = of(&x.dims()[x.rank() - 1..], x.dtype())?;
    let of = |x: &Tensor| match f.starts_with("layer") {
        true => x.layer_norm(scale.dims(), Some(&scale), Some(&scale), 1e-5),
        false => x.rms_norm(scale.dims(), Some(&scale), None),
    };
    match f.ends_with('g') {
        true => w.gradient(name, &x.contiguous(), of),
        false => w.one(name, || no_grad(|| of(x))),
    }
}

fn linear(w: &Sweep, name: &str, gradient: bool, kind: DType, sizes: &[usize]) -> Result<()> {
    let (m, k, n) = (sizes[0], sizes[1], sizes[2]);
    let (x, weight, bias) = (of(&[m, k], kind)?, of(&[n, k], kind)?, of(&[n], kind)?);
    if !gradient {
        return w.one(name, || no_grad(|| x.linear(&weight, Some(&bias))));
    }
    let up = of(&[m, n], kind)?;
    let (x, weight, bias) = (Tensor::var("x", &x), Tensor::var("w", &weight), Tensor::var("b", &bias));
    w.time(name, || {
        let g = (x.linear(&weight, Some(&bias))? * &up).sum().backward()?;
        Ok(vec![g.wrt(&x)?, g.wrt(&weight)?, g.wrt(&bias)?])
    })
}

fn convolution(w: &Sweep, name: &str, what: &str, x: &Tensor, kernel: &[usize], o: [usize; 4]) -> Result<()> {
    let options = || ConvOptions { stride: o[0].into(), padding: o[1].into(), dilation: o[2].into(), groups: o[3] };
    let convolve = |x: &Tensor, weight: &Tensor| match x.rank() {
        3 => x.conv1d(weight, None, options()),
        4 => x.conv2d(weight, None, options()),
        _ => x.conv3d(weight, None, options()),
    };
    let weight = of(kernel, x.dtype())?;
    if what == "f" {
        return w.one(name, || no_grad(|| convolve(x, &weight)));
    }
    let up = of(no_grad(|| convolve(x, &weight))?.dims(), x.dtype())?;
    let (vx, vw) = (Tensor::var("x", x), Tensor::var("w", &weight));
    match what {
        "i" => w.one(name, || (convolve(&vx, &weight)? * &up).sum().backward()?.wrt(&vx)),
        _ => w.one(name, || (convolve(x, &vw)? * &up).sum().backward()?.wrt(&vw)),
    }
}

fn pool(w: &Sweep, name: &str, f: &str, x: &Tensor, [k, stride, padding]: [usize; 3]) -> Result<()> {
    let of = |x: &Tensor| {
        let (stride, padding) = (Some(stride.into()), padding.into());
        match f.starts_with("max") {
            true => x.max_pool2d(k, MaxPoolOptions { stride, padding, ..Default::default() }),
            false => x.avg_pool2d(k, AvgPoolOptions { stride, padding, ..Default::default() }),
        }
    };
    match f.ends_with('g') {
        true => w.gradient(name, x, of),
        false => w.one(name, || no_grad(|| of(x))),
    }
}

fn movement(w: &Sweep, name: &str, f: &str, x: &Tensor, argument: &str) -> Result<()> {
    let kind = if f == "cast" { dtype(argument)? } else { x.dtype() };
    let order: Vec<i64> = if f == "cast" { vec![0] } else { numbers(argument)?.iter().map(|n| *n as i64).collect() };
    let axis = order[0];
    let mut times = vec![1; x.rank()];
    times[axis as usize] = 3;
    w.one(name, || {
        no_grad(|| match f {
            "cat" => Tensor::cat(&[x, x, x], axis),
            "stack" => Tensor::stack(&[x, x, x], axis),
            "permute" => Ok(x.permute(&order[..])?.contiguous()),
            "flip" => Ok(x.flip([axis])?.contiguous()),
            "roll" => x.roll([1], [axis]),
            "repeat" => x.repeat(&times[..]),
            "pad" => x.pad(&[1, 2, 2, 1], PadMode::Constant(0.0)),
            "tril" => x.tril(0),
            "copy" => Ok(x.narrow(axis, 0, x.dims()[axis as usize].div_ceil(2))?.contiguous()),
            "cast" => Ok(x.to_dtype(kind)),
            _ => Err(Error::value("--sweep", format!("no movement {f:?}"))),
        })
    })
}

fn look_up(w: &Sweep, name: &str, f: &str, x: &Tensor, axis: usize, count: usize) -> Result<()> {
    let n = *x.dims().get(axis).ok_or_else(|| Error::value("--sweep", format!("{name:?} has no such axis")))?;
    let some = below(n as i64, &[count])?;
    let axis = axis as i64;
    let mut part = x.dims().to_vec();
    part[axis as usize] = count;
    let (all, mask) = (below(n as i64, x.dims())?, made(x.gt(0)?)?);
    match f {
        "select" => w.one(name, || x.index_select(axis, &some)),
        "gather" => w.one(name, || x.gather(axis, &all)),
        "scatter_add" => w.one(name, || x.scatter_add(axis, &all, x)),
        "index_add" => {
            let part = of(&part, x.dtype())?;
            w.one(name, || x.index_add(axis, &some, &part, 1.0))
        }
        "masked_fill" => w.one(name, || x.masked_fill(&mask, 3)),
        "embedding" | "embeddingg" => {
            let index = below(x.dims()[0] as i64, &[count])?;
            match f == "embeddingg" {
                true => w.gradient(name, x, |x| x.embedding(&index)),
                false => w.one(name, || x.embedding(&index)),
            }
        }
        _ => Err(Error::value("--sweep", format!("no look-up {f:?}"))),
    }
}

fn network(w: &Sweep, name: &str, how: &str, kind: &str, sizes: &[usize], batch: usize) -> Result<()> {
    let classes = labels(batch, 10);
    match (kind, sizes) {
        ("mlp", s) => both(w, name, how, |p| models::mlp(p, s, Tensor::relu), Ok((normal(&[batch, s[0]])?, classes?))),
        ("cnn", &[inputs, side, a, b]) => {
            let shape = CnnShape { inputs, side, channels: [a, b], hidden: 100 };
            both(w, name, how, |p| models::cnn(p, shape), Ok((normal(&[batch, inputs, side, side])?, classes?)))
        }
        ("gpt", &[layers, heads, width, block]) => {
            let x = made(Tensor::randint(0, VOCAB as i64, [batch, block], DType::I64)?)?;
            let shape = GptShape { layers, heads, width, block };
            both(w, name, how, |p| models::gpt(p, shape), Ok((x, labels(batch * block, VOCAB)?)))
        }
        (_, &[input, hidden, time]) => {
            let data = Ok((normal(&[batch, time, input])?, classes?));
            match kind {
                "lstm" => both(w, name, how, |p| models::lstm(p, input, hidden), data),
                _ => both(w, name, how, |p| steps::gru(p, input, hidden), data),
            }
        }
        _ => Err(Error::value("--sweep", format!("no network {kind:?} of {sizes:?}"))),
    }
}

fn attention(w: &Sweep, name: &str, how: &str, sizes: &[usize], is_causal: bool) -> Result<()> {
    let (q, k, v) = (normal(sizes)?, normal(sizes)?, normal(sizes)?);
    let o = AttentionOptions { is_causal, ..Default::default() };
    if how == "f" {
        return w.one(name, || no_grad(|| q.scaled_dot_product_attention(&k, &v, &o)));
    }
    let (q, k, v) = (Tensor::var("q", &q), Tensor::var("k", &k), Tensor::var("v", &v));
    w.time(name, || {
        let g = q.scaled_dot_product_attention(&k, &v, &o)?.square().sum().backward()?;
        Ok(vec![g.wrt(&q)?, g.wrt(&k)?, g.wrt(&v)?])
    })
}
