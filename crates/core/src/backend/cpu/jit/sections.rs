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
    /// The places in the table that its pointers count from.
    pub places: Vec<usize>,
    /// For each of its pointers, which of those, and how many bytes on.
    pub spots: Vec<(usize, i32)>,
    /// Elements of the loop; none for a row's numbers.
    pub elements: Option<usize>,
}

impl Section {
    /// Nothing yet but a body.
    pub fn new(body: Body) -> Section {
        Section { body, places: vec![], spots: vec![], elements: None }
    }

    /// What its code finds in memory, with its constants at this place of the pool.
    fn outside(&self, constants: usize) -> Outside {
        let (places, spots) = (self.places.clone(), self.spots.clone());
        Outside { table: RDX, places, spots, pool: POOL, constants: Some(constants) }
    }
}

/// The mask of the last vector of so many elements, of so many lanes.
pub fn mask(elements: usize, lanes: usize) -> usize {
    (1usize << (elements % lanes)) - 1
}

/// Assembles the function, and the constants of the pool after its numbers. `moves` are the bytes that each pointer moves
/// from row to row. None if something needs more registers than there are.
pub fn assemble(
    sections: &[Section],
    moves: &[i32],
    numbers: usize,
    temporaries: usize,
) -> Option<(Vec<u8>, Vec<u64>)> {
    if let [Section { body, elements: Some(n), .. }] = sections
        && body.vectors > 0
    {
        return resident(&sections[0], *n, moves, (numbers, temporaries));
    }
    let mut asm = Asm::default();
    let mut constants = vec![];
    for &r in &POINTERS[FIRST_SAVED..] {
        asm.push(r);
    }
    asm.table_to_rdx();
    let row = asm.code.len();
    for s in sections {
        let mut w = Writer::new(&s.body, asm, s.outside(numbers + constants.len()), temporaries)?;
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
    if sections.iter().any(|s| !s.body.past.is_empty()) {
        asm.wait_for_stores();
    }
    for &r in POINTERS[FIRST_SAVED..].iter().rev() {
        asm.pop(r);
    }
    Some((asm.finish()?, constants))
}

/// The same for one section whose accumulators stay in registers for all rows, and pointers as well.
fn resident(
    s: &Section,
    n: usize,
    moves: &[i32],
    (numbers, temporaries): (usize, usize),
) -> Option<(Vec<u8>, Vec<u64>)> {
    let mut asm = Asm::default();
    for &r in &POINTERS[FIRST_SAVED..] {
        asm.push(r);
    }
    asm.table_to_rdx();
    let mut w = Writer::new(&s.body, asm, s.outside(numbers), temporaries)?;
    if w.held < s.places.len() {
        return None;
    }
    w.load_pointers(RDX);
    w.load_fixed();
    w.asm.clear_offset();
    w.asm.load_mask(MASK);
    w.move_held(n, true);
    let row = w.asm.code.len();
    for slot in 0..s.body.vectors {
        w.slot(slot, n < w.asm.lanes() * (slot as usize + 1))?;
    }
    for (&place, &r) in s.places.iter().zip(&POINTERS).filter(|p| moves[p.0 - FIRST] != 0) {
        w.asm.add_to(r, moves[place - FIRST]);
    }
    w.asm.count_down();
    w.asm.jump_back(0x85, row);
    w.move_held(n, false);
    for &r in POINTERS[FIRST_SAVED..].iter().rev() {
        w.asm.pop(r);
    }
    let constants = w.constants().collect();
    Some((w.asm.finish()?, constants))
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
