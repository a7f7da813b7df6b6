//! The instructions that loops use, as they are encoded.

/// Opcode maps of the EVEX prefix.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Map {
    /// 0F
    M0F = 1,
    /// 0F 38
    M38 = 2,
    /// 0F 3A
    M3A = 3,
}

/// How an instruction is encoded: map, mandatory prefix, opcode, the bit W.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Code(pub Map, pub u8, pub u8, pub u8);

/// An instruction on lanes of 32 bits, the one that does the same on 64, and on bytes and on words if there is one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Op(pub Code, pub Code, pub Option<Code>, pub Option<Code>);

impl Op {
    /// With a form for bytes.
    const fn bytes(self, map: Map, prefix: u8, opcode: u8) -> Op {
        Op(self.0, self.1, Some(Code(map, prefix, opcode, 0)), self.3)
    }

    /// With a form for words.
    const fn words(self, map: Map, prefix: u8, opcode: u8, w: u8) -> Op {
        Op(self.0, self.1, self.2, Some(Code(map, prefix, opcode, w)))
    }
}

/// Arithmetic on floats.
const fn floats(opcode: u8) -> Op {
    Op(Code(Map::M0F, 0, opcode, 0), Code(Map::M0F, 1, opcode, 1), None, None)
}

/// One opcode, where the bit W tells how wide lanes are.
const fn same(map: Map, prefix: u8, opcode: u8) -> Op {
    pair(map, prefix, opcode, opcode)
}

/// An opcode each, and the bit W.
const fn pair(map: Map, prefix: u8, narrow: u8, wide: u8) -> Op {
    Op(Code(map, prefix, narrow, 0), Code(map, prefix, wide, 1), None, None)
}

/// An opcode each, without the bit W.
const fn plain(map: Map, prefix: u8, narrow: u8, wide: u8) -> Op {
    Op(Code(map, prefix, narrow, 0), Code(map, prefix, wide, 0), None, None)
}

/// Loads.
pub const MOV_LOAD: Op = floats(0x10).bytes(Map::M0F, 3, 0x6f).words(Map::M0F, 3, 0x6f, 1);
/// Stores.
pub const MOV_STORE: Op = floats(0x11).bytes(Map::M0F, 3, 0x7f).words(Map::M0F, 3, 0x7f, 1);
/// Stores past the caches, to the beginnings of lines.
pub const MOV_PAST: Op = floats(0x2b).bytes(Map::M0F, 1, 0xe7).words(Map::M0F, 1, 0xe7, 0);
/// `a + b`
pub const ADD: Op = floats(0x58);
/// `a * b`
pub const MUL: Op = floats(0x59);
/// `a - b`
pub const SUB: Op = floats(0x5c);
/// `a < b ? a : b`
pub const MIN: Op = floats(0x5d);
/// `a / b`
pub const DIV: Op = floats(0x5e);
/// `a > b ? a : b`
pub const MAX: Op = floats(0x5f);
/// Square root of the second operand.
pub const SQRT: Op = floats(0x51);
/// Exponents as numbers.
pub const EXPONENT: Op = same(Map::M38, 1, 0x42);
/// What powers of two leave, by an immediate.
pub const MANTISSA: Op = same(Map::M3A, 1, 0x26);
/// Bits of both.
pub const AND: Op = floats(0x54).bytes(Map::M0F, 1, 0xdb).words(Map::M0F, 1, 0xdb, 0);
/// Bits of either.
pub const OR: Op = floats(0x56).bytes(Map::M0F, 1, 0xeb).words(Map::M0F, 1, 0xeb, 0);
/// Bits of one.
pub const XOR: Op = floats(0x57).bytes(Map::M0F, 1, 0xef).words(Map::M0F, 1, 0xef, 0);
/// Integer sum of lanes.
pub const ADD_I: Op = pair(Map::M0F, 1, 0xfe, 0xd4).bytes(Map::M0F, 1, 0xfc).words(Map::M0F, 1, 0xfd, 0);
/// `a` times two to the power of `b`, rounded once.
pub const SCALE: Op = same(Map::M38, 1, 0x2c);
/// Writes the first lane to the place of one number.
pub const MOV_ONE: Op = Op(Code(Map::M0F, 2, 0x11, 0), Code(Map::M0F, 3, 0x11, 1), None, None);
/// `dst = dst * a + b` with one rounding.
pub const FMA213: Op = same(Map::M38, 1, 0xa8);
/// `dst = b - dst * a` with one rounding.
pub const FNMA213: Op = same(Map::M38, 1, 0xac);
/// Any function of the bits of three operands, by an immediate.
pub const TERNARY: Op = same(Map::M3A, 1, 0x25);
/// Second where the mask is set, first elsewhere.
pub const BLEND: Op = same(Map::M38, 1, 0x65).bytes(Map::M38, 1, 0x66).words(Map::M38, 1, 0x66, 1);
/// Lanes of the second operand, by the low bits of those of the first.
pub const LOOK_UP: Op = same(Map::M38, 1, 0x16);
/// One number to all lanes.
pub const BROADCAST: Op = pair(Map::M38, 1, 0x18, 0x19).bytes(Map::M38, 1, 0x18).words(Map::M38, 1, 0x18, 0);
/// Bytes to lanes.
pub const WIDEN_BYTES: Op = plain(Map::M38, 1, 0x31, 0x32).words(Map::M38, 1, 0x30, 0);
/// The same with their signs.
pub const WIDEN_SIGNED_BYTES: Op = plain(Map::M38, 1, 0x21, 0x22);
/// Words to lanes.
pub const WIDEN_WORDS: Op = plain(Map::M38, 1, 0x33, 0x34);
/// The same with their signs.
pub const WIDEN_SIGNED_WORDS: Op = plain(Map::M38, 1, 0x23, 0x24);
/// Integers of 32 bits, with their signs, to wide lanes.
pub const WIDEN_INTS: Op = plain(Map::M38, 1, 0x25, 0x25);
/// Floats of 32 bits to wide lanes.
pub const WIDEN_FLOATS: Op = plain(Map::M0F, 0, 0x5a, 0x5a);
/// The lowest bytes of lanes to memory.
pub const NARROW_BYTES: Op = plain(Map::M38, 2, 0x31, 0x32).words(Map::M38, 2, 0x30, 0);
/// The lowest words of lanes to memory.
pub const NARROW_WORDS: Op = plain(Map::M38, 2, 0x33, 0x34);
/// The lower halves of wide lanes to memory.
pub const NARROW_INTS: Op = plain(Map::M38, 2, 0x35, 0x35);
/// Wide lanes rounded to floats of 32 bits, in half a register.
pub const TO_FLOATS: Op = pair(Map::M0F, 1, 0x5a, 0x5a);
/// Sixteen floats of 16 bits.
pub const FROM_HALF: Op = plain(Map::M38, 1, 0x13, 0x13);
/// Integers to floats.
pub const TO_FLOAT: Op = Op(Code(Map::M0F, 0, 0x5b, 0), Code(Map::M0F, 2, 0xe6, 1), None, None);
/// Floats to integers, cut off; what does not fit is the least integer.
pub const TO_INTEGER: Op = Op(Code(Map::M0F, 2, 0x5b, 0), Code(Map::M0F, 1, 0x7a, 1), None, None);
/// Integer difference of lanes.
pub const SUB_I: Op = pair(Map::M0F, 1, 0xfa, 0xfb).bytes(Map::M0F, 1, 0xf8).words(Map::M0F, 1, 0xf9, 0);
/// Integer product of lanes.
pub const MUL_I: Op = same(Map::M38, 1, 0x40);
/// The smaller integer.
pub const MIN_I: Op = same(Map::M38, 1, 0x39).bytes(Map::M38, 1, 0x38).words(Map::M0F, 1, 0xea, 0);
/// The larger integer.
pub const MAX_I: Op = same(Map::M38, 1, 0x3d).bytes(Map::M38, 1, 0x3c).words(Map::M0F, 1, 0xee, 0);
/// The smaller byte, without signs.
pub const MIN_U: Op = same(Map::M38, 1, 0x3b).bytes(Map::M0F, 1, 0xda);
/// The larger byte, without signs.
pub const MAX_U: Op = same(Map::M38, 1, 0x3f).bytes(Map::M0F, 1, 0xde);
/// Products of words.
pub const MUL_WORDS: Op = plain(Map::M0F, 1, 0xd5, 0xd5).bytes(Map::M0F, 1, 0xd5).words(Map::M0F, 1, 0xd5, 0);
/// Bits to the left, by a count a lane: none are left where that is the width or more.
pub const SHIFT_LEFT: Op = same(Map::M38, 1, 0x47);
/// Bits to the right with the sign, by a count a lane.
pub const SHIFT_RIGHT: Op = same(Map::M38, 1, 0x46);
/// Mask of the lanes where both have a bit.
pub const TEST: Op = same(Map::M38, 1, 0x27).bytes(Map::M38, 1, 0x26).words(Map::M38, 1, 0x26, 1);
/// Quarters of both operands, by an immediate.
pub const QUARTERS: Op = same(Map::M3A, 1, 0x23);
/// Lanes within quarters, by an immediate.
pub const WITHIN: Op = pair(Map::M3A, 1, 0x04, 0x05);
/// Comparisons of floats, by an immediate.
pub const COMPARE: Op = floats(0xc2);
/// The same of integers.
pub const COMPARE_I: Op = same(Map::M3A, 1, 0x1f).bytes(Map::M3A, 1, 0x3f).words(Map::M3A, 1, 0x3f, 1);
/// The same of bytes without signs.
pub const COMPARE_U: Op = same(Map::M3A, 1, 0x1e).bytes(Map::M3A, 1, 0x3e);
/// Floats to 16 bits, by an immediate.
pub const TO_HALF: Op = plain(Map::M3A, 1, 0x1d, 0x1d);
/// Whole numbers, by an immediate.
pub const ROUND: Op = pair(Map::M3A, 1, 0x08, 0x09);
/// With an immediate count: extension 6 shifts left, 4 right with the sign, 2 right without.
pub const SHIFT: Op = pair(Map::M0F, 1, 0x72, 0x73).bytes(Map::M0F, 1, 0x71);
/// To the right with the sign.
pub const SHIFT_SIGNED: Op = same(Map::M0F, 1, 0x72);
/// The lower half of a register to memory.
pub const STORE_HALF: Op = plain(Map::M0F, 0, 0x11, 0x11);
