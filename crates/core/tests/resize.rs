//! Interpolation and sampling at positions.

mod common;

use common::{check_twice, close, tensor, vec};
use gradus_core::{DType, GridPadding, GridSampleMode, InterpolateMode, InterpolateOptions, Tensor};

fn to(size: usize, mode: InterpolateMode) -> InterpolateOptions {
    InterpolateOptions { size: Some(size.into()), mode, ..Default::default() }
}

#[test]
fn lines_between_elements() {
    let x = Tensor::from([[[0.0f64, 1.0, 4.0]]]);
    let mut o = to(5, InterpolateMode::Linear);
    o.align_corners = Some(true);
    close(&vec(&x.interpolate(o).unwrap()), &[0.0, 0.5, 1.0, 2.5, 4.0], 1e-15);
    let half = x.interpolate(to(6, InterpolateMode::Linear)).unwrap();
    close(&vec(&half), &[0.0, 0.25, 0.75, 1.75, 3.25, 4.0], 1e-15);
    let ints = Tensor::from([[[1i64, 2, 3]]]);
    assert_eq!(ints.interpolate(to(6, InterpolateMode::Nearest)).unwrap().to_vec::<i64>().unwrap(), [1, 1, 2, 2, 3, 3]);
}

#[test]
fn antialias_sees_every_element_of_a_shrinking_image() {
    let x = tensor(&[1, 1, 1, 8], 1);
    let o = InterpolateOptions { size: Some([1, 2].into()), antialias: true, ..to(1, InterpolateMode::Bilinear) };
    let v = vec(&x);
    // Triangles of half width 4 around 2 and 6: weights 1 - |j + 0.5 - centre| / 4, normalised.
    let want = [2.0f64, 6.0].map(|centre| {
        let w = (0..8).map(|j| (1.0 - (j as f64 + 0.5 - centre).abs() / 4.0).max(0.0)).collect::<Vec<_>>();
        w.iter().zip(&v).map(|(w, v)| w * v).sum::<f64>() / w.iter().sum::<f64>()
    });
    close(&vec(&x.interpolate(o.clone()).unwrap()), &want, 1e-12);
    // Every row of weights adds up to 1, also for the cubic.
    let ones = Tensor::ones([1, 1, 7, 5], DType::F64);
    let o = InterpolateOptions { size: Some([3, 9].into()), mode: InterpolateMode::Bicubic, ..o };
    close(&vec(&ones.interpolate(o).unwrap()), &[1.0; 27], 1e-12);
}

#[test]
fn the_identity_grid_gives_the_image_back() {
    let x = tensor(&[2, 3, 4, 5], 1);
    let identity = Tensor::from([[[1.0f64, 0.0, 0.0], [0.0, 1.0, 0.0]], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]);
    for align in [false, true] {
        let grid = identity.affine_grid([2, 3, 4, 5], align).unwrap();
        for mode in [GridSampleMode::Bilinear, GridSampleMode::Nearest, GridSampleMode::Bicubic] {
            let y = x.grid_sample(&grid, mode, GridPadding::Border, align).unwrap();
            close(&vec(&y), &vec(&x), 1e-12);
        }
    }
    let x = tensor(&[1, 2, 2, 3, 4], 1);
    let identity = Tensor::eye(3, 4, DType::F64).unsqueeze(0).unwrap();
    let grid = identity.affine_grid([1, 2, 2, 3, 4], false).unwrap();
    let y = x.grid_sample(&grid, GridSampleMode::Bilinear, GridPadding::Zeros, false).unwrap();
    close(&vec(&y), &vec(&x), 1e-12);
}

#[test]
fn outside_the_image() {
    let x = Tensor::from([[[[1.0f64, 2.0, 4.0]]]]);
    let sample = |at: f64, padding| {
        let y = x.grid_sample(&Tensor::from([[[[at, 0.0]]]]), GridSampleMode::Nearest, padding, false).unwrap();
        vec(&y)[0]
    };
    // Elements -2, 4 and 5 of three, whose edges are at -1 and 1.
    let at = [-2.0, 2.0, 8.0 / 3.0];
    assert_eq!(at.map(|p| sample(p, GridPadding::Zeros)), [0.0, 0.0, 0.0]);
    assert_eq!(at.map(|p| sample(p, GridPadding::Border)), [1.0, 4.0, 4.0]);
    assert_eq!(at.map(|p| sample(p, GridPadding::Reflection)), [2.0, 2.0, 1.0]);
    for far in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300] {
        sample(far, GridPadding::Zeros);
        sample(far, GridPadding::Border);
        sample(far, GridPadding::Reflection);
    }
}

#[test]
fn derivatives_to_second_order() {
    let x = [tensor(&[1, 2, 3, 4], 1)];
    for mode in [InterpolateMode::Bilinear, InterpolateMode::Bicubic, InterpolateMode::Area, InterpolateMode::Nearest] {
        check_twice(
            |x| x[0].interpolate(InterpolateOptions { size: Some([5, 3].into()), mode, ..Default::default() }).unwrap(),
            &x,
        );
    }
    let inputs = [tensor(&[1, 2, 3, 4], 1), tensor(&[1, 2, 3, 2], 2) * 1.3];
    for mode in [GridSampleMode::Bilinear, GridSampleMode::Bicubic] {
        for padding in [GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection] {
            check_twice(|x| x[0].grid_sample(&x[1], mode, padding, true).unwrap(), &inputs);
        }
    }
    let volume = [tensor(&[1, 2, 2, 3, 4], 1), tensor(&[1, 1, 2, 3, 3], 2) * 1.3];
    for mode in [GridSampleMode::Bilinear, GridSampleMode::Nearest] {
        check_twice(|x| x[0].grid_sample(&x[1], mode, GridPadding::Reflection, false).unwrap(), &volume);
    }
}

#[test]
fn refusals_say_why() {
    let x = Tensor::zeros([1, 2, 4], DType::F32);
    let text = |o: InterpolateOptions| x.interpolate(o).unwrap_err().to_string();
    assert!(text(Default::default()).contains("give a size or a scale factor"));
    assert!(text(to(3, InterpolateMode::Bilinear)).contains("mode bilinear takes 4 axes, not [1, 2, 4]"));
    assert!(text(to(0, InterpolateMode::Nearest)).contains("cannot go from spatial extents [4] to [0]"));
    let scaled = |f: f64| InterpolateOptions { scale_factor: Some(vec![f]), ..Default::default() };
    assert!(text(scaled(0.1)).contains("4 elements times 0.1 is no size"));
    assert!(text(scaled(f64::NAN)).contains("is no size"));
    assert!(text(InterpolateOptions { size: Some(3.into()), ..scaled(2.0) }).contains("not both"));
    let aligned = InterpolateOptions { align_corners: Some(true), ..to(3, InterpolateMode::Nearest) };
    assert!(text(aligned).contains("align_corners"));
    let (x, grid) = (Tensor::zeros([1, 2, 4, 4], DType::F32), Tensor::zeros([2, 3, 3, 2], DType::F32));
    let e = x.grid_sample(&grid, Default::default(), Default::default(), false).unwrap_err().to_string();
    assert!(e.contains("not [1, 2, 4, 4] with [2, 3, 3, 2]"), "{e}");
    assert!(grid.affine_grid([2, 1, 4, 4], false).is_err());
}
