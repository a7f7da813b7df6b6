use super::*;
use crate::testing::{Random, bits, same_on_any_threads};

/// A layout with rows or columns contiguous, or neither, and the numbers it needs.
fn layout(r: &mut Random, m: usize, n: usize) -> (Layout, usize) {
    let (gap, offset) = (r.below(3), r.below(4));
    let (rs, cs) = match r.below(6) {
        0 | 1 => (n + gap, 1),
        2 | 3 => (1, m + gap),
        // A step that falls on few sets of a cache.
        4 => (1, m.next_multiple_of(512)),
        _ => (2 * n + gap, 2),
    };
    let rows = if r.below(8) == 0 { 0 } else { rs };
    (Layout::new(offset, rows as isize, cs as isize), offset + rows * (m - 1) + cs * (n - 1) + 1)
}

#[test]
fn products_of_all_layouts_on_all_vectors() {
    all_layouts(31, |x| x as f32, 1e-5);
    all_layouts(33, |x| x, 1e-14);
}

fn all_layouts<T: Tiled + Into<f64> + PartialEq + std::fmt::Debug>(seed: u64, of: impl Fn(f64) -> T, tolerance: f64) {
    let mut r = Random(seed);
    let numbers = |r: &mut Random, n: usize| r.f64s(n).into_iter().map(&of).collect::<Vec<T>>();
    for isa in Isa::every().into_iter().filter(|&i| i != Isa::Base) {
        for case in 0..300 {
            let (m, n) = (1 + r.below(150), 1 + r.below(220));
            let k = if case % 20 == 0 { 1000 + r.below(700) } else { 1 + r.below(90) };
            // A few columns beyond whole vectors.
            let (n, k) = if case % 5 == 1 { (16 * (1 + r.below(9)) + 1 + r.below(5), 60 + 4 * k) } else { (n, k) };
            let ((la, na), (lb, nb)) = (layout(&mut r, m, k), layout(&mut r, k, n));
            let (a, b) = (numbers(&mut r, na), numbers(&mut r, nb));
            let row = n + r.below(3);
            let before = numbers(&mut r, m * row);
            let mut c = before.clone();
            fn side<T>(data: &[T], l: Layout) -> Strided<'_, T> {
                Strided { data, offset: l.offset, rs: l.rs, cs: l.cs }
            }
            let d = Dims::new(m, n, k);
            let lc = Layout::row_major(row);
            let p = Blocked::on(isa, d, side(&a, la), side(&b, lb), c.as_mut_ptr(), lc).unwrap();
            let forced = r.below(3);
            // SAFETY: the slices have these sizes.
            unsafe {
                match forced {
                    0 => p.by_panels(true, None),
                    1 => p.by_rows(true, None),
                    _ => p.run(true, None),
                }
            }
            for (at, (&c, &before)) in c.iter().zip(&before).enumerate() {
                let (i, j) = (at / row, at % row);
                if j >= n {
                    assert_eq!(c, before, "outside of the output");
                    continue;
                }
                let dot = |p| a[la.position(i, p)].into() * b[lb.position(p, j)].into();
                let expected: f64 = (0..k).map(dot).sum();
                assert!(
                    (c.into() - expected).abs() < tolerance * (k as f64 + 8.0),
                    "{isa:?} {d:?} {la:?} {lb:?} at {i} {j}"
                );
            }
        }
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    let mut r = Random(32);
    for (m, n, k) in [
        (64, 128, 784),
        (300, 70, 1030),
        (40, 1024, 1100),
        (128, 1024, 300),
        (20, 500, 500),
        (129, 33, 500),
        (30, 65, 300),
    ] {
        let (a, b) = (r.f32s(m * k), r.f32s(k * n));
        for turned in [false, true] {
            let (rs, cs) = if turned { (1, k as isize) } else { (n as isize, 1) };
            same_on_any_threads(|| {
                let mut c = vec![0.0; m * n];
                let a = Strided { data: &a, offset: 0, rs: k as isize, cs: 1 };
                let b = Strided { data: &b, offset: 0, rs, cs };
                let p = Blocked::new(Dims::new(m, n, k), a, b, c.as_mut_ptr(), Layout::row_major(n));
                // SAFETY: the slices have these sizes.
                p.into_iter().for_each(|p| unsafe { p.run(true, None) });
                bits(&c)
            });
        }
    }
}
