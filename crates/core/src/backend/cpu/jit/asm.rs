//! Machine code, byte by byte: the few dozen AVX-512 instructions that loops of ours need.
//!
//! Every vector is a whole `zmm` of lanes of [`Asm::width`]; memory operands are
//! `[base + bytes * rdi + 64 * slot]` (a stream of lanes) or `[base + bytes * index]` broadcast (a constant).

pub use super::instructions::*;
use super::width::Width;
use crate::backend::cpu::ahead::Fetch;
use gradus_math::f32::parts::Table;

/// A vector register, 0 to 31.
pub type Zmm = u8;
/// A mask register, 0 to 7.
pub type K = u8;

/// General registers, by their number in the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpr(pub u8);

/// Where a pointer points: so many bytes from what a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ptr {
    /// The register.
    pub base: Gpr,
    /// The bytes.
    pub far: i32,
}

impl From<Gpr> for Ptr {
    fn from(base: Gpr) -> Ptr {
        Ptr { base, far: 0 }
    }
}

/// Holds the pointer table at entry, then the number of the running element; rsi has the elements that the unmasked loop
/// covers, and rdx the mask of the rest.
pub const RDI: Gpr = Gpr(7);
/// Registers that hold stream pointers; those from [`FIRST_SAVED`] on belong to the caller and are saved.
pub const POINTERS: [Gpr; 12] =
    [Gpr(0), Gpr(1), Gpr(8), Gpr(9), Gpr(10), Gpr(11), Gpr(3), Gpr(5), Gpr(12), Gpr(13), Gpr(14), Gpr(15)];
/// Where the callee-saved ones of [`POINTERS`] begin.
pub const FIRST_SAVED: usize = 6;

/// The length of a whole register, as the encoding has it.
pub const WHOLE: u8 = 0b10;
/// That of the lower half of one.
pub const HALF: u8 = 0b01;

/// A second operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rm {
    /// A register.
    Reg(Zmm),
    /// Elements as wide as lanes: `[base + bytes * rdi + 64 * slot]`.
    Stream(Ptr, u8),
    /// Elements of one byte: `[base + rdi + lanes * slot]`.
    Bytes(Ptr, u8),
    /// Elements of two bytes: `[base + 2 * rdi + 2 * lanes * slot]`.
    Words(Ptr, u8),
    /// Elements of four bytes in wide code: `[base + 4 * rdi + 32 * slot]`.
    Doubles(Ptr, u8),
    /// `[base + bytes * index]`, one number for all lanes.
    Broadcast(Ptr, u8),
    /// As many lanes as a register has, which are laid down behind the code.
    Table(&'static Table),
}

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
    /// How wide lanes are.
    pub width: Width,
    /// Whether something was asked for that these lanes have no instruction for: the code is of no use.
    pub failed: bool,
    /// Places in the code that tell how far it is from behind them to a table.
    tables: Vec<(usize, &'static Table)>,
}

impl Asm {
    /// Lanes of a vector.
    pub fn lanes(&self) -> usize {
        self.width.lanes()
    }

    /// Vectors of a group of 64 elements.
    pub fn slots(&self) -> u8 {
        self.width.bytes() as u8
    }

    /// `dst = op(a, b)`.
    pub fn op(&mut self, op: Op, dst: Zmm, a: Zmm, b: Rm, under: Under) {
        self.encode(op, dst, a, b, under, WHOLE);
    }

    /// With registers of this length: two for whole ones, one for halves.
    pub(super) fn encode(&mut self, op: Op, dst: Zmm, a: Zmm, b: Rm, under: Under, length: u8) {
        let code = match self.width {
            Width::Byte => op.2,
            Width::Word => op.3,
            Width::Single => Some(op.0),
            Width::Double => Some(op.1),
        };
        let Some(code) = code else {
            self.failed = true;
            return;
        };
        // Instructions of one float have a scalar operand: no bit for it.
        self.raw(code, dst, a, b, under, (length, op != BROADCAST && op != MOV_ONE));
    }

    /// One instruction, with registers of this length, and broadcasting what it reads once.
    pub(super) fn raw(&mut self, code: Code, dst: Zmm, a: Zmm, b: Rm, under: Under, (length, spread): (u8, bool)) {
        let (aaa, z) = match under {
            Under::All => (0, 0),
            Under::Zeroing(k) => (k, 1),
            Under::Merging(k) => (k, 0),
        };
        let Code(map, pp, opcode, w) = code;
        let (x, b3, bcst) = match b {
            Rm::Reg(r) => (r >> 4 & 1, r >> 3 & 1, 0),
            Rm::Stream(g, _) | Rm::Bytes(g, _) | Rm::Words(g, _) | Rm::Doubles(g, _) => (0, g.base.0 >> 3, 0),
            Rm::Broadcast(g, _) => (0, g.base.0 >> 3, spread as u8),
            Rm::Table(_) => (0, 0, 0),
        };
        let inv = |bit: u8| (bit ^ 1) & 1;
        self.code.push(0x62);
        self.code.push(inv(dst >> 3) << 7 | inv(x) << 6 | inv(b3) << 5 | inv(dst >> 4) << 4 | map as u8);
        self.code.push(w << 7 | (!a & 0xf) << 3 | 1 << 2 | pp);
        self.code.push(z << 7 | length << 5 | bcst << 4 | inv(a >> 4) << 3 | aaa);
        self.code.push(opcode);
        self.modrm(dst & 7, b);
    }

    /// The bytes of a lane, as the encoding has them.
    fn scale(&self) -> u8 {
        self.width.bytes().trailing_zeros() as u8
    }

    fn modrm(&mut self, reg: u8, b: Rm) {
        let lanes = self.lanes() as i32;
        // The last is the size of an operand, in which displacements of one byte count.
        let (at, scale_index, slot, size) = match b {
            Rm::Reg(r) => return self.code.push(0b11 << 6 | reg << 3 | r & 7),
            Rm::Table(t) => {
                self.code.extend([reg << 3 | 0b101, 0, 0, 0, 0]);
                return self.tables.push((self.code.len(), t));
            }
            Rm::Stream(g, slot) => (g, self.scale() << 3 | RDI.0, slot, 64),
            Rm::Doubles(g, slot) => (g, 0b10 << 3 | RDI.0, slot, 4 * lanes),
            Rm::Bytes(g, slot) => (g, RDI.0, slot, lanes),
            Rm::Words(g, slot) => (g, 0b01 << 3 | RDI.0, slot, 2 * lanes),
            Rm::Broadcast(g, i) => (g, 0b100, i, self.width.bytes().max(4) as i32),
        };
        let short = at.far == 0;
        self.code.push(if short { 0b01 } else { 0b10 } << 6 | reg << 3 | 0b100);
        self.code.push(scale_index << 3 | at.base.0 & 7);
        if short {
            self.code.push(slot);
        } else {
            self.code.extend((at.far + slot as i32 * size).to_le_bytes());
        }
    }

    /// `k = a <predicate> b`, with Intel's numbers of predicates.
    pub fn compare(&mut self, predicate: u8, k: K, a: Zmm, b: Rm) {
        self.op(COMPARE, k, a, b, Under::All);
        self.code.push(predicate);
    }

    /// `k = a <predicate> b` of integers, with Intel's numbers of predicates.
    pub fn compare_i(&mut self, predicate: u8, k: K, a: Zmm, b: Rm) {
        self.op(COMPARE_I, k, a, b, Under::All);
        self.code.push(predicate);
    }

    /// The same of bytes without signs.
    pub fn compare_u(&mut self, predicate: u8, k: K, a: Zmm, b: Rm) {
        self.op(COMPARE_U, k, a, b, Under::All);
        self.code.push(predicate);
    }

    /// `dst = src` shifted by `count` bits, by the number of the opcode's extension.
    pub fn shift(&mut self, how: u8, dst: Zmm, src: Zmm, count: u8) {
        // The destination sits where other instructions have their first operand.
        let op = if how == 4 { SHIFT_SIGNED } else { SHIFT };
        self.op(op, how, dst, Rm::Reg(src), Under::All);
        self.code.push(count);
    }

    /// `dst = dst` with the bits of `a` where `b` has ones.
    pub fn choose_bits(&mut self, dst: Zmm, a: Zmm, b: Rm) {
        self.op(TERNARY, dst, a, b, Under::All);
        self.code.push(0b1101_1000);
    }

    /// Sixteen floats to 16 bits each, halves to even.
    pub fn halve(&mut self, src: Zmm, dst: Rm, under: Under) {
        self.op(TO_HALF, src, 0, dst, under);
        self.code.push(0);
    }

    /// Wide lanes as floats of 32 bits to memory; `half` is overwritten.
    pub fn store_floats(&mut self, src: Zmm, half: Zmm, to: Rm, under: Under) {
        self.op(TO_FLOATS, half, 0, Rm::Reg(src), Under::All);
        self.encode(STORE_HALF, half, 0, to, under, HALF);
    }

    /// Whole numbers, by Intel's number of the way to round.
    pub fn round(&mut self, how: u8, dst: Zmm, src: Rm) {
        self.op(ROUND, dst, 0, src, Under::All);
        self.code.push(how);
    }

    /// What powers of two leave, from three quarters to below one and a half; NaN below zero.
    pub fn mantissa(&mut self, dst: Zmm, src: Rm) {
        self.op(MANTISSA, dst, 0, src, Under::All);
        self.code.push(0b1011);
    }

    /// `dst = a <op> b` of masks, by the opcode.
    pub fn masks(&mut self, opcode: u8, dst: K, a: K, b: K) {
        // With the bit W they are masks of 64 lanes.
        let wide = self.width.many() as u8;
        self.code.extend([0xc4, 0xe1, wide << 7 | (!a & 0xf) << 3 | 1 << 2, opcode, 0b11 << 6 | dst << 3 | b]);
    }

    /// A mask of the first lane alone.
    pub fn first_lane(&mut self, dst: K) {
        self.masks(0x46, dst, dst, dst);
        // All sixteen bits, shifted right by fifteen.
        self.code.extend([0xc4, 0xe3, 0xf9, 0x30, 0b11 << 6 | dst << 3 | dst, 15]);
    }

    /// `dst = !a` of masks.
    pub fn mask_not(&mut self, dst: K, a: K) {
        let wide = self.width.many() as u8;
        self.code.extend([0xc4, 0xe1, wide << 7 | 0x78, 0x44, 0b11 << 6 | dst << 3 | a]);
    }

    /// `dst = src` with lane `i + far` in the place of lane `i`, for the lanes below `far` (8, 4, 2 or 1).
    pub fn fold_lanes(&mut self, far: u8, dst: Zmm, src: Zmm) {
        let (op, a, how) = match (far, self.width == Width::Double) {
            (8, false) | (4, true) => (QUARTERS, src, 0b01_00_11_10),
            (4, false) | (2, true) => (QUARTERS, src, 0b10_11_00_01),
            (2, false) => (WITHIN, 0, 0b01_00_11_10),
            (_, false) => (WITHIN, 0, 0b10_11_00_01),
            (_, true) => (WITHIN, 0, 0b0101_0101),
        };
        self.op(op, dst, a, Rm::Reg(src), Under::All);
        self.code.push(how);
    }

    /// Fetches the cache line so many bytes on from the running element of a stream, for the vector of this number in a turn.
    pub fn prefetch(&mut self, base: Gpr, bytes: i32, slot: u8, how: Fetch) {
        if base.0 >= 8 {
            self.code.push(0x41);
        }
        let (code, kind) = match how {
            Fetch::Near | Fetch::Apart(_) => (0x18, 1),
            Fetch::Second => (0x18, 2),
            Fetch::Written => (0x0d, 1),
        };
        // A turn of 64 elements moves stretches that are apart on by one line each: as many bytes as elements.
        let (scale, apart) = if let Fetch::Apart(apart) = how { (0, apart) } else { (self.scale(), 64) };
        self.code.extend([0x0f, code, 0b10 << 6 | kind << 3 | 0b100]);
        self.code.push(scale << 6 | RDI.0 << 3 | base.0 & 7);
        self.code.extend(bytes.wrapping_add(apart * slot as i32).to_le_bytes());
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

    /// `r += bytes`.
    pub fn add_to(&mut self, r: Gpr, bytes: i32) {
        self.code.extend([0x48 | r.0 >> 3, 0x81, 0b11 << 6 | r.0 & 7]);
        self.code.extend(bytes.to_le_bytes());
    }

    /// `k1` from `[rdx + 8 * index]`.
    pub fn load_mask(&mut self, index: usize) {
        let wide = self.width.many() as u8;
        self.code.extend([0xc4, 0xe1, wide << 7 | 0x78, 0x90, 0x8a]);
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

    /// `k1 = dx`, and rdx shifted to the next vector's.
    pub fn next_mask(&mut self) {
        if self.width == Width::Byte {
            return self.code.extend([0xc4, 0xe1, 0xfb, 0x92, 0xca]); // there is no next one
        }
        let words = if self.width == Width::Word { 0xfb } else { 0xf8 };
        self.code.extend([0xc5, words, 0x92, 0xca]);
        self.code.extend([0x48, 0xc1, 0xea, self.lanes() as u8]);
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

    /// The end: upper halves cleared, back to the caller; then the tables. None if the code is of no use.
    pub fn finish(mut self) -> Option<Vec<u8>> {
        self.code.extend([0xc5, 0xf8, 0x77, 0xc3]);
        let mut laid: Vec<(&Table, usize)> = vec![];
        for (from, table) in std::mem::take(&mut self.tables) {
            let known = laid.iter().find(|t| std::ptr::eq(t.0, table)).map(|t| t.1);
            let at = known.unwrap_or_else(|| {
                // Code begins at the beginning of a page.
                self.code.resize(self.code.len().next_multiple_of(64), 0);
                laid.push((table, self.code.len()));
                self.code.extend(table.0.iter().flat_map(|x| x.to_le_bytes()));
                self.code.len() - 64
            });
            self.code[from - 4..from].copy_from_slice(&((at - from) as u32).to_le_bytes());
        }
        (!self.failed).then_some(self.code)
    }
}
