//! Conversions from and to `ndarray` (feature `ndarray`).
//!
//! ```
//! use gradus_core::Tensor;
//! use ndarray::{Array2, array};
//! let t = Tensor::from(&array![[1.0f32, 2.0], [3.0, 4.0]]);
//! let back: Array2<f32> = (&t + 1.0).try_into().unwrap();
//! assert_eq!(back, array![[2.0, 3.0], [4.0, 5.0]]);
//! ```

use crate::{Device, Element, Error, Result, Shape, Tensor};
use ndarray::{Array, ArrayBase, ArrayD, Data, Dimension, IxDyn};
use std::panic::Location;

impl<A: Element, S: Data<Elem = A>, D: Dimension> From<&ArrayBase<S, D>> for Tensor {
    #[track_caller]
    fn from(array: &ArrayBase<S, D>) -> Tensor {
        let shape = Shape::from(array.shape());
        let made = match array.as_slice() {
            Some(elems) => Tensor::from_elems(elems, shape, Device::cpu(), Location::caller()),
            // Another order in memory: in the order of its indices.
            None => {
                let elems: Vec<A> = array.iter().copied().collect();
                Tensor::from_elems(&elems, shape, Device::cpu(), Location::caller())
            }
        };
        match made {
            Ok(t) => t,
            // The data is in memory already; a second copy that does not fit is the same end as any failed Vec.
            Err(e) => panic!("{e}"),
        }
    }
}

/// An array of `t`'s elements; the element types must agree, since a conversion should be seen.
#[track_caller]
fn array<A: Element>(t: &Tensor) -> Result<ArrayD<A>> {
    if t.dtype() != A::DTYPE {
        let why = format!("the tensor is {}, the array {}", t.dtype(), A::DTYPE);
        let e = Error::dtype("ndarray", &[t.dtype(), A::DTYPE], why);
        return Err(e.operand(t).hint("convert with to_dtype"));
    }
    ArrayD::from_shape_vec(IxDyn(t.dims()), t.to_vec::<A>()?).map_err(|e| Error::value("ndarray", e.to_string()))
}

impl<A: Element, D: Dimension> TryFrom<&Tensor> for Array<A, D> {
    type Error = Error;
    #[track_caller]
    fn try_from(t: &Tensor) -> Result<Array<A, D>> {
        array::<A>(t)?.into_dimensionality::<D>().map_err(|_| {
            let axes = D::NDIM.map_or("any number of".to_string(), |n| n.to_string());
            let why = format!("an array of {axes} axes cannot hold {}", t.shape());
            Error::shape("ndarray", &[t.shape()], why).operand(t)
        })
    }
}

impl<A: Element, D: Dimension> TryFrom<Tensor> for Array<A, D> {
    type Error = Error;
    #[track_caller]
    fn try_from(t: Tensor) -> Result<Array<A, D>> {
        Array::try_from(&t)
    }
}
