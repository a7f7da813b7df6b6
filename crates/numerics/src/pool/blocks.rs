//! Planes whose rows are too short for vectors along them, or whose windows are too far apart: as many planes as a vector
//! has lanes are turned together, so that they lie as channels that are last, and their results are turned back.

use super::back::{Sum, max_rows_body, mean_rows_body};
use super::last::{along, for_channels, max_row_body};
use super::mean::{SLACK, add_rows};
use super::{Bins, MeanPool, Pool, places};
use crate::scratch;
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};

/// The widest tile that is turned at once.
const TILE: usize = 16 * 16;

/// Numbers of the input that a task reads, about.
const WORK: usize = 1 << 14;

/// Numbers of a block that are in the second cache together, about.
const ROOM: usize = 1 << 19;

/// What is done with planes.
#[derive(Clone, Copy)]
pub(super) enum Map<'a> {
    Max(&'a Pool),
    MaxGrad(&'a Pool),
    /// With the columns' parts of the divisors.
    Mean(&'a MeanPool, &'a [f32]),
    MeanGrad(&'a MeanPool, &'a [f32]),
}

impl Map<'_> {
    fn bins(&self) -> &[Bins; 2] {
        match self {
            Map::Max(p) | Map::MaxGrad(p) => &p.windows,
            Map::Mean(p, _) | Map::MeanGrad(p, _) => &p.bins,
        }
    }

    /// The places of the first input's planes, the second's, if there is one, and the output's.
    fn places(&self) -> [usize; 3] {
        let [h, w] = self.bins();
        let (plane, outputs) = (h.n() * w.n(), h.out() * w.out());
        match self {
            Map::Max(_) | Map::Mean(..) => [plane, 0, outputs],
            Map::MaxGrad(_) => [plane, outputs, plane],
            Map::MeanGrad(..) => [outputs, 0, plane],
        }
    }

    /// Numbers a lane that the work needs room for besides.
    fn besides(&self) -> usize {
        let [h, w] = self.bins();
        match self {
            Map::Max(_) => 0,
            Map::Mean(..) => w.n() + SLACK,
            Map::MaxGrad(_) => h.out() * w.out(),
            Map::MeanGrad(..) => (h.out() + 1) * w.out() + SLACK,
        }
    }

    /// Numbers that a block takes.
    fn room(&self, lanes: usize) -> usize {
        (self.places().iter().sum::<usize>() + 3 * lanes + self.besides()).saturating_mul(lanes)
    }

    /// Whether it is the faster way for so many planes (by measurements).
    fn pays(&self, lanes: usize, planes: usize) -> bool {
        let [h, w] = self.bins();
        let (n, out) = (w.n(), w.out());
        // Bins of whole rows are read as they lie, if they are long.
        let stretch = if out == 1 && w.inside(0).len() == n { h.inside(0).len() * n } else { 0 };
        let near = w.window().is_none_or(|w| w.stride <= 2);
        // Of single columns or rows there is little to look at.
        let single = |bins: &Bins| bins.window().is_some_and(|w| w.size == 1);
        let widest = match self {
            Map::Max(_) | Map::MaxGrad(_) | Map::Mean(..) | Map::MeanGrad(..) if single(w) => lanes,
            Map::Max(_) | Map::MaxGrad(_) if stretch > 96 => 0,
            Map::Max(_) | Map::MaxGrad(_) if single(h) => 4 * lanes,
            Map::Max(p) if p.is_pairs() => 3 * lanes / 4,
            Map::MaxGrad(p) if p.is_pairs() => lanes / 2,
            Map::Max(_) | Map::MaxGrad(_) => usize::MAX,
            Map::Mean(..) if stretch > 512 => 0,
            Map::MeanGrad(..) if !near => usize::MAX,
            Map::Mean(..) | Map::MeanGrad(..) => 4 * lanes,
        };
        // Of a few planes some lanes are empty, and one thread has all of them: less so than along short rows.
        let full = planes >= 3 * lanes || (2 * out <= lanes && out <= planes);
        full && n <= widest && self.room(lanes) <= ROOM && self.places()[0] < places::MOST
    }

    /// Does it with all planes of one or two inputs, or says that this is not the way.
    #[must_use]
    pub fn run(&self, isa: Isa, planes: usize, inputs: [&[f32]; 2], output: &mut [f32]) -> bool {
        let pays = self.pays(isa.lanes(), planes);
        if pays {
            self.turned(isa, planes, inputs, output);
        }
        pays
    }

    /// Does it that way.
    pub fn turned(&self, isa: Isa, planes: usize, inputs: [&[f32]; 2], output: &mut [f32]) {
        let (lanes, n) = (isa.lanes(), self.places());
        assert!(inputs[0].len() == planes * n[0] && inputs[1].len() == planes * n[1], "sizes of planes");
        assert!(output.len() == planes * n[2], "sizes of planes");
        if planes < lanes {
            // They are filled up.
            let mut all = scratch::take(lanes * n.iter().sum::<usize>());
            let (first, rest) = all.split_at_mut(lanes * n[0]);
            let (second, third) = rest.split_at_mut(lanes * n[1]);
            first[..inputs[0].len()].copy_from_slice(inputs[0]);
            second[..inputs[1].len()].copy_from_slice(inputs[1]);
            self.turned(isa, lanes, [first, second], third);
            output.copy_from_slice(&third[..output.len()]);
            return;
        }
        let each = n[0].max(n[2]) + 64;
        let chunk = (WORK / each / lanes).max(1) * lanes;
        let tasks = planes / chunk.min(planes);
        let output = Shared::new(output);
        for_tasks(tasks, planes * each >= 1 << 15, |t| {
            let end = if t + 1 == tasks { planes } else { (t + 1) * chunk };
            let mut room = scratch::take(self.room(lanes));
            for first in (t * chunk..end).step_by(lanes) {
                // The last block overlaps the one before it rather than to be shorter.
                let first = first.min(end - lanes);
                // SAFETY: tasks write different planes; the room is what the work needs.
                unsafe {
                    let output = std::slice::from_raw_parts_mut(output.ptr().add(first * n[2]), lanes * n[2]);
                    let inputs = [&inputs[0][first * n[0]..], &inputs[1][first * n[1]..]];
                    block(isa, self, inputs, &mut room, output);
                }
            }
        });
    }
}

/// Planes that lie as channels: `LANES` numbers at each of `n` places, and room for a vector of places more.
#[inline(always)]
unsafe fn turn<S: Simd>(x: &[f32], n: usize, to: &mut [f32]) {
    let lanes = S::LANES;
    assert!(x.len() >= lanes * n && to.len() >= (n + lanes) * lanes, "room for a block");
    for i in (0..n).step_by(lanes) {
        // SAFETY: numbers of the planes, or of a tile of them; the room was looked at.
        unsafe {
            let to = to.as_mut_ptr().add(i * lanes);
            if (lanes - 1) * n + i + lanes <= x.len() {
                S::transpose(x.as_ptr().add(i), n, to, lanes);
            } else {
                let mut tile = [0.0; TILE];
                for l in 0..lanes {
                    S::store(tile.as_mut_ptr().add(l * lanes), S::load_first(x.as_ptr().add(l * n + i), n - i));
                }
                S::transpose(tile.as_ptr(), lanes, to, lanes);
            }
        }
    }
}

/// The way back.
#[inline(always)]
unsafe fn turn_back<S: Simd>(x: &[f32], n: usize, to: &mut [f32]) {
    let lanes = S::LANES;
    assert!(to.len() >= lanes * n && x.len() >= (n + lanes) * lanes, "room for a block");
    for i in (0..n).step_by(lanes) {
        // SAFETY: as above.
        unsafe {
            let x = x.as_ptr().add(i * lanes);
            if i + lanes <= n {
                S::transpose(x, lanes, to.as_mut_ptr().add(i), n);
            } else {
                let mut tile = [0.0; TILE];
                S::transpose(x, lanes, tile.as_mut_ptr(), lanes);
                for l in 0..lanes {
                    let v = S::load(tile.as_ptr().add(l * lanes));
                    S::store_first(to.as_mut_ptr().add(l * n + i), v, n - i);
                }
            }
        }
    }
}

/// One block.
#[inline(always)]
unsafe fn block_body<S: Simd>(map: &Map<'_>, inputs: [&[f32]; 2], room: &mut [f32], output: &mut [f32]) {
    let (inner, n) = (S::LANES, map.places());
    let (first, room) = room.split_at_mut((n[0] + inner) * inner);
    let (second, room) = room.split_at_mut((n[1] + inner) * inner);
    let (results, besides) = room.split_at_mut((n[2] + inner) * inner);
    // SAFETY: all of them have the sizes of the map.
    unsafe {
        turn::<S>(inputs[0], n[0], first);
        turn::<S>(inputs[1], n[1], second);
        let (x, to) = (&first[..n[0] * inner], &mut results[..n[2] * inner]);
        match *map {
            Map::Max(p) => {
                let row = p.windows[1].out() * inner;
                let p = Pool { inner, ..*p };
                for (oh, to) in to.chunks_exact_mut(row).enumerate() {
                    max_row_body::<S>(&p, oh, x, to);
                }
            }
            Map::MaxGrad(p) => {
                let p = Pool { inner, ..*p };
                max_rows_body::<S>(&p, 0..p.windows[0].n(), x, &second[..n[1] * inner], besides, to);
            }
            Map::Mean(p, counts) => means::<S>(p, counts, x, besides, to),
            Map::MeanGrad(p, counts) => {
                let p = MeanPool { inner, ..*p };
                let (parts, line) = besides.split_at_mut(n[0] * inner);
                mean_rows_body::<S>(&p, counts, 0..p.bins[0].n(), x, parts, line, to);
            }
        }
        turn_back::<S>(results, n[2], output);
    }
}
dispatch!(unsafe fn block = block_body(map: &Map<'_>, inputs: [&[f32]; 2], room: &mut [f32], output: &mut [f32]));

/// The means of a block: rows are summed up first, then columns of their sums.
#[inline(always)]
unsafe fn means<S: Simd>(p: &MeanPool, counts: &[f32], x: &[f32], line: &mut [f32], y: &mut [f32]) {
    let ([h, w], inner) = (&p.bins, S::LANES);
    let row = w.n() * inner;
    for (oh, y) in y.chunks_exact_mut(w.out() * inner).enumerate() {
        let ((top, rows, _), count) = (along(h, oh), p.count(0, oh));
        // SAFETY: rows of the block and a line with room for one and some slack.
        unsafe { add_rows::<S>(x.as_ptr(), top..top + rows, row, row, line.as_mut_ptr()) };
        for (ow, (y, c)) in y.chunks_exact_mut(inner).zip(counts).enumerate() {
            let (left, columns, _) = along(w, ow);
            // SAFETY: columns of the line, and a vector of means.
            unsafe {
                let (from, to) = (line.as_ptr().add(left * inner), y.as_mut_ptr());
                for_channels::<S>(inner, Sum { from, inner, columns, to });
                S::store(to, S::div(S::load(to), S::splat(count * c)));
            }
        }
    }
}
