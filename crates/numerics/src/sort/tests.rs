use super::*;
use crate::testing::{Random, same_on_any_threads};
use proptest::prelude::*;

fn lanes<T: Copy>(l: Lanes, x: &[T]) -> Vec<Vec<T>> {
    let lane = |o: usize, j: usize| (0..l.n).map(|i| x[(o * l.n + i) * l.inner + j]).collect();
    (0..l.outer).flat_map(|o| (0..l.inner).map(move |j| (o, j))).map(|(o, j)| lane(o, j)).collect()
}

prop_compose! {
    fn shape()(outer in 0usize..4, n in 1usize..40, inner in prop_oneof![0usize..4, 0usize..40]) -> Lanes {
        Lanes { outer, n, inner }
    }
}

/// The stable order by a key in which NaN is infinite: ours has no infinities.
fn reference(x: &[f32], descending: bool) -> Vec<i64> {
    let key = |i: &i64| if x[*i as usize].is_nan() { f32::INFINITY } else { x[*i as usize] };
    let mut order: Vec<i64> = (0..x.len() as i64).collect();
    order.sort_by(|a, b| {
        let o = key(a).partial_cmp(&key(b)).unwrap();
        if descending { o.reverse() } else { o }
    });
    order
}

proptest! {
    #[test]
    fn sorting_matches(seed: u64, l in shape(), k in 0usize..40) {
        let x = Random(seed).ties(l.len());
        let k = k.min(l.n);
        for descending in [false, true] {
            let (mut out, mut top) = (vec![0; l.len()], vec![0; l.outer * k * l.inner]);
            argsort(l, &x, descending, &mut out);
            topk(l, &x, k, descending, &mut top);
            let top = lanes(l.with_n(k), &top);
            for ((x, out), top) in lanes(l, &x).iter().zip(lanes(l, &out)).zip(top) {
                let expected = reference(x, descending);
                prop_assert_eq!(&top[..], &expected[..k]);
                prop_assert_eq!(out, expected);
            }
        }
    }

    #[test]
    fn order_statistics_match(seed: u64, l in shape(), k in 1usize..40) {
        let x = Random(seed).ties(l.len());
        let k = k.min(l.n);
        let run = |f: &dyn Fn(&mut [i64])| {
            let mut out = vec![-1; l.count()];
            f(&mut out);
            out
        };
        let kth = run(&|out| kthvalue(l, &x, k, out));
        let med = run(&|out| median(l, &x, false, out));
        let nanmed = run(&|out| median(l, &x, true, out));
        let modes = run(&|out| mode(l, &x, out));
        for (i, x) in lanes(l, &x).iter().enumerate() {
            let order = reference(x, false);
            let nans = x.iter().filter(|x| x.is_nan()).count();
            prop_assert_eq!(kth[i], order[k - 1]);
            prop_assert_eq!(nanmed[i], order[(x.len() - nans).saturating_sub(1) / 2]);
            match x.iter().position(|x| x.is_nan()) {
                Some(p) => prop_assert_eq!(med[i], p as i64),
                None => prop_assert_eq!(med[i], order[(x.len() - 1) / 2]),
            }
            // The mode: most frequent, then smallest; its last position.
            let count = |v: f32| x.iter().filter(|x| **x == v).count().max(1);
            let most = x.iter().map(|v| count(*v)).max().unwrap();
            let smallest = order.iter().map(|p| x[*p as usize]).find(|v| count(*v) == most).unwrap();
            if smallest.is_nan() {
                prop_assert!(x[modes[i] as usize].is_nan());
            } else {
                prop_assert_eq!(modes[i] as usize, x.iter().rposition(|v| *v == smallest).unwrap());
            }
        }
    }

    #[test]
    fn searching_matches(seed: u64, rows in 1usize..4, n in 0usize..10, m in 0usize..10, shared: bool, right: bool) {
        let mut r = Random(seed);
        let b = if shared { 1 } else { rows };
        let mut sorted: Vec<i64> = (0..b * n).map(|_| r.below(8) as i64).collect();
        sorted.chunks_mut(n.max(1)).for_each(|s| s.sort_unstable());
        let values: Vec<i64> = (0..rows * m).map(|_| r.below(10) as i64 - 1).collect();
        let mut out = vec![-1; rows * m];
        searchsorted(Lanes::rows(b, n), &sorted, Lanes::rows(rows, m), &values, right, &mut out);
        for (p, v) in values.iter().enumerate() {
            let row = if shared { &sorted[..] } else { &sorted[p / m * n..][..n] };
            let expected = row.iter().filter(|s| if right { *s <= v } else { *s < v }).count();
            prop_assert_eq!(out[p], expected as i64);
        }
    }
}

#[test]
fn nan_is_searched_to_the_end() {
    let mut out = [0; 2];
    let row = [1.0, 2.0, f32::NAN];
    searchsorted(Lanes::rows(1, 3), &row, Lanes::rows(1, 2), &[f32::NAN, 2.0], false, &mut out);
    assert_eq!(out, [3, 1]);
}

#[test]
fn few_edges_are_found_as_many_are() {
    let values: Vec<f32> = (0..300).map(|i| if i % 7 == 0 { f32::NAN } else { (i % 23) as f32 / 2.0 }).collect();
    for n in [0, 1, 9, FEW_EDGES, FEW_EDGES + 1] {
        let edges: Vec<f32> = (0..n).map(|i| (i / 2) as f32).collect();
        for right in [false, true] {
            let mut out = vec![-1; values.len()];
            searchsorted(Lanes::rows(1, n), &edges, Lanes::rows(1, values.len()), &values, right, &mut out);
            for (v, out) in values.iter().zip(out) {
                let passed = |e: &&f32| if right { **e <= *v } else { **e < *v };
                let want = if v.is_nan() { n } else { edges.iter().filter(passed).count() };
                assert_eq!(out as usize, want, "{v} among {n}");
            }
        }
    }
}

#[test]
fn lanes_of_every_type_sort_side_by_side() {
    fn check<T: Order>(l: Lanes, x: &[T]) {
        for descending in [false, true] {
            let k = l.n.min(3);
            let (mut out, mut top) = (vec![-1; l.len()], vec![-1; l.count() * k]);
            argsort(l, x, descending, &mut out);
            topk(l, x, k, descending, &mut top);
            for ((x, out), top) in lanes(l, x).iter().zip(lanes(l, &out)).zip(lanes(l.with_n(k), &top)) {
                let mut expected: Vec<i64> = (0..l.n as i64).collect();
                expected.sort_by(|&a, &b| {
                    let order = x[a as usize].order(&x[b as usize]);
                    if descending { order.reverse() } else { order }
                });
                assert_eq!(top, expected[..k], "{l:?}");
                assert_eq!(out, expected, "{l:?}");
            }
        }
    }
    let mut r = Random(17);
    for (outer, n, inner) in [(21, 9, 1), (17, 16, 1), (3, 5, 13), (1, 16, 30), (2, 70, 3), (9, 200, 1), (40, 1, 1)] {
        let l = Lanes { outer, n, inner };
        let ties = r.ties(l.len());
        check(l, &ties);
        check(l, &r.f32s(l.len()).iter().map(|&x| f64::from(x).exp()).collect::<Vec<_>>());
        check(l, &ties.iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
        check(l, &ties.iter().map(|&x| half::bf16::from_f32(x)).collect::<Vec<_>>());
        check(l, &(0..l.len()).map(|_| (r.below(5) as i64 - 2) << 61).collect::<Vec<_>>());
        check(l, &(0..l.len()).map(|_| r.below(3) == 0).collect::<Vec<_>>());
    }
}

#[test]
fn integers_and_booleans_sort() {
    let mut out = [0; 3];
    argsort(Lanes::rows(1, 3), &[true, false, true], true, &mut out);
    assert_eq!(out, [0, 2, 1]);
    argsort(Lanes::rows(1, 3), &[i64::MAX, i64::MIN, 0], false, &mut out);
    assert_eq!(out, [1, 2, 0]);
}

#[test]
fn threads_do_not_change_the_order() {
    let l = Lanes { outer: 64, n: 100, inner: 9 };
    let x = Random(6).ties(l.len());
    same_on_any_threads(|| {
        let (mut sorted, mut top) = (vec![0; l.len()], vec![0; l.count() * 5]);
        argsort(l, &x, false, &mut sorted);
        topk(l, &x, 5, true, &mut top);
        (sorted, top)
    });
}

#[test]
fn the_first_of_long_lanes_match() {
    let mut r = Random(11);
    for (outer, n, inner, k) in
        [(3, 1003, 1, 10), (2, 700, 3, 1), (1, 501, 2, 200), (1, 300, 1, 300), (0, 9, 2, 3), (2, 9, 0, 3), (2, 9, 2, 0)]
    {
        let l = Lanes { outer, n, inner };
        let rising: Vec<f32> = (0..l.len()).map(|i| i as f32).collect();
        let falling: Vec<f32> = rising.iter().map(|x| -x).collect();
        for x in [r.ties(l.len()), r.f32s(l.len()), rising, falling, vec![f32::NAN; l.len()]] {
            for largest in [false, true] {
                let mut top = vec![-1; l.count() * k];
                topk(l, &x, k, largest, &mut top);
                for (x, top) in lanes(l, &x).iter().zip(lanes(l.with_n(k), &top)) {
                    assert_eq!(top, reference(x, largest)[..k], "{k} of {n}, largest: {largest}");
                }
            }
        }
    }
}

#[test]
fn dealing_out_is_sorting() {
    for (n, mask) in
        [(255, u64::MAX), (300, 0xff), (1000, 0xffff_ff00), (5000, 0xf0f0 << 40), (70_000, u64::MAX), (300, 0)]
    {
        let mut x = 88_172_645_463_325_252u64;
        let mut items: Vec<(u64, u32)> = (0..n)
            .map(|i| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                (x & mask, i)
            })
            .collect();
        let mut want = items.clone();
        want.sort();
        assert_eq!(super::sorted(&mut items), want, "{n} {mask:x}");
    }
}

#[test]
fn every_length_sorts_as_comparing_does() {
    let mut r = Random(13);
    for n in (0..40).chain([63, 64, 65, 255, 300, 1003, 9000, 70_000, 300_000]) {
        let floats = r.f32s(n);
        let ties: Vec<i64> = (0..n).map(|_| r.below(7) as i64 - 3).collect();
        let wide: Vec<i64> = (0..n).map(|_| (r.below(1 << 30) << 30) as i64).collect();
        let doubles: Vec<f64> = r.f32s(n).iter().map(|&x| f64::from(x).exp()).collect();
        let nans: Vec<f32> = floats.iter().enumerate().map(|(i, x)| if i % 5 == 0 { f32::NAN } else { *x }).collect();
        fn check<T: Order>(x: &[T]) {
            for descending in [false, true] {
                let mut expected: Vec<i64> = (0..x.len() as i64).collect();
                expected.sort_by(|&a, &b| {
                    let order = x[a as usize].order(&x[b as usize]);
                    if descending { order.reverse() } else { order }
                });
                let mut out = vec![0; x.len()];
                argsort(Lanes::rows(1, x.len()), x, descending, &mut out);
                assert!(out == expected, "{} elements, descending: {descending}", x.len());
            }
        }
        check(&floats);
        check(&ties);
        check(&wide);
        check(&doubles);
        check(&nans);
    }
}

#[test]
fn ranks_of_long_lanes_are_found_as_by_sorting() {
    fn check<T: Order + std::fmt::Debug>(x: &[T]) {
        let (n, l) = (x.len(), Lanes::rows(1, x.len()));
        let mut order = vec![0; n];
        argsort(l, x, false, &mut order);
        let find = |f: &dyn Fn(&mut [i64])| {
            let mut out = [-1];
            f(&mut out);
            out[0]
        };
        for k in [1, 2, n / 3, n / 2, n / 2 + 1, n - 1, n] {
            assert_eq!(find(&|out| kthvalue(l, x, k, out)), order[k - 1], "rank {k} of {n}");
        }
        let nans = x.iter().filter(|x| x.is_nan()).count();
        assert_eq!(find(&|out| median(l, x, true, out)), order[(n - nans).saturating_sub(1) / 2]);
        let first = x.iter().position(|x| x.is_nan());
        assert_eq!(find(&|out| median(l, x, false, out)), first.map_or(order[(n - 1) / 2], |p| p as i64));
    }
    let mut r = Random(7);
    for n in [4095, 4096, 5003, 40_001] {
        let ties: Vec<i64> = (0..n).map(|_| r.below(40) as i64 - 20).collect();
        check(&ties);
        check(&ties.iter().map(|x| *x as u8).collect::<Vec<_>>());
        check(&ties.iter().map(|x| *x << 50).collect::<Vec<_>>());
        check(&vec![-3i32; n]);
        // The last of one key and the first of the next.
        check(&(0..n).map(|i| (i % 2) as i16).collect::<Vec<_>>());
        let floats: Vec<f64> = (0..n).map(|_| (r.below(1 << 20) as f64 - 5e5) * 1e-3).collect();
        check(&floats);
        check(&floats.iter().map(|x| *x as f32).collect::<Vec<_>>());
        let ends = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.0, -0.0];
        check(
            &floats.iter().map(|x| if *x > 0.0 { *x as f32 } else { ends[x.abs() as usize % 5] }).collect::<Vec<_>>(),
        );
    }
}

#[test]
fn every_order_is_as_likely_as_any_other() {
    let mut r = Random(3);
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..24_000 {
        let u: Vec<f64> = (0..4).map(|_| r.below(1 << 30) as f64 / (1u64 << 30) as f64).collect();
        let mut out = [0; 4];
        shuffled(&u, &mut out);
        *counts.entry(out).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 24);
    // A thousand each, give or take five deviations.
    assert!(counts.values().all(|&c: &i32| (850..1150).contains(&c)), "{counts:?}");
    let (mut out, u) = (vec![0; 1000], vec![1.0 - f64::EPSILON; 1000]);
    shuffled(&u, &mut out);
    assert_eq!(out, (0..1000).collect::<Vec<i64>>());
}
