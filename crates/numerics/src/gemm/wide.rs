//! Tiles of a product in AVX-512, instruction by instruction.
//!
//! A step of the sum multiplies a row of the panel with a number of each row of `A`. Beside those multiplications a core has few
//! instructions to spare, and fewer where two threads share it. Compilers find every row of `A` anew by an addition, or, where
//! steps are written out, fetch the numbers of several at once and run out of registers. Here a step of eight rows and three
//! vectors is 37 instructions, of which 24 multiply. On an Ice Lake whose cores were shared that is 124 instead of 108 GFLOP/s a core.

use super::tile::{Strip, Tiled};
use crate::simd::Isa;

/// What a tile is made of: as a [`Strip`], in bytes.
pub(crate) struct Tile {
    a: *const u8,
    /// From a row of `A` to the next, and from a number to the next of its row. One of them is a number's size.
    a_steps: (usize, usize),
    b: *const u8,
    b_row: usize,
    c: *mut u8,
    c_row: usize,
    depth: usize,
    /// The columns of the last vector that are there.
    mask: u16,
    add: bool,
}

/// A text for each of the first rows: `each!(2, f, args)` is `f!(args, 0)` and `f!(args, 1)`.
macro_rules! each {
    (1, $f:ident, $($x:tt)*) => { $f!($($x)*, 0) };
    (2, $f:ident, $($x:tt)*) => { concat!(each!(1, $f, $($x)*), $f!($($x)*, 1)) };
    (3, $f:ident, $($x:tt)*) => { concat!(each!(2, $f, $($x)*), $f!($($x)*, 2)) };
    (4, $f:ident, $($x:tt)*) => { concat!(each!(3, $f, $($x)*), $f!($($x)*, 3)) };
    (5, $f:ident, $($x:tt)*) => { concat!(each!(4, $f, $($x)*), $f!($($x)*, 4)) };
    (6, $f:ident, $($x:tt)*) => { concat!(each!(5, $f, $($x)*), $f!($($x)*, 5)) };
    (7, $f:ident, $($x:tt)*) => { concat!(each!(6, $f, $($x)*), $f!($($x)*, 6)) };
    (8, $f:ident, $($x:tt)*) => { concat!(each!(7, $f, $($x)*), $f!($($x)*, 7)) };
    (9, $f:ident, $($x:tt)*) => { concat!(each!(8, $f, $($x)*), $f!($($x)*, 8)) };
    (10, $f:ident, $($x:tt)*) => { concat!(each!(9, $f, $($x)*), $f!($($x)*, 9)) };
}

/// The vectors of a panel's row.
macro_rules! panel {
    (1) => {
        "vmovups zmm28, [{b}]\n"
    };
    (2) => {
        concat!(panel!(1), "vmovups zmm29, [{b}+64]\n")
    };
    (3) => {
        concat!(panel!(2), "vmovups zmm30, [{b}+128]\n")
    };
}

/// The number at `$at`, of row `$r` of `A`, times these vectors. The sums of row 3 are in registers 3, 13 and 23.
macro_rules! multiply {
    (1, $t:literal, $r:tt, $at:expr) => {
        concat!("vbroadcasts", $t, " zmm31, ", $at, "\n", "vfmadd231p", $t, " zmm", $r, ", zmm31, zmm28\n")
    };
    (2, $t:literal, $r:tt, $at:expr) => {
        concat!(multiply!(1, $t, $r, $at), "vfmadd231p", $t, " zmm1", $r, ", zmm31, zmm29\n")
    };
    (3, $t:literal, $r:tt, $at:expr) => {
        concat!(multiply!(2, $t, $r, $at), "vfmadd231p", $t, " zmm2", $r, ", zmm31, zmm30\n")
    };
}

/// Rows of `A` that lie along the sum, a number `$d` bytes on. Every fourth has a register that says where it is.
macro_rules! along {
    ($w:tt, $t:literal, $d:tt, 0) => {
        multiply!($w, $t, 0, concat!("[{a}+", $d, "]"))
    };
    ($w:tt, $t:literal, $d:tt, 1) => {
        multiply!($w, $t, 1, concat!("[{a}+{s}+", $d, "]"))
    };
    ($w:tt, $t:literal, $d:tt, 2) => {
        multiply!($w, $t, 2, concat!("[{a}+2*{s}+", $d, "]"))
    };
    ($w:tt, $t:literal, $d:tt, 3) => {
        multiply!($w, $t, 3, concat!("[{a}+{s3}+", $d, "]"))
    };
    ($w:tt, $t:literal, $d:tt, 4) => {
        multiply!($w, $t, 4, concat!("[{a4}+", $d, "]"))
    };
    ($w:tt, $t:literal, $d:tt, 5) => {
        multiply!($w, $t, 5, concat!("[{a4}+{s}+", $d, "]"))
    };
    ($w:tt, $t:literal, $d:tt, 6) => {
        multiply!($w, $t, 6, concat!("[{a4}+2*{s}+", $d, "]"))
    };
    ($w:tt, $t:literal, $d:tt, 7) => {
        multiply!($w, $t, 7, concat!("[{a4}+{s3}+", $d, "]"))
    };
    ($w:tt, $t:literal, $d:tt, 8) => {
        multiply!($w, $t, 8, concat!("[{a8}+", $d, "]"))
    };
    ($w:tt, $t:literal, $d:tt, 9) => {
        multiply!($w, $t, 9, concat!("[{a8}+{s}+", $d, "]"))
    };
}

/// Rows of `A` that lie across: their numbers are side by side.
macro_rules! across {
    ($w:tt, $t:literal, $size:literal, $r:tt) => {
        multiply!($w, $t, $r, concat!("[{a}+", $size, "*", $r, "]"))
    };
}

/// A row's sums set to zero.
macro_rules! clear {
    (1, $r:tt) => {
        concat!("vpxord zmm", $r, ", zmm", $r, ", zmm", $r, "\n")
    };
    (2, $r:tt) => {
        concat!(clear!(1, $r), "vpxord zmm1", $r, ", zmm1", $r, ", zmm1", $r, "\n")
    };
    (3, $r:tt) => {
        concat!(clear!(2, $r), "vpxord zmm2", $r, ", zmm2", $r, ", zmm2", $r, "\n")
    };
}

/// A row's sums written: of the last vector the columns that are there.
macro_rules! write {
    (1, $t:literal, $r:tt) => {
        concat!("vmovup", $t, " [{c}]{{k1}}, zmm", $r, "\nadd {c}, {c_row}\n")
    };
    (2, $t:literal, $r:tt) => {
        concat!("vmovups [{c}], zmm", $r, "\nvmovup", $t, " [{c}+64]{{k1}}, zmm1", $r, "\nadd {c}, {c_row}\n")
    };
    (3, $t:literal, $r:tt) => {
        concat!(
            "vmovups [{c}], zmm",
            $r,
            "\nvmovups [{c}+64], zmm1",
            $r,
            "\nvmovup",
            $t,
            " [{c}+128]{{k1}}, zmm2",
            $r,
            "\nadd {c}, {c_row}\n"
        )
    };
}

/// The same, added to what is there.
macro_rules! add {
    (1, $t:literal, $r:tt) => {
        concat!("vaddp", $t, " zmm", $r, "{{k1}}{{z}}, zmm", $r, ", [{c}]\n", write!(1, $t, $r))
    };
    (2, $t:literal, $r:tt) => {
        concat!(
            "vaddp",
            $t,
            " zmm",
            $r,
            ", zmm",
            $r,
            ", [{c}]\n",
            "vaddp",
            $t,
            " zmm1",
            $r,
            "{{k1}}{{z}}, zmm1",
            $r,
            ", [{c}+64]\n",
            write!(2, $t, $r)
        )
    };
    (3, $t:literal, $r:tt) => {
        concat!(
            "vaddp",
            $t,
            " zmm",
            $r,
            ", zmm",
            $r,
            ", [{c}]\n",
            "vaddp",
            $t,
            " zmm1",
            $r,
            ", zmm1",
            $r,
            ", [{c}+64]\n",
            "vaddp",
            $t,
            " zmm2",
            $r,
            "{{k1}}{{z}}, zmm2",
            $r,
            ", [{c}+128]\n",
            write!(3, $t, $r)
        )
    };
}

/// A step with rows that lie along the sum, their numbers `$d` bytes on.
macro_rules! step {
    ($rows:tt, $w:tt, $t:literal, $d:literal) => {
        concat!(panel!($w), each!($rows, along, $w, $t, $d), "add {b}, {b_row}\n")
    };
}
/// Rows that lie along the sum, further on.
macro_rules! onwards {
    ($by:literal) => {
        concat!("add {a}, ", $by, "\nadd {a4}, ", $by, "\nadd {a8}, ", $by, "\n")
    };
}

/// A tile: sums that start at zero, loops, and the output.
macro_rules! run {
    ($rows:tt, $w:tt, $t:literal, $s:ident, [$($loops:expr),*], $($operands:tt)*) => {
        std::arch::asm!(
            each!($rows, clear, $w),
            $($loops,)*
            "test {add}, {add}",
            "jnz 6f",
            each!($rows, write, $w, $t),
            "jmp 7f",
            "6:",
            each!($rows, add, $w, $t),
            "7:",
            $($operands)*
            b = inout(reg) $s.b => _, b_row = in(reg) $s.b_row,
            c = inout(reg) $s.c => _, c_row = in(reg) $s.c_row,
            add = in(reg) usize::from($s.add), in("k1") $s.mask,
            out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _, out("zmm4") _, out("zmm5") _, out("zmm6") _,
            out("zmm7") _, out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _, out("zmm12") _,
            out("zmm13") _, out("zmm14") _, out("zmm15") _, out("zmm16") _, out("zmm17") _, out("zmm18") _,
            out("zmm19") _, out("zmm20") _, out("zmm21") _, out("zmm22") _, out("zmm23") _, out("zmm24") _,
            out("zmm25") _, out("zmm26") _, out("zmm27") _, out("zmm28") _, out("zmm29") _, out("zmm30") _,
            out("zmm31") _,
            options(nostack)
        )
    };
}

macro_rules! tile {
    ($rows:tt, $w:tt, $t:literal, $size:literal, [$d1:literal, $d2:literal, $d3:literal, $d4:literal], $s:ident) => {{
        let (rs, ks) = $s.a_steps;
        if ks == $size {
            run!($rows, $w, $t, $s, [
                "test {fours}, {fours}",
                "jz 3f",
                "2:",
                step!($rows, $w, $t, "0"),
                step!($rows, $w, $t, $d1),
                step!($rows, $w, $t, $d2),
                step!($rows, $w, $t, $d3),
                onwards!($d4),
                "dec {fours}",
                "jnz 2b",
                "3:",
                "test {ones}, {ones}",
                "jz 5f",
                "4:",
                step!($rows, $w, $t, "0"),
                onwards!($d1),
                "dec {ones}",
                "jnz 4b",
                "5: /* of a few rows, {s} and {s3} are not asked for */"
            ],
                a = inout(reg) $s.a => _, a4 = inout(reg) $s.a.wrapping_add(4 * rs) => _,
                a8 = inout(reg) $s.a.wrapping_add(8 * rs) => _, s = in(reg) rs, s3 = in(reg) 3 * rs,
                fours = inout(reg) $s.depth / 4 => _, ones = inout(reg) $s.depth % 4 => _,
            )
        } else {
            run!($rows, $w, $t, $s, [
                "2:",
                concat!(panel!($w), each!($rows, across, $w, $t, $size), "add {a}, {s}\nadd {b}, {b_row}\n"),
                "dec {n}",
                "jnz 2b"
            ],
                a = inout(reg) $s.a => _, s = in(reg) ks, n = inout(reg) $s.depth => _,
            )
        }
    }};
}

macro_rules! tiles {
    ($name:ident, $t:literal, $size:literal, $d:tt) => {
        /// # Safety
        ///
        /// The CPU has AVX-512, there is a step to go, and the tile may be read and written.
        #[target_feature(enable = "avx512f")]
        pub(super) unsafe fn $name(rows: usize, vectors: usize, s: &Tile) {
            // SAFETY: what is read and written is the tile, by the caller's promise; all registers are named.
            unsafe {
                match (vectors, rows) {
                    (1, 1) => tile!(1, 1, $t, $size, $d, s),
                    (1, 2) => tile!(2, 1, $t, $size, $d, s),
                    (1, 3) => tile!(3, 1, $t, $size, $d, s),
                    (1, 4) => tile!(4, 1, $t, $size, $d, s),
                    (1, 5) => tile!(5, 1, $t, $size, $d, s),
                    (1, 6) => tile!(6, 1, $t, $size, $d, s),
                    (1, 7) => tile!(7, 1, $t, $size, $d, s),
                    (1, 8) => tile!(8, 1, $t, $size, $d, s),
                    (1, 9) => tile!(9, 1, $t, $size, $d, s),
                    (1, _) => tile!(10, 1, $t, $size, $d, s),
                    (2, 1) => tile!(1, 2, $t, $size, $d, s),
                    (2, 2) => tile!(2, 2, $t, $size, $d, s),
                    (2, 3) => tile!(3, 2, $t, $size, $d, s),
                    (2, 4) => tile!(4, 2, $t, $size, $d, s),
                    (2, 5) => tile!(5, 2, $t, $size, $d, s),
                    (2, 6) => tile!(6, 2, $t, $size, $d, s),
                    (2, 7) => tile!(7, 2, $t, $size, $d, s),
                    (2, 8) => tile!(8, 2, $t, $size, $d, s),
                    (2, 9) => tile!(9, 2, $t, $size, $d, s),
                    (2, _) => tile!(10, 2, $t, $size, $d, s),
                    (_, 1) => tile!(1, 3, $t, $size, $d, s),
                    (_, 2) => tile!(2, 3, $t, $size, $d, s),
                    (_, 3) => tile!(3, 3, $t, $size, $d, s),
                    (_, 4) => tile!(4, 3, $t, $size, $d, s),
                    (_, 5) => tile!(5, 3, $t, $size, $d, s),
                    (_, 6) => tile!(6, 3, $t, $size, $d, s),
                    (_, 7) => tile!(7, 3, $t, $size, $d, s),
                    (_, _) => tile!(8, 3, $t, $size, $d, s),
                }
            }
        }
    };
}
tiles!(singles, "s", 4, ["4", "8", "12", "16"]);
tiles!(doubles, "d", 8, ["8", "16", "24", "32"]);

/// Whether tiles of the strip are made here.
pub(super) fn does<T>(isa: Isa, s: &Strip<T>) -> bool {
    matches!(isa, Isa::Avx512 | Isa::Pairs) && (s.a_steps.0 == 1 || s.a_steps.1 == 1) && s.depth > 0
}

/// A strip, in tiles of as equal heights as can be.
///
/// # Safety
///
/// As of [`super::strip`], for strips that [`does`] says yes to.
pub(super) unsafe fn strip<T: Tiled>(s: &Strip<T>) {
    let (size, lanes) = (size_of::<T>(), 64 / size_of::<T>());
    let vectors = s.columns.div_ceil(lanes);
    let most = if vectors == 3 { 8 } else { 10 };
    let last = s.columns - (vectors - 1) * lanes;
    let mut tile = Tile {
        a: s.a.cast(),
        a_steps: (s.a_steps.0 * size, s.a_steps.1 * size),
        b: s.b.cast(),
        b_row: s.b_row * size,
        c: s.c.cast(),
        c_row: s.c_row * size,
        depth: s.depth,
        mask: u16::MAX >> (16 - last),
        add: s.add,
    };
    let tiles = s.rows.div_ceil(most);
    let mut left = s.rows;
    for t in 0..tiles {
        let rows = left.div_ceil(tiles - t);
        // SAFETY: the rows are inside the strip; the rest is the caller's promise.
        unsafe { T::TILE(rows, vectors, &tile) };
        tile.a = tile.a.wrapping_add(rows * tile.a_steps.0);
        tile.c = tile.c.wrapping_add(rows * tile.c_row);
        left -= rows;
    }
}

#[cfg(test)]
mod tests;
