//! `vmap(f)` is `f` over slices, stacked.

use gradus_core::{
    DType, Result, Tensor,
    grad::{self, checkpoint, custom_vjp, gradcheck, hessian, jacobian, jvp, value_and_grad, vmap},
    no_grad,
};

fn numbers(dims: &[usize], seed: f64) -> Tensor {
    let n: usize = dims.iter().product();
    let v: Vec<f64> = (0..n).map(|k| ((k as f64 + seed) * 0.618_033_988_749_895).fract() + 0.2).collect();
    Tensor::from_vec(v, dims).unwrap()
}

type F = fn(&[Tensor]) -> Result<Tensor>;

/// Batched at every axis of the inputs and of the output, against slices.
#[track_caller]
fn same_as_slices(what: &str, f: F, inputs: &[(Tensor, Option<i64>)]) {
    let refs: Vec<&Tensor> = inputs.iter().map(|(x, _)| x).collect();
    let dims: Vec<Option<i64>> = inputs.iter().map(|(_, d)| *d).collect();
    let n = inputs.iter().find_map(|(x, d)| Some(x.dims()[usize::try_from((*d)?).unwrap()])).unwrap();
    let each: Vec<Tensor> = (0..n as i64)
        .map(|i| {
            let args: Vec<Tensor> = inputs
                .iter()
                .map(|(x, d)| match d {
                    Some(d) => x.select(*d, i).unwrap(),
                    None => x.clone(),
                })
                .collect();
            f(&args).unwrap()
        })
        .collect();
    for out_dim in 0..=each[0].rank() as i64 {
        let want = Tensor::stack(&each.iter().collect::<Vec<_>>(), out_dim).unwrap();
        let got = vmap(f, &refs, &dims, out_dim).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!((got.dims(), got.dtype()), (want.dims(), want.dtype()), "{what}");
        let (a, b) = (got.to_vec::<f64>().unwrap(), want.to_vec::<f64>().unwrap());
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-12 * (1.0 + b.abs())), "{what}: {a:?} {b:?}");
    }
}

#[test]
fn every_family_of_operations() {
    let all: Vec<(&str, F)> = vec![
        ("itself", |x| Ok(x[0].clone())),
        ("constant", |_| Ok(Tensor::from([1.0f64, 2.0]))),
        ("elementwise", |x| Ok((&x[0] * 2.0 + x[1].exp()).tanh())),
        ("compare", |x| x[0].gt(&x[1])),
        ("where", |x| x[0].gt(&x[1])?.where_(&x[0], 0.0)),
        ("cast", |x| Ok((&x[0] * 5.0).to_dtype(DType::I64))),
        ("reshape", |x| x[0].reshape([4, 3])),
        ("permute", |x| x[0].transpose(0, 1)),
        ("flatten and broadcast", |x| Ok(x[0].flatten(0, -1)?.unsqueeze(1)? * Tensor::from([1.0f64, 2.0]))),
        ("expand", |x| x[0].sum_dim(0, false)?.expand([2, 3, 4])),
        ("expand a scalar", |x| x[0].sum().expand([2, 2])),
        ("slice", |x| x[0].narrow(1, 1, 2)),
        ("flip", |x| x[0].flip(1)),
        ("select", |x| x[0].select(-1, -1)),
        ("unfold", |x| x[0].unfold(1, 2, 1)),
        ("sum", |x| Ok(x[0].sum())),
        ("sum of rows", |x| x[0].sum_dim(-1, true)),
        ("largest", |x| x[0].amax(0, false)),
        ("product", |x| x[0].prod_dim(1, false)),
        ("mean over all", |x| Ok(&x[0] - x[0].mean())),
        ("softmax", |x| {
            let e = (&x[0] - x[0].amax(-1, true)?).exp();
            Ok(&e / &e.sum_dim(-1, true)?)
        }),
        ("matmul", |x| x[0].matmul(&x[1].t()?)),
        ("vectors", |x| x[0].select(0, 0)?.matmul(&x[1].select(0, 1)?)),
        ("matrix and vector", |x| x[0].matmul(&x[1].select(0, 1)?)),
        ("gather", |x| x[0].gather(1, &(&x[1] * 2.0).to_dtype(DType::I64))),
        ("cat", |x| Tensor::cat(&[&x[0], &x[1], &Tensor::ones([1, 4], DType::F64)], 0)),
        ("stack", |x| Tensor::stack(&[&x[0], &x[1]], 1)),
        ("cumsum", |x| x[0].cumsum(1)),
        ("cumprod", |x| x[0].cumprod(0)),
        ("running maximum", |x| Ok(x[0].cummax(1)?.0)),
        ("scatter", |x| x[0].scatter_add(1, &(&x[1] * 2.0).to_dtype(DType::I64), &x[1])),
        ("inverse", |x| (x[0].matmul(&x[1].t()?)? + Tensor::eye(3, 3, DType::F64) * 5.0).inv()),
        ("solve", |x| (x[0].matmul(&x[0].t()?)? + Tensor::eye(3, 3, DType::F64)).solve(&x[1])),
        ("triangle", |x| x[0].triu(0)),
        ("detach", |x| Ok(x[0].detach() * &x[1])),
        ("contiguous", |x| Ok(x[0].t()?.contiguous())),
    ];
    let (a, b) = (numbers(&[2, 3, 4], 1.0), numbers(&[3, 2, 4], 40.0));
    let single = numbers(&[3, 4], 80.0);
    for (what, f) in all {
        same_as_slices(what, f, &[(a.clone(), Some(0)), (b.clone(), Some(1))]);
        same_as_slices(what, f, &[(a.clone(), Some(0)), (single.clone(), None)]);
        same_as_slices(what, f, &[(single.clone(), None), (b.clone(), Some(1))]);
    }
}

#[test]
fn gradients_an_example() {
    // Per-example gradients of a loss for a weight that all share.
    let (w, x) = (numbers(&[4, 2], 3.0), numbers(&[3, 4], 7.0));
    let loss = |w: &Tensor, x: &Tensor| -> Result<Tensor> { Ok(x.unsqueeze(0)?.matmul(w)?.tanh().square().sum()) };
    let per = |a: &[Tensor]| {
        let x = a[1].clone();
        Ok(value_and_grad(|w| loss(&w[0], &x), &[&a[0]])?.1.swap_remove(0))
    };
    let all = vmap(per, &[&w, &x], &[None, Some(0)], 0).unwrap();
    assert_eq!(all.dims(), [3, 4, 2]);
    let mut want = vec![];
    for i in 0..3 {
        let v = Tensor::var("w", w.clone());
        let g = loss(&v, &x.select(0, i).unwrap()).unwrap().backward().unwrap().wrt(&v).unwrap();
        want.extend(g.to_vec::<f64>().unwrap());
    }
    let got = all.to_vec::<f64>().unwrap();
    assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-12), "{got:?} {want:?}");

    // And for a captured variable, asked for by name.
    let v = Tensor::var("w", w.clone());
    let per = |a: &[Tensor]| Ok(grad::grad(&loss(&v, &a[0])?, &[&v])?.swap_remove(0));
    let got = vmap(per, &[&x], &[Some(0)], 0).unwrap().to_vec::<f64>().unwrap();
    assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-12));
}

#[test]
fn gradients_through_it() {
    let x = numbers(&[2, 3], 5.0);
    let w = numbers(&[3], 9.0);
    let f = |a: &[Tensor]| vmap(|b| Ok((b[0].sin() * &b[1]).sum().exp()), &[&a[0], &a[1]], &[Some(0), None], 0);
    gradcheck(f, &[&x, &w]).unwrap();
    // Inside, outside and twice over.
    let per = |a: &[Tensor]| {
        vmap(
            |b| {
                let w = b[1].clone();
                Ok(value_and_grad(|x| Ok((x[0].pow(3.0)? * &w).sum()), &[&b[0]])?.1.swap_remove(0))
            },
            &[&a[0], &a[1]],
            &[Some(0), None],
            0,
        )
    };
    gradcheck(per, &[&x, &w]).unwrap();
    // What is constant inside stays constant.
    let v = Tensor::var("v", x.clone());
    let y = vmap(|b| Ok(no_grad(|| b[0].exp()) * b[0].detach() + &b[0]), &[&v], &[Some(0)], 0).unwrap();
    let g = y.sum().backward().unwrap().wrt(&v).unwrap().to_vec::<f64>().unwrap();
    assert_eq!(g, [1.0; 6]);
}

#[test]
fn nested_and_with_own_rules() {
    let (a, b) = (numbers(&[2, 3], 1.0), numbers(&[4, 3], 30.0));
    // All pairs of rows.
    let table = |x: &[Tensor]| {
        let row = x[0].clone();
        vmap(|y| Ok((&row * &y[0]).sum()), &[&x[1]], &[Some(0)], 0)
    };
    let got = vmap(table, &[&a, &b], &[Some(0), None], 0).unwrap();
    let want = a.matmul(&b.t().unwrap()).unwrap();
    assert_eq!(got.dims(), [2, 4]);
    let (g, w) = (got.to_vec::<f64>().unwrap(), want.to_vec::<f64>().unwrap());
    assert!(g.iter().zip(&w).all(|(a, b)| (a - b).abs() < 1e-12));

    // A rule of one's own and a checkpoint keep their gradients; both read a constant that differs by example.
    let v = Tensor::var("v", a.clone());
    let f = |x: &[Tensor]| {
        let scale = x[1].clone();
        let y = checkpoint(|x| Ok(x[0].sin() * &scale), &[&x[0]])?;
        custom_vjp("ten_times", |y| Ok(&y[0] + 0.0), |g, _, _| Ok(vec![Some(g * 10.0)]), &[&y])
    };
    let scale = numbers(&[2], 4.0);
    let y = vmap(f, &[&v, &scale], &[Some(0), Some(0)], 0).unwrap();
    let got = y.sum().backward().unwrap().wrt(&v).unwrap().to_vec::<f64>().unwrap();
    let want = (a.cos() * scale.unsqueeze(1).unwrap() * 10.0).to_vec::<f64>().unwrap();
    assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-12), "{got:?} {want:?}");
}

#[test]
fn derivatives_that_stand_on_it() {
    let x = numbers(&[2, 2], 1.0);
    let f = |x: &Tensor| x.matmul(x)?.sin().sum_dim(0, false);
    let j = jacobian(f, &x).unwrap();
    assert_eq!(j.dims(), [2, 2, 2]);
    for k in 0..4 {
        let mut e = vec![0.0; 4];
        e[k] = 1.0;
        let v = Tensor::from_vec(e, [2, 2]).unwrap();
        let (_, along) = jvp(|x| f(&x[0]), &[&x], &[&v]).unwrap();
        let column = j.reshape([2, 4]).unwrap().select(1, k as i64).unwrap();
        let (a, b) = (along.to_vec::<f64>().unwrap(), column.to_vec::<f64>().unwrap());
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-12), "{a:?} {b:?}");
    }
    let h = hessian(|x| Ok(f(x)?.square().sum()), &x).unwrap();
    assert_eq!(h.dims(), [2, 2, 2, 2]);
    let m = h.reshape([4, 4]).unwrap().to_vec::<f64>().unwrap();
    assert!((0..16).all(|k| (m[k] - m[k % 4 * 4 + k / 4]).abs() < 1e-12), "symmetric: {m:?}");
    // Derivatives of derivatives.
    gradcheck(|x| jacobian(f, &x[0]), &[&x]).unwrap();
    gradcheck(|x| hessian(|x| Ok(x.exp().prod()), &x[0]), &[&Tensor::from([0.1f64, 0.2])]).unwrap();
    // Nothing in, nothing out, and no dependence.
    let empty = Tensor::zeros([0], DType::F64);
    assert_eq!(jacobian(|x| Ok(x.exp()), &empty).unwrap().dims(), [0, 0]);
    assert_eq!(jacobian(|_| Ok(Tensor::from([1.0f64])), &x).unwrap().to_vec::<f64>().unwrap(), [0.0; 4]);
}

#[test]
fn empty_batches_and_mistakes() {
    let none = Tensor::zeros([0, 3], DType::F64);
    let y = vmap(|x| Ok(x[0].exp().sum()), &[&none], &[Some(0)], 0).unwrap();
    assert_eq!((y.dims(), y.to_vec::<f64>().unwrap().len()), (&[0usize][..], 0));
    let x = numbers(&[2, 3], 1.0);
    let text = |r: Result<Tensor>| r.unwrap_err().to_string();
    let id = |x: &[Tensor]| Ok(x[0].clone());
    assert!(text(vmap(id, &[&x], &[], 0)).contains("1 inputs, but 0 entries"));
    assert!(text(vmap(id, &[&x], &[None], 0)).contains("no input has a batch axis"));
    assert!(text(vmap(id, &[&x], &[Some(2)], 0)).contains("axis 2"));
    assert!(text(vmap(id, &[&x], &[Some(0)], 3)).contains("axis 3"));
    assert!(text(vmap(id, &[&x, &x], &[Some(0), Some(1)], 0)).contains("2 examples of [2, 3], 3 of [2, 3]"));
    let reads = |x: &[Tensor]| if x[0].sum().item::<f64>()? > 0.0 { Ok(x[0].clone()) } else { Ok(-&x[0]) };
    assert!(text(vmap(reads, &[&x], &[Some(0)], 0)).contains("differ between examples"));
}
