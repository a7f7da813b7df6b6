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

/// Places for all buffers, and the size of the arena.
pub fn arrange(lives: &[Lifetime]) -> (Vec<usize>, usize) {
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
        let (place, size) = arrange(&lives);
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
