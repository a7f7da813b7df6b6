//! Intermediate buffers in one arena: each lives from the step that writes it to the last that reads it, and takes the
//! lowest place where it meets no other of its time.

/// Bytes at the start of each piece are aligned to this.
const ALIGN: usize = 64;

/// A buffer's size and its first and last step.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime {
    /// Bytes.
    pub bytes: usize,
    /// The step that writes it.
    pub from: usize,
    /// The last step that reads it.
    pub to: usize,
}

/// Buffers up to which the slower order is tried as well.
const FEW: usize = 4096;

/// Places for all buffers, and the size of the arena: the better of two orders.
pub fn arrange(lives: &[Lifetime]) -> (Vec<usize>, usize) {
    let by_time = by_time(lives);
    if lives.len() > FEW {
        return by_time;
    }
    let by_size = by_size(lives);
    if by_size.1 < by_time.1 { by_size } else { by_time }
}

/// The largest first, each at the lowest place where it meets no other of its time.
fn by_size(lives: &[Lifetime]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(lives[i].bytes), lives[i].from));
    let mut place = vec![0; lives.len()];
    let mut placed: Vec<usize> = vec![]; // by place
    let mut size = 0;
    for i in order {
        let l = lives[i];
        let bytes = |i: usize| lives[i].bytes.next_multiple_of(ALIGN).max(ALIGN);
        let mut at = 0;
        for &o in placed.iter().filter(|&&o| lives[o].from <= l.to && l.from <= lives[o].to) {
            if place[o] >= at + bytes(i) {
                break;
            }
            at = at.max(place[o] + bytes(o));
        }
        place[i] = at;
        size = size.max(at + bytes(i));
        placed.insert(placed.partition_point(|&o| place[o] <= at), i);
    }
    (place, size)
}

/// In the order of time, each at the lowest place that is free.
fn by_time(lives: &[Lifetime]) -> (Vec<usize>, usize) {
    let mut place = vec![0; lives.len()];
    // Steps in order; free pieces are kept sorted by place. Large graphs have many short lives, so this stays linear-ish.
    let mut starts: Vec<usize> = (0..lives.len()).collect();
    starts.sort_by_key(|&i| lives[i].from);
    let mut active: Vec<(usize, usize, usize)> = vec![]; // (place, end, last step), by place
    let mut size = 0;
    for i in starts {
        let l = lives[i];
        let bytes = l.bytes.next_multiple_of(ALIGN).max(ALIGN);
        active.retain(|a| a.2 >= l.from);
        let mut at = 0;
        let mut slot = active.len();
        for (n, a) in active.iter().enumerate() {
            if a.0 >= at + bytes {
                slot = n;
                break;
            }
            at = at.max(a.1);
        }
        place[i] = at;
        active.insert(slot, (at, at + bytes, l.to));
        size = size.max(at + bytes);
    }
    (place, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_that_do_not_meet_share_memory() {
        let l = |bytes, from, to| Lifetime { bytes, from, to };
        let lives = [l(100, 0, 1), l(100, 1, 2), l(100, 2, 3), l(60, 3, 9), l(200, 4, 5)];
        for (place, size) in [by_time(&lives), by_size(&lives), arrange(&lives)] {
            for (i, a) in lives.iter().enumerate() {
                for (j, b) in lives.iter().enumerate().skip(i + 1) {
                    let meet = a.from <= b.to && b.from <= a.to;
                    let apart = place[i] + a.bytes <= place[j] || place[j] + b.bytes <= place[i];
                    assert!(!meet || apart, "{i} and {j} overlap");
                }
            }
            assert!(size <= 448, "{size} of 704 in all");
        }
    }
}
