//! Operations with a kernel of their own against the composites that define them: f32 takes the kernel, f64 does not.

use gradus_core::{AttentionOptions, DType, MaxPoolOptions, Result, Tensor, grad};

fn numbers(shape: &[usize], seed: i64) -> Tensor {
    let n: usize = shape.iter().product();
    let t = Tensor::arange(0, n as i64, 1, DType::F64).unwrap();
    ((t * 12.9898 + seed as f64).sin() * 2.5).reshape(shape.to_vec()).unwrap().eval().unwrap().clone()
}

fn narrow(t: &Tensor) -> Tensor {
    t.to_dtype(DType::F32).eval().unwrap().clone()
}

#[track_caller]
fn close(name: &str, a: &Tensor, b: &Tensor) {
    near(name, a, b, 3e-5);
}

/// Agreement to a part of the largest element: terms of derivatives cancel.
#[track_caller]
fn near(name: &str, a: &Tensor, b: &Tensor, tolerance: f64) {
    assert_eq!(a.shape(), b.shape(), "{name}");
    let (a, b) = (a.to_dtype(DType::F64).to_vec::<f64>().unwrap(), b.to_dtype(DType::F64).to_vec::<f64>().unwrap());
    let largest = b.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
    for (i, (a, b)) in a.iter().zip(&b).enumerate() {
        assert!((a - b).abs() <= tolerance * largest, "{name}: element {i}: {a} and {b}");
    }
}

/// Value, gradients and a Hessian-vector product of a function in f32 and in f64.
#[track_caller]
fn same_to_second_order(name: &str, f: impl Fn(&[Tensor]) -> Result<Tensor>, inputs: &[Tensor]) {
    let small: Vec<Tensor> = inputs.iter().map(narrow).collect();
    // A weighted sum, so that gradients differ everywhere.
    let scalar = |x: &[Tensor]| {
        let y = f(x)?;
        let w = numbers(y.dims(), 77).to_dtype(y.dtype());
        Ok((y * w).square().sum())
    };
    let run = |x: &[Tensor]| {
        let refs: Vec<&Tensor> = x.iter().collect();
        let v: Vec<Tensor> = x.iter().map(|t| numbers(t.dims(), 5).to_dtype(t.dtype())).collect();
        let (_, g) = grad::value_and_grad(scalar, &refs).unwrap();
        let (_, h) = grad::hvp(scalar, &refs, &v.iter().collect::<Vec<_>>()).unwrap();
        (f(x).unwrap(), g, h)
    };
    let (a, b) = (run(&small), run(inputs));
    close(&format!("{name} value"), &a.0, &b.0);
    for (i, (x, y)) in a.1.iter().zip(&b.1).enumerate() {
        near(&format!("{name} gradient {i}"), x, y, 2e-4);
    }
    for (i, (x, y)) in a.2.iter().zip(&b.2).enumerate() {
        near(&format!("{name} second order {i}"), x, y, 2e-4);
    }
}

#[test]
fn maxima_of_windows() {
    let o = MaxPoolOptions::default;
    for options in [
        o(),
        MaxPoolOptions { stride: Some(1.into()), ..o() },
        MaxPoolOptions { padding: 1.into(), ceil_mode: true, ..o() },
        MaxPoolOptions { dilation: 2.into(), ..o() },
    ] {
        let x = numbers(&[2, 3, 9, 11], 1);
        let f = |x: &[Tensor]| x[0].max_pool2d(2, options.clone());
        same_to_second_order("max_pool2d", f, std::slice::from_ref(&x));
        let f = |x: &[Tensor]| x[0].max_pool1d(3, MaxPoolOptions { stride: Some(2.into()), ..o() });
        same_to_second_order("max_pool1d", f, &[numbers(&[3, 17], 1)]);
    }
    let y = narrow(&numbers(&[4, 8, 10, 10], 1)).max_pool2d(2, o()).unwrap();
    assert_eq!(y.explain().unwrap().launches(), 1);
}

#[test]
fn rows_of_a_table() {
    let index = Tensor::from([[3i64, 0, 3], [1, 4, 3]]);
    let f = |x: &[Tensor]| x[0].embedding(&index);
    same_to_second_order("embedding", f, &[numbers(&[5, 7], 1)]);
    // f64 takes the same way here, so the definition apart: a sum over a one-hot matrix.
    let table = numbers(&[5, 7], 2);
    let hot = index.reshape([6]).unwrap().one_hot(Some(5)).unwrap().to_dtype(DType::F64);
    let expected = hot.matmul(&table).unwrap().reshape([2, 3, 7]).unwrap();
    close("rows", &table.embedding(&index).unwrap(), &expected);
    let v = Tensor::var("table", table);
    let g = numbers(&[2, 3, 7], 3);
    let got = (v.embedding(&index).unwrap() * &g).sum().backward().unwrap().wrt(&v).unwrap();
    close("gradient", &got, &hot.t().unwrap().matmul(&g.reshape([6, 7]).unwrap()).unwrap());
    let outside = v.embedding(&Tensor::from([5i64])).unwrap().to_vec::<f64>().unwrap_err().to_string();
    assert!(outside.contains('5'), "{outside}");
}

#[test]
fn attention() {
    let inputs = |lead: &[usize], l: usize, s: usize| {
        let of = |rows: usize, n: usize, seed| numbers(&[lead, &[rows, n]].concat(), seed);
        [of(l, 6, 1), of(s, 6, 2), of(s, 5, 3)]
    };
    let run = |options: &AttentionOptions, x: &[Tensor]| {
        let mask = options
            .attn_mask
            .as_ref()
            .map(|m| if m.dtype() == DType::Bool { m.clone() } else { m.to_dtype(x[0].dtype()) });
        x[0].scaled_dot_product_attention(&x[1], &x[2], &AttentionOptions { attn_mask: mask, ..options.clone() })
    };
    let o = AttentionOptions::default;
    same_to_second_order("plain", |x| run(&o(), x), &inputs(&[2, 3], 5, 7));
    same_to_second_order("causal", |x| run(&AttentionOptions { is_causal: true, ..o() }, x), &inputs(&[2], 40, 40));
    same_to_second_order(
        "causal, more keys",
        |x| run(&AttentionOptions { is_causal: true, ..o() }, x),
        &inputs(&[], 5, 9),
    );
    same_to_second_order("scaled", |x| run(&AttentionOptions { scale: Some(0.7), ..o() }, x), &inputs(&[1, 2], 4, 4));
    let mask = numbers(&[5, 7], 9);
    let kept = mask.gt(-2.0).unwrap();
    for m in [mask, kept, numbers(&[2, 1, 5, 1], 4), numbers(&[7], 4)] {
        same_to_second_order(
            "masked",
            |x| run(&AttentionOptions { attn_mask: Some(m.clone()), ..o() }, x),
            &inputs(&[2, 3], 5, 7),
        );
    }
}

#[test]
fn attention_reads_views_of_one_tensor() {
    // As a transformer has it: queries, keys and values side by side in [batch, time, 3 channels].
    let heads = |t: &Tensor, i: usize| {
        let part = t.narrow(2, i * 8, 8)?;
        part.reshape([2, 10, 2, 4])?.transpose(1, 2)
    };
    let f = |x: &[Tensor]| {
        let o = AttentionOptions { is_causal: true, ..Default::default() };
        let y = heads(&x[0], 0)?.scaled_dot_product_attention(&heads(&x[0], 1)?, &heads(&x[0], 2)?, &o)?;
        y.transpose(1, 2)?.reshape([2, 10, 8])
    };
    let x = numbers(&[2, 10, 24], 1);
    same_to_second_order("views", f, std::slice::from_ref(&x));
    let y = f(&[narrow(&x)]).unwrap();
    // The attention alone: it leaves the heads of a row side by side.
    assert_eq!(y.explain().unwrap().launches(), 1, "{}", y.explain().unwrap());
}

#[test]
fn fused_operations_under_vmap() {
    let x = narrow(&numbers(&[3, 2, 6, 6], 1));
    let f = |x: &[Tensor]| x[0].max_pool2d(2, MaxPoolOptions::default());
    close("pool", &grad::vmap(f, &[&x], &[Some(0)], 0).unwrap(), &f(&[x]).unwrap());
    let q = narrow(&numbers(&[3, 2, 6, 6], 1));
    let f = |x: &[Tensor]| x[0].scaled_dot_product_attention(&x[0], &x[0], &AttentionOptions::default());
    close("attention", &grad::vmap(f, &[&q], &[Some(0)], 0).unwrap(), &f(&[q]).unwrap());
}

#[test]
fn short_rows_meet_lines_that_are_repeated() {
    // Rows of nine are turned as tiles; a line that all planes share is read beside them. Blocks begin with lines.
    for dtype in [DType::F32, DType::F64] {
        for (planes, line, row) in [(6, 273, 9), (2, 320, 9), (7, 100, 12), (5, 500, 8), (40, 33, 20)] {
            let numbers =
                |n: usize| (0..n).map(|i| ((i * 7919 + 13) % 10007) as f32 / 10007.0 + 0.5).collect::<Vec<_>>();
            let x = Tensor::from_vec(numbers(planes * line * row), [planes, line, row]).unwrap().to_dtype(dtype);
            let w = Tensor::from_vec(numbers(line), [line]).unwrap().to_dtype(dtype);
            Tensor::eval_all(&[&x, &w]).unwrap();
            let sum = x.sum_dim(2, false).unwrap();
            let fused = (&sum / &w).to_dtype(DType::F64).to_vec::<f64>().unwrap();
            sum.eval().unwrap();
            let apart = (&sum / &w).to_dtype(DType::F64).to_vec::<f64>().unwrap();
            assert_eq!(fused, apart, "{dtype} {planes} {line} {row}");
        }
    }
}
