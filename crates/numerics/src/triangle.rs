//! The places of the triangles of a matrix.

use crate::lanes::PARALLEL_WORK;
use crate::tasks::{Shared, for_tasks};

/// Rows that each have a range of columns.
pub struct Triangle {
    /// The first column of each row.
    from: Vec<usize>,
    /// How many places the rows before have; one more entry than rows.
    starts: Vec<usize>,
}

impl Triangle {
    /// Rows by their ranges.
    ///
    /// ```
    /// use gradus_numerics::triangle::Triangle;
    /// let lower = Triangle::new((0..2).map(|i| 0..i + 1));
    /// let mut places = [0; 6];
    /// lower.places(&mut places);
    /// assert_eq!((lower.count(), places), (3, [0, 1, 1, 0, 0, 1]));
    /// ```
    pub fn new(rows: impl Iterator<Item = std::ops::Range<usize>>) -> Self {
        let (mut from, mut starts, mut sum) = (vec![], vec![0], 0);
        for row in rows {
            sum += row.len();
            from.push(row.start);
            starts.push(sum);
        }
        Triangle { from, starts }
    }

    /// How many places there are.
    pub fn count(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The row of each place, and behind them the columns.
    pub fn places(&self, out: &mut [i64]) {
        let n = self.count();
        assert_eq!(out.len(), 2 * n, "two numbers a place");
        let out = Shared::new(out);
        let part = PARALLEL_WORK / 8;
        for_tasks(n.div_ceil(part), n >= PARALLEL_WORK / 4, |t| {
            let (mut at, end) = (t * part, n.min((t + 1) * part));
            // The row in which the part begins: the last that starts at or before it.
            let mut row = self.starts.partition_point(|&s| s <= at) - 1;
            while at < end {
                let len = end.min(self.starts[row + 1]) - at;
                let first = self.from[row] + (at - self.starts[row]);
                // SAFETY: inside, as the length was asserted; parts do not overlap.
                let (rows, columns) = unsafe {
                    let from = |k: usize| std::slice::from_raw_parts_mut(out.ptr().add(k), len);
                    (from(at), from(n + at))
                };
                rows.fill(row as i64);
                columns.iter_mut().zip(first as i64..).for_each(|(c, j)| *c = j);
                (at, row) = (at + len, row + 1);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_of_a_triangle_are_written() {
        for n in [0usize, 1, 7, 300, 1000] {
            let rows = || (0..n).map(|i| if i % 5 == 0 { 0..0 } else { i / 2..n.max(i) });
            let expected: Vec<(i64, i64)> = rows().zip(0..).flat_map(|(r, i)| r.map(move |j| (i, j as i64))).collect();
            let t = Triangle::new(rows());
            let mut out = vec![-1; 2 * t.count()];
            t.places(&mut out);
            assert!(out[..t.count()].iter().zip(&out[t.count()..]).map(|(i, j)| (*i, *j)).eq(expected));
        }
    }
}
