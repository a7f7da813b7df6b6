//! What is known of the processor this runs on: found once, the same for all of a process.

use std::sync::OnceLock;

/// Facts of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chip {
    /// Whether Intel made it.
    pub intel: bool,
    /// Whether its hardware asks for memory ahead far enough by itself, so that loops that do it too only get slower: AMD's from Zen 5 on.
    pub looks_ahead: bool,
    /// Bytes of a core's first cache for data; 32 KiB where it does not say.
    pub first: usize,
    /// Bytes of a core's second cache; 512 KiB where it does not say.
    pub second: usize,
    /// Bytes of the last cache, which cores share, where it says so.
    pub third: Option<usize>,
}

/// Where nothing is known.
const UNKNOWN: Chip = Chip { intel: false, looks_ahead: false, first: 32 << 10, second: 512 << 10, third: None };

/// The family of AMD's processors that Zen 5 is.
#[cfg(target_arch = "x86_64")]
const ZEN_5: u32 = 0x1a;

/// The processor this runs on.
pub fn chip() -> Chip {
    static CHIP: OnceLock<Chip> = OnceLock::new();
    *CHIP.get_or_init(detect)
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Chip {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let vendor = __cpuid(0);
    let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat();
    let intel = name == b"GenuineIntel";
    // The list of caches: AMD has it elsewhere, in the same form.
    let list = if intel { 4 } else { 0x8000_001d };
    let known = if intel { vendor.eax } else { __cpuid(0x8000_0000).eax };
    let signature = __cpuid(1).eax;
    let family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
    let looks_ahead = name == b"AuthenticAMD" && family >= ZEN_5;
    let mut chip = Chip { intel, looks_ahead, ..UNKNOWN };
    if known < list {
        return chip;
    }
    for n in 0..16 {
        let c = __cpuid_count(list, n);
        let (kind, level) = (c.eax & 0x1f, c.eax >> 5 & 0x7);
        if kind == 0 {
            break;
        }
        let part = |shift: u32, bits: u32| (c.ebx >> shift & ((1 << bits) - 1)) as usize + 1;
        let bytes = part(22, 10) * part(12, 10) * part(0, 12) * (c.ecx as usize + 1);
        // Kind one holds data, three holds both.
        match (level, kind) {
            (1, 1 | 3) => chip.first = bytes,
            (2, 1 | 3) => chip.second = bytes,
            (3, 1 | 3) => chip.third = Some(bytes),
            _ => {}
        }
    }
    chip
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Chip {
    UNKNOWN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_have_sizes_that_there_are() {
        let chip = chip();
        assert!((8 << 10..=1 << 20).contains(&chip.first), "{chip:?}");
        assert!(chip.second >= chip.first && chip.second <= 64 << 20, "{chip:?}");
        assert!(chip.third.is_none_or(|third| third >= chip.second && third <= 4 << 30), "{chip:?}");
    }
}
