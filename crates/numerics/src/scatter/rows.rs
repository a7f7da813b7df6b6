//! Whole rows: one index array for all lanes.

use super::{IndexError, Mode, Negative, check, combine, copy, inside, resolve, woven};
use crate::element::Num;
use crate::lanes::{Lanes, PARALLEL_WORK};
use crate::strided::copy_picked;
use crate::tasks::for_chunks;
use std::sync::atomic::{AtomicBool, Ordering};

/// Makes `dst` a copy of `base`, if there is one.
pub(super) fn begin<T: Copy + Send + Sync>(base: Option<&[T]>, dst: &mut [T]) {
    if let Some(base) = base {
        let part = PARALLEL_WORK / 4;
        for_chunks(dst, part, 1, base.len() >= PARALLEL_WORK, |(i, dst)| {
            dst.copy_from_slice(&base[i * part..][..dst.len()]);
        });
    }
}

/// Combines row `i` of `src` along the axis into row `index[i]` of `dst`, with one index array
/// for all lanes: `index_add` and its like, and the gradient of an embedding.
///
/// `dst` has the lanes `l`, `src` the same with `index.len()` rows; or `src` is one number for all of them. With a
/// `base`, `dst` first becomes a copy of that.
///
/// ```
/// use gradus_numerics::{Lanes, scatter::{Mode, Negative, index_rows}};
/// let mut dst = [0.0; 4];
/// let l = Lanes { outer: 1, n: 2, inner: 2 };
/// index_rows(None, l, &mut dst, &[1, 1], &[1.0, 2.0, 3.0, 4.0], Mode::Add, Negative::Reject)?;
/// assert_eq!(dst, [0.0, 0.0, 4.0, 6.0]);
/// # Ok::<(), gradus_numerics::scatter::IndexError>(())
/// ```
pub fn index_rows<T: Num>(
    base: Option<&[T]>,
    l: Lanes,
    dst: &mut [T],
    index: &[i64],
    src: &[T],
    mode: Mode,
    negative: Negative,
) -> Result<(), IndexError> {
    let count = l.outer * index.len() * l.inner;
    debug_assert!(dst.len() == l.len() && (src.len() == count || src.len() == 1));
    check(index, l.n, negative)?;
    if count == 0 || dst.is_empty() {
        begin(base, dst);
        return Ok(());
    }
    // (A source of one number that is all there is may go either way.)
    if src.len() == count && woven::suits::<T>(l, index.len()) {
        woven::index_rows(base, l, dst, index, src, mode);
        return Ok(());
    }
    let one = if src.len() == 1 { Some(src[0]) } else { None };
    let block = l.n * l.inner;
    // The updates of block `o` that fall into the rows from `first` on which `dst` has, in index order.
    let updates = |o: usize, first: usize, dst: &mut [T]| {
        let rows = dst.len() / l.inner;
        if let (Some(one), Mode::Assign, 1, true) = (one, mode, l.inner, rows == l.n) {
            return index.iter().for_each(|&i| dst[resolve(i, l.n)] = one);
        }
        let from = if one.is_some() { &[] } else { &src[o * index.len() * l.inner..][..index.len() * l.inner] };
        if (l.inner, rows == l.n, one.is_none()) == (1, true, true) {
            // Numbers, not rows.
            let all = index.iter().zip(from).map(|(&i, &new)| (resolve(i, l.n), new));
            return match mode {
                Mode::Add => all.for_each(|(i, new)| dst[i] = dst[i].add(new)),
                Mode::Assign | Mode::Mul | Mode::Min | Mode::Max => {
                    all.for_each(|(i, new)| dst[i] = combine(mode, dst[i], new))
                }
            };
        }
        for (k, &i) in index.iter().enumerate() {
            let row = resolve(i, l.n).wrapping_sub(first);
            if row < rows {
                let dst = &mut dst[row * l.inner..][..l.inner];
                match one {
                    Some(one) => dst.iter_mut().for_each(|d| *d = combine(mode, *d, one)),
                    None => update(mode, dst, &from[k * l.inner..][..l.inner]),
                }
            }
        }
    };
    let parallel = dst.len().max(count) >= PARALLEL_WORK / 2;
    if l.outer >= 8 || l.inner < 16 {
        // A task owns some blocks.
        let together = (PARALLEL_WORK / 8 / block.max(count / l.outer)).max(1);
        if l.outer == 1 {
            begin(base, dst);
        }
        for_chunks(dst, block, together, parallel, |(o, dst)| {
            if let Some(base) = base.filter(|_| l.outer > 1) {
                dst.copy_from_slice(&base[o * block..][..block]);
            }
            updates(o, 0, dst);
        });
        return Ok(());
    }
    // A task owns some rows of one block and takes the updates that fall there, in index order.
    // How many rows must not matter for the result, and does not: a row's updates stay in order.
    let rows = if parallel { l.n.div_ceil(16) } else { l.n };
    for (o, dst) in dst.chunks_mut(block).enumerate() {
        for_chunks(dst, rows * l.inner, 1, parallel, |(p, dst)| {
            if let Some(base) = base {
                dst.copy_from_slice(&base[o * block + p * rows * l.inner..][..dst.len()]);
            }
            updates(o, p * rows, dst);
        });
    }
    Ok(())
}

/// One row's update; the mode is taken out of the loop.
fn update<T: Num>(mode: Mode, dst: &mut [T], src: &[T]) {
    match mode {
        Mode::Assign => dst.copy_from_slice(src),
        Mode::Add => dst.iter_mut().zip(src).for_each(|(d, s)| *d = d.add(*s)),
        Mode::Mul | Mode::Min | Mode::Max => dst.iter_mut().zip(src).for_each(|(d, s)| *d = combine(mode, *d, *s)),
    }
}

/// Copies row `index[i]` of `src` along the axis to row `i` of `out`.
///
/// `src` has the lanes `l`, `out` the same with `index.len()` rows. After an error, what `out` holds is not said.
///
/// ```
/// use gradus_numerics::{Lanes, scatter::{Negative, select_rows}};
/// let mut out = [0; 2];
/// select_rows(Lanes { outer: 1, n: 2, inner: 2 }, &[1, 2, 3, 4], &[-1], &mut out, Negative::Wrap)?;
/// assert_eq!(out, [3, 4]);
/// # Ok::<(), gradus_numerics::scatter::IndexError>(())
/// ```
pub fn select_rows<T: Copy + Send + Sync>(
    l: Lanes,
    src: &[T],
    index: &[i64],
    out: &mut [T],
    negative: Negative,
) -> Result<(), IndexError> {
    debug_assert!(src.len() == l.len() && out.len() == l.outer * index.len() * l.inner);
    if out.is_empty() {
        return check(index, l.n, negative);
    }
    let bad = AtomicBool::new(false);
    // Nobody asks ahead for a task's first row, so many rows are together where there are many.
    let task = (PARALLEL_WORK / 8).max(out.len() / TASKS);
    let (together, parallel) = ((task / l.inner).max(1), out.len() >= PARALLEL_WORK / 4);
    let stream = size_of_val(out) >= copy::STREAM_BYTES;
    for_chunks(out, together * l.inner, 1, parallel, |(t, mut out)| {
        let (mut o, mut i) = (t * together / index.len(), t * together % index.len());
        while !out.is_empty() {
            // What this task has of one block.
            let some = &index[i..index.len().min(i + out.len() / l.inner)];
            let (now, later) = out.split_at_mut(some.len() * l.inner);
            if !inside(some, l.n, negative) {
                return bad.store(true, Ordering::Relaxed);
            }
            let table = &src[o * l.n * l.inner..][..l.n * l.inner];
            match l.inner {
                1 => few::<T, 1>(table, some, now),
                2 => few::<T, 2>(table, some, now),
                3 => few::<T, 3>(table, some, now),
                4 => few::<T, 4>(table, some, now),
                5 => few::<T, 5>(table, some, now),
                6 => few::<T, 6>(table, some, now),
                7 => few::<T, 7>(table, some, now),
                8 => few::<T, 8>(table, some, now),
                16 if !stream => few::<T, 16>(table, some, now),
                _ => long(l, table, some, now, stream),
            }
            (out, o, i) = (later, o + 1, 0);
        }
        copy::seen();
    });
    if bad.into_inner() { check(index, l.n, negative) } else { Ok(()) }
}

/// About the most tasks of a look-up.
const TASKS: usize = 64;

/// Rows of `N` elements.
fn few<T: Copy, const N: usize>(table: &[T], index: &[i64], out: &mut [T]) {
    let (table, out) = (table.as_chunks::<N>().0, out.as_chunks_mut::<N>().0);
    out.iter_mut().zip(index).for_each(|(o, &i)| *o = table[resolve(i, table.len())]);
}

/// Tables of so many bytes are in the second cache: nothing need be asked for.
const NEAR: usize = 256 << 10;

/// Rows of many elements.
fn long<T: Copy>(l: Lanes, table: &[T], index: &[i64], out: &mut [T], stream: bool) {
    let bytes = l.inner * size_of::<T>();
    if size_of_val(table) <= NEAR && !stream {
        assert!(
            table.len() == l.n * l.inner && out.len() == index.len() * l.inner,
            "as many rows as there are indices"
        );
        let places = index.iter().map(|&i| resolve(i, l.n) * bytes);
        // SAFETY: the indices are inside, and the arrays have all rows.
        return unsafe { copy_picked(table.as_ptr().cast(), places, out.as_mut_ptr().cast(), bytes) };
    }
    let at = |i: i64| &table[resolve(i, l.n) * l.inner..][..l.inner];
    let next = index.iter().skip(1).map(|&i| at(i)).chain([&[][..]]);
    for ((&i, next), out) in index.iter().zip(next).zip(out.chunks_exact_mut(l.inner)) {
        // Rows are anywhere: the next one is asked for while this one is copied.
        copy::row(at(i), next, out, stream);
    }
}
