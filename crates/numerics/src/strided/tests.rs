//! Layouts against reading element by element.

use super::Strided;
use proptest::prelude::*;

/// Element by element.
fn slowly(axes: &[(usize, isize, (usize, usize))], source: &[u32], at: usize) -> u32 {
    let (mut at, mut place) = (at, 0);
    for &(n, step, there) in axes.iter().rev() {
        let i = at % n;
        if !(there.0..there.1).contains(&i) {
            return 0;
        }
        (place, at) = (place + i as isize * step, at / n);
    }
    source[place as usize]
}

proptest! {
    #[test]
    fn any_part_of_any_layout(
        extents in prop::collection::vec((1usize..20, 0usize..3, 0usize..3), 0..5),
        order in any::<u64>(), flat in any::<bool>(), step in 1usize..3, from in 0usize..50, len in 1usize..300,
    ) {
        // Axes lie in some order of their own, and some not at all.
        let mut by: Vec<usize> = (0..extents.len()).collect();
        by.sort_by_key(|&a| (order >> (8 * a)) & 255);
        let (mut steps, mut n) = (vec![0; extents.len()], step);
        for &a in &by {
            if flat && (order >> a) & 3 == 0 {
                continue;
            }
            steps[a] = n as isize;
            n *= extents[a].0;
        }
        let axes: Vec<_> = extents.iter().zip(&steps).map(|(&(n, a, b), &s)| (n, s, (a.min(n), n - b.min(n - a.min(n))))).collect();
        let total: usize = extents.iter().map(|e| e.0).product();
        let from = from % total;
        let len = len.min(total - from);
        let source: Vec<u32> = (0..n as u32 + 1).map(|i| i + 7).collect();
        let mut out = vec![9; len];
        let laid = Strided::new(axes.iter().copied());
        // SAFETY: the extents and steps stay below `n`.
        unsafe { laid.read(source.as_ptr(), from, &mut out) };
        let want: Vec<u32> = (from..from + len).map(|at| slowly(&axes, &source, at)).collect();
        prop_assert_eq!(&out, &want);
        // And back, where no two elements are one and all are there.
        if !steps.contains(&0) {
            let laid = Strided::new(axes.iter().map(|&(n, step, _)| (n, step, (0, n))));
            let mut target = vec![0; source.len()];
            let values: Vec<u32> = (0..len as u32).map(|i| i + 1).collect();
            // SAFETY: as above.
            unsafe { laid.write(target.as_mut_ptr(), from, &values) };
            let mut again = vec![0; len];
            // SAFETY: as above.
            unsafe { laid.read(target.as_ptr(), from, &mut again) };
            prop_assert_eq!(again, values);
            prop_assert_eq!(target.iter().filter(|x| **x != 0).count(), len);
        }
    }
}

/// Lines that lie backwards or in steps, one after the other or with a gap.
#[test]
fn short_lines_in_steps() {
    fn one<T: Copy + PartialEq + std::fmt::Debug + TryFrom<usize>>() {
        for (width, gap, along) in (1..70).flat_map(|w| [(w, 0, -1isize), (w, 3, -1), (w, 0, 2), (w, 1, 3), (w, 0, -2)])
        {
            let step = along.unsigned_abs() * width + gap;
            for count in [1, 2, 9, 100] {
                let source: Vec<T> = (0..count * step).filter_map(|i| T::try_from(i % 251).ok()).collect();
                let mut out: Vec<T> = vec![source[0]; count * width + 3];
                let first = if along < 0 { step - 1 - gap } else { 0 };
                let laid = Strided::new([(count, step as isize, (0, count)), (width, along, (0, width))]);
                // SAFETY: the lines are inside.
                unsafe { laid.read(source[first..].as_ptr(), 0, &mut out[..count * width]) };
                for (at, x) in out[..count * width].iter().enumerate() {
                    let from = (first + at / width * step) as isize + (at % width) as isize * along;
                    assert_eq!(*x, source[from as usize], "{count} lines of {width}, {along} and {gap}: {at}");
                }
                assert!(out[count * width..].iter().all(|x| *x == source[0]), "nothing is written behind");
            }
        }
    }
    one::<u8>();
    one::<u16>();
    one::<u32>();
    one::<u64>();
}

/// Borders of all widths around rows of all lengths.
#[test]
fn rows_with_zeros_around() {
    for (width, left, right) in
        (1..40).flat_map(|w| (0..12).map(move |g| (w, g % 5, g))).chain([(200, 3, 70), (3, 90, 1)])
    {
        for (top, bottom) in [(0, 0), (2, 1)] {
            let (rows, pitch) = (7 + top + bottom, left + width + right);
            let source: Vec<u16> = (1..=3 * 7 * width as u16).collect();
            let axes = [
                (3, 7 * width as isize, (0, 3)),
                (rows, width as isize, (top, top + 7)),
                (pitch, 1, (left, left + width)),
            ];
            let laid = Strided::new(axes);
            let mut out = vec![9; 3 * rows * pitch];
            // The array would begin so many elements before.
            let before = source.as_ptr().wrapping_sub(top * width + left);
            // SAFETY: what is there is inside.
            unsafe { laid.read(before, 0, &mut out) };
            for (at, x) in out.iter().enumerate() {
                let (p, r, c) = (at / pitch / rows, at / pitch % rows, at % pitch);
                let there = (top..top + 7).contains(&r) && (left..left + width).contains(&c);
                let want = if there { source[(p * 7 + r - top) * width + c - left] } else { 0 };
                assert_eq!(*x, want, "{width} {left} {right} {top}: {at}");
            }
        }
    }
}

#[test]
fn rows_of_every_length_and_type() {
    fn one<T: Copy + PartialEq + std::fmt::Debug + TryFrom<usize>>() {
        for width in 1..140 {
            let source: Vec<T> = (0..4 * (width + 3)).filter_map(|i| T::try_from(i % 251).ok()).collect();
            let mut out: Vec<T> = vec![source[0]; 4 * width];
            let laid = Strided::new([(4, width as isize + 3, (0, 4)), (width, 1, (0, width))]);
            // SAFETY: the rows are inside.
            unsafe { laid.read(source.as_ptr(), 0, &mut out) };
            for (i, row) in out.chunks(width).enumerate() {
                assert_eq!(row, &source[i * (width + 3)..][..width], "{width}");
            }
        }
    }
    one::<u8>();
    one::<u16>();
    one::<u32>();
    one::<u64>();
}

#[test]
fn every_second_element_of_every_type() {
    fn one<T: Copy + PartialEq + std::fmt::Debug + TryFrom<usize>>() {
        for n in 1..140 {
            let source: Vec<T> = (0..2 * n - 1).filter_map(|i| T::try_from(i % 251).ok()).collect();
            let mut out: Vec<T> = vec![source[0]; n];
            // SAFETY: the last one is the last there is.
            unsafe { Strided::new([(n, 2, (0, n))]).read(source.as_ptr(), 0, &mut out) };
            assert!(out.iter().eq(source.iter().step_by(2)), "{n}: {out:?}");
        }
    }
    one::<u8>();
    one::<u16>();
    one::<u32>();
    one::<u64>();
}
