//! Damaged and hostile files: no reader panics, none takes memory that the file does not account for, every error
//! can be shown.
//!
//! Valid files are flipped, cut, spliced and grown, with checksums and lengths put right again half of the time, so that
//! the damage reaches what lies behind them. A short run is part of the tests; `GRADUS_FUZZ_SECONDS=300` makes it long.
//! What a run finds is written to a file named in its message: put it into `tests/data/regression`.

use gradus_io::Format;
use proptest::{prelude::*, test_runner::TestError, test_runner::TestRunner};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Counts what this thread holds, and the most it held.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(by: isize) {
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + by);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call goes to the system's allocator; counting allocates nothing (the cells are const-initialised).
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: passed on.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: passed on.
        unsafe { System.dealloc(p, layout) }
    }
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new may both be there for a while.
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: passed on.
        unsafe { System.realloc(p, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that `f` held at once.
fn peak(f: impl FnOnce()) -> usize {
    let before = LIVE.get();
    PEAK.set(before);
    f();
    (PEAK.get() - before) as usize
}

/// What a file of these bytes may take: in proportion to its length; a deflated one may grow a thousandfold.
fn bound(bytes: &[u8]) -> usize {
    let rate = if bytes.starts_with(b"PK") { 4500 } else { 256 };
    (4 << 20) + rate * bytes.len()
}

#[derive(Clone, Debug)]
enum Damage {
    Flip {
        at: usize,
        bit: u8,
    },
    Set {
        at: usize,
        byte: u8,
    },
    Cut {
        at: usize,
    },
    Insert {
        at: usize,
        bytes: Vec<u8>,
    },
    Remove {
        at: usize,
        len: usize,
    },
    /// Bytes from one place, put in at another.
    Copy {
        from: usize,
        at: usize,
        len: usize,
    },
    /// A little-endian number of this width, made extreme.
    Number {
        at: usize,
        width: usize,
        value: u64,
    },
    /// The next decimal number in a text, made extreme.
    Digits {
        at: usize,
        text: &'static str,
    },
}

fn damage() -> impl Strategy<Value = Damage> {
    // Headers and directories are near the ends, so most places are; magics and lengths come first of all.
    let end = || (0usize..200).prop_map(|x| usize::MAX - x);
    let at = || prop_oneof![any::<u16>().prop_map(usize::from), 0usize..16, 0usize..200, end()];
    let extreme = prop::sample::select(vec![
        u64::MAX,
        u64::MAX >> 1,
        1 << 63,
        1 << 40,
        1 << 32,
        u64::from(u32::MAX),
        1 << 31,
        1 << 26,
        1 << 24,
        1 << 22,
        0xffff,
        0x7fff,
        255,
        1,
        0,
    ]);
    let digits = prop::sample::select(vec![
        "0",
        "1",
        "99999",
        "4294967296",
        "1099511627776",
        "9223372036854775807",
        "18446744073709551615",
        "18446744073709551616",
        "-1",
        "1e9",
        "",
    ]);
    prop_oneof![
        3 => (at(), 0u8..8).prop_map(|(at, bit)| Damage::Flip { at, bit }),
        3 => (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Set { at, byte }),
        1 => at().prop_map(|at| Damage::Cut { at }),
        2 => (at(), prop::collection::vec(any::<u8>(), 1..9)).prop_map(|(at, bytes)| Damage::Insert { at, bytes }),
        2 => (at(), 1usize..40).prop_map(|(at, len)| Damage::Remove { at, len }),
        2 => (at(), at(), 1usize..100).prop_map(|(from, at, len)| Damage::Copy { from, at, len }),
        3 => (at(), prop::sample::select(vec![1usize, 2, 4, 8]), extreme)
            .prop_map(|(at, width, value)| Damage::Number { at, width, value }),
        2 => (at(), digits).prop_map(|(at, text)| Damage::Digits { at, text }),
    ]
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let n = bytes.len();
        // Places near usize::MAX count from the end.
        let place = |at: usize| if at > usize::MAX / 2 { n.saturating_sub(usize::MAX - at) } else { at % (n + 1) };
        match self {
            Damage::Flip { at, bit } => {
                if let Some(b) = bytes.get_mut(place(*at)) {
                    *b ^= 1 << bit;
                }
            }
            Damage::Set { at, byte } => {
                if let Some(b) = bytes.get_mut(place(*at)) {
                    *b = *byte;
                }
            }
            Damage::Cut { at } => bytes.truncate(place(*at)),
            Damage::Insert { at, bytes: new } => {
                let at = place(*at);
                bytes.splice(at..at, new.iter().copied());
            }
            Damage::Remove { at, len } => {
                let at = place(*at);
                bytes.drain(at..(at + len).min(n));
            }
            Damage::Copy { from, at, len } => {
                let (from, at) = (place(*from), place(*at));
                let part = bytes[from..(from + len).min(n)].to_vec();
                bytes.splice(at..at, part);
            }
            Damage::Number { at, width, value } => {
                for (b, v) in bytes.iter_mut().skip(place(*at)).take(*width).zip(value.to_le_bytes()) {
                    *b = v;
                }
            }
            Damage::Digits { at, text } => {
                let Some(start) = bytes.iter().skip(place(*at)).position(u8::is_ascii_digit) else { return };
                let start = start + place(*at);
                let len = bytes[start..].iter().take_while(|b| b.is_ascii_digit()).count();
                bytes.splice(start..start + len, text.bytes());
            }
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?).into())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize)
}

/// Puts the checksums of stored files of a zip right again.
fn mend_checksums(bytes: &mut [u8]) -> Option<()> {
    let end = bytes.windows(4).rposition(|w| w == b"PK\x05\x06")?;
    let mut at = u32_at(bytes, end + 16)?;
    while bytes.get(at..at + 4)? == b"PK\x01\x02" {
        let (stored, local) = (u32_at(bytes, at + 20)?, u32_at(bytes, at + 42)?);
        let data = local + 30 + u16_at(bytes, local + 26)? + u16_at(bytes, local + 28)?;
        if let Some(content) = bytes.get(data..data + stored) {
            let crc = crc32fast::hash(content).to_le_bytes();
            bytes[at + 16..at + 20].copy_from_slice(&crc);
        }
        at += 46 + u16_at(bytes, at + 28)? + u16_at(bytes, at + 30)? + u16_at(bytes, at + 32)?;
    }
    Some(())
}

/// Puts lengths and checksums right again, so that the damage is not found by them alone.
fn mend(bytes: &mut [u8], original: &[u8]) {
    let grown = bytes.len() as i64 - original.len() as i64;
    if original.starts_with(b"\x93NUMPY\x01") && bytes.len() > 10 && original.len() > 10 {
        let len = u16_at(original, 8).unwrap() as i64 + grown;
        bytes[8..10].copy_from_slice(&(len as u16).to_le_bytes());
    } else if original.get(8) == Some(&b'{') && bytes.len() > 8 {
        let len = i64::from_le_bytes(original[..8].try_into().unwrap()) + grown;
        bytes[..8].copy_from_slice(&len.to_le_bytes());
    } else if original.starts_with(b"PK") {
        // The directory has moved with what was put in or taken out before it.
        if let Some(end) = bytes.windows(4).rposition(|w| w == b"PK\x05\x06")
            && let Some(place) = bytes.windows(4).position(|w| w == b"PK\x01\x02")
            && bytes.len() >= end + 20
        {
            bytes[end + 16..end + 20].copy_from_slice(&(place as u32).to_le_bytes());
        }
        mend_checksums(bytes);
    }
}

/// Reads bytes in every way there is.
fn read(bytes: &[u8]) {
    let show = |e: gradus_io::Error| assert!(!format!("{e}{e:?}").is_empty());
    match gradus_io::from_bytes(bytes) {
        Ok(state) => {
            for (_, t) in state.iter().filter(|(_, t)| t.numel() <= 4096) {
                assert_eq!(t.to_bytes().unwrap().len(), t.numel() * t.dtype().size());
            }
        }
        Err(e) => show(e),
    }
    // By format too: a damaged magic must not save the reader.
    for format in [Format::Safetensors, Format::Pt, Format::Npy, Format::Npz] {
        let info = match format {
            Format::Safetensors => gradus_io::safetensors::inspect(bytes),
            Format::Pt => gradus_io::pt::inspect(bytes),
            Format::Npy => gradus_io::npy::inspect(bytes),
            Format::Npz => gradus_io::npz::inspect(bytes),
        };
        match info {
            Ok(info) => assert!(!info.to_string().is_empty()),
            Err(e) => show(e),
        }
    }
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn check(bytes: &[u8]) {
    let took = peak(|| read(bytes));
    assert!(took <= bound(bytes), "{took} bytes held for a file of {}", bytes.len());
}

/// Damages these files for a while.
fn mutate(files: &[&str]) {
    let seconds: f64 = std::env::var("GRADUS_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(2.0);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let originals: Vec<Vec<u8>> = files.iter().map(|f| fs::read(data().join(f)).unwrap()).collect();
    originals.iter().for_each(|o| check(o));
    let make = |which: usize, damages: &[Damage], mended: bool| {
        let original = &originals[which % originals.len()];
        let mut bytes = original.clone();
        damages.iter().for_each(|d| d.apply(&mut bytes));
        if mended {
            mend(&mut bytes, original);
        }
        bytes
    };
    let config = ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() };
    let strategy = (any::<usize>(), prop::collection::vec(damage(), 1..6), any::<bool>());
    let mut runs = 0;
    while Instant::now() < end {
        // A runner counts its successes for life, so each round has its own.
        let result = TestRunner::new(config.clone()).run(&strategy, |(which, damages, mended)| {
            check(&make(which, &damages, mended));
            Ok(())
        });
        if let Err(TestError::Fail(why, (which, damages, mended))) = result {
            let bytes = make(which, &damages, mended);
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("found-{:08x}", crc32fast::hash(&bytes)));
            fs::write(&path, &bytes).unwrap();
            panic!("{why}\n{damages:?}, mended: {mended}\nkeep {} as a regression", path.display());
        }
        runs += 256u64;
    }
    println!("{runs} damaged files read");
}

#[test]
fn safetensors() {
    mutate(&["tensors.safetensors", "foreign.safetensors"]);
}

#[test]
fn pt_zip() {
    mutate(&["checkpoint.pt", "state_dict.pt", "tensor.pt", "deflated.pt", "checkpoint_protocol4.pt", "float8.pt"]);
}

#[test]
fn pt_legacy() {
    mutate(&["checkpoint_legacy.pt", "checkpoint_legacy_protocol4.pt"]);
}

#[test]
fn npy() {
    mutate(&["f4.npy", "big_endian.npy", "fortran.npy", "fortran_big.npy", "scalar.npy", "bool.npy", "record.npy"]);
    mutate(&["version2.npy", "version3.npy"]);
}

#[test]
fn npz() {
    mutate(&["stored.npz", "deflated.npz"]);
}

#[test]
fn files_that_once_failed() {
    let Ok(folder) = fs::read_dir(data().join("regression")) else { return };
    for file in folder {
        check(&fs::read(file.unwrap().path()).unwrap());
    }
}

#[test]
fn the_counter_counts() {
    assert!(peak(|| drop(std::hint::black_box(vec![0u8; 1 << 20]))) >= 1 << 20);
}
