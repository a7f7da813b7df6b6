//! Networks whose images keep their channels last give what they give with channels first.

use gradus_conformance::relay;
use gradus_core::{
    BatchNormOptions, ConvOptions, ConvTransposeOptions, DType, Device, MaxPoolOptions, Result, Tensor, autocast, grad,
    manual_seed, plan::plans_made,
};

fn apart(a: &Tensor, b: &Tensor) -> f64 {
    let (a, b) = (a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
    let most = b.iter().fold(1e-30f64, |m, x| m.max(x.abs()));
    a.iter().zip(&b).fold(0f64, |m, (x, y)| m.max((x - y).abs())) / most
}

fn options(stride: usize, padding: usize) -> ConvOptions {
    ConvOptions { stride: stride.into(), padding: padding.into(), ..Default::default() }
}

/// Two residual blocks, the second with a stride and a way around it.
fn network(x: &Tensor, p: &[Tensor]) -> Result<Tensor> {
    let training = BatchNormOptions { training: true, ..Default::default() };
    let norm = |h: &Tensor, i: usize| Ok::<_, gradus_core::Error>(h.batch_norm(None, Some(&p[i]), None, &training)?.0);
    let h = norm(&x.conv2d(&p[0], None, options(1, 1))?, 1)?.relu();
    let a = norm(&h.conv2d(&p[2], Some(&p[3]), options(1, 1))?, 4)?;
    let h = (a + &h).relu();
    let a = norm(&h.conv2d(&p[5], None, options(2, 1))?, 6)?;
    let h = (a + h.conv2d(&p[7], None, options(2, 0))?).relu();
    let pooled = h.max_pool2d(2, MaxPoolOptions::default())?.mean_dim([2, 3], false)? + h.mean_dim([2, 3], false)?;
    pooled.linear(&p[8], None)?.cross_entropy(&Tensor::from([1i64, 0, 2]).to(&x.device()))
}

fn parameters(device: &Device) -> Vec<Tensor> {
    manual_seed(1);
    let shapes: [&[usize]; 9] =
        [&[4, 3, 3, 3], &[4], &[4, 4, 3, 3], &[4], &[4], &[6, 4, 3, 3], &[6], &[6, 4, 1, 1], &[3, 6]];
    shapes.iter().map(|s| (Tensor::randn(*s) * 0.3).to(device).requires_grad_()).collect()
}

#[test]
fn a_network_and_its_gradients() -> Result<()> {
    manual_seed(2);
    let x = Tensor::randn([3, 3, 8, 8]);
    let run = |device: &Device, low: Option<DType>| -> Result<Vec<Tensor>> {
        let p = parameters(device);
        let x = x.to(device);
        let loss = autocast(low, || network(&x, &p))?;
        let g = loss.backward()?;
        let all: Vec<Tensor> = p.iter().map(|v| g.wrt(v)).chain([Ok(loss.clone())]).collect::<Result<_>>()?;
        Tensor::eval_all(&all.iter().collect::<Vec<_>>())?;
        Ok(all)
    };
    let exact = run(&Device::cpu(), None)?;
    let first = run(&relay::device(), Some(DType::BF16))?;
    let last = run(&relay::channels_last(), Some(DType::BF16))?;
    for (i, ((e, f), l)) in exact.iter().zip(&first).zip(&last).enumerate() {
        assert_eq!((e.shape(), e.dtype()), (l.shape(), l.dtype()));
        // About as far from f32 as the other order is: kernels round in other places.
        assert!(apart(l, e) < 1.5 * apart(f, e) + 0.01, "{i}: {} and {} from f32", apart(l, e), apart(f, e));
    }
    Ok(())
}

/// Whole numbers are exact in bf16 as long as they are small: then the order must not show at all.
#[test]
fn whole_numbers_are_the_same_in_both_orders() -> Result<()> {
    let whole = |shape: &[usize], step: usize| {
        let n: usize = shape.iter().product();
        let v: Vec<f32> = (0..n).map(|i| ((i * step) % 3) as f32 - 1.0).collect();
        Tensor::from_vec(v, shape.to_vec())
    };
    let (x, w, k) = (whole(&[2, 3, 5, 6], 7)?, whole(&[4, 3, 3, 3], 5)?, whole(&[4, 4, 1, 1], 2)?);
    let run = |device: &Device| -> Result<Vec<Vec<f32>>> {
        let p: Vec<Tensor> = [&x, &w, &k].map(|t| t.to_dtype(DType::BF16).to(device).requires_grad_()).into();
        let h = p[0].conv2d(&p[1], None, options(1, 1))?.relu();
        let y = (h.conv2d(&p[2], None, options(1, 0))? + &h).relu();
        let g = y.sum_dim([0, 2, 3], false)?.max()?.backward()?;
        let mut all: Vec<Vec<f32>> = p.iter().map(|v| g.wrt(v)?.to_vec::<f32>()).collect::<Result<_>>()?;
        all.push(y.to_vec::<f32>()?);
        Ok(all)
    };
    let (first, last) = (run(&relay::device())?, run(&relay::channels_last())?);
    assert!(first[3].iter().any(|&v| v > 0.0));
    assert_eq!(first, last);
    Ok(())
}

#[test]
fn no_copy_between_the_orders() -> Result<()> {
    let device = relay::channels_last();
    let shapes: [&[usize]; 3] = [&[8, 8, 3, 3], &[8], &[8, 8, 3, 3]];
    let p: Vec<Tensor> = shapes.iter().map(|s| (Tensor::randn(*s) * 0.3).to(&device).requires_grad_()).collect();
    let x = Tensor::randn([3, 8, 8, 8]).to(&device);
    x.eval()?;
    Tensor::eval_all(&p.iter().collect::<Vec<_>>())?;
    let (h, g) = autocast(DType::BF16, || -> Result<_> {
        let training = BatchNormOptions { training: true, ..Default::default() };
        let h = x.conv2d(&p[0], None, options(1, 1))?.batch_norm(None, Some(&p[1]), None, &training)?.0.relu();
        let h = h.conv2d(&p[2], None, options(1, 1))?;
        Ok((h.clone(), h.square().sum()))
    })?;
    drop(h);
    let grads = g.backward()?;
    let all: Vec<Tensor> = [&p[0], &p[1], &p[2]].into_iter().map(|v| grads.wrt(v)).collect::<Result<_>>()?;
    let plan = Tensor::explain_all(&all.iter().collect::<Vec<_>>())?.to_string();
    // What is copied is what came with its channels first: the image and the two weights, each once.
    assert_eq!(plan.matches("contiguous").count(), 3, "{plan}");
    assert_eq!(plan.matches(" conv [").count(), 5, "{plan}");
    // A normalisation with all around it is one kernel in each direction, over rows of channels.
    assert_eq!(plan.matches("over [3, 8, 8]").count(), 2, "{plan}");
    Ok(())
}

#[test]
fn an_optimizers_state_settles_in_the_order_of_the_gradients() -> Result<()> {
    let device = relay::channels_last();
    let (w, x) = (parameters(&device)[2].clone(), Tensor::randn([2, 4, 6, 6]).to(&device));
    let mut m = Tensor::zeros([4, 4, 3, 3], DType::F32).contiguous().to(&device);
    let mut plans = vec![];
    for _ in 0..5 {
        let loss =
            autocast(DType::BF16, || Ok::<_, gradus_core::Error>(x.conv2d(&w, None, options(1, 1))?.square().sum()))?;
        let g = loss.backward()?.wrt(&w)?;
        m = &m * 0.9 + g;
        let next = w.detach() - &m * 1e-3;
        Tensor::eval_all(&[&m, &next])?;
        w.set(&next)?;
        drop(loss);
        plans.push(plans_made());
    }
    assert_eq!(plans[1], plans[4], "{plans:?}");
    Ok(())
}

#[test]
fn gradients_for_what_lies_between_and_hooks_on_it() -> Result<()> {
    let device = relay::channels_last();
    let p = parameters(&device);
    let x = Tensor::randn([2, 3, 6, 6]).to(&device);
    autocast(DType::BF16, || -> Result<()> {
        let y = x.conv2d(&p[0], None, options(1, 1))?;
        let z = y.relu() * 2.0;
        let g = grad::grad_of(&[(&z.sum(), &Tensor::from(1.0f32).to(&device))], &[&y])?;
        let g = g[0].as_ref().unwrap().to_vec::<f32>()?;
        let want: Vec<f32> = y.to_vec::<f32>()?.iter().map(|&v| if v > 0.0 { 2.0 } else { 0.0 }).collect();
        assert_eq!(g, want);
        let y = x.conv2d(&p[0], None, options(1, 1))?;
        y.register_hook(|g| g * 0.0);
        let grads = (y.relu().sum()).backward()?.wrt(&p[0])?.to_vec::<f32>()?;
        assert!(grads.iter().all(|&v| v == 0.0));
        Ok(())
    })
}

#[test]
fn transposed_convolutions_and_examples_of_their_own() -> Result<()> {
    let (cpu, device) = (Device::cpu(), relay::channels_last());
    manual_seed(5);
    let (x, w) = (Tensor::randn([2, 3, 5, 4]).to_dtype(DType::BF16), Tensor::randn([3, 4, 3, 2]).to_dtype(DType::BF16));
    let o = ConvTransposeOptions { stride: 2.into(), padding: 1.into(), ..Default::default() };
    let on = |d: &Device| x.to(d).conv_transpose2d(&w.to(d), None, o.clone());
    assert_eq!(on(&cpu)?.to_vec::<f32>()?, on(&device)?.to_vec::<f32>()?);
    let (many, k) =
        (Tensor::randn([3, 2, 3, 5, 5]).to_dtype(DType::BF16), Tensor::randn([3, 4, 3, 3, 3]).to_dtype(DType::BF16));
    let each = |d: &Device| {
        let f = |t: &[Tensor]| t[0].conv2d(&t[1], None, options(1, 1));
        grad::vmap(f, &[&many.to(d), &k.to(d)], &[Some(0), Some(0)], 0)
    };
    assert_eq!(each(&cpu)?.to_vec::<f32>()?, each(&device)?.to_vec::<f32>()?);
    Ok(())
}
