//! A few thousand damaged files a reader, and those that a reader once failed on. Long runs:
//! `cargo run --release -p gradus-conformance -- fuzz all --seconds 600`.

use gradus_conformance::fuzz::{Seeds, alloc, check, readers::READERS, readers::root};
use std::fs;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

#[test]
fn damaged_files_are_errors() {
    for reader in &READERS {
        let seeds = Seeds::new(reader).unwrap();
        let (mut valid, cases) = (0, 2000);
        for number in 0..cases {
            match check(reader, &seeds.case(1, number)) {
                Ok(accepted) => valid += usize::from(accepted),
                Err(why) => panic!("{} case {number}: {why}", reader.name),
            }
        }
        assert!(valid < cases as usize, "{}: damage that is never noticed", reader.name);
    }
}

#[test]
fn files_that_once_failed() {
    for reader in &READERS {
        let Ok(folder) = fs::read_dir(root().join(reader.corpus)) else { continue };
        for file in folder {
            let path = file.unwrap().path();
            if let Err(why) = check(reader, &fs::read(&path).unwrap()) {
                panic!("{} on {}: {why}", reader.name, path.display());
            }
        }
    }
}

#[test]
fn the_counter_counts() {
    assert!(alloc::peak(|| drop(std::hint::black_box(vec![0u8; 1 << 20]))) >= 1 << 20);
}
