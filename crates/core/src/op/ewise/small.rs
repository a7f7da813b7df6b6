//! Divisions of integers of at most 16 bits, by those of floats: of numbers below `2^16` a quotient that is not whole is farther from
//! the next whole number than f32 rounds, so its whole part is right. It takes half as long as in 32 bits.

use super::{
    Ewise,
    round::{FLOOR_DIVIDE, FMOD, REMAINDER, TRUNC_DIVIDE},
};
use crate::{
    DType,
    op::block::{Block, binary},
};

/// The whole part of `a / b`.
#[inline(always)]
fn quotient(a: i64, b: i64) -> i64 {
    let (a, b) = (a as i16 as i32 as f32, if b as i32 == 0 { 1.0 } else { b as i32 as f32 });
    // SAFETY: a number of 16 bits by a whole one that is not zero.
    unsafe { (a / b).to_int_unchecked::<i32>() as i64 }
}

#[inline(always)]
fn rest(a: i64, b: i64) -> i64 {
    // As 32-bit integers, of which a vector holds twice as many.
    (a as i32 - quotient(a, b) as i32 * b as i32) as i64
}

#[inline(always)]
fn floor(a: i64, b: i64) -> i64 {
    let q = quotient(a, b);
    q - ((rest(a, b) != 0) & ((a < 0) != (b < 0))) as i64
}

#[inline(always)]
fn modulo(a: i64, b: i64) -> i64 {
    let r = rest(a, b);
    if (r != 0) & ((r < 0) != (b < 0)) { r + b } else { r }
}

static TRUNC: Block = binary(quotient);
static REST: Block = binary(rest);
static FLOOR: Block = binary(floor);
static MODULO: Block = binary(modulo);

/// The loops of a division of numbers of this type, which are not divided by zero.
pub fn small_division(row: &Ewise, dtype: DType) -> Option<&'static Block> {
    if !matches!(dtype, DType::U8 | DType::I8 | DType::I16) {
        return None;
    }
    let all: [(&Ewise, &'static Block); 4] =
        [(&TRUNC_DIVIDE, &TRUNC), (&FMOD, &REST), (&FLOOR_DIVIDE, &FLOOR), (&REMAINDER, &MODULO)];
    all.into_iter().find(|(r, _)| *r == row).map(|(_, b)| b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::block::Isa;

    #[test]
    fn all_quotients_of_bytes_and_many_of_words() {
        let bytes = |least: i64| (0..256i64).flat_map(move |a| (0..256i64).map(move |b| (a + least, b + least)));
        let words = (0..400_000i64).map(|i| ((i * 48_271) as i16 as i64, (i * 16_807 + 5) as i16 as i64));
        let ends = [-32768, -32767, -2, -1, 1, 2, 255, 32766, 32767];
        let ends = ends.iter().flat_map(|&a| ends.iter().map(move |&b| (a, b)));
        let pairs = [
            (DType::U8, bytes(0).collect::<Vec<_>>()),
            (DType::I8, bytes(-128).collect()),
            (DType::I16, words.chain(ends).collect()),
        ];
        for (dtype, mut pairs) in pairs {
            pairs.retain(|p| p.1 != 0);
            let (a, b): (Vec<i64>, Vec<i64>) = pairs.into_iter().unzip();
            for row in [&TRUNC_DIVIDE, &FMOD, &FLOOR_DIVIDE, &REMAINDER] {
                let mut all = [vec![0i64; a.len()], vec![0i64; a.len()]];
                let blocks = [small_division(row, dtype), row.block(dtype)];
                for (out, block) in all.iter_mut().zip(blocks) {
                    let src = [a.as_ptr().cast(), b.as_ptr().cast(), std::ptr::null()];
                    // SAFETY: both operands and the result have as many elements.
                    unsafe { block.unwrap().get(Isa::detect())(out.as_mut_ptr().cast(), src, a.len()) };
                }
                let same = (0..a.len()).find(|&i| all[0][i] != all[1][i]);
                assert_eq!(same.map(|i| (a[i], b[i], all[0][i], all[1][i])), None, "{} of {dtype}", row.name);
            }
        }
    }
}
