//! Damaged and hostile files for every reader: none may panic, abort, or take memory that its file does not account for.
//!
//! A case is a number: seed and number name the file that is damaged and how, so every case can be made again. The
//! command `gradus-conformance fuzz READER` runs cases for a time; a child process does the reading and notes the number
//! of each case first, so that an abort has a name too. What is found is put with the tests of the reader's crate.

pub mod alloc;
pub mod command;
mod mend;
pub mod mutate;
pub mod readers;

use gradus_data::Rng;
use readers::Reader;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The files that cases start from.
pub struct Seeds {
    reader: &'static Reader,
    files: Vec<Vec<u8>>,
}

impl Seeds {
    /// The valid files of a reader. Some hold what is not supported, but not all, or the cases would test little.
    pub fn new(reader: &'static Reader) -> Result<Seeds, String> {
        let files = (reader.seeds)()?;
        let accepted = files.iter().map(|f| check(reader, f)).collect::<Result<Vec<bool>, String>>();
        match accepted.map_err(|why| format!("{}: a valid file: {why}", reader.name))?.contains(&true) {
            true => Ok(Seeds { reader, files }),
            false => Err(format!("{}: no valid file is read", reader.name)),
        }
    }

    /// The damaged file of a number.
    pub fn case(&self, seed: u64, number: u64) -> Vec<u8> {
        let mut rng = Rng::new(seed, number);
        let original = self.files.get(rng.below(self.files.len())).cloned().unwrap_or_default();
        let mut bytes = original.clone();
        for _ in 0..1 + rng.below(5) {
            mutate::damage(&mut bytes, &self.files, &mut rng);
        }
        // Half of the time checksums and lengths are put right, so that the damage reaches what lies behind them.
        if rng.chance(0.5) { (self.reader.mend)(bytes, &original) } else { bytes }
    }
}

/// Reads bytes; whether they were accepted, or what went wrong with the reader.
pub fn check(reader: &Reader, bytes: &[u8]) -> Result<bool, String> {
    let mut accepted = Ok(false);
    let took = alloc::peak(|| {
        accepted = catch_unwind(AssertUnwindSafe(|| (reader.read)(bytes))).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
            Err(format!("a panic: {}", text.unwrap_or_default()))
        });
    });
    let bound = (reader.bound)(bytes);
    if took > bound {
        return Err(format!("{took} bytes held for a file of {}, where {bound} are the most", bytes.len()));
    }
    accepted
}
