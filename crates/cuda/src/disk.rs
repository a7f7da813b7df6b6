//! Compiled kernels on disk, so that the next process need not compile them.
//!
//! A file's name is a hash of the program, the target, the compiler's version and our own; its content carries a hash
//! of itself. Files appear whole (written under another name, then renamed) and are never changed.

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// 128 bits of FNV-1a.
pub fn hash(parts: &[&[u8]]) -> u128 {
    let mut h: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for part in parts {
        // A length before each part: ("ab", "c") is not ("a", "bc").
        for &b in (part.len() as u64).to_le_bytes().iter().chain(part.iter()) {
            h = (h ^ b as u128).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
    h
}

/// A folder of compiled kernels, or nothing where there is none.
pub struct Disk(Option<PathBuf>);

impl Disk {
    /// The folder `GRADUS_CACHE` (empty: no cache), or the user's cache folder.
    pub fn user() -> Disk {
        let folder = match std::env::var_os("GRADUS_CACHE") {
            Some(v) if v.is_empty() => None,
            Some(v) => Some(PathBuf::from(v)),
            None => std::env::var_os("XDG_CACHE_HOME")
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
                .or_else(|| std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache")))
                .or_else(|| std::env::var_os("LOCALAPPDATA").map(PathBuf::from))
                .map(|c| c.join("gradus")),
        };
        Disk(folder.map(|f| f.join("cuda")))
    }

    fn file(&self, key: u128) -> Option<PathBuf> {
        // Two levels: no folder grows too large to list.
        let name = format!("{key:032x}");
        self.0.as_ref().map(|f| f.join(&name[..2]).join(&name[2..]))
    }

    /// What was stored under a key; nothing if it is absent or damaged.
    pub fn get(&self, key: u128) -> Option<Vec<u8>> {
        let bytes = fs::read(self.file(key)?).ok()?;
        let (head, code) = bytes.split_at_checked(16)?;
        (hash(&[code]).to_le_bytes() == head).then(|| code.to_vec())
    }

    /// Stores code; a disk that cannot be written costs time and nothing else.
    pub fn put(&self, key: u128, code: &[u8]) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let Some(file) = self.file(key) else { return };
        let Some(folder) = file.parent() else { return };
        let temporary = folder.join(format!(".{}.{}", std::process::id(), NEXT.fetch_add(1, Relaxed)));
        let bytes = [&hash(&[code]).to_le_bytes()[..], code].concat();
        let written = fs::create_dir_all(folder)
            .and_then(|()| fs::write(&temporary, bytes))
            .and_then(|()| fs::rename(&temporary, &file));
        if written.is_err() {
            fs::remove_file(&temporary).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_got_and_damage_is_absence() {
        let folder = std::env::temp_dir().join(format!("gradus-disk-{}", std::process::id()));
        let disk = Disk(Some(folder.clone()));
        let key = hash(&[b"a program", b"sm_90"]);
        assert_eq!(disk.get(key), None);
        disk.put(key, b"code");
        assert_eq!(disk.get(key).as_deref(), Some(&b"code"[..]));
        let file = disk.file(key).unwrap();
        let mut bytes = fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&file, &bytes).unwrap();
        assert_eq!(disk.get(key), None);
        fs::write(&file, &bytes[..7]).unwrap();
        assert_eq!(disk.get(key), None);
        fs::remove_dir_all(&folder).unwrap();
        Disk(None).put(key, b"code");
        assert_eq!(Disk(None).get(key), None);
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(hash(&[b"ab", b"c"]), hash(&[b"a", b"bc"]));
    }
}
