//! A function for many rows at once: for each of them, sections one after the other, and then all addresses move on.
//!
//! A section is the loop of a pass over a row, or the numbers of a row before a pass. Numbers that one section computes
//! for another (sums, means) lie in the pool, before all constants.

use super::{
    asm::{Asm, FIRST_SAVED, Gpr, POINTERS},
    body::Body,
    writer::{Outside, Writer},
};

/// Holds the table; rsi holds the rows that are left.
const RDX: Gpr = Gpr(2);
/// The place of the pool in the table.
pub const POOL: usize = 0;
/// The place of the mask of a row's last vector.
pub const MASK: usize = 1;
/// Where pointers begin.
pub const FIRST: usize = 2;

/// Part of what is done for a row.
pub struct Section {
    /// What.
    pub body: Body,
    /// The place of each of its pointers in the table.
    pub places: Vec<usize>,
    /// Elements of the loop; none for a row's numbers.
    pub elements: Option<usize>,
}

/// The mask of the last vector of so many elements, of so many lanes.
pub fn mask(elements: usize, lanes: usize) -> usize {
    (1usize << (elements % lanes)) - 1
}

/// Assembles the function, and the constants of the pool after its numbers. `moves` are the bytes that each pointer moves
/// from row to row. None if something needs more registers than there are.
pub fn assemble(sections: &[Section], moves: &[i32], numbers: usize) -> Option<(Vec<u8>, Vec<u64>)> {
    let mut asm = Asm::default();
    let mut constants = vec![];
    for &r in &POINTERS[FIRST_SAVED..] {
        asm.push(r);
    }
    asm.table_to_rdx();
    let row = asm.code.len();
    for s in sections {
        let (places, first) = (s.places.clone(), numbers + constants.len());
        let outside = Outside { table: RDX, places, pool: POOL, constants: Some(first) };
        let mut w = Writer::new(&s.body, asm, outside)?;
        w.load_pointers(RDX);
        w.load_fixed();
        w.asm.clear_offset();
        match s.elements {
            None => w.slot(0, false)?,
            Some(n) => {
                // Short rows touch few of the vectors of an accumulator.
                let vectors = n.div_ceil(w.asm.lanes()).min(w.asm.slots() as usize) as u8;
                w.start_accumulators(vectors)?;
                all(&mut w, n)?;
                w.finish_accumulators(vectors)?;
            }
        }
        constants.extend(w.constants());
        asm = w.asm;
    }
    for (n, &bytes) in moves.iter().enumerate().filter(|m| *m.1 != 0) {
        asm.move_pointer(FIRST + n, bytes);
    }
    asm.count_down();
    asm.jump_back(0x85, row);
    for &r in POINTERS[FIRST_SAVED..].iter().rev() {
        asm.pop(r);
    }
    asm.ret();
    (!asm.failed).then_some((asm.code, constants))
}

/// All elements of a row, 64 a turn.
fn all(w: &mut Writer<'_>, n: usize) -> Option<()> {
    let (groups, rest) = (u32::try_from(n & !63).ok()?, n % 64);
    if groups > 0 {
        let start = w.asm.code.len();
        (0..w.asm.slots()).try_for_each(|slot| w.slot(slot, false))?;
        w.asm.advance(64);
        w.asm.compare_with(groups);
        w.asm.jump_back(0x82, start);
    }
    let lanes = w.asm.lanes();
    for slot in 0..rest.div_ceil(lanes) {
        let part = rest < lanes * (slot + 1);
        if part {
            w.asm.load_mask(MASK);
        }
        w.slot(slot as u8, part)?;
    }
    Some(())
}
