use super::{does, strip};
use crate::gemm::tile::{Strip, Tiled};
use crate::simd::Isa;

/// Every height, width, rest of columns and depth, with `A` along and across, alone and added to what is there: the bits of the plain
/// loops, and nothing written beside them.
fn agrees<T: Tiled + PartialEq + std::fmt::Debug>(number: impl Fn(usize) -> T) {
    if Isa::detect() != Isa::Avx512 {
        eprintln!("skipped: this CPU has no AVX-512");
        return;
    }
    let lanes = 64 / size_of::<T>();
    let wide = 3 * lanes;
    for (rows, depth) in (1..=21).flat_map(|r| [1, 2, 3, 4, 5, 8, 19].map(|d| (r, d))) {
        for columns in [1, lanes - 1, lanes, lanes + 1, 2 * lanes, 2 * lanes + 3, wide - 1, wide] {
            let a: Vec<T> = (0..rows * depth).map(&number).collect();
            let b: Vec<T> = (0..depth * wide).map(|i| number(i + 7)).collect();
            for (along, add) in [(true, false), (true, true), (false, false), (false, true)] {
                let c_row = columns + 2;
                let [mut ours, mut theirs] =
                    [0, 0].map(|_| (0..rows * c_row).map(|i| number(i + 3)).collect::<Vec<T>>());
                let mut s = Strip {
                    rows,
                    columns,
                    depth,
                    a: a.as_ptr(),
                    a_steps: if along { (depth, 1) } else { (1, rows) },
                    b: b.as_ptr(),
                    b_row: wide,
                    c: ours.as_mut_ptr(),
                    c_row,
                    add,
                };
                assert!(does(Isa::Avx512, &s));
                // SAFETY: all of it is inside these vectors, and the CPU has AVX-512.
                unsafe {
                    strip(&s);
                    s.c = theirs.as_mut_ptr();
                    T::plain_strip(Isa::Avx512, &s);
                }
                assert_eq!(ours, theirs, "{rows} rows, {columns} columns, depth {depth}, along {along}, add {add}");
            }
        }
    }
}

#[test]
fn tiles_of_singles_are_the_plain_ones() {
    agrees(|i| ((i * 7919) % 1013) as f32 / 97.0 - 5.0);
}

#[test]
fn tiles_of_doubles_are_the_plain_ones() {
    agrees(|i| ((i * 7919) % 1013) as f64 / 97.0 - 5.0);
}
