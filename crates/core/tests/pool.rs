//! Pooling: values, choices among equals, gradients, errors.

use gradus_core::{MaxPoolOptions, Tensor};

#[test]
fn maxima_of_windows() {
    let x = Tensor::from([[[1.0f64, 5.0, 2.0, 7.0, 3.0]]]).requires_grad_();
    let o = MaxPoolOptions { stride: Some(2.into()), ..Default::default() };
    let (y, at) = x.max_pool1d_with_indices(3, o).unwrap();
    assert_eq!(y.to_vec::<f64>().unwrap(), [5.0, 7.0]);
    assert_eq!(at.to_vec::<i64>().unwrap(), [1, 3]);
}
