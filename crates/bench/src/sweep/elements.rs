//! Operations without gradients: elementwise, views, reductions, look-ups, products.

use super::{Sweep, normal};
use gradus_core::{AttentionOptions, DType, PadMode, Result, Tensor, s};

pub fn run(w: &Sweep) -> Result<()> {
    arithmetic(w)?;
    views(w)?;
    reductions(w)?;
    types(w)?;
    products(w)
}

fn arithmetic(w: &Sweep) -> Result<()> {
    let (x, y) = (normal(&[1000, 1003])?, normal(&[1000, 1003])?);
    let (row, column) = (normal(&[1003])?, normal(&[1000, 1])?);
    let p = (x.abs() + 0.1).contiguous();
    p.eval()?;
    for (name, f) in [
        ("exp", Tensor::exp as fn(&Tensor) -> Tensor),
        ("tanh", Tensor::tanh),
        ("sin", Tensor::sin),
        ("sigmoid", Tensor::sigmoid),
        ("relu", Tensor::relu),
        ("gelu", Tensor::gelu),
        ("silu", Tensor::silu),
        ("mish", Tensor::mish),
        ("erf", Tensor::erf),
        ("atan", Tensor::atan),
        ("expm1", Tensor::expm1),
        ("floor", Tensor::floor),
    ] {
        w.one(&format!("ew_{name}"), || Ok(f(&x)))?;
    }
    for (name, f) in [
        ("sqrt", Tensor::sqrt as fn(&Tensor) -> Tensor),
        ("log", Tensor::log),
        ("log1p", Tensor::log1p),
        ("lgamma", Tensor::lgamma),
        ("digamma", Tensor::digamma),
    ] {
        w.one(&format!("ew_{name}"), || Ok(f(&p)))?;
    }
    w.one("ew_clamp", || x.clamp(-0.5, 0.5))?;
    w.one("ew_pow3", || x.pow(3.0))?;
    w.one("ew_pow1.7", || p.pow(1.7))?;
    w.one("ew_pow", || p.pow(&y))?;
    w.one("ew_atan2", || x.atan2(&y))?;
    w.one("ew_fmod", || x.fmod(&p))?;
    w.one("ew_where", || x.gt(0.0)?.where_(&x, &y))?;
    w.one("ew_add", || Ok(&x + &y))?;
    w.one("ew_add_row", || Ok(&x + &row))?;
    w.one("ew_add_column", || Ok(&x + &column))?;
    w.one("ew_outer", || Ok(&row * &column))?;
    for n in [1usize, 10, 1000] {
        let (a, b) = (normal(&[n])?, normal(&[n])?);
        w.one(&format!("ew_add_{n}"), || Ok(&a + &b))?;
        w.one(&format!("ew_exp_{n}"), || Ok(a.exp()))?;
    }
    Ok(())
}

fn views(w: &Sweep) -> Result<()> {
    let (x, y, turned) = (normal(&[1000, 1003])?, normal(&[1000, 1003])?, normal(&[1003, 1000])?);
    let z = normal(&[64, 96, 130])?;
    let images = normal(&[8, 20, 45, 45])?;
    w.one("view_add_turned", || Ok(&x + &turned.t()?))?;
    w.one("view_step", || Ok(x.i((.., s(0..1000, 2)))? * 2.0))?;
    w.one("view_rows", || Ok(x.i(s(0..1000, 3))? * 2.0))?;
    w.one("view_narrow", || Ok(x.narrow(1, 100, 333)?.exp()))?;
    w.one("view_flip", || Ok(x.flip([1])? + 1.0))?;
    w.one("view_permute", || Ok(z.permute([2, 0, 1])?.contiguous()))?;
    w.one("view_permute4", || Ok(images.permute([0, 2, 3, 1])?.contiguous()))?;
    w.one("view_turn", || Ok(x.t()?.contiguous()))?;
    w.one("view_roll", || x.roll([7], [1]))?;
    w.one("view_pad", || images.pad(&[1, 1, 1, 1], PadMode::Constant(0.0)))?;
    w.one("view_pad_reflect", || images.pad(&[2, 2, 2, 2], PadMode::Reflect))?;
    w.one("view_cat0", || Tensor::cat(&[&x, &y], 0))?;
    w.one("view_cat1", || Tensor::cat(&[&x, &y], 1))?;
    w.one("view_stack", || Tensor::stack(&[&x, &y], 2))?;
    w.one("view_tril", || x.tril(0))?;
    w.one("view_repeat", || z.repeat([1, 2, 1]))?;
    Ok(())
}

fn reductions(w: &Sweep) -> Result<()> {
    let (x, z) = (normal(&[1000, 1003])?, normal(&[64, 96, 130])?);
    let (tall, wide, short) = (normal(&[300_000, 3])?, normal(&[3, 300_000])?, normal(&[80_000, 10])?);
    for (name, t) in [("odd", &x), ("tall", &tall), ("wide", &wide), ("short", &short)] {
        for axis in [0i64, 1] {
            w.one(&format!("red_sum{axis}_{name}"), || t.sum_dim(axis, false))?;
            w.one(&format!("red_amax{axis}_{name}"), || t.amax(axis, false))?;
            w.one(&format!("red_argmax{axis}_{name}"), || t.argmax_dim(axis, false))?;
            w.one(&format!("red_var{axis}_{name}"), || t.var_dim(axis, 1, false))?;
            w.one(&format!("red_softmax{axis}_{name}"), || t.softmax(axis))?;
            w.one(&format!("red_cumsum{axis}_{name}"), || t.cumsum(axis))?;
        }
        w.one(&format!("red_mean_{name}"), || Ok(t.mean()))?;
        w.one(&format!("red_logsumexp_{name}"), || t.logsumexp(1, false))?;
    }
    w.one("red_sum_middle", || z.sum_dim(1, false))?;
    w.one("red_amax_middle", || z.amax(1, false))?;
    w.one("red_layer_norm", || z.layer_norm([130], None, None, 1e-5))?;
    w.one("red_layer_norm_slice", || x.narrow(1, 0, 100)?.layer_norm([100], None, None, 1e-5))?;
    w.one("red_sort", || x.sort(1, false).map(|p| p.0))?;
    w.one("red_topk", || x.topk(10, 1, true).map(|p| p.0))?;
    let table = normal(&[1000, 100])?;
    let index = Tensor::randint(0, 1000, [5000], DType::I64)?;
    let columns = Tensor::randint(0, 1000, [300], DType::I64)?;
    let source = normal(&[5000, 100])?;
    Tensor::eval_all(&[&index, &columns])?;
    w.one("ind_embedding", || table.embedding(&index))?;
    w.one("ind_select_rows", || table.index_select(0, &index))?;
    w.one("ind_select_columns", || x.index_select(1, &columns))?;
    w.one("ind_add", || table.index_add(0, &index, &source, 1.0))?;
    Ok(())
}

fn types(w: &Sweep) -> Result<()> {
    let (x, y) = (normal(&[1000, 1003])?, normal(&[1000, 1003])?);
    for (name, d) in
        [("f64", DType::F64), ("bf16", DType::BF16), ("f16", DType::F16), ("i64", DType::I64), ("u8", DType::U8)]
    {
        let of = |t: &Tensor| -> Result<Tensor> {
            let t = if d.is_float() { t.clone() } else { t.abs() * 10.0 + 1.0 };
            let t = t.to_dtype(d).contiguous();
            t.eval()?;
            Ok(t)
        };
        let (a, b) = (of(&x)?, of(&y)?);
        w.one(&format!("type_add_{name}"), || Ok(&a + &b))?;
        w.one(&format!("type_sum1_{name}"), || a.sum_dim(1, false))?;
        w.one(&format!("type_amax0_{name}"), || a.amax(0, false))?;
        w.one(&format!("type_gt_{name}"), || a.gt(&b))?;
        w.one(&format!("type_to_f32_{name}"), || Ok(a.to_dtype(DType::F32)))?;
        if d.is_float() {
            w.one(&format!("type_exp_{name}"), || Ok(a.exp()))?;
            w.one(&format!("type_softmax_{name}"), || a.softmax(1))?;
            w.one(&format!("type_gelu_{name}"), || Ok(a.gelu()))?;
        }
    }
    Ok(())
}

fn products(w: &Sweep) -> Result<()> {
    for (m, k, n) in [
        (100, 300, 77),
        (1000, 1000, 1000),
        (33, 1000, 999),
        (1, 4096, 4096),
        (4096, 64, 64),
        (17, 17, 17),
        (500, 3, 500),
        (2000, 2000, 3),
    ] {
        let (a, b, turned) = (normal(&[m, k])?, normal(&[k, n])?, normal(&[n, k])?);
        w.one(&format!("mm_{m}_{k}_{n}"), || a.matmul(&b))?;
        w.one(&format!("mmt_{m}_{k}_{n}"), || a.matmul(&turned.t()?))?;
    }
    for (m, k, n) in [(256, 256, 256), (768, 128, 512), (1, 2048, 2048)] {
        let of = |s: &[usize]| -> Result<Tensor> {
            let t = normal(s)?.to_dtype(DType::BF16);
            t.eval()?;
            Ok(t)
        };
        let (a, b) = (of(&[m, k])?, of(&[k, n])?);
        w.one(&format!("mm_bf16_{m}_{k}_{n}"), || a.matmul(&b))?;
    }
    let (a, b) = (normal(&[512, 16, 16])?, normal(&[512, 16, 16])?);
    w.one("mm_batch_16", || a.matmul(&b))?;
    let (a, b) = (normal(&[48, 50, 70])?, normal(&[48, 70, 30])?);
    w.one("mm_batch_50", || a.matmul(&b))?;
    for (name, shape, causal) in [("100", [8, 8, 100, 64], false), ("513", [2, 4, 513, 80], true)] {
        let q = normal(&shape)?;
        let o = AttentionOptions { is_causal: causal, ..Default::default() };
        w.one(&format!("mm_attention_{name}"), || q.scaled_dot_product_attention(&q, &q, &o))?;
    }
    Ok(())
}
