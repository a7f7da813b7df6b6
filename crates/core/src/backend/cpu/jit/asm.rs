//! Machine code, byte by byte: the two dozen AVX-512 instructions that loops of ours need.
//!
//! Every vector is a whole `zmm`; memory operands are `[base + 4 * rdi + 64 * slot]` (a stream) or
//! `[base + 4 * index]` broadcast (a constant).

/// A vector register, 0 to 31.
pub type Zmm = u8;
/// A mask register, 0 to 7.
pub type K = u8;

/// General registers, by their number in the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpr(pub u8);

/// Holds the pointer table at entry, then the number of the running element; rsi has the elements that the unmasked loop
/// covers, and rdx the mask of the rest.
pub const RDI: Gpr = Gpr(7);
/// Registers that hold stream pointers; those from [`FIRST_SAVED`] on belong to the caller and are saved.
pub const POINTERS: [Gpr; 12] =
    [Gpr(0), Gpr(1), Gpr(8), Gpr(9), Gpr(10), Gpr(11), Gpr(3), Gpr(5), Gpr(12), Gpr(13), Gpr(14), Gpr(15)];
/// Where the callee-saved ones of [`POINTERS`] begin.
pub const FIRST_SAVED: usize = 6;

/// A second operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rm {
    /// A register.
    Reg(Zmm),
    /// `[base + 4 * rdi + 64 * slot]`.
    Stream(Gpr, u8),
    /// `[base + rdi + 16 * slot]`: elements of one byte.
    Bytes(Gpr, u8),
    /// `[base + 2 * rdi + 32 * slot]`: elements of two bytes.
    Words(Gpr, u8),
    /// `[base + 4 * index]`, one float for all lanes.
    Broadcast(Gpr, u8),
}

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

/// An instruction: map, mandatory prefix, opcode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Op(pub Map, pub u8, pub u8);

/// Loads.
pub const MOV_LOAD: Op = Op(Map::M0F, 0, 0x10);
/// Stores.
pub const MOV_STORE: Op = Op(Map::M0F, 0, 0x11);
/// `a + b`
pub const ADD: Op = Op(Map::M0F, 0, 0x58);
/// `a * b`
pub const MUL: Op = Op(Map::M0F, 0, 0x59);
/// `a - b`
pub const SUB: Op = Op(Map::M0F, 0, 0x5c);
/// `a < b ? a : b`
pub const MIN: Op = Op(Map::M0F, 0, 0x5d);
/// `a / b`
pub const DIV: Op = Op(Map::M0F, 0, 0x5e);
/// `a > b ? a : b`
pub const MAX: Op = Op(Map::M0F, 0, 0x5f);
/// Square root of the second operand.
pub const SQRT: Op = Op(Map::M0F, 0, 0x51);
/// Bits of both.
pub const AND: Op = Op(Map::M0F, 0, 0x54);
/// Bits of either.
pub const OR: Op = Op(Map::M0F, 0, 0x56);
/// Bits of one.
pub const XOR: Op = Op(Map::M0F, 0, 0x57);
/// Integer sum of lanes.
pub const ADD_I32: Op = Op(Map::M0F, 1, 0xfe);
/// `a` times two to the power of `b`, rounded once.
pub const SCALE: Op = Op(Map::M38, 1, 0x2c);
/// Writes the first lane to the place of one float.
pub const MOV_ONE: Op = Op(Map::M0F, 2, 0x11);
/// `dst = dst * a + b` with one rounding.
pub const FMA213: Op = Op(Map::M38, 1, 0xa8);
/// Second where the mask is set, first elsewhere.
pub const BLEND: Op = Op(Map::M38, 1, 0x65);
/// One float to all lanes.
pub const BROADCAST: Op = Op(Map::M38, 1, 0x18);
/// Sixteen bytes to sixteen lanes.
pub const WIDEN_BYTES: Op = Op(Map::M38, 1, 0x31);
/// The same with their signs.
pub const WIDEN_SIGNED_BYTES: Op = Op(Map::M38, 1, 0x21);
/// Sixteen words to sixteen lanes.
pub const WIDEN_WORDS: Op = Op(Map::M38, 1, 0x33);
/// The same with their signs.
pub const WIDEN_SIGNED_WORDS: Op = Op(Map::M38, 1, 0x23);
/// The lowest bytes of sixteen lanes to memory.
pub const NARROW_BYTES: Op = Op(Map::M38, 2, 0x31);
/// The lower words of sixteen lanes to memory.
pub const NARROW_WORDS: Op = Op(Map::M38, 2, 0x33);
/// Sixteen floats of 16 bits.
pub const FROM_HALF: Op = Op(Map::M38, 1, 0x13);
/// Integers to floats.
pub const TO_FLOAT: Op = Op(Map::M0F, 0, 0x5b);
/// Integer difference of lanes.
pub const SUB_I32: Op = Op(Map::M0F, 1, 0xfa);
/// Integer product of lanes.
pub const MUL_I32: Op = Op(Map::M38, 1, 0x40);
/// The smaller integer.
pub const MIN_I32: Op = Op(Map::M38, 1, 0x39);
/// The larger integer.
pub const MAX_I32: Op = Op(Map::M38, 1, 0x3d);
/// Mask of the lanes where both have a bit.
pub const TEST: Op = Op(Map::M38, 1, 0x27);
/// Quarters of both operands, by an immediate.
const QUARTERS: Op = Op(Map::M3A, 1, 0x23);
/// Lanes within quarters, by an immediate.
const WITHIN: Op = Op(Map::M3A, 1, 0x04);
const COMPARE: Op = Op(Map::M0F, 0, 0xc2);
const COMPARE_I32: Op = Op(Map::M3A, 1, 0x1f);
const TO_HALF: Op = Op(Map::M3A, 1, 0x1d);
const ROUND: Op = Op(Map::M3A, 1, 0x08);
/// With an immediate count: extension 6 shifts left, 4 right with the sign, 2 right without.
const SHIFT: Op = Op(Map::M0F, 1, 0x72);

/// Under which mask an instruction writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// All lanes.
    All,
    /// Lanes of the mask; the others become zero.
    Zeroing(K),
    /// Lanes of the mask; the others stay.
    Merging(K),
}

/// Code under construction.
#[derive(Default)]
pub struct Asm {
    /// The bytes so far.
    pub code: Vec<u8>,
}

impl Asm {
    /// `dst = op(a, b)`.
    pub fn op(&mut self, op: Op, dst: Zmm, a: Zmm, b: Rm, under: Under) {
        let (aaa, z) = match under {
            Under::All => (0, 0),
            Under::Zeroing(k) => (k, 1),
            Under::Merging(k) => (k, 0),
        };
        let Op(map, pp, opcode) = op;
        let (x, b3, bcst) = match b {
            Rm::Reg(r) => (r >> 4 & 1, r >> 3 & 1, 0),
            Rm::Stream(g, _) | Rm::Bytes(g, _) | Rm::Words(g, _) => (0, g.0 >> 3, 0),
            // Instructions of one float have a scalar operand: no bit for it.
            Rm::Broadcast(g, _) => (0, g.0 >> 3, (op != BROADCAST && op != MOV_ONE) as u8),
        };
        let inv = |bit: u8| (bit ^ 1) & 1;
        self.code.push(0x62);
        self.code.push(inv(dst >> 3) << 7 | inv(x) << 6 | inv(b3) << 5 | inv(dst >> 4) << 4 | map as u8);
        self.code.push((!a & 0xf) << 3 | 1 << 2 | pp);
        self.code.push(z << 7 | 0b10 << 5 | bcst << 4 | inv(a >> 4) << 3 | aaa);
        self.code.push(opcode);
        self.modrm(dst & 7, b);
    }

    fn modrm(&mut self, reg: u8, b: Rm) {
        let (base, scale_index, disp) = match b {
            Rm::Reg(r) => return self.code.push(0b11 << 6 | reg << 3 | r & 7),
            // Displacements of one byte count in operand sizes.
            Rm::Stream(g, slot) => (g, 0b10 << 3 | RDI.0, slot),
            Rm::Bytes(g, slot) => (g, RDI.0, slot),
            Rm::Words(g, slot) => (g, 0b01 << 3 | RDI.0, slot),
            Rm::Broadcast(g, i) => (g, 0b100, i),
        };
        self.code.push(0b01 << 6 | reg << 3 | 0b100);
        self.code.push(scale_index << 3 | base.0 & 7);
        self.code.push(disp);
    }

    /// `k = a <predicate> b`, with Intel's numbers of predicates.
    pub fn compare(&mut self, predicate: u8, k: K, a: Zmm, b: Rm) {
        self.op(COMPARE, k, a, b, Under::All);
        self.code.push(predicate);
    }

    /// `k = a <predicate> b` of integers, with Intel's numbers of predicates.
    pub fn compare_i32(&mut self, predicate: u8, k: K, a: Zmm, b: Rm) {
        self.op(COMPARE_I32, k, a, b, Under::All);
        self.code.push(predicate);
    }

    /// `dst = src` shifted by `count` bits, by the number of the opcode's extension.
    pub fn shift(&mut self, how: u8, dst: Zmm, src: Zmm, count: u8) {
        // The destination sits where other instructions have their first operand.
        self.op(SHIFT, how, dst, Rm::Reg(src), Under::All);
        self.code.push(count);
    }

    /// Sixteen floats to 16 bits each, halves to even.
    pub fn halve(&mut self, src: Zmm, dst: Rm, under: Under) {
        self.op(TO_HALF, src, 0, dst, under);
        self.code.push(0);
    }

    /// Whole numbers, by Intel's number of the way to round.
    pub fn round(&mut self, how: u8, dst: Zmm, src: Rm) {
        self.op(ROUND, dst, 0, src, Under::All);
        self.code.push(how);
    }

    /// `dst = a <op> b` of masks, by the opcode.
    pub fn masks(&mut self, opcode: u8, dst: K, a: K, b: K) {
        self.code.extend([0xc5, 0x80 | (!a & 0xf) << 3 | 1 << 2, opcode, 0b11 << 6 | dst << 3 | b]);
    }

    /// A mask of the first lane alone.
    pub fn first_lane(&mut self, dst: K) {
        self.masks(0x46, dst, dst, dst);
        // All sixteen bits, shifted right by fifteen.
        self.code.extend([0xc4, 0xe3, 0xf9, 0x30, 0b11 << 6 | dst << 3 | dst, 15]);
    }

    /// `dst = !a` of masks.
    pub fn mask_not(&mut self, dst: K, a: K) {
        self.code.extend([0xc5, 0xf8, 0x44, 0b11 << 6 | dst << 3 | a]);
    }

    /// `dst = src` with lane `i + far` in the place of lane `i`, for the lanes below `far` (8, 4, 2 or 1).
    pub fn fold_lanes(&mut self, far: u8, dst: Zmm, src: Zmm) {
        let (op, a, how) = match far {
            8 => (QUARTERS, src, 0b01_00_11_10),
            4 => (QUARTERS, src, 0b10_11_00_01),
            2 => (WITHIN, 0, 0b01_00_11_10),
            _ => (WITHIN, 0, 0b10_11_00_01),
        };
        self.op(op, dst, a, Rm::Reg(src), Under::All);
        self.code.push(how);
    }

    /// Fetches the cache line at `[base + 4 * rdi + bytes]`.
    pub fn prefetch(&mut self, base: Gpr, bytes: i32, write: bool) {
        if base.0 >= 8 {
            self.code.push(0x41);
        }
        self.code.extend([0x0f, if write { 0x0d } else { 0x18 }, 0b10 << 6 | 1 << 3 | 0b100]);
        self.code.push(0b10 << 6 | RDI.0 << 3 | base.0 & 7);
        self.code.extend(bytes.to_le_bytes());
    }

    /// `dst = [table + 8 * index]`. The table is in no register whose low bits are those of rsp.
    pub fn load_pointer(&mut self, dst: Gpr, table: Gpr, index: usize) {
        let rex = 0x48 | (dst.0 >> 3) << 2 | table.0 >> 3;
        self.code.extend([rex, 0x8b, 0b10 << 6 | (dst.0 & 7) << 3 | table.0 & 7]);
        self.code.extend((8 * index as u32).to_le_bytes());
    }

    /// `to = rdi`, a register from r8 on.
    pub fn keep_table(&mut self, to: Gpr) {
        self.code.extend([0x49, 0x89, 0b11 << 6 | RDI.0 << 3 | to.0 & 7]);
    }

    /// Saves a register.
    pub fn push(&mut self, r: Gpr) {
        if r.0 >= 8 {
            self.code.push(0x41);
        }
        self.code.push(0x50 | r.0 & 7);
    }

    /// Restores a register.
    pub fn pop(&mut self, r: Gpr) {
        if r.0 >= 8 {
            self.code.push(0x41);
        }
        self.code.push(0x58 | r.0 & 7);
    }

    /// `rdi = 0`.
    pub fn clear_offset(&mut self) {
        self.code.extend([0x31, 0xff]);
    }

    /// `rdi += elements`.
    pub fn advance(&mut self, elements: u32) {
        self.code.extend([0x48, 0x81, 0xc7]);
        self.code.extend(elements.to_le_bytes());
    }

    /// Compares rdi with rsi.
    pub fn compare_offset(&mut self) {
        self.code.extend([0x48, 0x39, 0xf7]);
    }

    /// Compares rdi with a number.
    pub fn compare_with(&mut self, elements: u32) {
        self.code.extend([0x48, 0x81, 0xff]);
        self.code.extend(elements.to_le_bytes());
    }

    /// `rdx = rdi`.
    pub fn table_to_rdx(&mut self) {
        self.code.extend([0x48, 0x89, 0xfa]);
    }

    /// `[rdx + 8 * index] += bytes`.
    pub fn move_pointer(&mut self, index: usize, bytes: i32) {
        self.code.extend([0x48, 0x81, 0x82]);
        self.code.extend((8 * index as u32).to_le_bytes());
        self.code.extend(bytes.to_le_bytes());
    }

    /// `k1` from `[rdx + 8 * index]`.
    pub fn load_mask(&mut self, index: usize) {
        self.code.extend([0xc5, 0xf8, 0x90, 0x8a]);
        self.code.extend((8 * index as u32).to_le_bytes());
    }

    /// `rsi -= 1`, for a jump that tests it.
    pub fn count_down(&mut self) {
        self.code.extend([0x48, 0xff, 0xce]);
    }

    /// Tests rdx.
    pub fn test_mask(&mut self) {
        self.code.extend([0x48, 0x85, 0xd2]);
    }

    /// `k1 = dx`, `rdx >>= 16`.
    pub fn next_mask(&mut self) {
        self.code.extend([0xc5, 0xf8, 0x92, 0xca]);
        self.code.extend([0x48, 0xc1, 0xea, 0x10]);
    }

    /// A jump with this condition (`0x83` above or equal, `0x82` below, `0x84` zero) to a place known later.
    pub fn jump(&mut self, condition: u8) -> usize {
        self.code.extend([0x0f, condition, 0, 0, 0, 0]);
        self.code.len()
    }

    /// Lets a jump go to the present end.
    pub fn land(&mut self, jump: usize) {
        let far = (self.code.len() - jump) as u32;
        self.code[jump - 4..jump].copy_from_slice(&far.to_le_bytes());
    }

    /// A jump back.
    pub fn jump_back(&mut self, condition: u8, to: usize) {
        let from = self.jump(condition);
        let far = (to as i64 - from as i64) as i32;
        self.code[from - 4..from].copy_from_slice(&far.to_le_bytes());
    }

    /// The end: upper halves cleared, back to the caller.
    pub fn ret(&mut self) {
        self.code.extend([0xc5, 0xf8, 0x77, 0xc3]);
    }
}
