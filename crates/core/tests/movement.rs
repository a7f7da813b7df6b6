//! Movement beyond PyTorch's samples: values worked out by hand, edges, and errors with their numbers.

use gradus_core::{DType, Indexing, PadMode, Tensor, grad};

fn ints(t: &Tensor) -> Vec<i64> {
    t.to_vec::<i64>().unwrap()
}

fn range(n: i64) -> Tensor {
    Tensor::arange(0, n, 1, DType::I64).unwrap()
}

#[track_caller]
fn fails<T>(r: gradus_core::Result<T>, text: &str) {
    let e = r.err().expect("an error").to_string();
    assert!(e.starts_with(text), "{e}");
}

#[test]
fn empty_tensors_move() {
    let x = Tensor::zeros([2, 0], DType::F64).requires_grad_();
    let y = x.repeat([3, 2]).unwrap();
    assert_eq!((y.dims(), y.to_vec::<f64>().unwrap().len()), (&[6, 0][..], 0));
    let one = Tensor::ones([2, 3], DType::F64).requires_grad_();
    let none = one.repeat([0, 2]).unwrap();
    assert_eq!(none.dims(), [0, 6]);
    assert_eq!(none.to_vec::<f64>().unwrap(), [0f64; 0]);
    let g = grad::grad(&none.sum(), &[&one]).unwrap();
    assert_eq!(g[0].to_vec::<f64>().unwrap(), [0.0; 6]);
    assert_eq!(x.roll(1, 1).unwrap().dims(), [2, 0]);
    assert_eq!(x.chunk(3, 1).unwrap().len(), 3);
    assert_eq!(x.split(4, 1).unwrap().len(), 1);
    assert_eq!(x.unbind(1).unwrap().len(), 0);
    assert_eq!(x.diagonal(0, 0, 1).unwrap().dims(), [0]);
    assert_eq!(x.pad(&[1, 1], PadMode::Constant(2.0)).unwrap().to_vec::<f64>().unwrap(), [2.0; 4]);
    fails(x.pad(&[1, 0], PadMode::Replicate), "pad: 1 and 0 around axis 1 of [2, 0] are more than its 0 elements");
}

#[test]
fn scalars_move() {
    let s = Tensor::from(3i64);
    assert_eq!(ints(&s.roll(5, ..).unwrap()), [3]);
    assert_eq!(ints(&s.repeat([2]).unwrap()), [3, 3]);
    assert_eq!(s.tile([2, 2]).unwrap().dims(), [2, 2]);
    assert_eq!(s.atleast_3d().dims(), [1, 1, 1]);
    assert_eq!(ints(&s.diagflat(1).unwrap()), [0, 3, 0, 0]);
    assert_eq!(ints(&s.repeat_interleave(2, 0).unwrap()), [3, 3]);
    fails(s.split(1, 0), "split: a scalar cannot be split");
    fails(s.diagonal(0, 0, 1), "diagonal: needs two axes, not []");
    fails(s.slice(0, None, None, 1), "slice: a scalar has no axis to slice");
}

#[test]
fn roll_over_axes_and_flat() {
    let x = range(6).view([2, 3]).unwrap();
    assert_eq!(ints(&x.roll(1, ()).unwrap()), [5, 0, 1, 2, 3, 4]);
    assert_eq!(ints(&x.roll(-7, 1).unwrap()), [1, 2, 0, 4, 5, 3]);
    assert_eq!(ints(&x.roll([1, 1], [0, 1]).unwrap()), [5, 3, 4, 2, 0, 1]);
    fails(x.roll([1, 2], 0), "roll: 2 shifts for 1 axes");
    fails(x.roll(1, 2), "roll: axis 2 is out of range -2..2");
}

#[test]
fn diagonals_there_and_back() {
    let x = range(12).view([3, 4]).unwrap();
    for (k, want) in
        [(0, vec![0, 5, 10]), (1, vec![1, 6, 11]), (3, vec![3]), (4, vec![]), (-1, vec![4, 9]), (-3, vec![])]
    {
        assert_eq!(ints(&x.diagonal(k, 0, 1).unwrap()), want, "{k}");
        let transposed: Vec<i64> = ints(&x.diagonal(-k, 1, 0).unwrap());
        assert_eq!(transposed, want, "{k}");
        // Writing a diagonal over changes that diagonal alone.
        let d = x.diagonal(k, 0, 1).unwrap();
        let y = x.diagonal_scatter(&d.full_like(-1), k, 0, 1).unwrap();
        let expect: Vec<i64> = (0..12).map(|i| if i % 4 - i / 4 == k { -1 } else { i }).collect();
        assert_eq!(ints(&y), expect, "{k}");
    }
    let v = Tensor::from([1i64, 2]);
    assert_eq!(ints(&v.diag(-1).unwrap()), [0, 0, 0, 1, 0, 0, 0, 2, 0]);
    assert_eq!(ints(&v.diag(-1).unwrap().diag(-1).unwrap()), [1, 2]);
    fails(x.diagonal(0, 1, -1), "diagonal: axis -1 is named twice");
    fails(x.trace().and_then(|t| t.trace()), "trace: needs a matrix, not []");
    fails(x.diagonal_scatter(&v, 0, 0, 1), "diagonal_scatter: a source of shape [2] does not fit [3] of [3, 4]");
}

#[test]
fn padding_in_every_mode() {
    let x = range(4);
    let pad = |p: [i64; 2], m| x.pad(&p, m).map(|t| ints(&t));
    assert_eq!(pad([2, 1], PadMode::Constant(-3.0)).unwrap(), [-3, -3, 0, 1, 2, 3, -3]);
    assert_eq!(pad([3, 3], PadMode::Reflect).unwrap(), [3, 2, 1, 0, 1, 2, 3, 2, 1, 0]);
    assert_eq!(pad([2, 1], PadMode::Replicate).unwrap(), [0, 0, 0, 1, 2, 3, 3]);
    assert_eq!(pad([1, 2], PadMode::Circular).unwrap(), [3, 0, 1, 2, 3, 0, 1]);
    assert_eq!(pad([-1, 2], PadMode::Reflect).unwrap(), [1, 2, 3, 2, 1]);
    assert_eq!(pad([-1, 2], PadMode::Circular).unwrap(), [1, 2, 3, 1, 2]);
    assert_eq!(pad([6, -4], PadMode::Replicate).unwrap(), [0, 0, 0, 0, 0, 0]);
    assert_eq!(pad([-2, -2], PadMode::Constant(1.0)).unwrap(), [0i64; 0]);
    fails(pad([4, 0], PadMode::Reflect), "pad: 4 and 0 around axis 0 of [4] are more than its 4 elements give");
    fails(pad([0, 5], PadMode::Circular), "pad: 0 and 5 around axis 0 of [4] are more than its 4 elements give");
    fails(pad([-3, -2], PadMode::Constant(0.0)), "pad: -3 and -2 around axis 0 of [4] leave an extent of -1");
    fails(x.pad(&[1], PadMode::Reflect), "pad: 1 amounts are not pairs for the 1 axes of [4]");
    fails(x.pad(&[1, 1, 1, 1], PadMode::Reflect), "pad: 4 amounts are not pairs for the 1 axes of [4]");
    let nan = Tensor::from([f64::NAN]).pad(&[1, 1], PadMode::Constant(2.0)).unwrap().to_vec::<f64>().unwrap();
    assert!(nan[0] == 2.0 && nan[1].is_nan() && nan[2] == 2.0);
    let minus = Tensor::from([1.0f64]).pad(&[1, 0], PadMode::Constant(-0.0)).unwrap().to_vec::<f64>().unwrap();
    assert!(minus[0] == 0.0 && minus[0].is_sign_negative());
    // The last axis comes first among the amounts.
    assert_eq!(range(2).view([1, 2]).unwrap().pad(&[1, 0, 0, 2], PadMode::Constant(0.0)).unwrap().dims(), [3, 3]);
}

#[test]
fn splits_and_their_errors() {
    let x = range(7);
    let lens = |v: Vec<Tensor>| v.iter().map(|t| t.numel()).collect::<Vec<_>>();
    assert_eq!(lens(x.chunk(3, 0).unwrap()), [3, 3, 1]);
    assert_eq!(lens(x.chunk(5, -1).unwrap()), [2, 2, 2, 1]);
    assert_eq!(lens(x.tensor_split(3, 0).unwrap()), [3, 2, 2]);
    assert_eq!(lens(x.tensor_split_at(&[2, -2, 9], 0).unwrap()), [2, 3, 2, 0]);
    assert_eq!(lens(x.tensor_split_at(&[5, 2], 0).unwrap()), [5, 0, 5]);
    fails(x.split_with_sizes(&[3, 3], 0), "split_with_sizes: sizes [3, 3] do not add up to 7, axis 0 of [7]");
    fails(x.hsplit(2), "hsplit: axis 0 of [7] does not split into 2 equal parts");
    fails(x.vsplit(1), "vsplit: needs 2 axes or more, not [7]");
    fails(x.split(0, 0), "split: parts of 0 elements never use up the 7");
    fails(x.chunk(0, 0), "chunk: 0 chunks");
}

#[test]
fn joins_and_grids() {
    let (a, b) = (Tensor::from([1i64, 2]), Tensor::from([3i64]));
    assert_eq!(ints(&Tensor::hstack(&[&a, &b]).unwrap()), [1, 2, 3]);
    assert_eq!(Tensor::dstack(&[&a, &a]).unwrap().dims(), [1, 2, 2]);
    assert_eq!(ints(&Tensor::column_stack(&[&a, &a]).unwrap()), [1, 1, 2, 2]);
    assert_eq!(ints(&Tensor::block_diag(&[&a, &b]).unwrap()), [1, 2, 0, 0, 0, 3]);
    assert_eq!(ints(&Tensor::cartesian_prod(&[&a, &b, &a]).unwrap()), [1, 3, 1, 1, 3, 2, 2, 3, 1, 2, 3, 2]);
    let xy = Tensor::meshgrid(&[&a, &b], Indexing::Xy).unwrap();
    assert_eq!((xy[0].dims(), ints(&xy[0]), ints(&xy[1])), (&[1, 2][..], vec![1, 2], vec![3, 3]));
    assert_eq!(ints(&a.combinations(2, true).unwrap()), [1, 1, 1, 2, 2, 2]);
    assert_eq!(b.combinations(2, false).unwrap().dims(), [0, 2]);
    assert_eq!(a.combinations(3, true).unwrap().dims(), [4, 3]);
    fails(Tensor::vstack(&[]), "vstack: there is nothing to join");
    fails(Tensor::meshgrid(&[&a, &b.float()], Indexing::Ij), "meshgrid: coordinates have one type, not i64 and f32");
}

#[test]
fn shuffles_are_inverse() {
    let x = range(2 * 8 * 3 * 5).view([2, 8, 3, 5]).unwrap();
    let y = x.pixel_shuffle(2).unwrap();
    assert_eq!(y.dims(), [2, 2, 6, 10]);
    assert_eq!(ints(&y)[..4], [0, 15, 1, 16]);
    assert_eq!(ints(&y.pixel_unshuffle(2).unwrap()), ints(&x));
    let c = range(6).view([1, 6, 1]).unwrap();
    assert_eq!(ints(&c.channel_shuffle(2).unwrap()), [0, 3, 1, 4, 2, 5]);
    fails(x.pixel_shuffle(3), "pixel_shuffle: 8 channels of [2, 8, 3, 5] do not split into squares of 3");
    fails(x.pixel_unshuffle(2), "pixel_unshuffle: 3 by 5 pixels of [2, 8, 3, 5] do not split into squares of 2");
    fails(c.channel_shuffle(4), "channel_shuffle: 6 channels of [1, 6, 1] do not split into 4 groups");
}

#[test]
fn slices_by_python_rules() {
    let x = range(5);
    let cut = |s, e, k| ints(&x.slice(0, s, e, k).unwrap());
    assert_eq!(cut(Some(-9), Some(9), 1), [0, 1, 2, 3, 4]);
    assert_eq!(cut(Some(3), Some(1), 1), [0i64; 0]);
    assert_eq!(cut(Some(3), Some(0), -1), [3, 2, 1]);
    assert_eq!(cut(None, Some(-9), -3), [4, 1]);
    assert_eq!(cut(Some(9), None, 1), [0i64; 0]);
    assert_eq!(cut(Some(i64::MIN), Some(i64::MAX), i64::MAX), [0]);
    fails(x.slice(0, None, None, 0), "slice: a step of 0 along axis 0 of [5]");
    let y = x.slice_scatter(&Tensor::from([7i64, 8, 9]), 0, None, None, -2).unwrap();
    assert_eq!(ints(&y), [9, 1, 8, 3, 7]);
    let strided = range(10).as_strided([3, 2], &[2, 1], 1).unwrap();
    assert_eq!(ints(&strided), [1, 2, 3, 4, 5, 6]);
    fails(range(10).as_strided([3, 2], &[4, 1], 1), "as_strided: shape [3, 2] with strides [4, 1] from 1 goes beyond");
}

#[test]
fn views_without_a_copy_stay_views() {
    let x = range(12).view([3, 4]).unwrap();
    x.eval().unwrap();
    for v in [x.T(), x.diagonal(0, 0, 1).unwrap(), x.rot90(1, [0, 1]).unwrap(), x.movedim(0, 1).unwrap()] {
        assert!(v.is_realized());
    }
    assert!(x.split(2, 1).unwrap().iter().all(|p| p.is_realized()));
}

#[test]
fn expand_keeps_with_minus_one() {
    let x = Tensor::zeros([2, 1], DType::F32);
    assert_eq!(x.expand([4, -1, 3]).unwrap().dims(), [4, 2, 3]);
    fails(x.expand([-1, 2, 3]), "expand: [2, 1] does not broadcast to [-1, 2, 3]");
    fails(x.expand([3, 1]), "expand: [2, 1] does not broadcast to [3, 1]");
}

#[test]
fn what_is_computed_of_tensors_that_lie_across_lies_as_they_do() {
    let x = Tensor::from_vec((0..12).map(|i| i as f32).collect::<Vec<_>>(), [3, 4]).unwrap();
    let y = &x * 10.0;
    Tensor::eval_all(&[&x, &y]).unwrap();
    let want: Vec<f32> = (0..4).flat_map(|c| (0..3).map(move |r| ((4 * r + c) * 11 + 1) as f32)).collect();
    let sum = x.t().unwrap() + y.t().unwrap() + 1.0;
    assert_eq!((sum.dims(), sum.explain().unwrap().launches()), (&[4, 3][..], 1));
    sum.eval().unwrap();
    assert_eq!(sum.node().value().unwrap().view.strides[..], [1, 4], "no element has moved");
    assert_eq!(sum.to_vec::<f32>().unwrap(), want);
    assert_eq!(sum.contiguous().to_vec::<f32>().unwrap(), want);
    // Numbers go with anything, before it too, and so do other types.
    let of =
        |f: fn(f32) -> f32| -> Vec<f32> { (0..4).flat_map(|c| (0..3).map(move |r| f((4 * r + c) as f32))).collect() };
    let less = 1.0 - x.t().unwrap();
    assert_eq!((less.dims(), less.to_vec::<f32>().unwrap()), (&[4, 3][..], of(|x| 1.0 - x)));
    let small = x.t().unwrap().lt(5.0).unwrap();
    assert_eq!(
        small.where_(x.t().unwrap(), 0.0).unwrap().to_vec::<f32>().unwrap(),
        of(|x| if x < 5.0 { x } else { 0.0 })
    );
    assert_eq!(
        small.where_(0.0, x.t().unwrap()).unwrap().to_vec::<f32>().unwrap(),
        of(|x| if x < 5.0 { 0.0 } else { x })
    );
    let half = x.to_dtype(DType::I64).t().unwrap() + 0.5;
    assert_eq!(half.to_vec::<f32>().unwrap(), of(|x| x + 0.5));
    // Of others, rows lie side by side.
    let mixed = x.t().unwrap() + y.reshape([4, 3]).unwrap();
    mixed.eval().unwrap();
    assert_eq!(mixed.node().value().unwrap().view.strides[..], [3, 1]);
    // Gradients pass both views.
    let v = Tensor::var("x", &x);
    let g = (v.t().unwrap() * y.t().unwrap()).sum().backward().unwrap().wrt(&v).unwrap();
    assert_eq!(g.to_vec::<f32>().unwrap(), y.to_vec::<f32>().unwrap());
}

#[test]
fn flips_of_every_type_and_length() {
    for n in [1usize, 5, 16, 33, 403] {
        let x = Tensor::arange(0, 7 * n as i64, 1, DType::I64).unwrap().reshape([7, n]).unwrap();
        for d in [DType::F32, DType::F64, DType::I64, DType::I16, DType::U8, DType::BF16, DType::Bool] {
            let x = x.remainder(101).unwrap().to_dtype(d);
            x.eval().unwrap();
            let flat = x.to_vec::<f64>().unwrap();
            let row: Vec<f64> = flat.chunks(n).flat_map(|r| r.iter().rev().copied()).collect();
            let all: Vec<f64> = flat.iter().rev().copied().collect();
            assert_eq!(x.flip([1]).unwrap().contiguous().to_vec::<f64>().unwrap(), row, "{d} {n}");
            assert_eq!(x.flip([0, 1]).unwrap().contiguous().to_vec::<f64>().unwrap(), all, "{d} {n}");
        }
    }
}
