//! Damage.

use gradus_data::Rng;

const EXTREME: [u64; 16] = [
    u64::MAX,
    u64::MAX >> 1,
    1 << 63,
    1 << 40,
    1 << 32,
    u32::MAX as u64,
    1 << 31,
    (1 << 31) - 1,
    1 << 26,
    1 << 24,
    1 << 22,
    0xffff,
    0x7fff,
    255,
    1,
    0,
];

const DIGITS: [&str; 12] = [
    "0",
    "1",
    "-1",
    "99999",
    "4294967296",
    "1099511627776",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e9",
    "1e999",
    "",
];

/// A place: headers and directories are near the ends, so most places are; magics and lengths come first of all.
fn place(len: usize, rng: &mut Rng) -> usize {
    match rng.below(4) {
        0 => rng.below(len + 1),
        1 => rng.below(len.min(16) + 1),
        2 => rng.below(len.min(200) + 1),
        _ => len - rng.below(len.min(200) + 1),
    }
}

/// Damages bytes in one of the ways that files are damaged, or forged.
pub fn damage(bytes: &mut Vec<u8>, others: &[Vec<u8>], rng: &mut Rng) {
    let n = bytes.len();
    let at = place(n, rng);
    match rng.below(20) {
        0..=2 => {
            if let Some(b) = bytes.get_mut(at) {
                *b ^= 1 << rng.below(8);
            }
        }
        3..=5 => {
            let byte = rng.next_u32() as u8;
            if let Some(b) = bytes.get_mut(at) {
                *b = byte;
            }
        }
        6 => bytes.truncate(at),
        7 | 8 => {
            let new: Vec<u8> = (0..1 + rng.below(8)).map(|_| rng.next_u32() as u8).collect();
            bytes.splice(at..at, new);
        }
        9 | 10 => {
            let end = (at + 1 + rng.below(40)).min(n);
            bytes.drain(at..end);
        }
        11 | 12 => {
            // From another place of the same file.
            let from = place(n, rng);
            let part: Vec<u8> = bytes.iter().skip(from).take(1 + rng.below(100)).copied().collect();
            bytes.splice(at..at, part);
        }
        13 => {
            // From another file of the kind.
            let Some(other) = others.get(rng.below(others.len())) else { return };
            let from = place(other.len(), rng);
            let part: Vec<u8> = other.iter().skip(from).take(1 + rng.below(300)).copied().collect();
            let end = if rng.chance(0.5) { (at + part.len()).min(n) } else { at };
            bytes.splice(at..end, part);
        }
        14..=16 => {
            // A number of some width in either byte order, made extreme or a little wrong.
            let width = [1, 2, 4, 8][rng.below(4)];
            let mut value = EXTREME[rng.below(EXTREME.len())].to_le_bytes();
            if rng.chance(0.3) {
                value = (rng.below(1 << 12) as u64).to_le_bytes();
            }
            let mut value = value.into_iter().take(width).collect::<Vec<u8>>();
            if rng.chance(0.5) {
                value.reverse();
            }
            bytes.iter_mut().skip(at).zip(value).for_each(|(b, v)| *b = v);
        }
        _ => {
            // The next decimal number in a text.
            let Some(start) = bytes.iter().skip(at).position(u8::is_ascii_digit) else { return };
            let start = start + at;
            let len = bytes.iter().skip(start).take_while(|b| b.is_ascii_digit()).count();
            bytes.splice(start..start + len, DIGITS[rng.below(DIGITS.len())].bytes());
        }
    }
}
