//! Sorting, searching, distinct elements and counts.

use gradus_core::{DType, ErrorKind, Tensor};

fn i64s(t: &Tensor) -> Vec<i64> {
    t.to_vec::<i64>().unwrap()
}

#[test]
fn sorting_is_stable_and_puts_nan_last() {
    let x = Tensor::from([2.0, f64::NAN, 1.0, 2.0]);
    assert_eq!(i64s(&x.argsort(0, false).unwrap()), [2, 0, 3, 1]);
    assert_eq!(i64s(&x.argsort(-1, true).unwrap()), [1, 0, 3, 2]);
    let (v, i) = Tensor::from(7i64).sort(0, false).unwrap();
    assert_eq!((i64s(&v), i64s(&i), v.rank()), (vec![7], vec![0], 0));
    assert_eq!(Tensor::zeros([0, 3], DType::F32).msort().unwrap().dims(), [0, 3]);
}

#[test]
fn sort_gives_gradients_back() {
    let x = Tensor::var("x", Tensor::from([3.0, 1.0, 2.0]));
    let (v, _) = x.sort(0, false).unwrap();
    let y = (v * Tensor::from([1.0, 10.0, 100.0])).sum();
    assert_eq!(y.backward().unwrap().wrt(&x).unwrap().to_vec::<f64>().unwrap(), [100.0, 1.0, 10.0]);
}

#[test]
fn by_rank() {
    let x = Tensor::from([[3i64, 9, 1], [5, 4, 6]]);
    let (v, i) = x.topk(2, 1, true).unwrap();
    assert_eq!((i64s(&v), i64s(&i)), (vec![9, 3, 6, 5], vec![1, 0, 2, 0]));
    let (v, _) = x.topk(1, 0, false).unwrap();
    assert_eq!(i64s(&v), [3, 4, 1]);
    let (v, i) = x.kthvalue(2, 1, true).unwrap();
    assert_eq!((i64s(&v), i64s(&i), v.dims()), (vec![3, 5], vec![0, 0], &[2, 1][..]));
    let e = x.topk(4, 1, true).expect_err("an error");
    assert!(e.to_string().contains("4 of the 3"), "{e}");
    let e = x.kthvalue(0, 1, false).expect_err("an error");
    assert!(e.to_string().contains("1..=3") && e.to_string().contains("not 0"), "{e}");
}

#[test]
fn the_first_by_rank_are_those_of_the_sorted() {
    let x = Tensor::from((0..3 * 211).map(|i| f64::from((i * 37) % 101)).collect::<Vec<_>>());
    let x = x.reshape([3, 211]).unwrap();
    let holes = x.eq(7.0).unwrap().where_(f64::NAN, &x).unwrap();
    for x in [&x, &holes, &x.t().unwrap()] {
        for (dim, largest, k) in [(0, true, 2), (1, true, 3), (1, false, 1), (0, false, 3), (1, true, 0)] {
            let (values, at) = x.topk(k, dim, largest).unwrap();
            let (all, order) = x.sort(dim, largest).unwrap();
            let (all, order) = (all.narrow(dim, 0, k).unwrap(), order.narrow(dim, 0, k).unwrap());
            assert_eq!((i64s(&at), at.dims()), (i64s(&order), order.dims()));
            let bits = |t: &Tensor| t.to_vec::<f64>().unwrap().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&values), bits(&all));
        }
        let (_, at) = x.kthvalue(3, 0, true).unwrap();
        assert_eq!(i64s(&at), i64s(&x.argsort(0, false).unwrap().narrow(0, 2, 1).unwrap()));
    }
    let x = Tensor::var("x", Tensor::from([3.0, 1.0, 2.0]));
    let y = (x.topk(2, 0, true).unwrap().0 * Tensor::from([1.0, 10.0])).sum();
    assert_eq!(y.backward().unwrap().wrt(&x).unwrap().to_vec::<f64>().unwrap(), [1.0, 0.0, 10.0]);
}

#[test]
fn searching() {
    let rows = Tensor::from([[1i64, 3, 5], [2, 2, 2]]);
    let at = rows.searchsorted(&Tensor::from([[3i64, 9], [2, 1]]), true).unwrap();
    assert_eq!(i64s(&at), [2, 3, 3, 0]);
    let edges = Tensor::from([1.0, 2.0]);
    assert_eq!(i64s(&Tensor::from(2.0).bucketize(&edges, false).unwrap()), [1]);
    assert_eq!(i64s(&Tensor::from([[0i64, 2, 7]]).bucketize(&edges, true).unwrap()), [0, 2, 2]);
    let e = rows.searchsorted(&Tensor::from([1i64, 2, 3]), false).expect_err("an error");
    assert!(matches!(e.kind(), ErrorKind::Shape { .. }) && e.to_string().contains("[2, 3] and [3]"), "{e}");
    let x = Tensor::from([1.0, f64::NAN, 5.0]);
    let found = x.isin(&Tensor::from([5.0, f64::NAN])).unwrap();
    assert_eq!(found.to_vec::<bool>().unwrap(), [false, false, true]);
    assert_eq!(x.isin(&Tensor::zeros([0], DType::F64)).unwrap().to_vec::<bool>().unwrap(), [false; 3]);
}

#[test]
fn distinct_slices() {
    let x = Tensor::from([[1i64, 2, 1], [3, 4, 3]]);
    let u = x.unique(Some(1)).unwrap();
    assert_eq!((i64s(&u.values), u.values.dims()), (vec![1, 2, 3, 4], &[2, 2][..]));
    assert_eq!((i64s(&u.inverse), i64s(&u.counts)), (vec![0, 1, 0], vec![2, 1]));
    let u = x.unique(None).unwrap();
    assert_eq!((i64s(&u.values), u.inverse.dims()), (vec![1, 2, 3, 4], &[2, 3][..]));
    let u = Tensor::from([[1i64, 1], [1, 1], [2, 2], [1, 1]]).unique_consecutive(Some(0)).unwrap();
    assert_eq!((i64s(&u.values), i64s(&u.counts)), (vec![1, 1, 2, 2, 1, 1], vec![2, 1, 1]));
    let big = Tensor::from([i64::MAX, i64::MAX - 1]).unique(None).unwrap();
    assert_eq!(big.values.numel(), 2); // not through floats
    let e = Tensor::zeros([2, 0], DType::F32).unique(Some(0)).expect_err("an error");
    assert!(e.to_string().contains("[2, 0]"), "{e}");
    assert_eq!(Tensor::zeros([0], DType::F32).unique(None).unwrap().values.dims(), [0]);
}

#[test]
fn runs_of_equals() {
    for n in [0usize, 1, 7, 40_000] {
        let x: Vec<i64> = (0..n as i64).map(|i| (i * i / 7) % 3).collect();
        let mut runs: Vec<(i64, i64)> = vec![];
        let mut inverse = vec![];
        for &x in &x {
            match runs.last_mut() {
                Some(run) if run.0 == x => run.1 += 1,
                _ => runs.push((x, 1)),
            }
            inverse.push(runs.len() as i64 - 1);
        }
        let (values, counts): (Vec<i64>, Vec<i64>) = runs.into_iter().unzip();
        for dtype in [DType::I64, DType::U8, DType::F32, DType::F64, DType::BF16] {
            let u = Tensor::from_slice(&x, n).unwrap().to_dtype(dtype).unique_consecutive(None).unwrap();
            assert_eq!(u.values.dtype(), dtype);
            assert_eq!(i64s(&u.values.to_dtype(DType::I64)), values);
            assert_eq!((i64s(&u.inverse), i64s(&u.counts)), (inverse.clone(), counts.clone()));
        }
    }
    // Every NaN begins a run; slices keep their axis.
    let u = Tensor::from([1.0f32, f32::NAN, f32::NAN]).unique_consecutive(None).unwrap();
    assert_eq!((u.values.numel(), i64s(&u.inverse)), (3, vec![0, 1, 2]));
    let u = Tensor::from([[1i64, 1, 2], [3, 3, 3]]).unique_consecutive(Some(1)).unwrap();
    assert_eq!((i64s(&u.values), u.values.dims()), (vec![1, 2, 3, 3], &[2, 2][..]));
    assert_eq!((i64s(&u.inverse), i64s(&u.counts)), (vec![0, 0, 1], vec![2, 1]));
    let u = Tensor::from([[1i64, 1], [2, 2]]).unique_consecutive(None).unwrap();
    assert_eq!((u.inverse.dims(), i64s(&u.inverse)), (&[2, 2][..], vec![0, 0, 1, 1]));
}

#[test]
fn counts() {
    let x = Tensor::from([1i64, 3, 1]);
    assert_eq!(i64s(&x.bincount(None, 6).unwrap()), [0, 2, 0, 1, 0, 0]);
    let w = x.bincount(Some(&Tensor::from([0.5f32, 1.0, 2.0])), 0).unwrap();
    assert_eq!((w.dtype(), w.to_vec::<f32>().unwrap()), (DType::F32, vec![0.0, 2.5, 0.0, 1.0]));
    assert_eq!(Tensor::zeros([0], DType::I64).bincount(None, 2).unwrap().to_vec::<i64>().unwrap(), [0, 0]);
    let e = Tensor::from([0i64, -4]).bincount(None, 0).expect_err("an error");
    assert!(e.to_string().contains("-4"), "{e}");
    assert!(matches!(Tensor::from([i64::MAX]).bincount(None, 0).err().unwrap().kind(), ErrorKind::Alloc { .. }));
    let h = Tensor::from([1.0, 2.0, f64::NAN, 9.0]).histc(4, 0.0, 4.0).unwrap();
    assert_eq!(h.to_vec::<f64>().unwrap(), [0.0, 1.0, 1.0, 0.0]);
    assert!(Tensor::from([1.0]).histc(0, 0.0, 1.0).is_err());
    assert!(matches!(Tensor::from([1.0]).histc(usize::MAX, 0.0, 1.0).err().unwrap().kind(), ErrorKind::Alloc { .. }));
}
