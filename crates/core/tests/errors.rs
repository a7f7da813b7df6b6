//! What a user gets for a mistake: a typed error with the numbers, the lines, and a way out; never a panic, except from
//! operators, with the same text.

use gradus_core::{DType, ErrorKind, Tensor};

fn text(r: gradus_core::Result<Tensor>) -> String {
    r.unwrap_err().to_string()
}

#[test]
fn shapes_name_both_and_where_they_were_made() {
    let a = Tensor::zeros([32, 784], DType::F32);
    let b = Tensor::zeros([512, 10], DType::F32);
    let line = line!() + 1;
    let e = a.matmul(&b).unwrap_err();
    let t = e.to_string();
    assert!(t.starts_with("matmul: inner dimensions differ: [32, 784] x [512, 10] (784 vs 512)"), "{t}");
    assert!(t.contains(&format!("errors.rs:{line}")), "the failing call: {t}");
    assert!(t.contains("operand 0: f32 [32, 784], made at") && t.contains("operand 1: f32 [512, 10]"), "{t}");
    assert!(matches!(e.kind(), ErrorKind::Shape { shapes, .. } if shapes.len() == 2));
    assert!(text(a.add(&b)).contains("[32, 784] and [512, 10] (axis 1 from the end: 784 vs 10)"));
    assert!(text(a.reshape([5, 5])).contains("[32, 784] has 25088 elements, [5, 5] has 25"));
}

#[test]
fn operators_panic_with_the_same_text() {
    let (a, b) = (Tensor::zeros([2, 3], DType::F32), Tensor::zeros([2], DType::F32));
    let want = a.add(&b).unwrap_err().kind().to_string();
    let got = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| &a + &b)).unwrap_err();
    assert!(got.downcast_ref::<String>().is_some_and(|t| t.contains(&want)));
}

#[test]
fn axes_indices_and_types() {
    let x = Tensor::zeros([2, 3], DType::F32);
    let e = x.sum_dim(2, false).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Axis { axis: 2, rank: 2, .. }), "{e}");
    assert!(text(x.sum_dim([0, -2], false)).contains("named twice"));
    let e = x.select(1, 3).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Index { index: 3, size: 3, .. }), "{e}");
    assert!(text(x.matmul(&Tensor::zeros([3, 2], DType::F64))).contains("f32 and f64"));
    assert!(text(x.gather(0, &x)).contains("an index must be integers, not f32"));
    assert!(text(x.gt(0.0).unwrap().sub(x.gt(0.0).unwrap())).contains("does not take bool and bool"));
    let e = Tensor::zeros([2, 0], DType::F32).amax(1, false).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Empty(_)), "{e}");
}

#[test]
fn mistakes_in_the_data_show_when_the_plan_runs_and_name_the_line() {
    let (a, zero) = (Tensor::from([1i64, 2]), Tensor::from([1i64, 0]));
    let line = line!() + 1;
    let q = a.floor_divide(&zero).unwrap();
    let e = q.to_vec::<i64>().unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Numerical(_)), "{e}");
    assert!(e.to_string().contains(&format!("errors.rs:{line}")), "{e}");
    let line = line!() + 1;
    let g = a.gather(0, &Tensor::from([0i64, 5])).unwrap();
    let e = g.to_vec::<i64>().unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Index { index: 5, size: 2, .. }), "{e}");
    assert!(e.to_string().contains(&format!("errors.rs:{line}")), "{e}");
    let singular = Tensor::zeros([2, 2], DType::F64).inv().unwrap();
    assert!(matches!(singular.to_vec::<f64>().unwrap_err().kind(), ErrorKind::Numerical(_)));
}

#[test]
fn what_cannot_be_allocated_is_an_error() {
    for shape in [[1usize << 40, 1 << 10], [1 << 20, 1 << 20], [usize::MAX, 2]] {
        let e = (Tensor::zeros(shape, DType::F64) + 1.0).contiguous().eval().map(|_| ()).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Alloc { .. }), "{e}");
    }
    assert!(Tensor::arange(0.0, f64::INFINITY, 1.0, DType::F32).is_err());
    assert!(Tensor::from_slice(&[1.0f32], [usize::MAX, usize::MAX]).is_err());
}

#[test]
fn gradients_are_never_silently_lost() {
    let x = Tensor::var("x", Tensor::from([1.5f64]));
    let d = Tensor::var("d", Tensor::from([2.0f64]));
    let e = x.nextafter(2.0).unwrap().sum().backward().map(|_| ()).unwrap_err();
    assert!(e.to_string().contains("nextafter has no gradient"), "{e}");
    let g = (&x * d.detach()).sum().backward().unwrap();
    assert_eq!(g.missing().len(), 1);
    let e = g.wrt(&d).unwrap_err().to_string();
    assert!(e.contains("no gradient for variable d") && e.contains("detach at"), "{e}");
    let e = x.exp().detach().backward().map(|_| ()).unwrap_err();
    assert!(e.to_string().contains("depends on no variable"), "{e}");
    let e = Tensor::zeros([3], DType::F32).requires_grad_().exp().backward().map(|_| ()).unwrap_err();
    assert!(e.to_string().contains("the loss must be one number, not [3]"), "{e}");
}

#[test]
fn sizes_at_the_edge_of_what_can_be_counted() {
    let huge = Tensor::zeros([1 << 40, 1 << 40], DType::F32);
    assert!(huge.flatten(0, 1).is_err());
    assert!(huge.mean_dim(.., false).unwrap().to_vec::<f32>().is_err());
    let long = Tensor::zeros([usize::MAX], DType::F32);
    assert!(Tensor::cat(&[&long, &long], 0).is_err());
    let x = Tensor::zeros([4], DType::F32);
    assert!(x.pad(&[i64::MIN, i64::MAX], gradus_core::PadMode::Constant(0.0)).is_err());
}

#[test]
fn bools_stay_bools() {
    let x = Tensor::zeros([1], DType::Bool);
    let (at, src) = (Tensor::from([0i64, 0]), Tensor::from([true, true]));
    let y = x.scatter_add(0, &at, &src).unwrap();
    assert_eq!(y.to_bytes().unwrap(), [1]);
}
