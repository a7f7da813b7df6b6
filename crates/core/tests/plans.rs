//! Kernel counts: what should be one pass over memory is one.

use gradus_core::{DType, Tensor, grad::grad_of, manual_seed};

fn x(shape: &[usize]) -> Tensor {
    manual_seed(1);
    let t = Tensor::randn(shape);
    t.eval().unwrap();
    t
}

fn launches(what: &str, t: &Tensor, want: usize) {
    let plan = t.explain().unwrap();
    assert_eq!(plan.launches(), want, "{what}:\n{plan}");
}

/// Kernels for the gradient of `f` at `v` alone, given a stored gradient of its result; the forward pass has not run.
fn backward(what: &str, v: &Tensor, f: impl Fn(&Tensor) -> Tensor, want: usize) {
    let v = v.requires_grad_();
    let y = f(&v);
    let g = x(y.dims());
    let grads = grad_of(&[(&y, &g)], &[&v]).unwrap();
    drop(y);
    launches(what, grads[0].as_ref().unwrap(), want);
}

#[test]
fn softmaxes_are_one_kernel() {
    let t = x(&[64, 100]);
    launches("softmax", &t.softmax(-1).unwrap(), 1);
    launches("softmax of a turned matrix", &t.t().unwrap().softmax(-1).unwrap(), 1);
    let v = Tensor::var("t", &t);
    launches("the same with a gradient to come", &v.t().unwrap().softmax(-1).unwrap(), 1);
    launches("softmax of columns", &t.softmax(0).unwrap(), 1);
    launches("log_softmax", &t.log_softmax(-1).unwrap(), 1);
    launches("softmin", &t.softmin(-1).unwrap(), 1);
}

#[test]
fn all_of_a_turned_tensor_is_read_as_it_lies() {
    let reduce = |t: &Tensor| {
        let plan = t.explain().unwrap();
        gradus_core::kernel::collapse(plan.steps[0].kernel.as_ref().unwrap()).reduce
    };
    let turned = x(&[5, 6, 7]).permute([2, 0, 1]).unwrap();
    assert_eq!(reduce(&turned.sum()), [210]);
    assert_eq!(reduce(&turned.sum_dim([0, 2], false).unwrap()), [42]);
}

#[test]
fn norms_are_one_kernel() {
    let t = x(&[64, 100]);
    let (w, b) = (x(&[100]), x(&[100]));
    launches("layer_norm", &t.layer_norm([100], Some(&w), Some(&b), 1e-5).unwrap(), 1);
    launches("rms_norm", &t.rms_norm([100], Some(&w), None).unwrap(), 1);
    let image = x(&[4, 6, 8, 8]);
    let c = x(&[6]);
    launches("group_norm without scales", &image.group_norm(3, None, None, 1e-5).unwrap(), 1);
    // One for the statistics, which go along memory, and one for what has numbers of its own for each channel.
    launches("group_norm", &image.group_norm(3, Some(&c), Some(&c), 1e-5).unwrap(), 2);
    let train = gradus_core::BatchNormOptions { training: true, ..Default::default() };
    launches("batch_norm", &image.batch_norm(None, Some(&c), Some(&c), &train).unwrap().0, 1);
    launches("instance_norm", &image.instance_norm(None, Some(&c), Some(&c), &train).unwrap().0, 1);
}

#[test]
fn activations_are_one_kernel() {
    let t = x(&[64, 100]);
    for (what, y) in [
        ("gelu", t.gelu()),
        ("gelu_tanh", t.gelu_tanh()),
        ("silu", t.silu()),
        ("mish", t.mish()),
        ("elu", t.elu(1.0)),
        ("hardswish", t.hardswish()),
        ("glu", t.glu(-1).unwrap()),
        ("dropout", t.dropout(0.5, true).unwrap()),
        ("normalize", t.normalize(2.0, 1, 1e-12).unwrap()),
    ] {
        launches(what, &y, 1);
    }
}

#[test]
fn gradients_are_few_kernels() {
    let t = x(&[64, 100]);
    backward("softmax", &t, |t| t.softmax(-1).unwrap(), 1);
    backward("log_softmax", &t, |t| t.log_softmax(-1).unwrap(), 1);
    backward("gelu", &t, Tensor::gelu, 1);
    let w = x(&[100]);
    backward("layer_norm", &t, |t| t.layer_norm([100], Some(&w), Some(&w), 1e-5).unwrap(), 1);
    backward("rms_norm", &t, |t| t.rms_norm([100], Some(&w), None).unwrap(), 1);
}

#[test]
fn cross_entropy_is_rows_then_a_sum() {
    let t = x(&[64, 100]);
    let labels = Tensor::arange(0, 64, 1, DType::I64).unwrap();
    labels.eval().unwrap();
    launches("cross_entropy", &t.cross_entropy(&labels).unwrap(), 2);
    let v = t.requires_grad_();
    let loss = v.cross_entropy(&labels).unwrap();
    let g = loss.backward().unwrap().wrt(&v).unwrap();
    let plan = Tensor::explain_all(&[&loss, &g]).unwrap();
    assert!(plan.launches() <= 4, "loss and gradient:\n{plan}");
    let q = x(&[2, 4, 16, 8]);
    let causal = gradus_core::AttentionOptions { is_causal: true, ..Default::default() };
    launches("attention", &q.scaled_dot_product_attention(&q, &q, &causal).unwrap(), 1);
}

/// What a step of the plan writes, in bytes, by its operations.
fn stores(plan: &gradus_core::plan::Explanation, with: &str) -> usize {
    use gradus_core::kernel::InstKind;
    let step = plan.steps.iter().find(|s| s.ops.iter().any(|o| o == with)).unwrap();
    step.kernel.as_ref().unwrap().insts.iter().filter(|i| matches!(i.kind, InstKind::Store { .. })).count()
}

#[test]
fn the_forward_pass_stores_no_more_than_the_products_need() {
    let (t, w1, w2) = (x(&[64, 32]), x(&[32, 100]), x(&[100, 8]));
    for (what, f) in [("sigmoid", Tensor::gelu_tanh as fn(&Tensor) -> Tensor), ("relu", Tensor::relu)] {
        let v = w1.requires_grad_();
        let loss = f(&t.matmul(&v).unwrap()).matmul(&w2).unwrap().square().sum();
        let g = loss.backward().unwrap().wrt(&v).unwrap();
        let plan = Tensor::explain_all(&[&loss, &g]).unwrap();
        assert_eq!(stores(&plan, what), 1, "{what}: the inside of an activation is computed again:\n{plan}");
    }
}

#[test]
fn equal_parts_are_computed_once() {
    let t = x(&[64, 100]);
    let u = t.t().unwrap();
    launches("twice the same product", &(&t.matmul(&u).unwrap() + &t.matmul(&u).unwrap()), 2);
}

#[test]
fn a_weights_gradient_comes_in_the_weights_order() {
    let (t, w) = (x(&[64, 32]), x(&[100, 32]).requires_grad_());
    let loss = t.matmul(&w.t().unwrap()).unwrap().square().sum();
    let g = loss.backward().unwrap().wrt(&w).unwrap();
    let plan = (&w - &(&g * 0.1)).explain().unwrap();
    assert!(plan.to_string().contains("matmul 1 x [100, 64] @ [64, 32]"), "{plan}");
}

#[test]
fn single_elements_are_one_launch_too() {
    let all: Vec<Tensor> = (0..3).map(|_| x(&[1])).collect();
    let sums: Vec<Tensor> = all.iter().map(|t| (t * 2.0).sqrt()).collect();
    let refs: Vec<&Tensor> = sums.iter().collect();
    let plan = Tensor::explain_all(&refs).unwrap();
    assert_eq!(plan.launches(), 1, "{plan}");
    Tensor::eval_all(&refs).unwrap();
    let whole = (&Tensor::cat(&all.iter().collect::<Vec<_>>(), 0).unwrap() * 2.0).sqrt().to_vec::<f32>().unwrap();
    let each: Vec<f32> = sums.iter().map(|t| t.item::<f32>().unwrap()).collect();
    assert_eq!(
        each.iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
        whole.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
    );
}

#[test]
fn a_large_operand_is_computed_again_for_the_backward_pass() {
    // The output of a gelu is multiplied by a weight and, much later, by a gradient; 32 MiB of it would wait for that.
    let make = |s: [usize; 2], scale: f64| {
        let t = Tensor::full(s, scale, DType::F32).contiguous();
        t.eval().unwrap();
        t.requires_grad_()
    };
    let n = 1024;
    let x = make([n, 16], 0.1);
    let (a, b, c) = (make([8 * n, 16], 0.1), make([16, 8 * n], 0.01), make([16, 16], 0.1));
    let layer = |x: &Tensor| -> gradus_core::Result<Tensor> { x.linear(&a, None)?.gelu_tanh().linear(&b, None) };
    let loss = layer(&layer(&x).unwrap().linear(&c, None).unwrap()).unwrap().square().sum();
    let g = loss.backward().unwrap();
    let of = |w: &Tensor| g.wrt(w).unwrap().clone();
    let e = Tensor::explain_all(&[&of(&a), &of(&b), &of(&c)]).unwrap();
    // Of the first layer only what goes into the gelu waits; with what comes out of it, there would be five of 32 MiB.
    assert!(e.arena < 4 * (32 << 20) + (8 << 20), "{} MiB\n{e}", e.arena >> 20);
}

#[test]
fn a_bias_before_a_library_call_is_part_of_the_product() {
    let sizes = [(3, 5), (64, 96), (100, 33)];
    for ((m, n), dtype) in sizes.into_iter().flat_map(|s| [(s, DType::F32), (s, DType::F64)]) {
        let x = |shape: &[usize]| {
            let x = x(shape).to_dtype(dtype);
            x.eval().unwrap();
            x
        };
        let (a, w, b) = (x(&[m, 40]), x(&[40, n]), x(&[n]));
        let v = x(&[n, 4]);
        let y = a.matmul(&w).unwrap() + &b;
        let z = y.matmul(&v).unwrap();
        drop(y);
        let e = z.explain().unwrap();
        assert_eq!(e.launches(), 2, "{e}");
        assert!(e.steps[0].what.ends_with("+ bias"), "{e}");
        // The same in two steps.
        let product = a.matmul(&w).unwrap();
        product.eval().unwrap();
        let want = (product + &b).contiguous();
        want.eval().unwrap();
        let (got, want) = (z.to_dtype(DType::F64), want.matmul(&v).unwrap().to_dtype(DType::F64));
        let (got, want) = (got.to_vec::<f64>().unwrap(), want.to_vec::<f64>().unwrap());
        let worst = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-3, "[{m}, {n}]: {worst}");
    }
    // What reads the product as well gets it without the bias.
    let (a, w, b) = (x(&[8, 8]), x(&[8, 8]), x(&[8]));
    let p = a.matmul(&w).unwrap();
    let both = (&p + &b).matmul(&p).unwrap();
    drop(p);
    assert_eq!(both.explain().unwrap().launches(), 3);
}

#[test]
fn chunks_of_any_length_are_lines() {
    use gradus_core::kernel::verify;
    let x = Tensor::zeros([4, 3, 50], DType::F32).contiguous();
    x.eval().unwrap();
    let plan = x.sum_dim([0, 2], false).unwrap().explain().unwrap();
    let mut k = plan.steps[0].kernel.clone().unwrap();
    assert_eq!((k.order.chunk, verify(&k)), (50, Ok(())));
    k.order.chunk = 51;
    assert!(verify(&k).unwrap_err().contains("order"));
}
