//! Memory that can be executed.
//!
//! Code is written into chunks that are mapped twice, once to be written and once to be run, so that no page is ever both and making a
//! function asks nothing of the system: mapping and sealing a page for each took as long as assembling it, and stopped the other
//! threads. Where there are no such chunks, a function gets pages of its own, which are written first, then sealed.

use std::{
    ptr,
    sync::{Arc, Mutex},
};

/// A function: a table of pointers; then elements in whole groups of 64 and the mask of what is left, or rows.
pub type Code = unsafe extern "sysv64" fn(table: *const usize, whole: usize, rest: u64);

/// A function that stays as it is.
pub struct Sealed {
    at: *const u8,
    /// Where it lies; gone with the last function in it.
    _chunk: Arc<Chunk>,
}

/// Pages, as they are run and, where they are mapped twice, as they are written.
struct Chunk {
    run: *mut u8,
    write: Option<*mut u8>,
    len: usize,
    /// The process that writes them: after a fork both would.
    process: i32,
}

// SAFETY: code is not written again once there is a function of it, and has no state.
unsafe impl Send for Sealed {}
// SAFETY: as above.
unsafe impl Sync for Sealed {}
// SAFETY: pages are only written by who holds the lock on `CURRENT`, beyond what functions have of them.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

/// The chunk that is being filled, and how far it is.
static CURRENT: Mutex<Option<(Arc<Chunk>, usize)>> = Mutex::new(None);

/// Bytes of a chunk.
const CHUNK: usize = 256 << 10;
const PAGE: usize = 4096;
/// Functions begin at cache lines.
const LINE: usize = 64;

unsafe extern "C" {
    fn mmap(addr: *mut u8, len: usize, prot: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
    fn mprotect(addr: *mut u8, len: usize, prot: i32) -> i32;
    fn munmap(addr: *mut u8, len: usize) -> i32;
    fn getpid() -> i32;
    #[cfg(target_os = "linux")]
    fn memfd_create(name: *const std::ffi::c_char, flags: u32) -> i32;
    #[cfg(target_os = "linux")]
    fn ftruncate(fd: i32, len: i64) -> i32;
}
const READ: i32 = 1;
const WRITE: i32 = 2;
const EXECUTE: i32 = 4;
const PRIVATE_ANONYMOUS: i32 = 0x22;

/// Pages that the system gives, if it does.
///
/// # Safety
/// As `mmap` at an address of its own choice: the file has these bytes.
unsafe fn map(len: usize, prot: i32, flags: i32, file: i32) -> Option<*mut u8> {
    // SAFETY: a fresh mapping; the caller's promise.
    let at = unsafe { mmap(ptr::null_mut(), len, prot, flags, file, 0) };
    (at as isize != -1).then_some(at)
}

impl Chunk {
    /// A chunk mapped twice.
    #[cfg(target_os = "linux")]
    fn twice(len: usize) -> Option<Chunk> {
        use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
        const CLOSE_ON_EXEC: u32 = 1;
        const SHARED: i32 = 1;
        // SAFETY: a fresh file of so many bytes, which the two mappings keep when it is closed here.
        unsafe {
            let file = memfd_create(c"gradus".as_ptr(), CLOSE_ON_EXEC);
            if file < 0 {
                return None;
            }
            let file = OwnedFd::from_raw_fd(file);
            if ftruncate(file.as_raw_fd(), len as i64) != 0 {
                return None;
            }
            let run = map(len, READ | EXECUTE, SHARED, file.as_raw_fd())?;
            let mut chunk = Chunk { run, write: None, len, process: getpid() };
            chunk.write = Some(map(len, READ | WRITE, SHARED, file.as_raw_fd())?);
            Some(chunk)
        }
    }

    /// There is none.
    #[cfg(not(target_os = "linux"))]
    fn twice(_: usize) -> Option<Chunk> {
        None
    }

    /// Pages for one function alone.
    fn of(code: &[u8]) -> Option<Chunk> {
        let len = code.len().next_multiple_of(PAGE);
        // SAFETY: a fresh private mapping; it is written while writable, then made executable, and never both.
        unsafe {
            let run = map(len, READ | WRITE, PRIVATE_ANONYMOUS, -1)?;
            let chunk = Chunk { run, write: None, len, process: getpid() };
            ptr::copy_nonoverlapping(code.as_ptr(), run, code.len());
            (mprotect(run, len, READ | EXECUTE) == 0).then_some(chunk)
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: the mappings are ours and whole; nobody runs them, for they would hold the program that holds them.
        unsafe {
            munmap(self.run, self.len);
            self.write.map(|w| munmap(w, self.len));
        }
    }
}

impl Sealed {
    /// Code made executable; none where the system forbids it.
    pub fn new(code: &[u8]) -> Option<Sealed> {
        let mut current = CURRENT.lock().unwrap_or_else(|e| e.into_inner());
        // SAFETY: a number of the process.
        let process = unsafe { getpid() };
        if current.as_ref().is_none_or(|(c, used)| used + code.len() > c.len || c.process != process) {
            *current = Chunk::twice(code.len().next_multiple_of(PAGE).max(CHUNK)).map(|c| (Arc::new(c), 0));
        }
        if let Some((chunk, used)) = &mut *current
            && let Some(write) = chunk.write
        {
            // SAFETY: it fits behind what is used, and nobody else writes.
            let at = unsafe {
                ptr::copy_nonoverlapping(code.as_ptr(), write.add(*used), code.len());
                chunk.run.add(*used)
            };
            *used = (*used + code.len()).next_multiple_of(LINE).min(chunk.len);
            return Some(Sealed { at, _chunk: chunk.clone() });
        }
        let chunk = Chunk::of(code)?;
        Some(Sealed { at: chunk.run, _chunk: Arc::new(chunk) })
    }

    /// The function in it.
    pub fn code(&self) -> Code {
        // SAFETY: the bytes were assembled as a function of this type.
        unsafe { std::mem::transmute::<*const u8, Code>(self.at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a number where its table begins.
    fn writes(n: u32) -> Vec<u8> {
        let [a, b, c, d] = n.to_le_bytes();
        vec![0xc7, 0x07, a, b, c, d, 0xc3] // mov dword [rdi], n; ret
    }

    fn written(f: &Sealed) -> u32 {
        let mut place = 0usize;
        // SAFETY: the function writes four bytes there.
        unsafe { (f.code())(ptr::from_mut(&mut place), 0, 0) };
        place as u32
    }

    #[test]
    fn functions_stay_while_others_come_and_go() {
        let few: Vec<Sealed> = (0..10).map(|n| Sealed::new(&writes(n)).unwrap()).collect();
        // More than a chunk of them, all but a few dropped.
        let kept: Vec<(u32, Sealed)> = (0..9000u32)
            .map(|n| (n, Sealed::new(&writes(n)).unwrap()))
            .filter(|(n, f)| {
                assert_eq!(written(f), *n);
                n % 1000 == 7
            })
            .collect();
        assert!((0..10).zip(&few).all(|(n, f)| written(f) == n));
        assert!(kept.iter().all(|(n, f)| written(f) == *n));
        let mut large = vec![0x90; 2 * CHUNK]; // nops
        large.extend(writes(5));
        assert_eq!(written(&Sealed::new(&large).unwrap()), 5);
        let alone = Chunk::of(&writes(6)).unwrap();
        assert_eq!(written(&Sealed { at: alone.run, _chunk: Arc::new(alone) }), 6);
    }
}
