//! Operands that lie across the blocks of an elementwise kernel, as in `x + y.t()`: a tile of several lines is turned at
//! once, so that whole cache lines are read, and waits in a register until these lines have been done. Many short rows that
//! are reduced side by side are turned the same way.

use super::{exec::Task, micro::Cursors, program::Style};
use crate::kernel::{Access, InstKind, Kernel, Level, Source, Val};
use gradus_numerics::transpose::Transposition;

/// Lines of a tile.
pub const LINES: usize = 16;
/// Elements of its lines, at most.
pub const WIDTH: usize = 256;
/// Shorter steps are read one by one.
const STEP: usize = 8;

/// Elements from one line of a tile to the next: never a whole number of pages.
pub fn pitch(block: usize) -> usize {
    block + 16
}

/// Whether an operand lies along this axis (of the map space, or the reduce space after it) instead of the last of the
/// map space.
fn lies_along(k: &Kernel, v: Val, axis: usize) -> bool {
    let (inst, last) = (&k.insts[v], k.map.len() - 1);
    let extent = k.map.iter().chain(&k.reduce).nth(axis).copied().unwrap_or(1);
    let InstKind::Load { source: Source::Arg(_), access } = &inst.kind else { return false };
    let Access { strides, bounds, lookup, .. } = access;
    let plain = inst.level == Level::Elem && bounds.is_empty() && lookup.is_empty();
    let size = inst.dtype.size();
    plain
        && inst.dtype == inst.dtype.compute()
        && (size == 4 || size == 8)
        && strides[last].unsigned_abs() >= STEP
        && strides[axis] == 1
        && extent >= STEP
        && k.map[last] >= LINES
}

/// The kernel with the axis that operands lie along before its last, if some do: the order of map points is free.
pub fn arranged(k: &Kernel) -> Option<Kernel> {
    let last = k.map.len().checked_sub(1).filter(|&l| l > 0 && k.reduce.is_empty())?;
    let axis = (0..last).rev().find(|&a| (0..k.insts.len()).any(|v| lies_along(k, v, a)))?;
    let mut out = k.clone();
    let moved = |s: &mut Vec<isize>| {
        let step = s.remove(axis);
        s.insert(last - 1, step);
    };
    let n = out.map.remove(axis);
    out.map.insert(last - 1, n);
    for i in &mut out.insts {
        if let InstKind::Load { access, .. } | InstKind::Store { access, .. } = &mut i.kind {
            moved(&mut access.strides);
            for b in &mut access.bounds {
                let mut coefs = b.coefs.to_vec();
                moved(&mut coefs);
                b.coefs = coefs.into();
            }
        }
    }
    Some(out)
}

/// The operands of an arranged kernel that come as tiles.
pub fn tiled(k: &Kernel, style: Style, cursors: &Cursors) -> Vec<bool> {
    let whole = |v: Val| cursors.of[v].is_some_and(|c| cursors.all[c].lines.is_none());
    let axis = match (k.map.len(), k.reduce.len(), style) {
        (2.., 0, Style::Columns) => Some(k.map.len() - 2),
        (1.., 1, Style::Columns) => Some(k.map.len()),
        _ => None,
    };
    (0..k.insts.len()).map(|v| whole(v) && axis.is_some_and(|a| lies_along(k, v, a))).collect()
}

/// First map point of a unit of `unit` points, and how many it has, where all lines of a tile follow each other.
pub fn points_of(map: &[usize], unit: usize, u: usize) -> (usize, usize) {
    let [.., lines, inner] = *map else { return (0, 0) };
    let per = inner.div_ceil(unit);
    let (plane, rest) = (u / (lines * per), u % (lines * per));
    let first = rest / (LINES * per) * LINES;
    let (here, rest) = (LINES.min(lines - first), rest - first * per);
    let (block, line) = (rest / here, first + rest % here);
    ((plane * lines + line) * inner + block * unit, unit.min(inner - block * unit))
}

impl Task<'_> {
    /// A line of a tile, which is turned when it is another than before.
    ///
    /// # Safety
    /// As [`super::exec::run`]; the register has room for the tile.
    pub(super) unsafe fn turned(&mut self, v: Val, c: usize, n: usize) {
        let (p, k) = (self.p, &self.p.kernel);
        let (cursor, pitch) = (&p.cursors[c], pitch(p.block));
        let (line, all) = match k.reduce[..] {
            [all] => (self.reduce.along(0), all),
            _ => (self.map.along(k.map.len() - 2), k.map[k.map.len() - 2]),
        };
        let within = line % LINES;
        let lines = LINES.min(all + within - line);
        let size = cursor.size as usize;
        let (first, reg) = (self.m.pos[c].wrapping_sub(within * size), self.register(v));
        if self.m.filled[v] != (first, n) {
            let tile = Transposition { rows: lines, columns: n, from: cursor.step, to: pitch as isize };
            // SAFETY: the caller's promise; all lines of the tile are lines of the operand.
            unsafe {
                match size {
                    4 => tile.run(first as *const u32, reg.cast::<u32>(), false),
                    _ => tile.run(first as *const u64, reg.cast::<u64>(), false),
                }
            }
            self.m.filled[v] = (first, n);
        }
        self.m.ptr[v] = reg as usize + within * pitch * size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_cover_every_point_once() {
        for (map, unit) in [(vec![37, 100], 32), (vec![3, 16, 64], 64), (vec![2, 5, 7], 3)] {
            let total: usize = map.iter().product();
            let inner = map[map.len() - 1];
            let mut seen = vec![0; total];
            for u in 0..total / inner * inner.div_ceil(unit) {
                let (first, n) = points_of(&map, unit, u);
                seen[first..first + n].iter_mut().for_each(|s| *s += 1);
            }
            assert!(seen.iter().all(|&s| s == 1), "{map:?} {unit}");
        }
    }
}
