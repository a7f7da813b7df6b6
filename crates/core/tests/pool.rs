//! Pooling: values, choices among equals, gradients, errors, and how few kernels it takes.

mod common;

use common::{check_twice, close, tensor, vec};
use gradus_core::{AvgPoolOptions, DType, MaxPoolOptions, Tensor};

#[test]
fn maxima_of_windows() {
    let x = Tensor::from([[[1.0f64, 5.0, 2.0, 7.0, 3.0]]]).requires_grad_();
    let o = || MaxPoolOptions { stride: Some(2.into()), ..Default::default() };
    let (y, at) = x.max_pool1d_with_indices(3, o()).unwrap();
    assert_eq!(vec(&y), [5.0, 7.0]);
    assert_eq!(at.to_vec::<i64>().unwrap(), [1, 3]);
    assert_eq!(vec(&x.detach().max_pool1d(3, o()).unwrap()), [5.0, 7.0]);
}

#[test]
fn the_first_of_equals_and_the_last_nan_are_chosen() {
    let x = Tensor::from([[[2.0f64, 2.0, f64::NAN, 1.0, f64::NAN, f64::NEG_INFINITY, f64::NEG_INFINITY]]]);
    let x = x.requires_grad_();
    let o = MaxPoolOptions { stride: Some(2.into()), padding: 1.into(), ..Default::default() };
    let (y, at) = x.max_pool1d_with_indices(3, o).unwrap();
    // windows: (pad 0 1) (1 2 3) (3 4 5) (5 6 pad)
    assert_eq!(at.to_vec::<i64>().unwrap(), [0, 2, 4, 5]);
    let v = vec(&y);
    assert!(v[0] == 2.0 && v[1].is_nan() && v[2].is_nan() && v[3] == f64::NEG_INFINITY);
    let g = y.sum().backward().unwrap().wrt(&x).unwrap();
    assert_eq!(vec(&g), [1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0]);
    let nan = Tensor::from([[[f64::NAN, 1.0, f64::NAN]]]);
    assert_eq!(nan.max_pool1d_with_indices(3, Default::default()).unwrap().1.to_vec::<i64>().unwrap(), [2]);
    assert_eq!(nan.adaptive_max_pool1d_with_indices(1).unwrap().1.to_vec::<i64>().unwrap(), [2]);
}

#[test]
fn integers_dilation_and_windows_in_the_padding() {
    let x = Tensor::from([[[-5i32, -3, -9, -1]]]);
    let o = MaxPoolOptions { stride: Some(1.into()), padding: 1.into(), dilation: 2.into(), ceil_mode: false };
    let (y, at) = x.max_pool1d_with_indices(2, o.clone()).unwrap();
    assert_eq!(y.to_vec::<i32>().unwrap(), [-3, -5, -1, -9]);
    assert_eq!(at.to_vec::<i64>().unwrap(), [1, 0, 3, 2]);
    let one = Tensor::from([[[4.0f64]]]).requires_grad_();
    let y = one.max_pool1d(2, o).unwrap(); // elements -1 and 1 of one: nothing is there
    assert_eq!(vec(&y), [f64::NEG_INFINITY]);
    assert_eq!(vec(&y.sum().backward().unwrap().wrt(&one).unwrap()), [0.0]);
}

#[test]
fn means_count_what_they_should() {
    let x = Tensor::from([[[1.0f64, 2.0, 3.0, 4.0, 5.0]]]);
    let pool = |count_include_pad, divisor_override| {
        let o = AvgPoolOptions {
            stride: Some(3.into()),
            padding: 1.into(),
            ceil_mode: true,
            count_include_pad,
            divisor_override,
        };
        vec(&x.avg_pool1d(4, o).unwrap())
    };
    // windows -1..3 and 2..6 (the padding ends at 6)
    close(&pool(true, None), &[6.0 / 4.0, 12.0 / 4.0], 1e-15);
    close(&pool(false, None), &[6.0 / 3.0, 12.0 / 3.0], 1e-15);
    close(&pool(true, Some(-2)), &[-3.0, -6.0], 1e-15);
    let ints = Tensor::from([[[-3i64, -4, 1, 2]]]);
    assert_eq!(ints.avg_pool1d(2, Default::default()).unwrap().to_vec::<i64>().unwrap(), [-3, 1]);
}

#[test]
fn adaptive_bins_overlap_and_repeat() {
    let x = Tensor::from([[1.0f64, 2.0, 3.0, 4.0, 5.0]]);
    close(&vec(&x.adaptive_avg_pool1d(3).unwrap()), &[1.5, 3.0, 4.5], 1e-15);
    close(&vec(&x.adaptive_avg_pool1d(1).unwrap()), &[3.0], 1e-15);
    let (y, at) = x.adaptive_max_pool1d_with_indices(7).unwrap();
    assert_eq!(vec(&y), [1.0, 2.0, 3.0, 3.0, 4.0, 5.0, 5.0]);
    assert_eq!(at.to_vec::<i64>().unwrap(), [0, 1, 2, 2, 3, 4, 4]);
}

#[test]
fn derivatives_to_second_order() {
    let x = [tensor(&[2, 1, 5, 4], 1)];
    let max = || MaxPoolOptions { stride: Some([2, 1].into()), padding: 1.into(), ..Default::default() };
    check_twice(|x| x[0].max_pool2d([3, 2], max()).unwrap(), &x);
    let avg = || AvgPoolOptions {
        stride: Some(2.into()),
        padding: 1.into(),
        ceil_mode: true,
        count_include_pad: false,
        ..Default::default()
    };
    check_twice(|x| x[0].avg_pool2d(3, avg()).unwrap(), &x);
    check_twice(|x| x[0].avg_pool2d(2, Default::default()).unwrap(), &x);
    check_twice(|x| x[0].adaptive_avg_pool2d([3, 2]).unwrap(), &x);
    check_twice(|x| x[0].adaptive_max_pool2d([3, 3]).unwrap(), &x);
    check_twice(|x| x[0].lp_pool2d(2.0, 2, None, true).unwrap(), &x);
    check_twice(|x| x[0].local_response_norm(2, 0.3, 0.75, 1.0).unwrap(), &[tensor(&[1, 4, 3], 2)]);
}

#[test]
fn the_norm_of_zeros_has_no_slope() {
    let x = Tensor::from([[[0.0f64, 0.0, 3.0, 4.0]]]).requires_grad_();
    let y = x.lp_pool1d(2.0, 2, None, false).unwrap();
    close(&vec(&y), &[0.0, 5.0], 1e-14);
    close(&vec(&y.sum().backward().unwrap().wrt(&x).unwrap()), &[0.0, 0.0, 0.6, 0.8], 1e-14);
}

#[test]
fn unpooling_undoes_pooling() {
    let x = tensor(&[2, 3, 6, 4], 5);
    let (y, at) = x.max_pool2d_with_indices(2, Default::default()).unwrap();
    let back = y.max_unpool2d(&at, 2, None, 0, None).unwrap();
    assert_eq!(back.dims(), x.dims());
    assert_eq!(vec(&back.max_pool2d(2, Default::default()).unwrap()), vec(&y.maximum(0.0).unwrap()));
    let wide = y.max_unpool2d(&at, 2, None, 0, Some([7, 5].into())).unwrap();
    assert_eq!(wide.dims(), [2, 3, 7, 5]);
    let e = y.max_unpool2d(&at, 2, None, 0, Some([8, 4].into())).unwrap_err().to_string();
    assert!(e.contains("an output of 8 for axis 0"), "{e}");
}

#[test]
fn empty_batches() {
    let x = Tensor::zeros([0, 2, 4, 4], DType::F32);
    assert_eq!(x.max_pool2d_with_indices(2, Default::default()).unwrap().1.to_vec::<i64>().unwrap(), []);
    assert_eq!(x.avg_pool2d(3, Default::default()).unwrap().to_vec::<f32>().unwrap(), []);
    assert_eq!(x.adaptive_max_pool2d([3, 3]).unwrap().dims(), [0, 2, 3, 3]);
    assert!(Tensor::zeros([1, 2, 0], DType::F32).max_pool1d(1, Default::default()).is_err());
}

#[test]
fn refusals_name_the_numbers() {
    let x = Tensor::zeros([1, 1, 4], DType::F32);
    let text = |k: usize, o: MaxPoolOptions| x.max_pool1d(k, o).unwrap_err().to_string();
    assert!(text(5, Default::default()).contains("a window of 5 (dilation 1) does not fit axis 0: 4 elements"));
    assert!(text(0, Default::default()).contains("kernel_size must be at least 1"));
    assert!(text(2, MaxPoolOptions { stride: Some(0.into()), ..Default::default() }).contains("stride"));
    let e = text(3, MaxPoolOptions { padding: 2.into(), ..Default::default() });
    assert!(e.contains("padding 2 of axis 0 is more than half the window of 3"), "{e}");
    assert!(x.max_pool2d(1, Default::default()).is_ok()); // [c, h, w]
    assert!(x.max_pool3d(1, Default::default()).unwrap_err().to_string().contains("takes 4 or 5 axes, not [1, 1, 4]"));
    let o = AvgPoolOptions { divisor_override: Some(0), ..Default::default() };
    assert!(x.avg_pool1d(2, o).unwrap_err().to_string().contains("must not be 0"));
    assert!(x.adaptive_avg_pool1d(0).unwrap_err().to_string().contains("output_size must be at least 1"));
    assert!(x.max_unpool1d(&Tensor::from([[[9i64, 0, 0, 0]]]), 2, None, 0, None).unwrap().to_vec::<f32>().is_err());
}

#[test]
fn a_pool_is_one_kernel() {
    let x = tensor(&[2, 3, 8, 8], 1);
    let o = || MaxPoolOptions { padding: 1.into(), stride: Some(2.into()), ..Default::default() };
    assert_eq!(x.max_pool2d(3, o()).unwrap().explain().unwrap().launches(), 1);
    assert_eq!(x.requires_grad_().max_pool2d(3, o()).unwrap().explain().unwrap().launches(), 1);
    assert_eq!(x.avg_pool2d(2, Default::default()).unwrap().explain().unwrap().launches(), 1);
}
