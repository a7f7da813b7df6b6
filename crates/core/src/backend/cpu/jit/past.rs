//! Stores that go past the caches: of whole vectors, to whole lines.

use super::{
    asm::{self, Asm, Code, HALF, Map, Rm, Under, WHOLE, Zmm},
    body::Form,
    whole::Maker,
    writer::{SCRATCH, Writer},
};

/// The most operations before a store that goes past the caches: with more, arithmetic takes longer than memory.
const MOST_WORK: usize = 70;
/// Stores a part of a register past the caches.
const STORE: Code = Code(Map::M0F, 1, 0xe7, 0);

impl Maker<'_> {
    /// Lets the stores to a cursor go past the caches if that is asked for, and if all rows begin where lines do once the
    /// first of them does.
    pub(super) fn mark_past(&mut self, cursor: usize, p: usize) {
        let work = self.body().ops.iter().filter(|o| o.defines() && !o.stays()).count();
        if work > MOST_WORK {
            return;
        }
        let (place, far) = self.section.spots[p];
        let step = self.moves[self.section.places[place] - super::sections::FIRST];
        if self.o.past.contains(&cursor) && far % 64 == 0 && step % 64 == 0 {
            self.body().past.push(p);
            self.past.push(cursor);
        }
    }
}

impl Writer<'_> {
    /// Whether a store does: parts of vectors do not.
    pub(super) fn goes_past(&self, p: usize, under: Under) -> bool {
        under == Under::All && self.body.past.contains(&p)
    }

    /// Lanes in less room, past the caches.
    pub(super) fn narrow_past(&mut self, form: Form, p: usize, x: Zmm, slot: u8) -> Option<()> {
        let wide = self.body.wide();
        let length = if wide { HALF } else { WHOLE };
        let mut x = x;
        if wide && matches!(form, Form::Half | Form::Upper | Form::Single) {
            self.asm.op(asm::TO_FLOATS, SCRATCH, 0, Rm::Reg(x), Under::All);
            x = SCRATCH;
        }
        let (scratch, all) = (Rm::Reg(SCRATCH), Under::All);
        match form {
            Form::Half => self.asm.store_halves(x, scratch, all, length),
            Form::Upper => self.upper_words(x, length)?,
            Form::Single => {}
            Form::Ints => self.asm.op(asm::NARROW_INTS, x, 0, scratch, all),
            Form::Words(_) => self.asm.op(asm::NARROW_WORDS, x, 0, scratch, all),
            Form::Bytes(_) => self.asm.op(asm::NARROW_BYTES, x, 0, scratch, all),
        }
        let p = self.pointer(p);
        match form {
            Form::Half | Form::Upper | Form::Words(_) => self.store_past(Rm::Words(p, slot), 2),
            Form::Single | Form::Ints => self.store_past(Rm::Doubles(p, slot), 4),
            Form::Bytes(_) => self.store_past(Rm::Bytes(p, slot), 1),
        }
    }

    /// As many elements of so many bytes as there are lanes, from the scratch register.
    pub(super) fn store_past(&mut self, to: Rm, bytes: usize) -> Option<()> {
        let length = match bytes * self.asm.lanes() {
            16 => 0,
            32 => HALF,
            _ => return None,
        };
        self.asm.raw(STORE, SCRATCH, 0, to, Under::All, (length, false));
        Some(())
    }
}

impl Asm {
    /// Stores past the caches are seen by other threads only after this.
    pub fn wait_for_stores(&mut self) {
        self.code.extend([0x0f, 0xae, 0xf8]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        body::{Body, V, Vop},
        memory,
        sections::{self, Section},
        width::Width,
    };
    use super::*;

    /// Copies three rows of 200 lanes, each as its store has it; with the marks, past the caches.
    fn copied(width: Width, bytes: usize, store: impl Fn(&mut Body, V), past: bool) -> Vec<u8> {
        #[repr(align(64))]
        #[derive(Clone)]
        struct Line([u8; 64]);
        const N: usize = 200;
        let mut body = Body::new(width);
        let (from, to) = (body.pointer(), body.pointer());
        assert_eq!((from, to), (0, 1));
        let x = body.push(Vop::In(from));
        store(&mut body, x);
        body.past.extend(past.then_some(to));
        let rows = [(width.bytes() * N).next_multiple_of(64), (bytes * N).next_multiple_of(64)];
        let section = Section {
            places: vec![sections::FIRST, sections::FIRST + 1],
            spots: vec![(0, 0), (1, 0)],
            elements: Some(N),
            ..Section::new(body)
        };
        let (code, constants) = sections::assemble(&[section], &rows.map(|r| r as i32), 0, 19).expect("registers");
        let sealed = memory::Sealed::new(&code).expect("memory");
        // Ordinary floats in lanes of 32 and 64 bits.
        let at = |i: usize| match width {
            Width::Double => ((i as f64 * 0.37 - 60.0).to_bits() >> (i % 8 * 8)) as u8,
            _ => (((i / 4) as f32 * 0.37 - 60.0).to_bits() >> (i % 4 * 8)) as u8,
        };
        let source: Vec<Line> = (0..rows[0] * 3 / 64).map(|l| Line(std::array::from_fn(|i| at(64 * l + i)))).collect();
        let mut target = vec![Line([7; 64]); rows[1] * 3 / 64];
        let narrow: Vec<u32> = constants.iter().map(|&c| c as u32).collect();
        let pool = if width == Width::Double { constants.as_ptr() as usize } else { narrow.as_ptr() as usize };
        let mask = sections::mask(N, width.lanes());
        let mut table = [pool, mask, source.as_ptr() as usize, target.as_mut_ptr() as usize];
        // SAFETY: the table holds what the function was made for, three rows of both.
        unsafe { (sealed.code())(table.as_mut_ptr(), 3, 0) };
        target.iter().flat_map(|l| l.0).collect()
    }

    #[test]
    fn past_the_caches_go_the_same_bytes() {
        if !super::super::available() {
            return eprintln!("skipped: loops need AVX-512");
        }
        let narrow = |form| {
            move |b: &mut Body, x: V| {
                b.push(Vop::Narrow(form, 1, x));
            }
        };
        let same = |width: Width, bytes: usize, store: &dyn Fn(&mut Body, V)| {
            let plain = copied(width, bytes, store, false);
            assert!(plain.iter().any(|&b| b != 7), "{width:?} {bytes}");
            assert_eq!(copied(width, bytes, store, true), plain, "{width:?} {bytes}");
        };
        for width in [Width::Byte, Width::Word, Width::Single, Width::Double] {
            same(width, width.bytes(), &|b, x| {
                b.push(Vop::Out(1, x));
            });
        }
        for form in [Form::Half, Form::Upper, Form::Words(true)] {
            same(Width::Single, 2, &narrow(form));
            same(Width::Double, 2, &narrow(form));
        }
        same(Width::Single, 1, &narrow(Form::Bytes(true)));
        same(Width::Double, 4, &narrow(Form::Single));
        same(Width::Double, 4, &narrow(Form::Ints));
        for width in [Width::Byte, Width::Word, Width::Single] {
            same(width, 1, &|b, x| {
                let zero = b.push(Vop::Const(0));
                let (m, ones) = (b.push(Vop::CompareI(4, x, zero)), b.bits(1));
                b.push(Vop::OutMask(1, m, ones));
            });
        }
    }
}
