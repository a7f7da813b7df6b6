//! Rows of zeros with a one.

use super::IndexError;
use crate::lanes::PARALLEL_WORK;
use crate::tasks::for_chunks;

/// For each index a row of `classes` numbers: a one at the index, zeros elsewhere.
///
/// ```
/// use gradus_numerics::scatter::one_hot;
/// let mut out = [7; 6];
/// one_hot(&[2, 0], 3, &mut out).unwrap();
/// assert_eq!(out, [0, 0, 1, 1, 0, 0]);
/// assert_eq!(one_hot(&[3], 3, &mut out[..3]).unwrap_err().index, 3);
/// ```
pub fn one_hot(index: &[i64], classes: usize, out: &mut [i64]) -> Result<(), IndexError> {
    let inside = |&(_, &i): &(usize, &i64)| usize::try_from(i).is_ok_and(|i| i < classes);
    if let Some((position, &index)) = index.iter().enumerate().find(|e| !inside(e)) {
        return Err(IndexError { position, index, size: classes });
    }
    assert_eq!(out.len(), index.len() * classes, "a row of classes an index");
    // About 64 KiB a task, whatever the number of threads.
    let rows = ((1 << 13) / classes.max(1)).max(1);
    let parallel = out.len() >= PARALLEL_WORK;
    for_chunks(out, rows * classes, 1, parallel, |(t, out)| {
        out.fill(0);
        out.chunks_exact_mut(classes).zip(&index[t * rows..]).for_each(|(row, &i)| row[i as usize] = 1);
    });
    Ok(())
}
