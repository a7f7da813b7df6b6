//! The backward pass itself: what flows, what is cut, what is said about it, and structural operations to second order.

use gradus_core::{
    BatchNormOptions, DType, PadMode, Result, Tensor,
    grad::{self, GradcheckOptions, gradcheck_with, hvp, jvp, value_and_grad, vjp},
    live_nodes, no_grad,
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

fn values(t: &Tensor) -> Vec<f64> {
    t.to_vec().unwrap()
}

fn numbers(dims: &[usize], lo: f64, hi: f64) -> Tensor {
    let n: usize = dims.iter().product();
    let at = |k: usize| lo + (hi - lo) * ((k + 1) as f64 * 0.618_033_988_749_895).fract();
    Tensor::from_vec((0..n).map(at).collect::<Vec<f64>>(), dims).unwrap()
}

#[track_caller]
fn twice(what: &str, f: impl Fn(&[Tensor]) -> Result<Tensor>, inputs: &[&Tensor]) {
    let second = GradcheckOptions { order: 2, ..Default::default() };
    // A square behind it, so that second derivatives of linear operations are not all zero.
    if let Err(e) = gradcheck_with(|x| Ok(f(x)?.square()), inputs, &second) {
        panic!("{what}: {e}");
    }
}

#[test]
fn matrix_products_of_all_ranks() {
    let shapes: [(&[usize], &[usize]); 9] = [
        (&[3], &[3]),
        (&[2, 3], &[3]),
        (&[3], &[3, 2]),
        (&[2, 3], &[3, 2]),
        (&[2, 2, 3], &[3, 2]),
        (&[2, 3], &[2, 3, 2]),
        (&[2, 2, 3], &[2, 3, 2]),
        (&[2, 1, 2, 3], &[3, 3, 1]),
        (&[2, 2, 3], &[3]),
    ];
    for (a, b) in shapes {
        let (x, y) = (numbers(a, -1.0, 1.0), numbers(b, -1.0, 0.7));
        twice(&format!("{a:?} x {b:?}"), |x| x[0].matmul(&x[1]), &[&x, &y]);
    }
    let x = numbers(&[2, 3], -1.0, 1.0);
    twice("with itself", |x| x[0].matmul(&x[0].t()?), &[&x]);
}

#[test]
fn norms_by_channel() {
    let train = BatchNormOptions { training: true, ..Default::default() };
    for shape in [&[3, 4][..], &[2, 4, 3], &[2, 4, 2, 2]] {
        let (x, w, b) = (numbers(shape, -1.0, 1.0), numbers(&[4], 0.5, 1.5), numbers(&[4], -1.0, 0.5));
        for groups in [1, 2, 4] {
            if groups < 4 || shape.len() > 2 {
                let name = format!("group_norm {groups} of {shape:?}");
                twice(&name, |x| x[0].group_norm(groups, Some(&x[1]), Some(&x[2]), 1e-1), &[&x, &w, &b]);
                twice(&name, |x| x[0].group_norm(groups, None, Some(&x[1]), 1e-1), &[&x, &b]);
                twice(&name, |x| x[0].group_norm(groups, None, None, 1e-1), &[&x]);
            }
        }
        let batch = |x: &[Tensor]| Ok(x[0].batch_norm(None, Some(&x[1]), Some(&x[2]), &train)?.0);
        twice(&format!("batch_norm of {shape:?}"), batch, &[&x, &w, &b]);
        if shape.len() > 2 {
            let each = |x: &[Tensor]| Ok(x[0].instance_norm(None, Some(&x[1]), Some(&x[2]), &train)?.0);
            twice(&format!("instance_norm of {shape:?}"), each, &[&x, &w, &b]);
        }
    }
}

#[test]
fn diagonals_and_padding() {
    let x = numbers(&[2, 3], -1.0, 1.0);
    for offset in [-2, 0, 1] {
        twice("diag_embed", |x| x[0].diag_embed(offset, 0, -1), &[&x]);
    }
    let x = numbers(&[2, 3, 4], -1.0, 1.0);
    for mode in
        [PadMode::Constant(0.0), PadMode::Constant(1.5), PadMode::Reflect, PadMode::Replicate, PadMode::Circular]
    {
        twice(&format!("{mode:?}"), |x| x[0].pad(&[2, 1, 1, 2], mode), &[&x]);
    }
}

/// Chunks of rows that are several lines, and boxes of padded kernels, are shared out over threads.
#[test]
fn norms_and_padding_have_the_same_bits_on_any_number_of_threads() -> Result<()> {
    let made = |dims: &[usize]| numbers(dims, -2.0, 2.0).to_dtype(DType::F32);
    let (x, w) = (made(&[8, 6, 33, 49]), made(&[6]));
    let all = || -> Result<Vec<Vec<u8>>> {
        let (x, w) = (Tensor::var("x", &x), Tensor::var("w", &w));
        let train = BatchNormOptions { training: true, ..Default::default() };
        let norm = x.batch_norm(None, Some(&w), Some(&w), &train)?.0;
        let groups = x.group_norm(2, Some(&w), Some(&w), 1e-5)?;
        let padded = norm.pad(&[3, 2, 1, 0], PadMode::Constant(0.5))?;
        let edges = groups.pad(&[3, 2, 1, 0], PadMode::Reflect)?;
        let wide = x.sum_dim([0, 3], false)?;
        let grads = ((&padded * &edges).sum() + wide.square().sum()).backward()?;
        [padded, edges, wide, grads.wrt(&x)?, grads.wrt(&w)?].iter().map(Tensor::to_bytes).collect()
    };
    let with = |threads: usize| match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
        Ok(pool) => pool.install(all),
        Err(e) => panic!("{e}"),
    };
    let one = with(1)?;
    for threads in [2, 4, 8] {
        assert!(with(threads)? == one, "{threads} threads");
    }
    Ok(())
}

#[test]
fn lookups_joins_scans_and_casts() {
    let x = numbers(&[3, 4], -1.0, 1.0);
    let y = numbers(&[2, 4], -1.0, 0.8);
    let index = Tensor::from([[0i64, 3, 3], [1, 1, 0]]);
    twice("gather", |x| x[0].gather(1, &x[1]), &[&x, &index]);
    twice("cat", |x| Tensor::cat(&[&x[0], &x[1], &x[0]], 0), &[&x, &y]);
    twice("stack", |x| Tensor::stack(&[&x[0], &x[0].exp()], 1), &[&x]);
    for dim in [0, 1] {
        twice("cumsum", |x| x[0].cumsum(dim), &[&x]);
        twice("cumprod", |x| x[0].cumprod(dim), &[&x]);
        twice("logcumsumexp", |x| x[0].logcumsumexp(dim), &[&x]);
        twice("cummax", |x| Ok(x[0].cummax(dim)?.0), &[&x]);
        twice("cummin", |x| Ok(x[0].cummin(dim)?.0), &[&x]);
    }
    for zeros in 1..4 {
        let mut v = values(&numbers(&[5], 0.5, 1.5));
        (0..zeros).for_each(|k| v[(k * 2 + 1) % 5] = 0.0);
        twice("cumprod with zeros", |x| Ok(x[0].cumprod(0)? + 1.0), &[&Tensor::from(v)]);
    }
    // Through f32 the differences are coarse, so the value is checked instead.
    let v = Tensor::var("v", Tensor::from([0.5f64, 2.0]));
    let z = v.to_dtype(DType::F32).square().to_dtype(DType::F64).sum();
    let g = z.backward().unwrap().wrt(&v).unwrap();
    assert_eq!((g.dtype(), values(&g)), (DType::F64, vec![1.0, 4.0]));
}

#[test]
fn mixed_types_and_integers() {
    let a = Tensor::var("a", Tensor::from([1.0f32, 2.0]));
    let b = Tensor::var("b", Tensor::from([3.0f64, 4.0]));
    let n = Tensor::var("n", Tensor::from([5i64, 6]));
    let y = &a * &b * &n;
    assert_eq!(y.dtype(), DType::F64);
    let g = y.sum().backward().unwrap();
    let (ga, gb) = (g.wrt(&a).unwrap(), g.wrt(&b).unwrap());
    assert_eq!((ga.dtype(), values(&ga)), (DType::F32, vec![15.0, 24.0]));
    assert_eq!((gb.dtype(), values(&gb)), (DType::F64, vec![5.0, 12.0]));
    assert!(!n.requires_grad());
    assert!(g.wrt(&n).is_err());
    let (_, pull) = vjp(|x| Ok(&x[0] * &x[1]), &[&a, &n]).unwrap();
    let parts = pull(&[&Tensor::from([1.0f32, 1.0])]).unwrap();
    assert_eq!((values(&parts[0]), values(&parts[1])), (vec![5.0, 6.0], vec![0.0, 0.0]));
    // Rounding to integers cuts a gradient, and says where.
    let cut = (a.to_dtype(DType::I64).to_dtype(DType::F32) + &b).sum().backward().unwrap();
    let e = cut.wrt(&a).unwrap_err().to_string();
    assert!(e.contains("no gradient for variable a") && e.contains("cast at") && e.contains("gradients.rs"), "{e}");
}

#[test]
fn many_uses_add_up() {
    let x = Tensor::var("x", Tensor::from([1.0f64, -2.0]));
    let mut sum = x.clone();
    for k in 1..100 {
        sum = sum + &x * k as f64;
    }
    let g = sum.sum().backward().unwrap();
    assert_eq!(values(&g.wrt(&x).unwrap()), [4951.0, 4951.0]);
    // One tensor in both places of one operation, and in several shapes.
    let y = (&x * &x).sum() + (x.unsqueeze(1).unwrap() * x.unsqueeze(0).unwrap()).sum();
    assert_eq!(values(&y.backward().unwrap().wrt(&x).unwrap()), [0.0, -6.0]);
}

#[test]
fn backward_twice_and_between_reads() {
    let x = Tensor::var("x", Tensor::from([0.5f64, 1.5]));
    let loss = x.sin().exp().sum();
    let first = values(&loss.backward().unwrap().wrt(&x).unwrap());
    values(&loss);
    let again = values(&loss.backward().unwrap().wrt(&x).unwrap());
    assert_eq!(first, again);
    // A gradient that was read can still be differentiated.
    let g = loss.backward().unwrap().wrt(&x).unwrap();
    values(&g);
    let h = values(&g.sum().backward().unwrap().wrt(&x).unwrap());
    let want: Vec<f64> = [0.5f64, 1.5].iter().map(|x| x.sin().exp() * (x.cos().powi(2) - x.sin())).collect();
    assert!(h.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-12), "{h:?} {want:?}");
}

#[test]
fn a_variable_before_and_after_set() {
    let w = Tensor::var("w", Tensor::from([2.0f64]));
    let a = w.square();
    w.set(&Tensor::from([5.0f64])).unwrap();
    let loss = (a + w.square()).sum();
    // Both moments count: 2 * 2 + 2 * 5.
    assert_eq!(values(&loss.backward().unwrap().wrt(&w).unwrap()), [14.0]);
    assert_eq!(values(&grad::grad(&loss, &[&w]).unwrap()[0]), [14.0]);
    // An update made of the variable itself is where gradients end.
    let g = loss.backward().unwrap().wrt(&w).unwrap();
    w.set(&(&w - g * 0.1)).unwrap();
    let after = w.square().sum().backward().unwrap();
    assert!((values(&after.wrt(&w).unwrap())[0] - 2.0 * 3.6).abs() < 1e-12);
    assert!(after.missing().is_empty());
}

#[test]
fn hooks_see_and_change_gradients() {
    let seen = Arc::new(AtomicUsize::new(0));
    let x = Tensor::var("x", Tensor::from([1.0f64, 2.0]));
    let counter = seen.clone();
    x.register_hook(move |g| {
        counter.fetch_add(1, Relaxed);
        g * 2.0
    });
    let y = &x * 3.0;
    y.register_hook(|g| g + 1.0);
    let loss = (&y * 1.0).sum();
    assert_eq!(values(&loss.backward().unwrap().wrt(&x).unwrap()), [12.0, 12.0]);
    assert_eq!(seen.load(Relaxed), 1);
    // A variable's hook stays when its content changes.
    x.set(&Tensor::from([5.0f64, 6.0])).unwrap();
    assert_eq!(values(&x.sum().backward().unwrap().wrt(&x).unwrap()), [2.0, 2.0]);
    let z = &x * 1.0;
    z.register_hook(|g| g.sum());
    let e = z.sum().backward().err().unwrap().to_string();
    assert!(e.contains("a hook turned a gradient of shape [2] into []"), "{e}");
}

#[test]
fn what_is_cut_is_said() {
    let (a, b) = (Tensor::var("a", 2.0f64), Tensor::var("b", 3.0f64));
    let loss = &a * b.detach();
    let g = loss.backward().unwrap();
    assert_eq!(values(&g.wrt(&a).unwrap()), [3.0]);
    let e = g.wrt(&b).unwrap_err().to_string();
    assert!(e.contains("no gradient for variable b"), "{e}");
    // What no_grad makes counts as constant.
    let c = no_grad(|| &a * &b);
    let g = (&c * &a).backward().unwrap();
    assert_eq!(values(&g.wrt(&a).unwrap()), [6.0]);
    let missing = g.missing();
    assert!(missing.iter().any(|m| m.name.as_deref() == Some("b") && m.why.contains("mul at")), "{missing:?}");

    let text = |r: Result<gradus_core::grad::Gradients>| r.err().unwrap().to_string();
    assert!(text((&a * &Tensor::from([1.0f64, 2.0])).backward()).contains("must be one number, not [2]"));
    assert!(text(Tensor::from(1.0f64).backward()).contains("depends on no variable"));
    assert!(text(a.to_dtype(DType::I64).backward()).contains("gradients are of floats"));
    // What lies beside the way to a target may lack a gradient.
    let (y, x) = (Tensor::var("y", 1.5f64), Tensor::var("x", 2.5f64));
    let z = y.zeta(2.0).unwrap() * &x;
    assert!(z.backward().is_err());
    assert!(grad::grad(&z, &[&x]).is_ok());
    assert!(grad::grad(&z, &[&a]).unwrap_err().to_string().contains("does not depend"));
}

#[test]
fn functions_of_functions() {
    let x = Tensor::from([0.5f64, 1.5]);
    let cube = |x: &[Tensor]| Ok(x[0].pow(3.0)?.sum());
    let (y, g) = value_and_grad(cube, &[&x]).unwrap();
    assert!(!y.requires_grad() && !g[0].requires_grad(), "a constant in, a constant out");
    assert_eq!(values(&g[0]), [0.75, 6.75]);
    // The same tensor given twice is two inputs, and captured it is a constant.
    let (_, g) = value_and_grad(|a| Ok((&a[0] * &a[1] * &x).sum()), &[&x, &x]).unwrap();
    assert_eq!(values(&g[0]), [0.25, 2.25]);
    // Third derivative by three levels.
    let d = |f: &dyn Fn(&Tensor) -> Result<Tensor>, x: &Tensor| -> Result<Tensor> {
        Ok(value_and_grad(|x| Ok(f(&x[0])?.sum()), &[x])?.1.swap_remove(0))
    };
    let quartic = |x: &Tensor| x.pow(4.0);
    let third = d(&|x| d(&|x| d(&quartic, x), x), &x).unwrap();
    let got = values(&third);
    assert!((got[0] - 12.0).abs() < 1e-9 && (got[1] - 36.0).abs() < 1e-9, "{got:?}");
    // Results are differentiable where the inputs are, and constant under no_grad.
    let v = Tensor::var("v", x.clone());
    let (_, g) = value_and_grad(cube, &[&v]).unwrap();
    let h = g[0].sum().backward().unwrap().wrt(&v).unwrap();
    assert_eq!(values(&h), [3.0, 9.0]);
    let (_, quiet) = no_grad(|| value_and_grad(cube, &[&v])).unwrap();
    assert!(!quiet[0].requires_grad());
    assert_eq!(values(&quiet[0]), [0.75, 6.75]);

    let (_, hv) = hvp(cube, &[&x], &[&Tensor::from([1.0f64, 2.0])]).unwrap();
    assert_eq!(values(&hv[0]), [3.0, 18.0]);
    let (y, dy) = jvp(|x| Ok((x[0].sin(), x[0].floor())), &[&x], &[&Tensor::from([1.0f64, 2.0])]).unwrap();
    assert!((values(&y.0)[0] - 0.5f64.sin()).abs() < 1e-15);
    assert!((values(&dy.0)[1] - 2.0 * 1.5f64.cos()).abs() < 1e-15);
    assert_eq!(values(&dy.1), [0.0, 0.0]);
    let curve = |x: &[Tensor]| Ok(jvp(|x| Ok(x[0].exp() * &x[1]), &[&x[0], &x[1]], &[&x[2], &x[3]])?.1);
    let more: Vec<Tensor> = (0..4).map(|k| numbers(&[2], -0.5, 1.0 + k as f64 * 0.1)).collect();
    twice("jvp", curve, &more.iter().collect::<Vec<_>>());

    let text = |r: Result<(Tensor, Vec<Tensor>)>| r.unwrap_err().to_string();
    assert!(text(value_and_grad(|x| Ok(x[0].clone()), &[&x])).contains("one number as its result, not [2]"));
    assert!(text(hvp(cube, &[&x], &[])).contains("1 inputs, but 0 directions"));
    let (_, pull) = vjp(|x| Ok(x[0].exp()), &[&x]).unwrap();
    assert!(pull(&[]).unwrap_err().to_string().contains("1 outputs and got 0 gradients"));
    assert!(pull(&[&Tensor::from(1.0f64)]).unwrap_err().to_string().contains("[2] got a gradient of shape []"));
}

#[test]
fn a_wrong_gradient_is_found() {
    let x = Tensor::from([[0.5f64, 1.5], [2.5, 3.5]]);
    let check = |f: &dyn Fn(&[Tensor]) -> Result<Tensor>, order: usize| {
        gradcheck_with(f, &[&x], &GradcheckOptions { order, ..Default::default() })
    };
    let e = check(&|x| Ok(x[0].square() + x[0].detach().narrow(1, 1, 1)?), 1).unwrap_err().to_string();
    assert!(e.contains("input 0, element [0, 1]: the gradient is") && e.contains("(order 1)"), "{e}");
    // Right once, wrong the second time: the slope is hidden from the next pass.
    let hidden =
        |x: &[Tensor]| grad::custom_vjp("h", |x| Ok(x[0].exp()), |g, y, _| Ok(vec![Some(g * y.detach())]), &[&x[0]]);
    assert!(check(&hidden, 1).is_ok());
    assert!(check(&hidden, 2).unwrap_err().to_string().contains("(order 2)"));
    let e = gradcheck_with(|x| Ok(x[0].exp()), &[&x.to_dtype(DType::F32)], &Default::default()).unwrap_err();
    assert!(e.to_string().contains("need f64"));
}

#[test]
fn a_long_chain_and_nothing_left_behind() {
    let n = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    let before = live_nodes();
    {
        let x = Tensor::var("x", Tensor::from([0.5f64, 1.5]));
        let mut y = x.clone();
        for _ in 0..n {
            y = &y * 1.000_001;
        }
        let loss = y.sum();
        let g = loss.backward().unwrap().wrt(&x).unwrap();
        let want = 1.000_001f64.powi(n);
        assert!((values(&g)[0] / want - 1.0).abs() < 1e-6);
    }
    // Other tests run beside this one, so only the order of magnitude is sure.
    assert!(live_nodes() < before + n as usize / 10);
}

#[test]
fn many_slices_of_one_tensor_cost_no_more_than_it() {
    // The steps of a recurrence, some of them left out, some of them used twice.
    let run = |n: i64, twice: bool| {
        let x = Tensor::var("x", Tensor::arange(0, 2 * n, 1, DType::F64).unwrap().view([n, 2]).unwrap());
        let mut loss = Tensor::from(0.0f64);
        for t in (0..n).filter(|t| t % 7 != 3) {
            loss = loss + (x.select(0, t).unwrap() * (t + 1) as f64).square().sum();
        }
        if twice {
            loss = loss + x.narrow(0, 1, 3).unwrap().sum() + x.select(1, 1).unwrap().sum();
        }
        let g = loss.backward().unwrap().wrt(&x).unwrap();
        let work = g.explain().unwrap().steps.iter().map(|s| s.flops).sum::<u64>();
        (values(&g), work)
    };
    for twice in [false, true] {
        let (g, _) = run(20, twice);
        for (i, have) in g.iter().enumerate() {
            let (t, j) = (i / 2, i % 2);
            let mut want = if t % 7 == 3 { 0.0 } else { 2.0 * i as f64 * ((t + 1) * (t + 1)) as f64 };
            if twice {
                want += (1..4).contains(&t) as u8 as f64 + j as f64;
            }
            assert_eq!(*have, want, "element {i}");
        }
    }
    let (few, many) = (run(40, false).1, run(160, false).1);
    assert!(many < 6 * few, "{few} operations for 40 slices, {many} for 160");
}
