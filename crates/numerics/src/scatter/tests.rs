use super::*;
use crate::Lanes;
use crate::testing::{Random, bits, same_on_any_threads};
use proptest::prelude::*;

const MODES: [Mode; 5] = [Mode::Assign, Mode::Add, Mode::Mul, Mode::Min, Mode::Max];

fn coordinates(mut p: usize, shape: &[usize]) -> Vec<usize> {
    let mut c = vec![0; shape.len()];
    for d in (0..shape.len()).rev() {
        (c[d], p) = (p % shape[d], p / shape[d]);
    }
    c
}

fn position(c: &[usize], shape: &[usize]) -> usize {
    c.iter().zip(shape).fold(0, |p, (c, n)| p * n + c)
}

fn apply(mode: Mode, old: f32, new: f32) -> f32 {
    let nan = old.is_nan() || new.is_nan();
    match mode {
        Mode::Assign => new,
        Mode::Add => old + new,
        Mode::Mul => old * new,
        Mode::Min | Mode::Max if nan => f32::NAN,
        Mode::Min => old.min(new),
        Mode::Max => old.max(new),
    }
}

fn same(a: &[f32], b: &[f32]) -> bool {
    a.iter().zip(b).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()))
}

proptest! {
    #[test]
    fn scatter_and_gather_match(seed: u64, rank in 0usize..4, mode in 0usize..5, broadcast: bool) {
        let mut r = Random(seed);
        let shape: Vec<usize> = (0..rank).map(|_| 1 + r.below(4)).collect();
        let axis = if rank > 0 { r.below(rank) } else { 0 };
        let index_shape: Vec<usize> =
            (0..rank).map(|d| if d == axis { r.below(6) } else { r.below(shape[d] + 1) }).collect();
        let size = shape.get(axis).copied().unwrap_or(1);
        let count: usize = index_shape.iter().product();
        let index: Vec<i64> = (0..count).map(|_| r.below(2 * size) as i64 - size as i64).collect();
        let strides: Vec<isize> = if broadcast { vec![0; rank] } else { row_major_strides(&index_shape) };
        let src = r.ties(count + 3);
        let before = r.ties(shape.iter().product());

        let (mut expected, mut picked) = (before.clone(), Vec::new());
        for (p, &ix) in index.iter().enumerate() {
            let mut c = coordinates(p, &index_shape);
            if rank > 0 {
                c[axis] = ix.rem_euclid(size as i64) as usize;
            }
            let to = position(&c, &shape);
            expected[to] = apply(MODES[mode], expected[to], src[2 + if broadcast { 0 } else { p }]);
            picked.push(before[to]);
        }
        let mut dst = before.clone();
        let source = Source { data: &src, offset: 2, strides: &strides };
        scatter(None, &mut dst, &shape, axis, &index, &index_shape, source, MODES[mode], Negative::Wrap).unwrap();
        prop_assert!(same(&dst, &expected), "{:?} {:?}", dst, expected);

        let mut out = vec![0.0; count];
        gather(&before, &shape, axis, &index, &index_shape, &mut out, Negative::Wrap).unwrap();
        prop_assert!(same(&out, &picked));
    }

    #[test]
    fn rows_match(seed: u64, outer in 0usize..40, n in 1usize..5, inner in 0usize..20, count in 0usize..7, mode in 0usize..5) {
        let mut r = Random(seed);
        let l = Lanes { outer, n, inner };
        let index: Vec<i64> = (0..count).map(|_| r.below(n) as i64).collect();
        let (before, src) = (r.f32s(l.len()), r.f32s(outer * count * inner));
        let (mut expected, mut picked) = (before.clone(), Vec::new());
        for o in 0..outer {
            for (i, &ix) in index.iter().enumerate() {
                for j in 0..inner {
                    let to = (o * n + ix as usize) * inner + j;
                    expected[to] = apply(MODES[mode], expected[to], src[(o * count + i) * inner + j]);
                    picked.push(before[to]);
                }
            }
        }
        let mut dst = before.clone();
        index_rows(None, l, &mut dst, &index, &src, MODES[mode], Negative::Reject).unwrap();
        prop_assert_eq!(dst, expected);
        let mut out = vec![0.0; src.len()];
        select_rows(l, &before, &index, &mut out, Negative::Reject).unwrap();
        prop_assert_eq!(out, picked);
    }
}

#[test]
fn bad_indices_are_named_and_their_line_is_not_written() {
    let mut dst = [1.0; 3];
    let src = Source { data: &[5.0, 5.0], offset: 0, strides: &[1] };
    let e = scatter(None, &mut dst, &[3], 0, &[0, 3], &[2], src, Mode::Add, Negative::Wrap).unwrap_err();
    assert_eq!(e, IndexError { position: 1, index: 3, size: 3 });
    assert_eq!(e.to_string(), "index 3 at position 1 is out of range for size 3");
    assert!(scatter(None, &mut dst, &[3], 0, &[0, -1], &[2], src, Mode::Add, Negative::Reject).is_err());
    assert!(index_rows(None, Lanes::rows(1, 3), &mut dst, &[-4], &[1.0], Mode::Add, Negative::Wrap).is_err());
    assert!(select_rows(Lanes::rows(1, 0), &[] as &[f32], &[0], &mut [0.0], Negative::Wrap).is_err());
    assert!(gather(&[1], &[1], 0, &[i64::MIN], &[1], &mut [0], Negative::Wrap).is_err());
    assert_eq!(dst, [1.0; 3]);
}

#[test]
fn threads_do_not_change_a_bit() {
    let mut r = Random(7);
    let (rows, count, inner) = (37, 3000, 48);
    let index: Vec<i64> = (0..count).map(|_| r.below(rows) as i64).collect();
    let src = r.f32s(count * inner);
    let shape = [60, 50, 20];
    let many: Vec<i64> = (0..60 * 50 * 20).map(|_| r.below(50) as i64).collect();
    let values = r.f32s(many.len());
    same_on_any_threads(|| {
        let mut dst = vec![0.0; rows * inner];
        let l = Lanes { outer: 1, n: rows, inner };
        index_rows(None, l, &mut dst, &index, &src, Mode::Add, Negative::Reject).unwrap();
        let mut other = vec![0.0; many.len()];
        let source = Source { data: &values, offset: 0, strides: &[1000, 20, 1] };
        scatter(None, &mut other, &shape, 1, &many, &shape, source, Mode::Add, Negative::Reject).unwrap();
        (bits(&dst), bits(&other))
    });
}

#[test]
fn large_row_updates_match_small_ones() {
    let mut r = Random(8);
    let l = Lanes { outer: 2, n: 1000, inner: 32 };
    let index: Vec<i64> = (0..4000).map(|_| r.below(1000) as i64).collect();
    let src = r.f32s(2 * 4000 * 32);
    let mut dst = vec![0.0; l.len()];
    index_rows(None, l, &mut dst, &index, &src, Mode::Add, Negative::Reject).unwrap();
    let mut expected = vec![0.0; l.len()];
    for o in 0..2 {
        for (i, ix) in index.iter().enumerate() {
            for j in 0..32 {
                expected[(o * 1000 + *ix as usize) * 32 + j] += src[(o * 4000 + i) * 32 + j];
            }
        }
    }
    assert_eq!(dst, expected);
}

#[test]
fn narrow_rows_keep_their_order_abreast() {
    let mut r = Random(12);
    for (outer, n, inner, count) in
        [(700, 16, 1, 300), (21, 9, 3, 1000), (16, 2, 15, 90), (5, 3, 1, 7), (300, 70, 2, 40)]
    {
        let l = Lanes { outer, n, inner };
        assert!(woven::suits::<f32>(l, count));
        let index: Vec<i64> = (0..count).map(|_| r.below(2 * n) as i64 - n as i64).collect();
        let (base, src) = (r.f32s(l.len()), r.f32s(outer * count * inner));
        let mut expected = base.clone();
        for (p, x) in src.iter().enumerate() {
            let (o, i, j) = (p / inner / count, index[p / inner % count], p % inner);
            expected[(o * n + i.rem_euclid(n as i64) as usize) * inner + j] += x;
        }
        same_on_any_threads(|| {
            let mut dst = vec![f32::NAN; l.len()];
            index_rows(Some(&base), l, &mut dst, &index, &src, Mode::Add, Negative::Wrap).unwrap();
            assert!(bits(&dst) == bits(&expected), "{l:?}, {count}");
            bits(&dst)
        });
    }
}

#[test]
fn large_selections_written_past_the_caches() {
    for inner in [48, 50, 4096] {
        let l = Lanes { outer: 1, n: 300, inner };
        let src: Vec<f32> = (0..l.len()).map(|i| i as f32).collect();
        let index: Vec<i64> = (0..copy::STREAM_BYTES / 4 / inner + 1).map(|i| (i * 7919 % 300) as i64).collect();
        let mut room = vec![-1.0f32; index.len() * inner + 16];
        let skip = room.as_ptr().align_offset(64);
        let (before, out) = room.split_at_mut(skip);
        let (out, after) = out.split_at_mut(index.len() * inner);
        select_rows(l, &src, &index, out, Negative::Reject).unwrap();
        for (row, &i) in out.chunks(inner).zip(&index) {
            assert_eq!(row, &src[i as usize * inner..][..inner]);
        }
        assert!(before.iter().chain(after.iter()).all(|&x| x == -1.0));
    }
}

#[test]
fn one_number_and_a_base() {
    let base: Vec<f32> = (0..24).map(|x| x as f32).collect();
    for (outer, n, inner) in [(1, 4, 6), (2, 4, 3), (12, 2, 1), (1, 24, 1)] {
        let l = Lanes { outer, n, inner };
        let mut out = vec![f32::NAN; 24];
        index_rows(Some(&base), l, &mut out, &[1, 0, 1], &[2.0], Mode::Add, Negative::Reject).unwrap();
        for (p, (o, b)) in out.iter().zip(&base).enumerate() {
            let times = [1.0, 2.0].get(p / inner % n).copied().unwrap_or(0.0);
            assert_eq!(*o, b + 2.0 * times, "{l:?} at {p}");
        }
        index_rows(Some(&base), l, &mut out, &[1], &[-1.0], Mode::Assign, Negative::Reject).unwrap();
        let expected = |p: usize| if p / inner % n == 1 { -1.0 } else { base[p] };
        assert!(out.iter().enumerate().all(|(p, o)| *o == expected(p)), "{l:?}");
    }
    let (mut out, src) = (vec![0.0; 24], Source { data: &[1.0f32, 2.0], offset: 0, strides: &[1, 1] });
    scatter(Some(&base), &mut out, &[4, 6], 1, &[5, 0], &[2, 1], src, Mode::Assign, Negative::Reject).unwrap();
    assert_eq!((out[5], out[6], out[7]), (1.0, 2.0, 7.0));
}

#[test]
fn large_scatters_do_not_depend_on_threads() {
    scatters(&[200, 3, 301]);
    scatters(&[1500, 7, 3]);
    scatters(&[1500, 1, 21]);
    scatters(&[3, 9000, 2]);
}

fn scatters(shape: &[usize; 3]) {
    let mut r = Random(11);
    let n: usize = shape.iter().product();
    let (base, data) = (r.f32s(n), r.f32s(n));
    let strides = row_major_strides(shape);
    for axis in 0..3 {
        let index: Vec<i64> = (0..n).map(|_| r.below(shape[axis]) as i64).collect();
        let mut expected = base.clone();
        for (p, &i) in index.iter().enumerate() {
            let mut c = coordinates(p, shape);
            c[axis] = i as usize;
            expected[position(&c, shape)] += data[p];
        }
        let run = |index: &[i64]| {
            let mut out = vec![0.0; n];
            let src = Source { data: &data, offset: 0, strides: &strides };
            let done = scatter(Some(&base), &mut out, shape, axis, index, shape, src, Mode::Add, Negative::Reject);
            done.map(|()| out)
        };
        same_on_any_threads(|| bits(&run(&index).unwrap()));
        assert!(bits(&run(&index).unwrap()) == bits(&expected));
        let mut wrong = index.clone();
        (wrong[n / 2], wrong[n - 1]) = (-1, 1000);
        let e = run(&wrong).unwrap_err();
        assert_eq!((e.position, e.index, e.size), (n / 2, -1, shape[axis]));
    }
}

#[test]
fn short_rows_are_selected() {
    let mut r = Random(5);
    for inner in 1..10 {
        let l = Lanes { outer: 3, n: 50, inner };
        let x: Vec<usize> = (0..l.len()).collect();
        let index: Vec<i64> = (0..9000).map(|_| r.below(50) as i64).collect();
        let mut out = vec![0; 3 * 9000 * inner];
        select_rows(l, &x, &index, &mut out, Negative::Reject).unwrap();
        let expected = |p: usize| (p / inner / 9000 * 50 + index[p / inner % 9000] as usize) * inner + p % inner;
        assert!(out.iter().enumerate().all(|(p, o)| *o == expected(p)));
    }
}

#[test]
fn sums_of_16_bits_are_rounded_one_by_one() {
    let mut r = Random(13);
    let (rows, columns, n) = (9, 333, 9 * 333);
    let numbers = |r: &mut Random| r.f32s(n).into_iter().map(half::bf16::from_f32).collect::<Vec<_>>();
    let (base, data) = (numbers(&mut r), numbers(&mut r));
    let index: Vec<i64> = (0..n).map(|_| r.below(rows) as i64).collect();
    let mut expected = base.clone();
    for (p, &i) in index.iter().enumerate() {
        let to = &mut expected[i as usize * columns + p % columns];
        *to += data[p];
    }
    let (mut out, shape) = (base.clone(), [rows, columns]);
    let src = Source { data: &data, offset: 0, strides: &[columns as isize, 1] };
    scatter(Some(&base), &mut out, &shape, 0, &index, &shape, src, Mode::Add, Negative::Reject).unwrap();
    assert_eq!(out, expected);
}
