//! Biases and rectifiers inside convolutions and products, and rectifiers behind poolings: fewer passes, the same bits.

use gradus_core::{ConvOptions, MaxPoolOptions, Result, Tensor, grad::grad, manual_seed, plan::StepInfo};

fn bits(t: &Tensor) -> Vec<u32> {
    t.to_vec::<f32>().unwrap().iter().map(|x| x.to_bits()).collect()
}

/// Some numbers; every third is zero, negative or not.
fn numbers(shape: &[usize], seed: u64) -> Tensor {
    manual_seed(seed);
    let (t, u) = (Tensor::randn(shape), Tensor::rand(shape));
    let t = u.lt(0.3).unwrap().where_(&(&t * 0.0), &t).unwrap();
    t.eval().unwrap();
    t
}

/// The same numbers, computed and stored: what comes after cannot fuse with what came before.
fn stored(t: &Tensor) -> Tensor {
    t.eval().unwrap();
    t.clone()
}

#[test]
fn a_convolution_takes_its_bias_and_rectifier_along() {
    for (c, o, size, stride, groups) in [(1, 32, 28, 1, 1), (32, 64, 14, 1, 1), (8, 8, 9, 2, 8), (6, 9, 7, 2, 3)] {
        let (x, w, b) = (numbers(&[5, c, size, size], 1), numbers(&[o, c / groups, 3, 3], 2), numbers(&[o], 3));
        let options = ConvOptions { stride: stride.into(), padding: 1.into(), groups, ..Default::default() };
        let y = x.conv2d(&w, Some(&b), options.clone()).unwrap();
        let e = y.explain().unwrap();
        assert!(e.launches() == 1 && e.steps[0].what.ends_with("+ bias"), "{e}");
        let z = x.conv2d(&w, Some(&b), options.clone()).unwrap().relu();
        let e = z.explain().unwrap();
        assert!(e.launches() == 1 && e.steps[0].what.ends_with("+ bias, relu"), "{e}");
        let plain = stored(&x.conv2d(&w, None, options.clone()).unwrap());
        let sum = stored(&(&plain + &b.reshape([1, o, 1, 1]).unwrap()));
        assert_eq!(bits(&y), bits(&sum), "{c} {o} {size} {stride} {groups}");
        assert_eq!(bits(&z), bits(&sum.relu()), "{c} {o} {size} {stride} {groups}");
    }
    // A bias along another axis is none, whatever its length.
    let (x, w) = (numbers(&[4, 4, 4, 4], 1), numbers(&[4, 4, 1, 1], 2));
    let y = x.conv2d(&w, None, ConvOptions::default()).unwrap();
    for shape in [[4, 1, 1, 1], [1, 1, 4, 1], [1, 1, 1, 4]] {
        let e = (&y + &numbers(&shape, 3)).explain().unwrap();
        assert_eq!(e.launches(), 2, "{shape:?}: {e}");
    }
}

#[test]
fn a_product_takes_its_rectifier_along() {
    for (m, k, n) in [(64, 30, 96), (3, 7, 5), (1, 40, 33), (200, 0, 7)] {
        let (a, w, b) = (numbers(&[m, k], 1), numbers(&[n, k], 2), numbers(&[n], 3));
        let y = a.linear(&w, Some(&b)).unwrap().relu();
        let e = y.explain().unwrap();
        assert!(e.launches() == 1 && e.steps[0].what.ends_with("+ bias, relu"), "{e}");
        let plain = stored(&a.linear(&w, None).unwrap());
        assert_eq!(bits(&y), bits(&stored(&(plain + &b)).relu()), "{m} {k} {n}");
    }
}

fn layer(x: &Tensor, size: usize, stride: usize, apart: bool) -> Result<Tensor> {
    let y = if apart { stored(&stored(&(x * 1.0)).relu()) } else { (x * 1.0).relu() };
    y.max_pool2d(size, MaxPoolOptions { stride: Some(stride.into()), ..Default::default() })
}

#[test]
fn a_rectifier_goes_behind_the_pooling() {
    for (size, stride, side) in [(2, 2, 8), (2, 2, 9), (3, 2, 11), (3, 1, 6)] {
        let x = numbers(&[2, 3, side, side], 4);
        let (a, b) = (x.requires_grad_(), x.requires_grad_());
        let y = layer(&a, size, stride, false).unwrap();
        let weight = numbers(y.dims(), 5);
        let g = (&y * &weight).sum().backward().unwrap().wrt(&a).unwrap().clone();
        let e = Tensor::explain_all(&[&y, &g]).unwrap();
        // No mask over whole planes.
        let masks = |s: &StepInfo| s.ops.iter().any(|o| o == "where");
        let rows: Vec<_> = e.steps.iter().filter(|s| masks(s)).map(|s| s.kernel.as_ref().unwrap().rows()).collect();
        assert_eq!(rows, [y.shape().numel()], "{e}");
        let z = layer(&b, size, stride, true).unwrap();
        let h = (&z * &weight).sum().backward().unwrap().wrt(&b).unwrap().clone();
        Tensor::eval_all(&[&y, &g]).unwrap();
        let (y, z) = (bits(&y), bits(&z));
        assert_eq!(y, z, "{size} {stride} {side}");
        let (g, h) = (g.to_vec::<f32>().unwrap(), h.to_vec::<f32>().unwrap());
        assert_eq!(g, h, "{size} {stride} {side}");
    }
}

#[test]
fn the_gradient_of_the_rectified_is_still_there() {
    let x = numbers(&[2, 3, 8, 8], 6).requires_grad_();
    let inner = (&x * 1.0).relu();
    let y = inner.max_pool2d(2, MaxPoolOptions::default()).unwrap();
    let all = grad(&y.sum(), &[&inner, &x]).unwrap();
    let (at_inner, at_x) = (&all[0], &all[1]);
    Tensor::eval_all(&[at_inner, at_x]).unwrap();
    assert_eq!(at_inner.sum().item::<f32>().unwrap(), 2.0 * 3.0 * 16.0);
    let mask = inner.gt(0.0).unwrap().to_dtype(gradus_core::DType::F32);
    assert_eq!((at_inner * mask).to_vec::<f32>().unwrap(), at_x.to_vec::<f32>().unwrap());
}
