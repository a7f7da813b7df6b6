//! Which units of a program a task takes: those whose results lie together.
//!
//! Where an axis was moved before the last (`kernel/turn.rs`), units that follow each other lie far apart in the result, and tasks
//! that took them in that order would have written between each other's lines: each core then waits for lines that
//! the other has written last time (501 rows of 403 numbers, three times each: 0.12 ms where cores share no cache, 0.035 in the order
//! of the result).

use super::program::Program;

/// Pieces of work for each thread: one that comes late leaves some to the others.
const PIECES: usize = 4;
/// Parts that are fewer make fewer pieces.
const FEW: usize = 128;

/// The units of a program in the order of its results.
#[derive(Debug, Default)]
pub struct Shares {
    exchanged: Option<Exchanged>,
}

/// A map space `[.., between, long, line]` whose results lie as `[.., long, between, line]`.
#[derive(Debug)]
struct Exchanged {
    /// Points of the axes before, of those between, of the long one, and units of a line.
    outer: usize,
    between: usize,
    long: usize,
    units: usize,
}

impl Shares {
    /// For a program whose kernel has exchanged this axis with the one before its last.
    pub fn new(p: &Program, axis: Option<usize>) -> Shares {
        let map = &p.kernel.map;
        // What else may have happened to the kernel leaves lines that are no units.
        let lines = map.len() >= 3 && map.last() == Some(&p.inner) && !p.tiles && p.kernel.reduce.is_empty();
        let exchanged = axis.filter(|_| lines).map(|axis| Exchanged {
            outer: map[..axis].iter().product(),
            between: map[axis..map.len() - 2].iter().product(),
            long: map[map.len() - 2],
            units: p.inner.div_ceil(p.unit),
        });
        Shares { exchanged }
    }

    /// How many parts there are to share out, of a program of so many units, and in how many pieces for each thread, at most.
    pub fn count(&self, units: usize) -> (usize, usize) {
        let Some(e) = &self.exchanged else { return (units, PIECES) };
        // Few lines at a time would cost more than they are.
        let count = e.outer * e.long;
        (count, if count < FEW { 2 } else { PIECES })
    }

    /// The units of some parts, as ranges: from, to.
    pub fn units(&self, from: usize, to: usize) -> impl Iterator<Item = (usize, usize)> {
        let one = Exchanged { outer: 1, between: 1, long: usize::MAX, units: 1 };
        let Exchanged { between, long, units, .. } = *self.exchanged.as_ref().unwrap_or(&one);
        (from / long..to.div_ceil(long)).flat_map(move |o| {
            let (f, t) = (from.max(o * long) - o * long, (to - o * long).min(long));
            (0..between)
                .map(move |b| (o * between + b) * long)
                .map(move |line| ((line + f) * units, (line + t) * units))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_belongs_to_one_part() {
        for (outer, between, long, units) in [(1, 3, 10, 1), (4, 2, 9, 3), (3, 1, 8, 2)] {
            let shares = Shares { exchanged: Some(Exchanged { outer, between, long, units }) };
            let total = outer * between * long * units;
            let (count, _) = shares.count(total);
            for pieces in [1, 2, 7, count] {
                let mut seen = vec![0; total];
                for i in 0..pieces {
                    for (f, t) in shares.units(i * count / pieces, (i + 1) * count / pieces) {
                        seen[f..t].iter_mut().for_each(|s| *s += 1);
                    }
                }
                assert!(seen.iter().all(|&s| s == 1), "{shares:?} in {pieces}");
            }
        }
        assert_eq!(Shares::default().units(3, 8).collect::<Vec<_>>(), [(3, 8)]);
    }

    #[test]
    fn a_part_is_a_range_of_the_result() {
        // Lines 4 to 6 of the long axis, of each of the two between.
        let shares = Shares { exchanged: Some(Exchanged { outer: 2, between: 2, long: 10, units: 1 }) };
        assert_eq!(shares.units(4, 6).collect::<Vec<_>>(), [(4, 6), (14, 16)]);
        assert_eq!(shares.units(9, 11).collect::<Vec<_>>(), [(9, 10), (19, 20), (20, 21), (30, 31)]);
    }
}
