//! Slices of several deep images in one block, and those too large to be taken together, against the definition.

use super::super::*;
use super::check_f32;
use crate::testing::{Random, bits, same_on_any_threads};

/// Padding of one on all sides.
fn padded(stride: [usize; 3]) -> ConvParams {
    ConvParams { stride, padding: [(1, 1); 3], ..ConvParams::default() }
}

#[test]
fn slices_of_several_images() {
    let cases = [
        // 20 outputs of a slice are taken together with others', and 42 are not.
        ([5, 8, 3, 4, 5], [17, 8, 3, 3, 3], padded([1; 3])),
        ([7, 8, 2, 4, 8], [16, 8, 2, 3, 3], padded([1; 3])),
        ([5, 8, 3, 6, 7], [16, 8, 3, 3, 3], padded([1; 3])),
        ([9, 4, 5, 5, 5], [10, 4, 4, 4, 4], ConvParams { padding: [(2, 2); 3], ..ConvParams::default() }),
        ([6, 8, 5, 7, 7], [33, 8, 3, 3, 3], padded([2; 3])),
        ([4, 16, 3, 4, 4], [32, 8, 3, 3, 3], ConvParams { groups: 2, ..padded([1; 3]) }),
        // So many weights are packed panel by panel.
        ([3, 20, 2, 3, 3], [130, 20, 2, 3, 3], padded([1; 3])),
    ];
    for (seed, (x, w, p)) in cases.into_iter().enumerate() {
        check_f32(seed as u64, x, w, &p);
    }
}

#[test]
fn slices_are_the_same_on_any_threads() {
    let (x, w, p) = ([9, 16, 4, 4, 4], [32, 16, 3, 3, 3], padded([1; 3]));
    let mut r = Random(1);
    let (input, weight) = (r.f32s(x.iter().product()), r.f32s(w.iter().product()));
    same_on_any_threads(|| {
        let mut y = vec![0.0f32; 9 * 32 * 64];
        conv_forward(&input, x, &weight, w, &p, &mut y);
        bits(&y)
    });
}
