//! Transposition of small matrices of any size.

use crate::simd::{Simd, dispatch};

/// By squares: the last along an axis overlaps the one before, where there is one; else it goes by
/// way of a whole one.
///
/// # Safety
///
/// As [`turn`].
#[inline(always)]
pub(super) unsafe fn turn_body<S: Simd>(
    rows: usize,
    columns: usize,
    x: *const f32,
    from: usize,
    y: *mut f32,
    to: usize,
) {
    for j in (0..columns).step_by(S::LANES) {
        let j = j.min(columns.saturating_sub(S::LANES));
        let wide = (columns - j).min(S::LANES);
        for i in (0..rows).step_by(S::LANES) {
            let i = i.min(rows.saturating_sub(S::LANES));
            let high = (rows - i).min(S::LANES);
            // SAFETY: the caller gives as many rows and columns.
            unsafe {
                let (x, y) = (x.add(i * from + j), y.add(j * to + i));
                if high == S::LANES && wide == S::LANES {
                    S::transpose(x, from, y, to);
                    continue;
                }
                let mut block = [[0.0f32; 16]; 32];
                let (straight, turned) = block.split_at_mut(16);
                for (r, line) in straight.iter_mut().enumerate().take(high) {
                    S::store(line.as_mut_ptr(), S::load_first(x.add(r * from), wide));
                }
                S::transpose(straight.as_ptr().cast(), 16, turned.as_mut_ptr().cast(), 16);
                for (c, line) in turned.iter().enumerate().take(wide) {
                    S::store_first(y.add(c * to), S::load(line.as_ptr()), high);
                }
            }
        }
    }
}
dispatch! {
    /// `columns` numbers of each of `rows` rows, `from` apart, to their transpose, whose rows are `to`
    /// apart; nothing else is read or written.
    ///
    /// # Safety
    ///
    /// These numbers may be read and written.
    pub(super) unsafe fn turn = turn_body(rows: usize, columns: usize, x: *const f32, from: usize, y: *mut f32, to: usize)
}

#[cfg(test)]
mod tests {
    use super::turn;
    use crate::simd::Isa;
    use crate::testing::Random;

    #[test]
    fn all_sizes() {
        let mut r = Random(1);
        for isa in Isa::every() {
            for (rows, columns) in [(1, 1), (16, 16), (17, 3), (5, 40), (49, 16), (33, 35)] {
                let x = r.f32s(rows * columns);
                let to = rows + 1;
                let mut y = vec![7.0; columns * to];
                // SAFETY: the slices have these sizes.
                unsafe { turn(isa, rows, columns, x.as_ptr(), columns, y.as_mut_ptr(), to) };
                for (i, y) in y.iter().enumerate() {
                    let expected = if i % to < rows { x[i % to * columns + i / to] } else { 7.0 };
                    assert_eq!(*y, expected, "{isa:?} {rows} x {columns} at {i}");
                }
            }
        }
    }
}
