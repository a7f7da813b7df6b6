//! Functions of tensors that lie across, in steps, or beside repeated ones: as of the same numbers in order.

use gradus_core::{AvgPoolOptions, DType, PadMode, Tensor, manual_seed};

/// Tensors of this shape that lie in different ways, and a copy of each in order.
fn laid(shape: [usize; 3], dtype: DType) -> Vec<(&'static str, Tensor, Tensor)> {
    let [a, b, c] = shape;
    let normal = |shape: [usize; 3]| Tensor::randn(shape).to_dtype(dtype);
    let lies = [
        ("turned", normal([a, c, b]).transpose(-2, -1)),
        ("turned outside", normal([b, a, c]).transpose(0, 1)),
        ("all turned", normal([c, b, a]).permute([2, 1, 0])),
        ("in steps", normal([a, b, 2 * c]).slice(-1, None, None, 2)),
        ("in steps, turned", normal([a, c, 2 * b]).slice(-1, None, None, 2).and_then(|x| x.transpose(-2, -1))),
    ];
    let ready = |(name, x): (&'static str, gradus_core::Result<Tensor>)| {
        let x = x.unwrap();
        // Numbers without a layout of their own.
        let copy = Tensor::from_vec(x.to_dtype(DType::F64).to_vec::<f64>().unwrap(), shape).unwrap().to_dtype(dtype);
        Tensor::eval_all(&[&x, &copy]).unwrap();
        (name, x, copy)
    };
    lies.into_iter().map(ready).collect()
}

fn same(what: &str, got: &Tensor, want: &Tensor, tolerance: f64) {
    let numbers = |t: &Tensor| t.to_dtype(DType::F64).to_vec::<f64>().unwrap();
    assert_eq!(got.shape(), want.shape(), "{what}");
    for (at, (g, w)) in numbers(got).into_iter().zip(numbers(want)).enumerate() {
        assert!((g - w).abs() <= tolerance * (1.0 + w.abs()), "{what}: {g} for {w} at {at}");
    }
}

const SHAPES: [[usize; 3]; 7] =
    [[3, 12, 300], [5, 40, 33], [2, 700, 3], [20, 4, 20], [1, 2, 1436], [2, 9, 5000], [1, 3, 100_001]];

#[test]
fn reductions_of_any_layout() {
    manual_seed(5);
    for (dtype, tolerance) in [(DType::F32, 2e-5), (DType::F64, 1e-12), (DType::BF16, 0.02)] {
        for shape in SHAPES {
            for (name, x, copy) in laid(shape, dtype) {
                for dim in 0..3 {
                    let what = |f: &str| format!("{f} over {dim} of {shape:?} {dtype} {name}");
                    let both = |f: &dyn Fn(&Tensor) -> gradus_core::Result<Tensor>| (f(&x).unwrap(), f(&copy).unwrap());
                    let (got, want) = both(&|t| t.softmax(dim));
                    same(&what("softmax"), &got, &want, tolerance);
                    let (got, want) = both(&|t| t.sum_dim(dim, false));
                    same(&what("sum"), &got, &want, 5.0 * tolerance);
                    if shape[dim as usize] > 1 {
                        let (got, want) = both(&|t| t.var_dim(dim, 1, false));
                        same(&what("var"), &got, &want, 5.0 * tolerance);
                    }
                    let (got, want) = both(&|t| t.argmax_dim(dim, true));
                    same(&what("argmax"), &got, &want, 0.0);
                }
                let norm = |t: &Tensor| t.layer_norm([shape[2]], None, None, 1e-5).unwrap();
                same(&format!("layer norm of {shape:?} {dtype} {name}"), &norm(&x), &norm(&copy), 5.0 * tolerance);
            }
        }
    }
}

#[test]
fn truths_and_bytes_in_steps() {
    for n in [33, 64, 1001] {
        let x = Tensor::from_vec((0..(80 * n) as i64).map(|i| i * 7 % 251).collect::<Vec<_>>(), [40, 2 * n]).unwrap();
        let x = x.to_dtype(DType::U8);
        x.eval().unwrap();
        let steps = x.slice(-1, None, None, 2).unwrap();
        let copy = Tensor::from_vec(steps.to_vec::<u8>().unwrap(), [40, n]).unwrap();
        for dim in 0..2 {
            same("largest byte", &steps.amax(dim, false).unwrap(), &copy.amax(dim, false).unwrap(), 0.0);
            same("sum of bytes", &steps.sum_dim(dim, false).unwrap(), &copy.sum_dim(dim, false).unwrap(), 0.0);
        }
    }
}

#[test]
fn results_lie_as_what_they_are_made_of() {
    manual_seed(6);
    for shape in SHAPES {
        let [a, b, c] = shape;
        let (row, plane) = (Tensor::randn([c]), Tensor::randn([a, 1, c]));
        for (name, x, copy) in laid(shape, DType::F32) {
            let what = |f: &str| format!("{f} of {shape:?} {name}");
            same(&what("silu"), &x.silu(), &copy.silu(), 1e-6);
            same(&what("gelu"), &x.gelu().exp(), &copy.gelu().exp(), 1e-6);
            same(&what("+ row"), &(&x + &row), &(&copy + &row), 0.0);
            same(&what("plane -"), &(&plane - &x), &(&plane - &copy), 0.0);
            // With a gradient to come as without.
            let (v, w) = (Tensor::var("v", &x), Tensor::var("w", &copy));
            let (got, want) = ((v.silu() * &row).sum(), (w.silu() * &row).sum());
            let (got, want) = (got.backward().unwrap().wrt(&v).unwrap(), want.backward().unwrap().wrt(&w).unwrap());
            same(&what("gradient of silu"), &got, &want, 1e-5);
            assert_eq!(x.dims(), [a, b, c]);
        }
    }
}

#[test]
fn joined_padded_and_scanned_as_they_lie() {
    manual_seed(7);
    for shape in SHAPES {
        for (name, x, copy) in laid(shape, DType::F32) {
            for dim in 0..3 {
                let what = |f: &str| format!("{f} over {dim} of {shape:?} {name}");
                let both = |f: &dyn Fn(&Tensor) -> gradus_core::Result<Tensor>| (f(&x).unwrap(), f(&copy).unwrap());
                let (got, want) = both(&|t| Tensor::cat(&[t, &t.exp(), t], dim));
                same(&what("cat"), &got, &want, 1e-6);
                let (got, want) = both(&|t| t.roll(2, dim));
                same(&what("roll"), &got, &want, 0.0);
                let (got, want) = both(&|t| t.cumsum(dim));
                same(&what("cumsum"), &got, &want, 1e-3);
                let (got, want) = both(&|t| t.cummax(dim).map(|m| m.1));
                same(&what("cummax"), &got, &want, 0.0);
                let (got, want) = both(&|t| Ok(t.flip([dim])?.contiguous()));
                same(&what("flip"), &got, &want, 0.0);
                assert_eq!(got.to_vec::<f32>().unwrap(), want.to_vec::<f32>().unwrap(), "{}", what("flip"));
            }
            for mode in [PadMode::Constant(0.0), PadMode::Constant(2.5), PadMode::Replicate] {
                let pad = |t: &Tensor| t.pad(&[1, 0, 3, 1, 0, 2], mode).unwrap();
                same(&format!("{mode:?} around {shape:?} {name}"), &pad(&x), &pad(&copy), 0.0);
            }
            let crop = |t: &Tensor| t.pad(&[-1, 2, 1, -1], PadMode::Constant(0.0)).unwrap();
            same(&format!("cut {shape:?} {name}"), &crop(&x), &crop(&copy), 0.0);
            // Gradients find their way through.
            let (v, w) = (Tensor::var("v", &x), Tensor::var("w", &copy));
            let weighed = |t: &Tensor| {
                let y = Tensor::cat(&[t, &t.cumsum(1).unwrap()], 2).unwrap().roll(1, 0).unwrap();
                let y = y.pad(&[1, 1], PadMode::Constant(0.0)).unwrap();
                (&y * Tensor::linspace(-1.0, 1.0, y.dims()[2], DType::F32)).sum()
            };
            let (got, want) = (weighed(&v).backward().unwrap(), weighed(&w).backward().unwrap());
            same(&format!("gradient of {shape:?} {name}"), &got.wrt(&v).unwrap(), &want.wrt(&w).unwrap(), 1e-3);
        }
    }
}

#[test]
fn means_of_whole_images_with_their_channels_last() {
    manual_seed(8);
    for shape in [[3, 7, 7, 40], [2, 3, 5, 9], [1, 1, 1, 8]] {
        let x = Tensor::randn(shape).permute([0, 3, 1, 2]).unwrap();
        let copy = Tensor::from_vec(x.to_vec::<f32>().unwrap(), x.dims()).unwrap();
        let sizes = [shape[1], shape[2]];
        let mean = |t: &Tensor| t.avg_pool2d(sizes, AvgPoolOptions::default()).unwrap();
        same(&format!("mean of {shape:?}"), &mean(&x), &mean(&copy), 1e-6);
        assert_eq!(mean(&x).dims(), [shape[0], shape[3], 1, 1]);
    }
}
