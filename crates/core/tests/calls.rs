//! Functions made of others as one node: what they compute, and how little they are.

use gradus_core::{
    BatchNormOptions, CrossEntropyOptions, DType, Reduction, Result, Tensor, compile, enable_grad,
    grad::{grad_of, vmap},
    graph::topological,
    no_grad,
    plan::plans_made,
};

fn filled(dims: &[usize]) -> Tensor {
    let n: usize = dims.iter().product();
    let x: Vec<f32> = (0..n).map(|i| ((i * 37 + 11) % 101) as f32 / 17.0 - 3.0).collect();
    let x = Tensor::from_vec(x, dims.to_vec()).unwrap();
    x.eval().unwrap();
    x
}

fn nodes(t: &Tensor) -> usize {
    topological(&[t], |_| true).len()
}

type Function = fn(&Tensor) -> Result<Tensor>;

/// Functions of `[4, 6, 5]`, by name.
fn functions() -> Vec<(&'static str, Function)> {
    fn weight() -> Tensor {
        filled(&[6]).detach()
    }
    fn other() -> Tensor {
        filled(&[5, 4, 6]).permute([1, 2, 0]).unwrap().detach()
    }
    fn labels() -> Tensor {
        Tensor::from_vec((0..20).map(|i| i * 7 % 6).collect::<Vec<i64>>(), [4, 5]).unwrap()
    }
    vec![
        ("softmax", |x| x.softmax(1)),
        ("log_softmax", |x| x.log_softmax(-1)),
        ("argmax", |x| x.argmax()),
        ("argmin_dim", |x| x.argmin_dim(1, false)),
        ("argmax_kept", |x| x.argmax_dim(0, true)),
        ("gelu", |x| Ok(x.gelu())),
        ("gelu_tanh", |x| Ok(x.gelu_tanh())),
        ("layer_norm", |x| x.layer_norm([6, 5], Some(&filled(&[6, 5])), None, 1e-5)),
        ("layer_norm_bare", |x| x.layer_norm([5], None, None, 1e-3)),
        ("layer_norm_shift", |x| x.layer_norm([5], None, Some(&filled(&[5])), 1e-3)),
        ("rms_norm", |x| x.rms_norm([5], Some(&filled(&[5])), None)),
        ("group_norm", |x| x.group_norm(3, Some(&weight()), Some(&weight()), 1e-5)),
        ("batch_norm", |x| {
            let o = BatchNormOptions { training: true, ..Default::default() };
            Ok(x.batch_norm(None, Some(&weight()), None, &o)?.0)
        }),
        ("batch_norm_running", |x| {
            let stats = (weight(), weight().square());
            stats.1.eval()?;
            Ok(x.batch_norm(Some(&stats), Some(&weight()), Some(&weight()), &BatchNormOptions::default())?.0)
        }),
        ("var", |x| x.var_dim([0, 2], 1.0, false)),
        ("std", |x| Ok(x.std(0.0))),
        ("mean", |x| Ok(x.mean())),
        ("mean_dim", |x| x.mean_dim([1], true)),
        ("sum", |x| Ok(x.sum())),
        ("prod", |x| x.prod_dim([2], false)),
        ("amax", |x| x.amax([0, 1], false)),
        ("amin", |x| x.amin([1], false)),
        ("logsumexp", |x| x.logsumexp([0, 2], true)),
        ("logsumexp_all", |x| x.logsumexp(.., false)),
        ("norm", |x| x.norm_dim(2.0, 1, false)),
        ("norm_kept", |x| x.norm_dim(2.0, [0, 1], true)),
        ("mse_loss", |x| x.mse_loss(&other(), Reduction::Mean)),
        ("mse_loss_each", |x| x.mse_loss(&other(), Reduction::None)),
        ("l1_loss", |x| x.l1_loss(&other(), Reduction::Sum)),
        ("smooth_l1_loss", |x| x.smooth_l1_loss(&other(), 0.7, Reduction::BatchMean)),
        ("huber_loss", |x| x.huber_loss(&other(), 1.3, Reduction::Mean)),
        ("logits", |x| x.binary_cross_entropy_with_logits(&other(), None, None, Reduction::Mean)),
        ("kl_div", |x| x.kl_div(&other().square(), false, Reduction::Mean)),
        ("kl_div_of_logs", |x| x.kl_div(&other(), true, Reduction::Sum)),
        ("cross_entropy", |x| x.cross_entropy(&labels())),
        ("cross_entropy_smooth", |x| {
            let o =
                CrossEntropyOptions { ignore_index: 3, label_smoothing: 0.2, reduction: Reduction::None, weight: None };
            x.cross_entropy_with(&labels(), &o)
        }),
        ("stack", |x| Tensor::stack(&[x, &x.neg(), x], 2)),
        ("nll_loss", |x| x.nll_loss(&labels())),
        ("normalize", |x| x.normalize(2.0, 1, 1e-12)),
        ("cosine_similarity", |x| x.cosine_similarity(&other(), 2, 1e-8)),
        ("silu", |x| Ok(x.silu())),
        ("mish", |x| Ok(x.mish())),
        ("elu", |x| Ok(x.elu(0.7))),
        ("selu", |x| Ok(x.selu())),
        ("leaky_relu", |x| Ok(x.leaky_relu(0.1))),
        ("hardtanh", |x| x.hardtanh(-1.0, 2.0)),
        ("hardsigmoid", |x| Ok(x.hardsigmoid())),
        ("hardswish", |x| Ok(x.hardswish())),
        ("hardshrink", |x| Ok(x.hardshrink(0.5))),
        ("softshrink", |x| x.softshrink(0.5)),
        ("softplus", |x| x.softplus(2.0, 3.0)),
        ("nan_to_num", |x| Ok(x.nan_to_num(Default::default()))),
        ("lerp", |x| x.lerp(&x.neg(), 0.3)),
        ("stack_last", |x| Tensor::stack(&[x, x], -1)),
    ]
}

#[test]
fn they_are_one_node_and_compute_what_they_are_made_of() {
    let x = filled(&[4, 6, 5]);
    for (name, f) in functions() {
        let y = f(&x).unwrap();
        assert!(nodes(&y) <= 6, "{name} is {} nodes", nodes(&y));
        assert!(y.node().inputs().iter().any(|i| i.id() == x.id()) || name == "argmax", "{name} is not one node");
        // A variable's gradient may be asked for: all is built.
        let v = x.requires_grad_();
        let whole = f(&v).unwrap();
        assert!(nodes(&whole) > nodes(&y) || name.starts_with("arg"), "{name} is not built");
        assert_eq!((y.shape(), y.dtype()), (whole.shape(), whole.dtype()), "{name}");
        let bits = |t: &Tensor| t.to_vec::<f64>().unwrap().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&y), bits(&whole), "{name}");
        assert_eq!(bits(&no_grad(|| f(&v)).unwrap()), bits(&whole), "{name} without gradients");
    }
}

#[test]
fn of_sixteen_bits_and_integers_too() {
    let x = filled(&[4, 6, 5]);
    for dtype in [DType::BF16, DType::F64, DType::I32] {
        for (name, f) in functions() {
            let y = f(&x.to_dtype(dtype)).unwrap();
            let want = f(&x.to_dtype(dtype).to_dtype(DType::F64)).unwrap().to_vec::<f64>().unwrap();
            let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 0.05 * (1.0 + b.abs());
            assert!(y.to_vec::<f64>().unwrap().iter().zip(&want).all(near), "{name} of {dtype}");
        }
    }
}

#[test]
fn they_fuse_with_what_is_around_them() {
    let x = filled(&[40, 60]);
    let y = ((&x * 3.0).softmax(1).unwrap() + 1.0).exp();
    assert_eq!(y.explain().unwrap().launches(), 1, "{}", y.explain().unwrap());
    let ops = x.softmax(1).unwrap().explain().unwrap().steps[0].ops.join(" ");
    assert!(ops.contains("exp") && ops.contains("max"), "the parts have names: {ops}");
}

#[test]
fn numbers_around_them_are_arguments_and_those_inside_are_not() {
    let x = filled(&[7, 9]);
    let f = |a: f64, eps: f64| (&x * a).layer_norm([9], None, None, eps).unwrap() + a;
    let first = f(2.0, 1e-5).to_vec::<f32>().unwrap();
    let made = plans_made();
    let second = f(-3.0, 1e-5).to_vec::<f32>().unwrap();
    assert_eq!(plans_made(), made, "another number needs no plan");
    assert!(first.iter().zip(&second).all(|(a, b)| (a - 2.0 + b + 3.0).abs() < 1e-4), "the sign turns");
    let third = f(2.0, 10.0).to_vec::<f32>().unwrap();
    assert!(first.iter().zip(&third).any(|(a, b)| (a - b).abs() > 0.1), "another eps is another function");
}

#[test]
fn an_unread_input_of_a_call_is_kept_and_equal_parts_are_computed_once() {
    let x = filled(&[30, 50]);
    let (top, at) = x.max_dim(1, false).unwrap();
    assert_eq!(Tensor::explain_all(&[&top, &at]).unwrap().launches(), 1);
    let inner = (&x * 2.0).exp();
    let y = inner.softmax(1).unwrap();
    y.eval().unwrap();
    assert!(inner.is_realized(), "what somebody holds is computed with it");
}

#[test]
fn replays_and_examples_see_through_them() {
    let x = filled(&[5, 8]);
    let mut f = compile(|_: &mut (), [x]| x.softmax(1)?.log_softmax(0));
    let want = x.softmax(1).unwrap().log_softmax(0).unwrap().to_vec::<f32>().unwrap();
    for _ in 0..5 {
        assert_eq!(f.call(&mut (), [&x]).unwrap().to_vec::<f32>().unwrap(), want);
    }
    assert!(f.status().replays > 0, "{}", f.status());
    // One that was made before, and is computed inside.
    let late = x.softmax(1).unwrap();
    let mut g = compile(|_: &mut (), [x]| Ok(x * &late));
    let twice: Vec<Vec<f32>> = (0..5).map(|_| g.call(&mut (), [&x]).unwrap().to_vec().unwrap()).collect();
    assert!(twice.windows(2).all(|w| w[0] == w[1]));
    let by_rows = vmap(|t| t[0].softmax(0), &[&x], &[Some(0)], 0).unwrap();
    assert_eq!(by_rows.to_vec::<f32>().unwrap(), x.softmax(1).unwrap().to_vec::<f32>().unwrap());
}

#[test]
fn inside_of_gradients_they_are_built() {
    let x = filled(&[3, 4]);
    let g = enable_grad(|| {
        let v = x.requires_grad_();
        let y = v.softmax(1).unwrap().square().sum();
        grad_of(&[(&y, &Tensor::from(1.0f32))], &[&v.resolve()]).unwrap()
    });
    assert!(g[0].as_ref().is_some_and(|g| g.to_vec::<f32>().unwrap().iter().any(|x| *x != 0.0)));
}

#[test]
fn bounds_that_are_numbers_keep_nan_and_types() {
    let x = Tensor::from([-2.0f32, f32::NAN, 0.5, 7.0]);
    let y = x.clamp(-1.0, 2).unwrap();
    assert_eq!(y.dtype(), DType::F32);
    let y = y.to_vec::<f32>().unwrap();
    assert!(y[1].is_nan() && (y[0], y[2], y[3]) == (-1.0, 0.5, 2.0));
    assert!(x.clamp_min(f64::NAN).unwrap().to_vec::<f32>().unwrap()[0].is_nan(), "as PyTorch has it");
    assert_eq!(Tensor::from([1i64, 5]).clamp(2, 3).unwrap().to_vec::<i64>().unwrap(), [2, 3]);
    assert_eq!(Tensor::from([1i64, 5]).clamp_max(2.5).unwrap().dtype(), DType::F32);
}
