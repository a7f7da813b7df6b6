//! From a list of vector operations to a loop.
//!
//! [`assemble`] writes a loop that runs a body for 64 elements a turn, and the rest under a mask. Constants and
//! loop-invariant operands are put into registers before the loop while there are any left. The order of everything that
//! rounds is the order of the kernel, so the bits are those of the interpreter.

use super::{
    asm::{self, Asm, FIRST_SAVED, POINTERS, Rm, Under},
    body::{Body, Vop},
    writer::{MOST_POINTERS, Outside, TABLE, TEMPORARIES, Writer},
};

/// Assembles the loop, and its constants: the table's last pointer is to those, followed by the invariants. None if it
/// needs more registers than there are.
pub fn assemble(body: &Body) -> Option<(Vec<u8>, Vec<u64>)> {
    if body.pointers + 1 > MOST_POINTERS {
        return None;
    }
    let outside = Outside {
        table: TABLE,
        places: (0..body.pointers).collect(),
        spots: (0..body.pointers).map(|p| (p, 0)).collect(),
        pool: body.pointers,
        constants: None,
    };
    let mut w = Writer::new(body, Asm::default(), outside, TEMPORARIES[0])?;
    let used = if w.held == body.pointers { w.held + 1 } else { POINTERS.len() };
    for &r in POINTERS.iter().take(used).skip(FIRST_SAVED) {
        w.asm.push(r);
    }
    w.load_pointers(asm::RDI);
    if w.held < body.pointers {
        w.asm.keep_table(TABLE);
    }
    w.load_fixed();
    // The accumulator is 64 lanes in a row.
    w.asm.clear_offset();
    accumulators(&mut w, body, asm::MOV_LOAD)?;
    w.asm.compare_offset();
    let skip = w.asm.jump(0x83);
    let start = w.asm.code.len();
    for slot in 0..w.asm.slots() {
        w.slot(slot, false)?;
    }
    w.asm.advance(64);
    w.asm.compare_offset();
    w.asm.jump_back(0x82, start);
    w.asm.land(skip);
    let mut ends = vec![];
    for slot in 0..w.asm.slots() {
        w.asm.test_mask();
        ends.push(w.asm.jump(0x84));
        w.asm.next_mask();
        w.slot(slot, true)?;
    }
    for e in ends {
        w.asm.land(e);
    }
    w.asm.clear_offset();
    accumulators(&mut w, body, asm::MOV_STORE)?;
    for &r in POINTERS.iter().take(used).skip(FIRST_SAVED).rev() {
        w.asm.pop(r);
    }
    let constants = w.constants().collect();
    Some((w.asm.finish()?, constants))
}

/// Moves all accumulators from or to their memory.
fn accumulators(w: &mut Writer<'_>, body: &Body, how: asm::Op) -> Option<()> {
    for (i, first) in w.accumulators.clone() {
        let Vop::Fold(_, p, _) = body.ops[i] else { return None };
        let p = w.pointer(p);
        for slot in 0..w.asm.slots() {
            w.asm.op(how, first + slot, 0, Rm::Stream(p, slot), Under::All);
        }
    }
    Some(())
}
