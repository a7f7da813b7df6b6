//! Structural operations against central differences, to second order, through nodes that the public API may not make.

use super::{GradcheckOptions, gradcheck_with, vmap};
use crate::{
    DType, Result, Shape, Tensor,
    op::{Conv, ConvKind, ConvParams, HostOp, Op, Rank, ReduceOp, ScatterMode},
    view::ViewOp,
};
use smallvec::{SmallVec, smallvec};

/// Distinct numbers without ties: `lo + (hi - lo) * frac(k * golden ratio)`.
fn numbers(shape: impl Into<Shape>, lo: f64, hi: f64) -> Tensor {
    let shape = shape.into();
    let at = |k: usize| lo + (hi - lo) * ((k + 1) as f64 * 0.618_033_988_749_895).fract();
    Tensor::from_vec((0..shape.numel()).map(at).collect::<Vec<f64>>(), shape).unwrap()
}

#[track_caller]
fn twice(what: &str, f: impl Fn(&[Tensor]) -> Result<Tensor>, inputs: &[&Tensor]) {
    let second = GradcheckOptions { order: 2, ..Default::default() };
    // A square behind it, so that second derivatives of linear operations are not all zero.
    let curved = |x: &[Tensor]| Ok(f(x)?.square());
    if let Err(e) = gradcheck_with(curved, inputs, &second) {
        panic!("{what}: {e}");
    }
}

#[test]
fn views_of_every_kind() {
    let x = numbers([3, 4, 5], -1.0, 1.0);
    let views: Vec<(&str, ViewOp)> = vec![
        ("reshape", ViewOp::Reshape(Shape::from([6, 10]))),
        ("permute", ViewOp::Permute(smallvec![2, 0, 1])),
        ("expand", ViewOp::Expand(Shape::from([2, 3, 4, 5]))),
        ("slice", ViewOp::Slice { axis: 2, start: 1, step: 1, len: 3 }),
        ("slice by 2", ViewOp::Slice { axis: 2, start: 0, step: 2, len: 3 }),
        ("slice by 3", ViewOp::Slice { axis: 2, start: 1, step: 3, len: 2 }),
        ("flip", ViewOp::Slice { axis: 1, start: 3, step: -1, len: 4 }),
        ("backwards by 2", ViewOp::Slice { axis: 2, start: 4, step: -2, len: 2 }),
        ("one element", ViewOp::Slice { axis: 2, start: 2, step: 5, len: 1 }),
        ("nothing", ViewOp::Slice { axis: 2, start: 2, step: 1, len: 0 }),
        ("windows", ViewOp::Unfold { axis: 2, size: 2, step: 2 }),
        ("overlapping windows", ViewOp::Unfold { axis: 2, size: 3, step: 1 }),
        ("windows apart", ViewOp::Unfold { axis: 1, size: 1, step: 3 }),
        ("pad", ViewOp::Pad(smallvec![(0, 0), (1, 2), (2, 0)])),
    ];
    for (what, v) in views {
        twice(what, |x| Ok(x[0].view_op(v.clone())), &[&x]);
        // Behind a transposition and a padding, where strides are not those of a row-major tensor.
        let mixed = |x: &[Tensor]| Ok(x[0].exp().transpose(0, 1)?.transpose(0, 1)?.view_op(v.clone()).sin());
        twice(what, mixed, &[&x]);
    }
    let one = numbers([1, 4, 1], -1.0, 1.0);
    twice("expand ones", |x| x[0].expand([2, 3, 4, 2]), &[&one]);
}

#[test]
fn reductions_of_every_kind() {
    let x = numbers([2, 3, 4], -1.0, 1.0);
    let scalar = numbers([1], 0.5, 1.0).reshape(Shape::default()).unwrap();
    for op in ReduceOp::ALL {
        let axes: [SmallVec<[usize; 6]>; 6] =
            [smallvec![0], smallvec![1], smallvec![2], smallvec![0, 2], smallvec![1, 2], smallvec![0, 1, 2]];
        for a in axes {
            let what = format!("{} over {a:?}", op.name());
            twice(&what, |x| Ok(x[0].reduce_keep(op, a.clone())), &[&x]);
            twice(&what, |x| Ok(x[0].reduce_dims(op, a.clone(), false).exp()), &[&x]);
        }
        twice("of a scalar", |x| Ok(x[0].reduce_dims(op, smallvec![], false)), &[&scalar]);
    }
    // One, two and three zeros in a product.
    for zeros in 1..4 {
        let mut v = numbers([5], 0.5, 1.5).to_vec::<f64>().unwrap();
        (0..zeros).for_each(|k| v[k * 2 % 5] = 0.0);
        let x = Tensor::from(v);
        twice("product with zeros", |x| Ok(x[0].prod() + 1.0), &[&x]);
    }
}

#[test]
fn scatter_in_every_mode() {
    let base = numbers([3, 4], 0.5, 1.5);
    let src = numbers([2, 5], 1.6, 2.5);
    let repeated = Tensor::from([[0i64, 2, 0], [1, 1, 3]]);
    let distinct = Tensor::from([[0i64, 2, 1], [3, 1, 0]]);
    for mode in [ScatterMode::Add, ScatterMode::Mul, ScatterMode::Min, ScatterMode::Max] {
        let f = |x: &[Tensor]| x[0].scatter_mode("scatter", mode, 1, &x[2], &x[1]);
        twice(&format!("{mode:?}"), f, &[&base, &src, &repeated]);
        twice(
            &format!("{mode:?}, source below"),
            |x| f(&[x[0].clone(), &x[1] * 0.1, x[2].clone()]),
            &[&base, &src, &repeated],
        );
    }
    let assign = |x: &[Tensor]| x[0].scatter(1, &x[2], &x[1]);
    twice("assign", assign, &[&base, &src, &distinct]);
    // Zeros among the factors: in the target, in the source, in both.
    let mul = |x: &[Tensor]| x[0].scatter_mode("scatter", ScatterMode::Mul, 0, &x[2], &x[1]);
    let index = Tensor::from([0i64, 0, 1, 2, 2]);
    let check = |base: [f64; 4], src: [f64; 5]| {
        let first = GradcheckOptions::default();
        let f = |x: &[Tensor]| Ok(mul(x)? + 1.0);
        gradcheck_with(f, &[&Tensor::from(base), &Tensor::from(src), &index], &first).unwrap();
    };
    check([2.0, 0.0, 3.0, 4.0], [1.5, 0.5, 2.5, 0.0, 0.75]);
    check([0.0, 0.0, 3.0, 0.0], [0.0, 0.5, 0.0, 0.0, 0.0]);
}

fn conv(kind: ConvKind, groups: usize, spatial: usize) -> (Conv, Tensor, Tensor) {
    // One axis of windows, or two with different geometry.
    let (stride, padding, dilation, window, size): (SmallVec<[usize; 3]>, _, _, &[usize], &[usize]) = match spatial {
        1 => (smallvec![2], smallvec![(1, 0)], smallvec![1], &[2], &[5]),
        _ => (smallvec![1, 2], smallvec![(0, 1), (1, 1)], smallvec![2, 1], &[2, 3], &[4, 5]),
    };
    let params = ConvParams { stride, padding, dilation, groups };
    let (n, c, o) = (2, 2, 4);
    let input: Shape = [n, c].into_iter().chain(size.iter().copied()).collect();
    let weight: Shape = [o, c / groups].into_iter().chain(window.iter().copied()).collect();
    let out = (0..spatial).map(|d| {
        let padded = size[d] + params.padding[d].0 + params.padding[d].1;
        (padded - params.dilation[d] * (window[d] - 1) - 1) / params.stride[d] + 1
    });
    let output: Shape = [n, o].into_iter().chain(out).collect();
    let spec = Conv {
        kind,
        params,
        input: input.clone(),
        weight: weight.clone(),
        output: output.clone(),
        channels_last: false,
    };
    let (a, b) = match kind {
        ConvKind::Forward => (input, weight),
        ConvKind::InputGrad => (output, weight),
        ConvKind::WeightGrad => (output, input),
    };
    (spec, numbers(a, -1.0, 1.0), numbers(b, -0.7, 0.9))
}

fn apply(c: &Conv, a: &Tensor, b: &Tensor) -> Tensor {
    a.make(Op::Conv(std::sync::Arc::new(c.clone())), &[a, b], c.shape(), a.dtype())
}

#[test]
fn convolutions_of_every_kind() {
    for kind in [ConvKind::Forward, ConvKind::InputGrad, ConvKind::WeightGrad] {
        for (groups, spatial) in [(1, 1), (2, 1), (1, 2)] {
            let (c, a, b) = conv(kind, groups, spatial);
            let once = |x: &[Tensor]| Ok(apply(&c, &x[0], &x[1]));
            let order = if spatial == 1 { 2 } else { 1 };
            let options = GradcheckOptions { order, ..Default::default() };
            if let Err(e) = gradcheck_with(once, &[&a, &b], &options) {
                panic!("{kind:?}, {groups} groups, {spatial} axes: {e}");
            }
        }
    }
}

#[test]
fn vmap_of_convolutions() {
    for kind in [ConvKind::Forward, ConvKind::InputGrad, ConvKind::WeightGrad] {
        for groups in [1, 2] {
            let (c, a, b) = conv(kind, groups, 1);
            let many = |t: &Tensor| numbers(t.shape().inserted(0, 3), -1.0, 1.0);
            let (aa, bb) = (many(&a), many(&b));
            let f = |x: &[Tensor]| Ok(apply(&c, &x[0], &x[1]));
            for (x, y, dims) in [(&aa, &bb, [Some(0), Some(0)]), (&aa, &b, [Some(0), None]), (&a, &bb, [None, Some(0)])]
            {
                let got = vmap(f, &[x, y], &dims, 0).unwrap();
                let pick =
                    |t: &Tensor, d: Option<i64>, i: i64| if d.is_some() { t.select(0, i) } else { Ok(t.clone()) };
                let want: Vec<f64> = (0..3)
                    .flat_map(|i| {
                        let (x, y) = (pick(x, dims[0], i).unwrap(), pick(y, dims[1], i).unwrap());
                        apply(&c, &x, &y).to_vec::<f64>().unwrap()
                    })
                    .collect();
                let got = got.to_vec::<f64>().unwrap();
                assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-12), "{kind:?} {groups} {dims:?}");
            }
        }
    }
}

#[test]
fn vmap_of_sorting_and_searching() {
    let x = numbers([3, 2, 5], -1.0, 1.0);
    let host =
        |op: HostOp, inputs: &[&Tensor], shape: &Shape| inputs[0].make(Op::Host(op), inputs, shape.clone(), DType::I64);
    #[track_caller]
    fn same(what: &str, f: impl Fn(&[Tensor]) -> Result<Tensor>, inputs: &[&Tensor], dims: &[Option<i64>]) {
        let got = vmap(&f, inputs, dims, 0).unwrap().to_vec::<i64>().unwrap();
        let one = |i: i64| {
            let args: Vec<Tensor> = inputs
                .iter()
                .zip(dims)
                .map(|(t, d)| if d.is_some() { t.select(0, i).unwrap() } else { (*t).clone() })
                .collect();
            f(&args).unwrap().to_vec::<i64>().unwrap()
        };
        assert_eq!(got, (0..3).flat_map(one).collect::<Vec<_>>(), "{what}");
    }
    for (axis, descending) in [(0, false), (1, true)] {
        let f = |x: &[Tensor]| Ok(host(HostOp::Argsort { axis, descending }, &[&x[0]], x[0].shape()));
        same("argsort", f, &[&x], &[Some(0)]);
        let top = |x: &[Tensor]| {
            let op = HostOp::Topk { axis, k: 2, largest: descending };
            Ok(host(op, &[&x[0]], &x[0].shape().with(axis, 2)))
        };
        same("topk", top, &[&x], &[Some(0)]);
        for rank in [Rank::At(1), Rank::Median, Rank::NanMedian] {
            let f = |x: &[Tensor]| Ok(host(HostOp::Select { axis, rank }, &[&x[0]], &x[0].shape().with(axis, 1)));
            same("select", f, &[&x], &[Some(0)]);
        }
    }
    let repeated = (&x * 3.0).floor();
    let mode = |x: &[Tensor]| Ok(host(HostOp::Mode, &[&x[0]], &Shape::from(2)));
    same("mode", mode, &[&repeated], &[Some(0)]);
    let search = |x: &[Tensor]| Ok(host(HostOp::SearchSorted { right: false }, &[&x[0], &x[1]], x[1].shape()));
    let up = |shape: &[usize]| numbers(shape.to_vec(), 0.0, 0.3).cumsum(-1).unwrap() - 0.5;
    let (row, rows, rows_each) = (up(&[4]), up(&[3, 4]), up(&[3, 2, 4]));
    same("one row, values by example", search, &[&row, &x], &[None, Some(0)]);
    same("a row an example, one set of values", search, &[&rows, &x.select(0, 0).unwrap()], &[Some(0), None]);
    same("a row an example, values too", search, &[&rows, &x], &[Some(0), Some(0)]);
    same("rows an example", search, &[&rows_each, &x], &[Some(0), Some(0)]);
}

#[test]
fn gradients_show_the_lines_of_what_they_are_gradients_of() {
    let x = Tensor::var("x", Tensor::from([1.0f32, 2.0]));
    let (y, line) = (x.sin(), line!());
    let grads = y.sum().backward().unwrap();
    let order = crate::graph::topological(&[&grads.wrt(&x).unwrap()], |_| true);
    let cos = order.iter().find(|t| t.op_name() == "cos").unwrap();
    assert_eq!((cos.location().file(), cos.location().line()), (file!(), line));
}
