//! NumPy-style indexing, scatters and masks beyond PyTorch's samples.

// Ends count from the end, as in NumPy: what looks empty to the linter is not.
#![allow(clippy::reversed_empty_ranges)]

use gradus_core::{DType, Ix, NewAxis, ScatterReduction, Tensor, grad, s};

fn ints(t: &Tensor) -> Vec<i64> {
    t.to_vec::<i64>().unwrap()
}

fn range(n: i64) -> Tensor {
    Tensor::arange(0, n, 1, DType::I64).unwrap()
}

fn cube() -> Tensor {
    range(24).view([2, 3, 4]).unwrap()
}

#[track_caller]
fn fails<T>(r: gradus_core::Result<T>, text: &str) {
    let e = r.err().expect("an error").to_string();
    assert!(e.starts_with(text), "{e}");
}

#[test]
fn places_ranges_and_steps() {
    let x = cube();
    assert_eq!(x.i(1).unwrap().dims(), [3, 4]);
    assert_eq!(ints(&x.i((1, 2, 3)).unwrap()), [23]);
    assert_eq!(ints(&x.i((.., -1)).unwrap()), [3, 7, 11, 15, 19, 23]);
    assert_eq!(ints(&x.i((0, -2.., ..-2)).unwrap()), [4, 5, 8, 9]);
    assert_eq!(ints(&x.i((0, 0, ..=-2)).unwrap()), [0, 1, 2]);
    assert_eq!(ints(&x.i((0, 0, 1..=-1)).unwrap()), [1, 2, 3]);
    assert_eq!(ints(&x.i((0, 0, s(.., -1))).unwrap()), [3, 2, 1, 0]);
    assert_eq!(ints(&x.i((1, 1, s(3..0, -2))).unwrap()), [19, 17]);
    assert_eq!(ints(&x.i((0usize, .., s(1.., 2))).unwrap()), [1, 3, 5, 7, 9, 11]);
    assert_eq!(x.i((5..9,)).unwrap().dims(), [0, 3, 4]);
    assert_eq!(x.i((NewAxis, .., NewAxis, 0, NewAxis)).unwrap().dims(), [1, 2, 3, 1, 1]);
    assert_eq!(x.i(&[Ix::At(0), Ix::from(..), Ix::from(1..2)][..]).unwrap().dims(), [3, 1]);
    assert_eq!(x.i(..).unwrap().dims(), x.dims());
}

#[test]
fn errors_name_axis_index_and_size() {
    let x = cube();
    fails(x.i((0, 3)), "i: index 3 is out of range for size 3 (axis 1 of [2, 3, 4])");
    fails(x.i((.., -5)), "i: index -5 is out of range for size 4 (axis 2 of [2, 3, 4])");
    fails(x.i((0, 0, 0, 0)), "i: 4 axes are indexed, and [2, 3, 4] has 3");
    fails(x.i((.., ..)), "i: an index has one `..`, not 2");
    fails(x.i(s(.., 0)), "i: a step of 0 along axis 0 of [2, 3, 4]");
    fails(x.i((.., &Tensor::from([0i64, 4]), 0)), "i: index 4 is out of range for size 3 (axis 1 of [2, 3, 4])");
    fails(x.i(Tensor::from([0.5f32])), "i: an index must be integers, not f32");
    fails(x.i((&Tensor::from([0i64, 1]), &Tensor::from([0i64, 1, 2]))), "i: shapes do not broadcast: [2] and [3]");
    let mask = Tensor::from([true, false, true]);
    fails(x.i(&mask), "i: a mask of shape [3] does not fit axes 0.. of [2, 3, 4]");
    // Not known when the index is built: reported when it runs.
    let late = (range(2) + 3).i(..).unwrap();
    let e = x.i((.., &late)).unwrap().to_vec::<i64>().unwrap_err().to_string();
    assert!(e.contains("index 4 is out of range for size 4"), "{e}");
    let e = x.i((.., &late, &late)).unwrap().to_vec::<i64>();
    assert!(e.is_err());
}

#[test]
fn index_tensors_by_numpys_rules() {
    let x = cube();
    let (i, j) = (Tensor::from([1i64, 0]), Tensor::from([[2i64], [-1]]));
    // Side by side: the result's axes stand where they stood.
    assert_eq!(x.i((&i, &j)).unwrap().dims(), [2, 2, 4]);
    assert_eq!(x.i((.., &j, &i)).unwrap().dims(), [2, 2, 2]);
    assert_eq!(ints(&x.i((0, &j, &i)).unwrap()), [9, 8, 9, 8]);
    // Apart: they come first.
    assert_eq!(x.i((&i, 0.., &i)).unwrap().dims(), [2, 3]);
    assert_eq!(ints(&x.i((&i, 0.., &i)).unwrap()), [13, 17, 21, 0, 4, 8]);
    assert_eq!(x.i((0, 0.., &Tensor::from([0i64, 1, 2, 3, 0]))).unwrap().dims(), [5, 3]);
    assert_eq!(x.i((&i, NewAxis, &i)).unwrap().dims(), [2, 1, 4]);
    // A scalar index tensor takes its axis away.
    assert_eq!(ints(&x.i((.., Tensor::from(-1i64))).unwrap()), ints(&x.i((.., -1)).unwrap()));
    // Masks count as the index tensors of their true places.
    let mask = (&x % 7).eq(0).unwrap();
    assert_eq!(ints(&x.i(&mask).unwrap()), [0, 7, 14, 21]);
    let rows = Tensor::from([[true, false, false], [false, false, true]]);
    assert_eq!(ints(&x.i((&rows, 1)).unwrap()), [1, 21]);
    assert_eq!(x.i((Tensor::from(true), 0)).unwrap().dims(), [1, 3, 4]);
    assert_eq!(x.i((Tensor::from(false),)).unwrap().dims(), [0, 2, 3, 4]);
    assert_eq!(x.i((Tensor::zeros([0], DType::I64),)).unwrap().dims(), [0, 3, 4]);
}

#[test]
fn index_gradients_add_up() {
    let x = Tensor::from([[1.0f64, 2.0], [3.0, 4.0]]).requires_grad_();
    let (i, j) = (Tensor::from([0i64, 1, 0]), Tensor::from([1i64, -1, 1]));
    let y = x.i((&i, &j)).unwrap();
    let g = grad::grad(&(&y * &y * &y).sum(), &[&x]).unwrap().remove(0);
    assert_eq!(g.to_vec::<f64>().unwrap(), [0.0, 24.0, 0.0, 48.0]);
    let gg = grad::grad(&g.sum(), &[&x]).unwrap().remove(0);
    assert_eq!(gg.to_vec::<f64>().unwrap(), [0.0, 24.0, 0.0, 24.0]);
}

#[test]
fn writing_by_index() {
    let x = cube();
    let y = x.i_put((.., s(.., 3)), &Tensor::from(-1i64)).unwrap();
    let want: Vec<i64> = (0..24).map(|i| if i % 4 % 3 == 0 { -1 } else { i }).collect();
    assert_eq!(ints(&y), want);
    fails(x.i_put(0, &range(2)), "i_put: values of shape [2] do not broadcast to the [3, 4] places");
    let (i, j) = (Tensor::from([1i64, 0]), Tensor::from([-1i64, 0]));
    let y = x.index_put(&[Some(&i), None, Some(&j)], &range(3), true).unwrap();
    assert_eq!(ints(&(y - &x)), [0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2]);
    let mask = x.gt(20).unwrap();
    assert_eq!(ints(&x.index_put(&[Some(&mask)], &Tensor::from(0i64), false).unwrap())[20..], [20, 0, 0, 0]);
    fails(x.index_put(&[Some(&i)], &Tensor::from(1.0f32), false), "index_put: the values are f32, the target i64");
}

#[test]
fn rows_and_flat_positions() {
    let x = range(6).view([3, 2]).unwrap();
    assert_eq!(ints(&x.index_fill(0, &Tensor::from([-1i64]), 9).unwrap()), [0, 1, 2, 3, 9, 9]);
    assert_eq!(ints(&x.take(&Tensor::from([[-1i64], [0]])).unwrap()), [5, 0]);
    let e = x.take(&Tensor::from([6i64])).unwrap().to_vec::<i64>().unwrap_err().to_string();
    assert!(e.contains("index 6 is out of range for size 6"), "{e}");
    let e = x.take(&Tensor::from([-7i64])).unwrap().to_vec::<i64>().unwrap_err().to_string();
    assert!(e.contains("index -7 is out of range for size 6"), "{e}");
    assert_eq!(ints(&x.put(&Tensor::from([0i64, -1]), &Tensor::from([8i64, 9]), false).unwrap()), [8, 1, 2, 3, 4, 9]);
    assert_eq!(ints(&x.take_along_dim(&Tensor::from([[2i64], [0]]), Some(0)).unwrap()), [4, 5, 0, 1]);
    assert_eq!(x.gather(0, &Tensor::zeros([2, 0, 4], DType::I64)).unwrap().dims(), [2, 0, 4]);
    fails(x.index_select(0, &x), "index_select: an index for axis 0 is a vector, not [3, 2]");
    fails(x.index_add(0, &range(2), &x, 1), "index_add: a source of shape [3, 2] does not fit [2, 2] of [3, 2]");
    fails(x.put(&range(2), &range(3), false), "put: 2 places for 3 elements");
}

#[test]
fn masks_and_positions() {
    let x = Tensor::from([1.0f64, f64::NAN, 3.0]).requires_grad_();
    let mask = x.isnan();
    let y = x.masked_fill(&mask, 0.0).unwrap();
    assert_eq!(y.to_vec::<f64>().unwrap(), [1.0, 0.0, 3.0]);
    assert_eq!(grad::grad(&y.sum(), &[&x]).unwrap()[0].to_vec::<f64>().unwrap(), [1.0, 0.0, 1.0]);
    assert_eq!(x.masked_select(&!&mask).unwrap().to_vec::<f64>().unwrap(), [1.0, 3.0]);
    let source = Tensor::from([7.0f64, 8.0]).requires_grad_();
    let z = Tensor::zeros([2, 2], DType::F64)
        .masked_scatter(&Tensor::from([[false, true], [true, false]]), &source)
        .unwrap();
    assert_eq!(z.to_vec::<f64>().unwrap(), [0.0, 7.0, 8.0, 0.0]);
    assert_eq!(grad::grad(&z.sum(), &[&source]).unwrap()[0].to_vec::<f64>().unwrap(), [1.0, 1.0]);
    let all = Tensor::ones([3], DType::Bool);
    fails(
        Tensor::zeros([3], DType::F64).masked_scatter(&all, &source),
        "masked_scatter: the mask is true at 3 places, the source has 2 elements",
    );
    fails(x.masked_fill(&source, 0.0), "masked_fill: a mask is bool, not f64");
    assert_eq!(Tensor::from(5i64).nonzero().unwrap().dims(), [1, 0]);
    assert_eq!(ints(&Tensor::from([0i64, 4]).nonzero_static(2, -7).unwrap()), [1, -7]);
    assert_eq!(Tensor::from([0i64]).one_hot(Some(3)).unwrap().dims(), [1, 3]);
    fails(Tensor::from([-1i64]).one_hot(None), "one_hot: a class cannot be -1");
    assert!(Tensor::from([3i64]).one_hot(Some(3)).unwrap().to_vec::<i64>().is_err());
    let u = Tensor::from([11i64]).unravel_index([3, 4]).unwrap();
    assert_eq!((ints(&u[0]), ints(&u[1])), (vec![2], vec![3]));
}

#[test]
fn scatter_reduce_counts_and_starts() {
    let x = Tensor::from([10i64, -20, 30]);
    let (at, src) = (Tensor::from([0i64, 0, 2]), Tensor::from([3i64, 4, -100]));
    let run = |r, own| ints(&x.scatter_reduce(0, &at, &src, r, own).unwrap());
    assert_eq!(run(ScatterReduction::Sum, false), [7, -20, -100]);
    assert_eq!(run(ScatterReduction::Prod, false), [12, -20, -100]);
    assert_eq!(run(ScatterReduction::Mean, true), [5, -20, -35]);
    assert_eq!(run(ScatterReduction::Mean, false), [3, -20, -100]);
    assert_eq!(run(ScatterReduction::Amax, false), [4, -20, -100]);
    assert_eq!(run(ScatterReduction::Amin, true), [3, -20, -100]);
    let bytes = x.char().scatter_reduce(0, &at, &src.char(), ScatterReduction::Amax, false).unwrap();
    assert_eq!(ints(&bytes), [4, -20, -100]);
}

/// Products with zeros: first and second derivatives against the definition.
#[test]
fn scatter_products_differentiate_at_zeros() {
    let at = Tensor::from([0i64, 0, 0, 1, 1, 2]);
    let values = [2.0, 0.0, 3.0, 0.0, 0.0, 5.0];
    let (base, src) = (Tensor::from([1.5f64, -2.0, 0.0]).requires_grad_(), Tensor::from(values).requires_grad_());
    let y = base.scatter_reduce(0, &at, &src, ScatterReduction::Prod, true).unwrap();
    let g = grad::grad(&y.sum(), &[&base, &src]).unwrap();
    assert_eq!(g[0].to_vec::<f64>().unwrap(), [0.0, 0.0, 5.0]);
    assert_eq!(g[1].to_vec::<f64>().unwrap(), [0.0, 9.0, 0.0, 0.0, 0.0, 0.0]);
    let w = Tensor::from([1.0f64, 2.0, 4.0, 8.0, 16.0, 32.0]);
    let h = grad::grad(&(&g[1] * &w).sum(), &[&src, &base]).unwrap();
    // d/ds_j of sum_k w_k prod(others of k): pairs on one place, times the third and the base.
    let want = [2.0 * 4.5, 9.0 * 0.0 + 1.0 * 4.5 + 4.0 * 3.0, 2.0 * 3.0, 16.0 * -2.0, 8.0 * -2.0, 0.0];
    assert_eq!(h[0].to_vec::<f64>().unwrap(), want);
    assert_eq!(h[1].to_vec::<f64>().unwrap(), [2.0 * 6.0, 0.0, 32.0]);
}

#[test]
fn rows_written_have_gradients() {
    let x = Tensor::var("x", Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]));
    let (v, rows) = (Tensor::var("v", Tensor::from(7.0f32)), Tensor::var("r", Tensor::from([[1.0f32], [2.0]])));
    let weight = Tensor::from([[1.0f32, 10.0, 100.0], [1e3, 1e4, 1e5]]);
    let floats = |t: &Tensor| t.to_vec::<f32>().unwrap();
    // Several places of a number, one place of it, and rows of one.
    for (places, left, moved) in [
        (vec![0i64, 2], [0.0, 10.0, 0.0, 0.0, 1e4, 0.0], 101_101.0),
        (vec![1], [1.0, 0.0, 100.0, 1e3, 0.0, 1e5], 10_010.0),
    ] {
        let at = Tensor::from_slice(&places, [places.len()]).unwrap();
        let y = x.index_fill(1, &at, &v).unwrap();
        assert_eq!(floats(&y)[places[0] as usize], 7.0);
        let g = (&y * &weight).sum().backward().unwrap();
        assert_eq!((floats(&g.wrt(&x).unwrap()), floats(&g.wrt(&v).unwrap())), (left.to_vec(), vec![moved]));
    }
    let y = x.index_copy(1, &Tensor::from([2i64]), &rows).unwrap();
    assert_eq!(floats(&y), [1.0, 2.0, 1.0, 4.0, 5.0, 2.0]);
    let g = (&y * &weight).sum().backward().unwrap();
    assert_eq!(floats(&g.wrt(&x).unwrap()), [1.0, 10.0, 0.0, 1e3, 1e4, 0.0]);
    assert_eq!(floats(&g.wrt(&rows).unwrap()), [100.0, 1e5]);
    let y = x.index_copy(0, &Tensor::from([1i64]), &rows.t().unwrap().repeat([1, 2]).unwrap().narrow(1, 0, 3).unwrap());
    let g = (&y.unwrap() * &weight).sum().backward().unwrap();
    assert_eq!(floats(&g.wrt(&x).unwrap()), [1.0, 10.0, 100.0, 0.0, 0.0, 0.0]);
    assert_eq!(floats(&g.wrt(&rows).unwrap()), [101_000.0, 1e4]);
}
