//! The sources' own examples, with the values worked out.

use gradus_core::{DType, Tensor};

fn close(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len(), "{a:?} vs {b:?}");
    for (x, y) in a.iter().zip(b) {
        assert!((x - y).abs() <= 1e-9 * (1.0 + y.abs()), "{a:?} vs {b:?}");
    }
}

#[test]
fn product_and_sine() {
    let (x, y) = (Tensor::var("x", 2.0f64), Tensor::var("y", 3.0f64));
    let z = &x * &y + x.sin();
    close(&z.to_vec::<f64>().unwrap(), &[6.0 + 2f64.sin()]);
    let g = z.backward().unwrap();
    close(&g.wrt(&x).unwrap().to_vec::<f64>().unwrap(), &[3.0 + 2f64.cos()]);
    close(&g.by_name("y").unwrap().to_vec::<f64>().unwrap(), &[2.0]);
}

#[test]
fn broadcast_row_and_column() {
    let a = Tensor::var("a", Tensor::from([1.0f64, 2.0, 3.0]));
    let b = Tensor::var("b", Tensor::from([[10.0f64], [20.0], [30.0]]));
    let c = &a + &b;
    close(&c.to_vec::<f64>().unwrap(), &[11.0, 12.0, 13.0, 21.0, 22.0, 23.0, 31.0, 32.0, 33.0]);
    let g = c.sum().backward().unwrap();
    close(&g.wrt(&a).unwrap().to_vec::<f64>().unwrap(), &[3.0; 3]);
    assert_eq!(g.wrt(&b).unwrap().dims(), [3, 1]);
    close(&g.wrt(&b).unwrap().to_vec::<f64>().unwrap(), &[3.0; 3]);
}

#[test]
fn squares_through_mul_and_pow() {
    let x = Tensor::var("x", Tensor::from([1.0f64, 2.0, 3.0]));
    for y in [&x * &x, x.pow(2.0).unwrap(), x.square()] {
        close(&y.to_vec::<f64>().unwrap(), &[1.0, 4.0, 9.0]);
        let g = y.sum().backward().unwrap();
        close(&g.wrt(&x).unwrap().to_vec::<f64>().unwrap(), &[2.0, 4.0, 6.0]);
    }
}

#[test]
fn matmul_gradients() {
    // d/dA sum(A B) is B's row sums, d/dB is A's column sums.
    let a = Tensor::var("a", Tensor::from([[1.0f64, 2.0, 3.0], [4.0, 5.0, 6.0]]));
    let b = Tensor::var("b", Tensor::from([[1.0f64, 2.0], [3.0, 4.0], [5.0, 6.0]]));
    let c = a.matmul(&b).unwrap();
    close(&c.to_vec::<f64>().unwrap(), &[22.0, 28.0, 49.0, 64.0]);
    let g = c.sum().backward().unwrap();
    close(&g.wrt(&a).unwrap().to_vec::<f64>().unwrap(), &[3.0, 7.0, 11.0, 3.0, 7.0, 11.0]);
    close(&g.wrt(&b).unwrap().to_vec::<f64>().unwrap(), &[5.0, 5.0, 7.0, 7.0, 9.0, 9.0]);
}

#[test]
fn shared_subexpression() {
    // (a + b)(a + b): a walk that compares nodes by value visits the sum once and halves the gradient.
    let (a, b) = (Tensor::var("a", 2.0f64), Tensor::var("b", 3.0f64));
    let g = ((&a + &b) * (&a + &b)).backward().unwrap();
    close(&g.wrt(&a).unwrap().to_vec::<f64>().unwrap(), &[10.0]);
    close(&g.wrt(&b).unwrap().to_vec::<f64>().unwrap(), &[10.0]);
}

#[test]
fn tied_max_shares_its_gradient() {
    let x = Tensor::var("x", Tensor::from([1.0f64, 3.0, 3.0]));
    let g = x.amax(.., false).unwrap().backward().unwrap();
    close(&g.wrt(&x).unwrap().to_vec::<f64>().unwrap(), &[0.0, 0.5, 0.5]);
    let (a, b) = (Tensor::var("a", 3.0f64), Tensor::var("b", 3.0f64));
    let g = a.maximum(&b).unwrap().backward().unwrap();
    close(&g.wrt(&a).unwrap().to_vec::<f64>().unwrap(), &[0.5]);
}

#[test]
fn second_derivative() {
    let x = Tensor::var("x", Tensor::from([0.5f64, 1.5]));
    let g = x.tanh().sum().backward().unwrap().wrt(&x).unwrap();
    let gg = g.sum().backward().unwrap().wrt(&x).unwrap();
    let want: Vec<f64> = [0.5f64, 1.5].iter().map(|x| -2.0 * x.tanh() * (1.0 - x.tanh().powi(2))).collect();
    close(&gg.to_vec::<f64>().unwrap(), &want);
}

#[test]
fn softmax_is_one_kernel_and_right() {
    let x = Tensor::from([[1.0f32, 2.0, 3.0], [1.0, 1.0, 1.0]]);
    let e = (&x - x.amax(1, true).unwrap()).exp();
    let y = &e / &e.sum_dim(1, true).unwrap();
    drop(e);
    let plan = y.explain().unwrap();
    println!("{plan}\n{}", plan.steps[0].kernel.as_ref().unwrap());
    assert_eq!(plan.launches(), 1);
    let v = y.to_vec::<f32>().unwrap();
    assert!((v[0] - 0.09003057).abs() < 1e-6 && (v[5] - 1.0 / 3.0).abs() < 1e-6, "{v:?}");
}

#[test]
fn long_reductions_and_columns() {
    let x = Tensor::arange(0, 100_000, 1, DType::F64).unwrap().view([1000, 100]).unwrap();
    close(&x.sum().to_vec::<f64>().unwrap(), &[4999950000.0]);
    let c = x.sum_dim(0, false).unwrap().to_vec::<f64>().unwrap();
    assert_eq!(c.len(), 100);
    close(&c[..2], &[49950000.0, 49951000.0]);
    let r = x.sum_dim(1, false).unwrap().to_vec::<f64>().unwrap();
    close(&r[..2], &[4950.0, 14950.0]);
    let t = x.t().unwrap().contiguous();
    close(&t.to_vec::<f64>().unwrap()[..3], &[0.0, 100.0, 200.0]);
}

#[test]
fn extrema_of_narrow_integers() {
    // A start that wraps around to 0 in the narrow type would win over these.
    assert_eq!(Tensor::from([-5i32, -3]).amax(0, false).unwrap().item::<i32>().unwrap(), -3);
    assert_eq!(Tensor::from([5i8, 3]).amin(0, false).unwrap().item::<i8>().unwrap(), 3);
    assert_eq!(Tensor::from([5u8, 3]).amin(0, false).unwrap().item::<u8>().unwrap(), 3);
    assert_eq!(Tensor::from([-5i16, -3]).amax(0, false).unwrap().item::<i16>().unwrap(), -3);
}

#[test]
fn numbers_of_sixteen_bits_fill() {
    for dtype in [DType::BF16, DType::F16] {
        for value in [1.0, -2.25, f64::INFINITY, 5.960_464_477_539_063e-8] {
            let all = Tensor::full([1001], value, dtype);
            all.eval().unwrap();
            assert_eq!(all.to_dtype(DType::F64).to_vec::<f64>().unwrap(), vec![value; 1001], "{dtype:?}");
            let i = Tensor::arange(0, 200, 1, DType::I64).unwrap();
            let (x, mask) = (i.to_dtype(dtype), i.ge(100).unwrap());
            Tensor::eval_all(&[&x, &mask]).unwrap();
            let filled = x.masked_fill(&mask, value).unwrap();
            filled.eval().unwrap();
            let want: Vec<f64> = (0..200).map(|i| if i < 100 { i as f64 } else { value }).collect();
            assert_eq!(filled.to_dtype(DType::F64).to_vec::<f64>().unwrap(), want, "{dtype:?}");
        }
    }
}

#[test]
fn results_that_no_cache_holds_are_whole() {
    // Of an odd length, and of types that are written in parts of vectors.
    let n = 5_000_003;
    let x = Tensor::arange(0, n as i64, 1, DType::F32).unwrap();
    x.eval().unwrap();
    for dtype in [DType::F32, DType::BF16, DType::F16, DType::I32, DType::U8] {
        let low = x.fmod(200.0).unwrap();
        low.eval().unwrap();
        let y = (&low + 1.0).to_dtype(dtype);
        y.eval().unwrap();
        let y = y.to_dtype(DType::F32).to_vec::<f32>().unwrap();
        let wrong = y.iter().enumerate().position(|(i, &y)| y != (i % 200 + 1) as f32);
        assert_eq!((y.len(), wrong), (n, None), "{dtype:?}");
    }
    // Over an operand, and a part of a larger one that begins within a line.
    let y = (x.narrow(0, 3, n - 3).unwrap() * 2.0 + 1.0).to_vec::<f32>().unwrap();
    assert_eq!(y.iter().enumerate().position(|(i, &y)| y != (i + 3) as f32 * 2.0 + 1.0), None);
}
