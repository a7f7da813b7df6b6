//! Numbers that many operations share.

use super::Tensor;
use crate::{DType, Device, Scalar, Shape, replay};
use std::{
    cell::RefCell,
    collections::{HashMap, hash_map::Entry},
    panic::Location,
};

/// The line that asks, the number, and what it becomes.
type Key = (usize, u64, DType, usize, Shape);

thread_local! {
    static SHARED: RefCell<Option<HashMap<Key, Tensor>>> = const { RefCell::new(None) };
}

/// Runs `f`, in which one line of a program that meets several tensors of one shape with one number makes that number
/// once: an optimizer's formula over a hundred parameters, say. What is computed is the same.
pub fn share_scalars<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(Option<HashMap<Key, Tensor>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            SHARED.replace(self.0.take());
        }
    }
    let _restore = Restore(SHARED.replace(Some(HashMap::new())));
    f()
}

/// A number as a tensor of this shape: one that was made before, where numbers are shared.
#[track_caller]
pub(crate) fn shared(x: Scalar, dtype: DType, device: Device, shape: &Shape) -> Tensor {
    let at = Location::caller();
    let make = || Tensor::full_at(shape.clone(), x, dtype, device, at);
    SHARED.with_borrow_mut(|s| match s {
        None => make(),
        Some(known) => {
            let bits = match x {
                Scalar::F(x) => x.to_bits(),
                Scalar::I(x) => x as u64,
                Scalar::B(x) => x as u64,
            };
            // Lines differ even where numbers happen to be equal: the graph keeps its structure from step to step.
            let key = (std::ptr::from_ref(at) as usize, bits, dtype, device.id(), shape.clone());
            match known.entry(key) {
                Entry::Occupied(made) => {
                    replay::used_again(made.get());
                    made.get().clone()
                }
                Entry::Vacant(place) => place.insert(make()).clone(),
            }
        }
    })
}
