//! Floats to 16 bits: instructions on parts of registers.

use super::asm::{Asm, Code, FROM_HALF, HALF, K, Map, Rm, TO_HALF, Under, WIDEN_WORDS, Zmm};

/// Lanes of 32 bits to the upper halves of the nearest numbers without lower ones; subnormal numbers are taken for zeros.
const TO_UPPER: Code = Code(Map::M38, 2, 0x72, 0);
/// Lanes of a class, as a mask.
const CLASS: Code = Code(Map::M3A, 1, 0x66, 0);
/// Any function of the bits of three operands.
const TERNARY: Code = Code(Map::M3A, 1, 0x25, 0);
const ADD: Code = Code(Map::M0F, 1, 0xfe, 0);
const OR: Code = Code(Map::M0F, 1, 0xeb, 0);
const SHIFT: Code = Code(Map::M0F, 1, 0x72, 0);
const COMPARE: Code = Code(Map::M0F, 0, 0xc2, 0);
const LOWER_WORDS: Code = Code(Map::M38, 2, 0x33, 0);
const MOVE: Code = Code(Map::M0F, 1, 0x6f, 0);
const MOVE_WORDS: Code = Code(Map::M0F, 3, 0x6f, 1);
const STORE_WORDS: Code = Code(Map::M0F, 3, 0x7f, 1);
/// The class of subnormal numbers.
const SUBNORMAL: u8 = 0x20;
/// Shifts by their extensions of the opcode.
const LEFT: u8 = 6;
const LOGICAL: u8 = 2;

/// Whether the CPU has an instruction for it.
fn has_upper() -> bool {
    static HAS: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *HAS.get_or_init(|| std::arch::is_x86_feature_detected!("avx512bf16"))
}

impl Asm {
    fn part(&mut self, code: Code, dst: Zmm, a: Zmm, b: Rm, under: Under, length: u8) {
        self.raw(code, dst, a, b, under, (length, false));
    }

    fn part_shift(&mut self, how: u8, dst: Zmm, src: Zmm, count: u8, length: u8) {
        self.part(SHIFT, how, dst, Rm::Reg(src), Under::All, length);
        self.code.push(count);
    }

    fn ones(&mut self, dst: Zmm, length: u8) {
        self.part(TERNARY, dst, dst, Rm::Reg(dst), Under::All, length);
        self.code.push(0xff);
    }

    /// Floats in a register of this length (2 a whole one, 1 half of one) to `to`, a word each: the upper half of the
    /// nearest number without a lower one, halves to even; NaNs stay NaNs. The spare registers and the mask are overwritten.
    pub fn upper_words(&mut self, x: Zmm, to: Zmm, [s, t]: [Zmm; 2], k: K, length: u8) {
        let all = Under::All;
        let mut skip = None;
        if has_upper() {
            // Subnormal numbers are rare: the long way is for them alone.
            self.part(TO_UPPER, to, 0, Rm::Reg(x), all, length);
            self.part(CLASS, k, 0, Rm::Reg(x), all, length);
            self.code.push(SUBNORMAL);
            self.code.extend([0xc5, 0xf8, 0x98, 0b11 << 6 | k << 3 | k]); // any of them?
            skip = Some(self.jump(0x84));
        }
        // x + 0x7fff + its seventeenth bit, and of that the upper half.
        self.part_shift(LEFT, s, x, 15, length);
        self.part_shift(LOGICAL, s, s, 31, length);
        self.part(ADD, s, s, Rm::Reg(x), all, length);
        self.ones(t, length);
        self.part_shift(LOGICAL, t, t, 17, length);
        self.part(ADD, s, s, Rm::Reg(t), all, length);
        if skip.is_none() {
            self.part(COMPARE, k, x, Rm::Reg(x), all, length);
            self.code.push(3); // not comparable: a NaN, which becomes a quiet one
            self.ones(t, length);
            self.part_shift(LOGICAL, t, t, 31, length);
            self.part_shift(LEFT, t, t, 22, length);
            self.part(OR, t, t, Rm::Reg(x), all, length);
            self.part(MOVE, s, 0, Rm::Reg(t), Under::Merging(k), length);
        }
        self.part_shift(LOGICAL, s, s, 16, length);
        match skip {
            None => self.part(LOWER_WORDS, s, 0, Rm::Reg(to), all, length),
            Some(jump) => {
                self.part(LOWER_WORDS, s, 0, Rm::Reg(t), all, length);
                self.part(MOVE_WORDS, to, 0, Rm::Reg(t), Under::Merging(k), length - 1);
                self.land(jump);
            }
        }
    }

    /// Words that [`Asm::upper_words`] made of floats in a register of this length, to memory.
    pub fn store_words(&mut self, words: Zmm, to: Rm, under: Under, length: u8) {
        self.part(STORE_WORDS, words, 0, to, under, length - 1);
    }

    /// Floats of 16 bits (of half precision, or the upper halves of others) from memory, in half a register.
    pub fn load_sixteen(&mut self, half: bool, to: Zmm, from: Rm, under: Under) {
        self.part(if half { FROM_HALF.0 } else { WIDEN_WORDS.0 }, to, 0, from, under, HALF);
        if !half {
            self.part_shift(LEFT, to, to, 16, HALF);
        }
    }

    /// Floats in a register of this length to half precision in memory, halves to even.
    pub fn store_halves(&mut self, src: Zmm, to: Rm, under: Under, length: u8) {
        self.part(TO_HALF.0, src, 0, to, under, length);
        self.code.push(0);
    }
}
