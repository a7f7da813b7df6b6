//! Mixed precision: which types come out, that gradients come back in f32, and how close the numbers are.

use gradus_core::{
    AttentionOptions, BatchNormOptions, ConvOptions, ConvTransposeOptions, DType, Reduction, Result, Tensor, autocast,
    autocast_dtype, grad, manual_seed, no_grad,
};

const LOW: [DType; 2] = [DType::BF16, DType::F16];

/// The largest difference, over the largest number.
fn apart(a: &Tensor, b: &Tensor) -> f64 {
    let (a, b) = (a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
    let most = b.iter().fold(0f64, |m, x| m.max(x.abs()));
    a.iter().zip(&b).fold(0f64, |m, (x, y)| m.max((x - y).abs())) / most
}

/// What a type rounds away.
fn unit(d: DType) -> f64 {
    if d == DType::BF16 { 1.0 / 256.0 } else { 1.0 / 2048.0 }
}

#[test]
fn products_are_low_and_sums_are_wide() -> Result<()> {
    let x = Tensor::randn([2, 4, 6, 6]);
    let (rows, w, b) = (Tensor::randn([3, 8]), Tensor::randn([5, 8]), Tensor::randn([5]));
    let (k, kb) = (Tensor::randn([3, 4, 3, 3]), Tensor::randn([3]));
    for low in LOW {
        autocast(low, || -> Result<()> {
            assert_eq!(autocast_dtype(), Some(low));
            let y = rows.linear(&w, Some(&b))?;
            let image = x.conv2d(&k, Some(&kb), ConvOptions::default())?;
            let wide = x.conv_transpose2d(&Tensor::randn([4, 2, 2, 2]), None, ConvTransposeOptions::default())?;
            let heads = x.scaled_dot_product_attention(&x, &x, &AttentionOptions::default())?;
            let added = b.addmm(&rows, &w.t()?, 1.0, 1.0)?;
            for (name, t) in [("linear", &y), ("conv", &image), ("transposed", &wide), ("attention", &heads)] {
                assert_eq!(t.dtype(), low, "{name}");
            }
            assert_eq!((rows.matmul(&w.t()?)?.dtype(), added.dtype()), (low, low));
            // What follows a product elementwise stays low; a sum with something wide is wide.
            assert_eq!((y.relu().dtype(), (&y + &Tensor::randn([5])).dtype()), (low, DType::F32));
            let norm =
                image.batch_norm(None, None, None, &BatchNormOptions { training: true, ..Default::default() })?;
            assert_eq!(norm.0.dtype(), low, "batch_norm");
            let labels = Tensor::from([0i64, 1, 2]);
            for (name, t) in [
                ("softmax", y.softmax(1)?),
                ("log_softmax", y.log_softmax(1)?),
                ("softmin", y.softmin(1)?),
                ("layer_norm", y.layer_norm([5], None, None, 1e-5)?),
                ("group_norm", image.group_norm(3, None, None, 1e-5)?),
                ("cross_entropy", y.cross_entropy(&labels)?),
                ("mse_loss", y.mse_loss(&y.detach(), Reduction::Mean)?),
                ("sum", y.sum()),
                ("mean", y.mean()),
                ("norm", y.norm(2.0)?),
                ("cumsum", y.cumsum(1)?),
                ("logsumexp", y.logsumexp(1, false)?),
            ] {
                assert_eq!(t.dtype(), DType::F32, "{name}");
            }
            // f64 and integers are left alone, and a scope can be switched off inside.
            let wide = Tensor::randn([2, 2]).to_dtype(DType::F64);
            assert_eq!(wide.matmul(&wide)?.dtype(), DType::F64);
            assert_eq!(autocast(DType::F32, || rows.linear(&w, None))?.dtype(), DType::F32);
            assert_eq!(autocast(None, autocast_dtype), None);
            assert_eq!(autocast_dtype(), Some(low));
            Ok(())
        })?;
    }
    assert_eq!(autocast_dtype(), None);
    assert_eq!(rows.linear(&w, Some(&b))?.dtype(), DType::F32);
    Ok(())
}

/// A network with a convolution, a normalisation, attention and a dense layer.
fn network(x: &Tensor, p: &[Tensor]) -> Result<Tensor> {
    let padded = ConvOptions { padding: 1.into(), ..Default::default() };
    let training = BatchNormOptions { training: true, ..Default::default() };
    let h = x.conv2d(&p[0], None, padded)?.batch_norm(None, Some(&p[1]), Some(&p[2]), &training)?.0.relu();
    let rows = h.flatten(2, 3)?;
    let mixed = rows.scaled_dot_product_attention(&rows, &rows, &AttentionOptions::default())?;
    mixed.flatten(1, 2)?.linear(&p[3], Some(&p[4]))?.cross_entropy(&Tensor::from([1i64, 0, 2, 1]))
}

fn parameters() -> Vec<Tensor> {
    let shapes: [&[usize]; 5] = [&[4, 3, 3, 3], &[4], &[4], &[3, 100], &[3]];
    shapes.iter().enumerate().map(|(i, s)| Tensor::var(format!("p{i}"), Tensor::randn(*s) * 0.4)).collect()
}

#[test]
fn gradients_come_back_to_f32_weights_and_are_near() -> Result<()> {
    manual_seed(7);
    let (x, p) = (Tensor::randn([4, 3, 5, 5]), parameters());
    let exact = network(&x, &p)?.backward()?;
    for low in LOW {
        let loss = autocast(low, || network(&x, &p))?;
        assert_eq!(loss.dtype(), DType::F32);
        // Inside the scope or outside: a gradient's types are those of its forward pass.
        let inside = autocast(low, || loss.backward())?;
        let outside = loss.backward()?;
        for v in &p {
            let (a, b, c) = (inside.wrt(v)?, outside.wrt(v)?, exact.wrt(v)?);
            assert_eq!(a.dtype(), DType::F32);
            // The second run finds results of the first stored, and rounded: the last digit may differ.
            assert!(apart(&a, &b) < 2.0 * unit(low), "{:?}", v.name());
            let off = apart(&a, &c);
            // In bf16 some input of a relu comes to lie on its other side, which is more than a rounding.
            let most = if low == DType::BF16 { 0.5 } else { 10.0 * unit(low) };
            assert!(off > 0.0 && off < most, "{low} {:?}: {off}", v.name());
        }
    }
    Ok(())
}

#[test]
fn a_weight_is_converted_once_in_a_scope() -> Result<()> {
    let (x, w) = (Tensor::randn([2, 8]), Tensor::var("w", Tensor::randn([8, 8])));
    let casts = |t: &Tensor| {
        let all = gradus_core::graph::topological(&[t], |_| true);
        all.iter()
            .filter(|n| n.op_name() == "cast" && n.node().inputs().iter().any(|i| i.var_id() == w.var_id()))
            .count()
    };
    let thrice = || x.linear(&w, None)?.linear(&w, None)?.linear(&w, None);
    assert_eq!(casts(&autocast(DType::BF16, thrice)?), 1);
    // One made without gradients must not serve where they are recorded.
    let (constant, y) = autocast(DType::BF16, || Ok::<_, gradus_core::Error>((no_grad(thrice)?, thrice()?)))?;
    assert!(!constant.requires_grad() && y.requires_grad());
    // A new value is another weight.
    autocast(DType::BF16, || -> Result<()> {
        let before = x.linear(&w, None)?;
        w.set(&(w.detach() * 2.0))?;
        let (before, after) = (before.to_vec::<f32>()?, x.linear(&w, None)?.to_vec::<f32>()?);
        before.iter().zip(&after).for_each(|(b, a)| assert_eq!(b * 2.0, *a));
        Ok(())
    })
}

#[test]
fn convolutions_of_16_bits_round_once() -> Result<()> {
    manual_seed(3);
    let options = ConvOptions { stride: 2.into(), padding: 1.into(), groups: 2, ..Default::default() };
    let (x, w) = (Tensor::randn([2, 4, 7, 6]), Tensor::randn([6, 2, 3, 3]));
    for low in LOW {
        let (x, w) = (x.to_dtype(low), w.to_dtype(low));
        let wide = x.to_dtype(DType::F32).conv2d(&w.to_dtype(DType::F32), None, options.clone())?;
        let y = x.conv2d(&w, None, options.clone())?;
        assert_eq!(y.dtype(), low);
        assert_eq!(y.to_vec::<f32>()?, wide.to_dtype(low).to_vec::<f32>()?);
        let (vx, vw) = (x.requires_grad_(), w.requires_grad_());
        let g = Tensor::randn(y.shape().clone()).to_dtype(low);
        let low_grads = grad::grad_of(&[(&vx.conv2d(&vw, None, options.clone())?, &g)], &[&vx, &vw])?;
        let (wx, ww) = (x.to_dtype(DType::F32).requires_grad_(), w.to_dtype(DType::F32).requires_grad_());
        let y = wx.conv2d(&ww, None, options.clone())?;
        let wide_grads = grad::grad_of(&[(&y, &g.to_dtype(DType::F32))], &[&wx, &ww])?;
        for (a, b) in low_grads.iter().zip(&wide_grads) {
            let (a, b) = (a.as_ref().unwrap(), b.as_ref().unwrap());
            assert_eq!(a.to_vec::<f32>()?, b.to_dtype(low).to_vec::<f32>()?);
        }
    }
    Ok(())
}
