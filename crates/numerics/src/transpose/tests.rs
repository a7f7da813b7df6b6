use super::*;

fn check<T: Copy + PartialEq + std::fmt::Debug + 'static>(make: impl Fn(usize) -> T) {
    for (rows, columns) in [
        (1, 1),
        (16, 16),
        (8, 24),
        (17, 33),
        (70, 150),
        (129, 64),
        (5, 200),
        (200, 3),
        (10, 40),
        (40, 4),
        (33, 5),
        (50, 7),
        (7, 50),
        (40, 2),
        (9, 3),
        (30, 6),
        (100, 8),
        (47, 11),
        (61, 13),
        (13, 61),
        (16, 15),
        (90, 16),
        (16, 90),
    ] {
        for (gap, stream) in [(0, false), (3, false), (0, true), (16, true)] {
            let t = Transposition { rows, columns, from: (rows + gap) as isize, to: (columns + gap) as isize };
            let x: Vec<T> = (0..columns * (rows + gap)).map(&make).collect();
            let mut y = vec![make(0); rows * (columns + gap)];
            // SAFETY: the arrays have rows of these lengths.
            unsafe { t.run(x.as_ptr(), y.as_mut_ptr(), stream) };
            for r in 0..rows {
                for c in 0..columns + gap {
                    let expected = if c < columns { x[c * (rows + gap) + r] } else { make(0) };
                    assert_eq!(y[r * (columns + gap) + c], expected, "{t:?} at {r} {c}");
                }
            }
        }
    }
}

#[test]
fn every_size_of_element_is_transposed() {
    check(|i| (i * 7 + 1) as u8);
    check(|i| (i * 7 + 1) as u16);
    check(|i| (i * 7 + 1) as u32);
    check(|i| (i * 7 + 1) as u64);
    check(|i| [i as u8, (i / 256) as u8, 5]);
}

#[test]
fn steps_backwards() {
    let x: Vec<u32> = (0..40 * 50).collect();
    let mut y = vec![0; 40 * 50];
    // The last column first, and rows from the last on.
    let t = Transposition { rows: 50, columns: 40, from: -50, to: -40 };
    // SAFETY: from the last line of both, all elements are inside.
    unsafe { t.run(x.as_ptr().wrapping_add(39 * 50), y.as_mut_ptr().wrapping_add(49 * 40), true) };
    for r in 0..50 {
        for c in 0..40 {
            assert_eq!(y[(49 - r) * 40 + c], x[(39 - c) * 50 + r]);
        }
    }
}
