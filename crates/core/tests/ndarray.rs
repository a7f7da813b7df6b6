//! Conversions from and to `ndarray`.

use gradus_core::{DType, Tensor};
use ndarray::{Array0, Array1, Array2, Array3, ArrayD, array, s};

#[test]
fn there_and_back() {
    let a = Array3::from_shape_fn((2, 3, 4), |(i, j, k)| (i * 100 + j * 10 + k) as f64);
    let t = Tensor::from(&a);
    assert_eq!((t.dims(), t.dtype()), (&[2, 3, 4][..], DType::F64));
    assert_eq!(Array3::<f64>::try_from(&t).unwrap(), a);
    assert_eq!(ArrayD::<f64>::try_from(t).unwrap(), a.into_dyn());
}

#[test]
fn views_in_any_order() {
    let a = array![[1i64, 2, 3], [4, 5, 6]];
    let t = Tensor::from(&a.t());
    assert_eq!((t.dims(), t.to_vec::<i64>().unwrap()), (&[3, 2][..], vec![1, 4, 2, 5, 3, 6]));
    assert_eq!(Tensor::from(&a.slice(s![.., ..;-2])).to_vec::<i64>().unwrap(), [3, 1, 6, 4]);
    let back: Array2<i64> = t.t().unwrap().try_into().unwrap();
    assert_eq!(back, a);
}

#[test]
fn every_type_scalars_and_nothing() {
    assert_eq!(Tensor::from(&array![true, false]).dtype(), DType::Bool);
    assert_eq!(Tensor::from(&array![1u8]).dtype(), DType::U8);
    let zero: Array0<f32> = Tensor::from(2.5f32).try_into().unwrap();
    assert_eq!(zero.into_scalar(), 2.5);
    let none: Array2<f32> = Tensor::zeros([0, 3], DType::F32).try_into().unwrap();
    assert_eq!(none.dim(), (0, 3));
    assert_eq!(Tensor::from(&none).dims(), [0, 3]);
}

#[test]
fn errors_say_what_does_not_fit() {
    let t = Tensor::zeros([2, 3], DType::F32);
    let e = Array1::<f32>::try_from(&t).unwrap_err().to_string();
    assert!(e.starts_with("ndarray: an array of 1 axes cannot hold [2, 3]"), "{e}");
    let e = Array2::<f64>::try_from(&t).unwrap_err().to_string();
    assert!(e.starts_with("ndarray: the tensor is f32, the array f64"), "{e}");
}

#[test]
fn a_function_of_an_array() {
    let x = Tensor::var("x", Tensor::from(&array![1.0f32, 2.0]));
    let g: Array1<f32> = (&x * &x).sum().backward().unwrap().wrt(&x).unwrap().try_into().unwrap();
    assert_eq!(g, array![2.0, 4.0]);
}
