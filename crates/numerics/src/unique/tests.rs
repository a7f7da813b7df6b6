use super::*;
use crate::testing::Random;
use proptest::prelude::*;
use std::collections::BTreeMap;

proptest! {
    #[test]
    fn distinct_rows_match(seed: u64, rows in 0usize..30, cols in 1usize..4) {
        let mut r = Random(seed);
        let x: Vec<i64> = (0..rows * cols).map(|_| r.below(3) as i64).collect();
        let row = |i: usize| &x[i * cols..][..cols];
        let mut counts = BTreeMap::new();
        (0..rows).for_each(|i| *counts.entry(row(i)).or_insert(0i64) += 1);
        let g = unique_rows(&x, rows, cols);
        prop_assert_eq!(g.first.iter().map(|&i| row(i)).collect::<Vec<_>>(), counts.keys().copied().collect::<Vec<_>>());
        prop_assert_eq!(&g.counts, &counts.values().copied().collect::<Vec<_>>());
        for i in 0..rows {
            prop_assert_eq!(row(g.first[g.inverse[i] as usize]), row(i));
        }
        if cols == 1 {
            prop_assert_eq!(g, unique(&x));
        }
    }

    #[test]
    fn rows_are_new_where_they_differ(seed: u64, rows in 0usize..200, cols in 1usize..4) {
        let mut r = Random(seed);
        let x: Vec<i64> = (0..rows * cols).map(|_| r.below(2) as i64).collect();
        let mut new = vec![false; rows];
        new_rows(&x, cols, &mut new);
        let row = |i: usize| &x[i * cols..][..cols];
        prop_assert!((0..rows).all(|i| new[i] == (i == 0 || row(i) != row(i - 1))));
    }
}

#[test]
fn every_nan_is_its_own() {
    let x = [f32::NAN, 1.0, f32::NAN, 1.0];
    let g = unique(&x);
    assert_eq!((g.counts, g.inverse), (vec![2, 1, 1], vec![1, 0, 2, 0]));
}

#[test]
fn histograms() {
    assert_eq!(histc(&[0.0, 1.0, 2.0, 3.0, 4.0, -1.0, f64::NAN], 4, 0.0, 4.0), Some(vec![1.0, 1.0, 1.0, 2.0]));
    assert_eq!(histc(&[1.0, 3.0], 2, 0.0, 0.0), Some(vec![1.0, 1.0]));
    assert_eq!(histc(&[2i64, 2], 2, 0.0, 0.0), Some(vec![0.0, 2.0]));
    assert_eq!(histc::<f32>(&[], 2, 0.0, 0.0), Some(vec![0.0, 0.0]));
    assert_eq!(histc(&[f32::NAN, 1.0], 2, 0.0, 0.0), None);
    assert_eq!(histc(&[f32::INFINITY, 1.0], 2, 0.0, 0.0), None);
    assert_eq!(histc(&[1.0], 2, 3.0, 1.0), None);
    assert_eq!(histc(&[1.0], 0, 0.0, 1.0), None);
}

#[test]
fn counts() {
    assert_eq!(bincount(&[], 3), Ok(vec![0, 0, 0]));
    assert_eq!(bincount(&[2, -1], 0), Err(1));
    assert_eq!(bincount_weighted(&[1, 0, 1], &[0.5, 1.0, 2.0], 3), Ok(vec![1.0, 2.5, 0.0]));
}

#[test]
fn many_values_are_found_by_all_ways() {
    let mut r = Random(17);
    for (n, below) in [(1000, 10), (100_000, 500), (100_000, 1 << 40), (70_000, 1 << 20)] {
        let x: Vec<i64> = (0..n).map(|_| r.below(below) as i64 - 100).collect();
        let mut expected = x.clone();
        expected.sort();
        expected.dedup();
        let g = unique(&x);
        assert!(g.values(&x) == expected);
        assert!(x.iter().zip(&g.inverse).all(|(x, &i)| expected[i as usize] == *x));
        assert!(g.first.iter().zip(&expected).all(|(&p, e)| x[..p].iter().all(|x| x != e) || p > 5000));
        let mut counts = vec![0; expected.len()];
        g.inverse.iter().for_each(|&i| counts[i as usize] += 1);
        assert!(g.counts == counts);
        assert!(extent(&x) == (expected[0], expected[expected.len() - 1]));
    }
    let x: Vec<i64> = (0..100_000).map(|_| r.below(300) as i64).collect();
    let counts = bincount(&x, 0).unwrap();
    assert!((0..300).all(|v| counts[v] == x.iter().filter(|&&x| x == v as i64).count() as i64));
}

#[test]
fn counts_of_any_length_match() {
    for len in [0usize, 1, 7, 999, 4099, 20_001, 70_003] {
        for bins in [1usize, 3, 37, 500] {
            let x: Vec<i64> = (0..len).map(|i| (i * i * 7 + i / 3) as i64 % bins as i64).collect();
            let mut plain = vec![0; bins];
            x.iter().for_each(|&x| plain[x as usize] += 1);
            assert_eq!(bincount(&x, bins), Ok(plain), "{len} elements in {bins}");
            let ends = (x.iter().min().copied().unwrap_or(0), x.iter().max().copied().unwrap_or(-1));
            assert_eq!(extent(&x), ends);
        }
    }
}

#[test]
fn new_rows_are_found_by_all_threads() {
    let mut r = Random(5);
    let x: Vec<f32> = (0..100_001).map(|_| if r.below(9) == 0 { f32::NAN } else { r.below(2) as f32 }).collect();
    let mut new = vec![false; x.len()];
    new_rows(&x, 1, &mut new);
    assert!((0..x.len()).all(|i| new[i] == (i == 0 || x[i] != x[i - 1])));
}
