//! The CPU's own kernels for pooling and resampling (f32) against the mathematics (f64), with first and second
//! derivatives.

mod common;

use common::{close, vec};
use gradus_core::{
    AvgPoolOptions, DType, InterpolateMode, InterpolateOptions, MaxPoolOptions, Result, Sizes, Tensor, grad,
};

/// Numbers in an order that has no ties.
fn numbers(shape: &[usize], dtype: DType) -> Tensor {
    let n: usize = shape.iter().product();
    let x: Vec<f32> = (0..n).map(|i| ((i * 7919 + 13) % 10007) as f32 / 10007.0 - 0.5).collect();
    Tensor::from_vec(x, shape).unwrap().to_dtype(dtype)
}

/// The value, its gradient, and the gradient of a number made of that gradient with respect to the seed.
fn all(f: &dyn Fn(&Tensor) -> Result<Tensor>, shape: &[usize], dtype: DType) -> [Vec<f64>; 3] {
    let x = numbers(shape, dtype).requires_grad_();
    let y = f(&x).unwrap();
    let seed = numbers(y.dims(), dtype).sin().detach().requires_grad_();
    let dx = grad::grad(&(&y * &seed).sum(), &[&x]).unwrap().remove(0);
    let weights = numbers(shape, dtype).cos().detach();
    let back = grad::grad(&(&dx * &weights).sum(), &[&seed]).unwrap().remove(0);
    [&y, &dx, &back].map(|t| vec(&t.to_dtype(DType::F64)))
}

#[track_caller]
fn same(shape: &[usize], f: impl Fn(&Tensor) -> Result<Tensor>) {
    let (narrow, wide) = (all(&f, shape, DType::F32), all(&f, shape, DType::F64));
    for (a, b) in narrow.iter().zip(&wide) {
        close(a, b, 2e-5);
    }
}

const SHAPES: [&[usize]; 3] = [&[2, 3, 13, 21], &[1, 2, 8, 40], &[5, 7, 6]];

#[test]
fn means_of_windows() {
    for shape in SHAPES {
        for (size, stride, padding, ceil_mode) in
            [(3, 3, 0, false), (3, 1, 1, false), (3, 2, 1, true), (2, 2, 0, true), (5, 3, 2, false), (4, 5, 1, true)]
        {
            for (count_include_pad, divisor_override) in [(true, None), (false, None), (true, Some(5))] {
                let o = AvgPoolOptions {
                    stride: Some(stride.into()),
                    padding: padding.into(),
                    ceil_mode,
                    count_include_pad,
                    divisor_override,
                };
                same(shape, |x| x.avg_pool2d(size, o.clone()));
            }
        }
    }
    let o = AvgPoolOptions { stride: Some(2.into()), padding: 1.into(), ceil_mode: true, ..Default::default() };
    same(&[2, 3, 33], |x| x.avg_pool1d(3, o.clone()));
    same(&[2, 3, 7, 9, 11], |x| x.avg_pool3d(3, o.clone()));
    let o = AvgPoolOptions { divisor_override: Some(-3), ..o };
    same(&[2, 3, 7, 9, 11], |x| x.avg_pool3d(3, o.clone()));
}

#[test]
fn maxima_of_windows() {
    for shape in SHAPES {
        for (size, stride, padding, dilation) in
            [(3, 3, 0, 1), (3, 1, 1, 1), (3, 2, 1, 1), (2, 2, 0, 1), (5, 1, 2, 1), (2, 1, 0, 3)]
        {
            let o = MaxPoolOptions {
                stride: Some(stride.into()),
                padding: padding.into(),
                dilation: dilation.into(),
                ceil_mode: stride == 2,
            };
            same(shape, |x| x.max_pool2d(size, o.clone()));
        }
    }
    let o = MaxPoolOptions { stride: Some(2.into()), padding: 1.into(), ..Default::default() };
    same(&[2, 3, 7, 9, 11], |x| x.max_pool3d(3, o.clone()));
}

#[test]
fn of_equals_and_nans_in_three_dimensions_the_same_is_chosen() {
    let x: Vec<f32> = (0..216).map(|i| if i % 17 == 3 { f32::NAN } else { (i * i % 5) as f32 }).collect();
    let x = Tensor::from_vec(x, [1, 6, 6, 6]).unwrap();
    let places = |dtype| {
        let x = x.to_dtype(dtype).requires_grad_();
        let y = x
            .max_pool3d(3, MaxPoolOptions { stride: Some(1.into()), padding: 1.into(), ..Default::default() })
            .unwrap();
        let dx = y.sum().backward().unwrap().wrt(&x).unwrap();
        (vec(&y.isnan().to_dtype(DType::F64)), vec(&dx.to_dtype(DType::F64)))
    };
    assert_eq!(places(DType::F32), places(DType::F64));
}

#[test]
fn adaptive_bins() {
    for shape in SHAPES {
        for size in [[1, 1], [3, 5], [2, 2], [7, 1], [6, 20]] {
            same(shape, |x| x.adaptive_avg_pool2d(&size[..]));
            same(shape, |x| x.adaptive_max_pool2d(&size[..]));
        }
    }
    same(&[2, 3, 33], |x| x.adaptive_avg_pool1d(5));
    same(&[2, 3, 7, 9, 11], |x| x.adaptive_avg_pool3d(&[3, 2, 4][..]));
    same(&[2, 3, 7, 9, 11], |x| x.adaptive_max_pool3d(&[3, 2, 4][..]));
}

#[test]
fn other_sizes() {
    use InterpolateMode::{Bicubic, Bilinear, Linear, Nearest, NearestExact, Trilinear};
    for mode in [Nearest, NearestExact, Bilinear, Bicubic] {
        for size in [[13, 21], [26, 42], [5, 50], [40, 7], [1, 1]] {
            for align in
                [None, Some(true)].into_iter().take(if mode == Nearest || mode == NearestExact { 1 } else { 2 })
            {
                let size = Some(Sizes::from(&size[..]));
                let o = InterpolateOptions { size, mode, align_corners: align, ..Default::default() };
                same(&[2, 3, 13, 21], |x| x.interpolate(o.clone()));
            }
        }
        let o = InterpolateOptions { scale_factor: Some(vec![1.7, 0.6]), mode, ..Default::default() };
        same(&[2, 3, 13, 21], |x| x.interpolate(o.clone()));
    }
    let o = InterpolateOptions { size: Some(50.into()), mode: Linear, ..Default::default() };
    same(&[2, 3, 33], |x| x.interpolate(o.clone()));
    for (mode, align_corners) in [(Trilinear, None), (Trilinear, Some(true)), (Nearest, None), (NearestExact, None)] {
        for size in [[4, 9, 7], [9, 3, 13], [1, 20, 2]] {
            let size = Some(Sizes::from(&size[..]));
            let o = InterpolateOptions { size, mode, align_corners, ..Default::default() };
            same(&[2, 3, 4, 6, 7], |x| x.interpolate(o.clone()));
        }
    }
}

#[test]
fn empty_batches_stay_empty() {
    let x = Tensor::zeros([0, 3, 8, 8], DType::F32);
    assert_eq!(x.avg_pool2d(3, Default::default()).unwrap().to_vec::<f32>().unwrap(), []);
    assert_eq!(x.adaptive_max_pool2d(3).unwrap().dims(), [0, 3, 3, 3]);
    let o = InterpolateOptions { scale_factor: Some(vec![2.0]), ..Default::default() };
    assert_eq!(x.interpolate(o).unwrap().to_vec::<f32>().unwrap(), []);
}

type Way<'a> = &'a dyn Fn(&Tensor) -> Result<Tensor>;

#[test]
fn images_with_their_channels_last_stay_so() {
    let last = numbers(&[2, 13, 9, 20], DType::F32);
    let view = last.permute([0, 3, 1, 2]).unwrap();
    let planes = view.contiguous();
    let mean = AvgPoolOptions { stride: Some(2.into()), padding: 1.into(), ceil_mode: true, ..Default::default() };
    let max = MaxPoolOptions { stride: Some(2.into()), padding: 1.into(), ..Default::default() };
    let ways: [Way<'_>; 5] = [
        &|x| x.avg_pool2d(3, mean.clone()),
        &|x| x.max_pool2d(3, max.clone()),
        &|x| x.adaptive_avg_pool2d(4),
        &|x| x.adaptive_max_pool2d(4),
        // A pooling of what one has made, which was computed before.
        &|x| {
            let y = x.max_pool2d(2, MaxPoolOptions::default())?;
            y.eval()?;
            y.avg_pool2d(2, AvgPoolOptions::default())
        },
    ];
    for f in ways {
        let (y, expected) = (f(&view).unwrap(), f(&planes).unwrap());
        assert_eq!(y.dims(), expected.dims());
        assert_eq!(vec(&y.to_dtype(DType::F64)), vec(&expected.to_dtype(DType::F64)));
        // Where a gradient is to come, too.
        let (a, b) = (last.detach().requires_grad_(), planes.detach().requires_grad_());
        let (ya, yb) = (f(&a.permute([0, 3, 1, 2]).unwrap()).unwrap(), f(&b).unwrap());
        let da = grad::grad(&ya.square().sum(), &[&a]).unwrap().remove(0).permute([0, 3, 1, 2]).unwrap();
        let db = grad::grad(&yb.square().sum(), &[&b]).unwrap().remove(0);
        close(&vec(&da.to_dtype(DType::F64)), &vec(&db.to_dtype(DType::F64)), 1e-6);
        // And of a variable whose elements lie so, to second order.
        let twice = |x: &Tensor| {
            let y = f(x).unwrap();
            let seed = numbers(y.dims(), DType::F32).sin().detach().requires_grad_();
            let dx = grad::grad(&(&y * &seed).sum(), &[x]).unwrap().remove(0);
            let weights = numbers(x.dims(), DType::F32).cos().detach();
            let back = grad::grad(&(&dx * &weights).sum(), &[&seed]).unwrap().remove(0);
            [vec(&dx.to_dtype(DType::F64)), vec(&back.to_dtype(DType::F64))]
        };
        let (v, b) = (view.detach().requires_grad_(), planes.detach().requires_grad_());
        assert_eq!(twice(&v), twice(&b));
    }
}

#[test]
fn gradients_of_channels_that_lie_last_turn_nothing() {
    let v = numbers(&[2, 13, 9, 20], DType::F32).permute([0, 3, 1, 2]).unwrap().detach().requires_grad_();
    for max in [false, true] {
        let y = match max {
            true => v.max_pool2d(2, MaxPoolOptions::default()).unwrap(),
            false => v.avg_pool2d(2, AvgPoolOptions::default()).unwrap(),
        };
        let dx = grad::grad(&y.square().sum(), &[&v]).unwrap().remove(0);
        // The pooling, what is done with its result, and the pooling's gradient.
        let plan = dx.explain().unwrap();
        assert_eq!(plan.launches(), 3, "{plan}");
    }
}

#[test]
fn numbers_of_16_bits_are_pooled_as_floats() {
    let o = MaxPoolOptions { stride: Some(2.into()), padding: 1.into(), ..Default::default() };
    let ways: [Way<'_>; 3] = [&|x| x.max_pool2d(3, o.clone()), &|x| x.avg_pool2d(2, AvgPoolOptions::default()), &|x| {
        x.adaptive_avg_pool2d(4)
    }];
    for (dtype, last) in [(DType::BF16, false), (DType::F16, false), (DType::BF16, true)] {
        let x = match last {
            false => numbers(&[2, 20, 13, 9], dtype),
            true => numbers(&[2, 13, 9, 20], dtype).permute([0, 3, 1, 2]).unwrap(),
        };
        for f in ways {
            let (half, float) = (x.detach().requires_grad_(), x.to_dtype(DType::F32).requires_grad_());
            let (a, b) = (f(&half).unwrap(), f(&float).unwrap().to_dtype(dtype));
            assert_eq!((a.dtype(), a.dims()), (dtype, b.dims()));
            let da = grad::grad(&a.square().sum(), &[&half]).unwrap().remove(0);
            let db = grad::grad(&b.square().sum(), &[&float]).unwrap().remove(0).to_dtype(dtype);
            for (a, b) in [(a, b), (da, db)] {
                assert_eq!(vec(&a.to_dtype(DType::F64)), vec(&b.to_dtype(DType::F64)));
            }
        }
    }
}

/// Whole numbers, many of them equal: the mathematics takes them as i64, for which there is no kernel.
#[test]
fn places_are_those_of_the_mathematics() {
    type Find<'a> = &'a dyn Fn(&Tensor) -> Result<(Tensor, Tensor)>;
    let o = |stride: usize, padding: usize, ceil_mode| MaxPoolOptions {
        stride: Some(stride.into()),
        padding: padding.into(),
        ceil_mode,
        ..Default::default()
    };
    let check = |shape: &[usize], f: Find<'_>| {
        let x = (numbers(shape, DType::F32) * 9.0).round();
        let (y, at) = f(&x.to_dtype(DType::I64)).unwrap();
        for dtype in [DType::F32, DType::F64, DType::BF16] {
            let (values, places) = f(&x.to_dtype(dtype)).unwrap();
            assert_eq!((values.dtype(), places.dtype(), places.dims()), (dtype, DType::I64, at.dims()));
            assert_eq!(vec(&values.to_dtype(DType::F64)), vec(&y.to_dtype(DType::F64)));
            assert_eq!(places.contiguous().to_vec::<i64>().unwrap(), at.contiguous().to_vec::<i64>().unwrap());
        }
    };
    for shape in SHAPES {
        for size in [[1, 1], [3, 5], [2, 2], [7, 1], [6, 20]] {
            check(shape, &|x| x.adaptive_max_pool2d_with_indices(&size[..]));
        }
        check(shape, &|x| x.max_pool2d_with_indices(3, o(2, 1, true)));
        check(shape, &|x| x.max_pool2d_with_indices(2, o(2, 0, false)));
    }
    check(&[2, 3, 33], &|x| x.adaptive_max_pool1d_with_indices(5));
    check(&[2, 3, 7, 9, 11], &|x| x.adaptive_max_pool3d_with_indices(&[3, 2, 4][..]));
    check(&[2, 3, 7, 9, 11], &|x| x.max_pool3d_with_indices(3, o(2, 1, false)));
    check(&[2, 9, 12, 20], &|x| x.permute([0, 3, 1, 2])?.adaptive_max_pool2d_with_indices(4));
}
