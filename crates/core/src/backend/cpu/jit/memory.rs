//! Memory that can be executed: written first, then sealed.

/// A function: a table of pointers; then elements in whole groups of 64 and the mask of what is left, or rows.
pub type Code = unsafe extern "sysv64" fn(table: *const usize, whole: usize, rest: u64);

/// A sealed function.
pub struct Sealed {
    at: *mut u8,
    len: usize,
}

// SAFETY: sealed code is read-only and has no state.
unsafe impl Send for Sealed {}
// SAFETY: as above.
unsafe impl Sync for Sealed {}

unsafe extern "C" {
    fn mmap(addr: *mut u8, len: usize, prot: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
    fn mprotect(addr: *mut u8, len: usize, prot: i32) -> i32;
    fn munmap(addr: *mut u8, len: usize) -> i32;
}
const READ: i32 = 1;
const WRITE: i32 = 2;
const EXECUTE: i32 = 4;
const PRIVATE_ANONYMOUS: i32 = 0x22;

impl Sealed {
    /// Code made executable; none where the system forbids it.
    pub fn new(code: &[u8]) -> Option<Sealed> {
        let len = code.len().next_multiple_of(4096);
        // SAFETY: a fresh private mapping; it is written while writable, then made executable, and never both.
        unsafe {
            let at = mmap(std::ptr::null_mut(), len, READ | WRITE, PRIVATE_ANONYMOUS, -1, 0);
            if at as isize == -1 {
                return None;
            }
            let sealed = Sealed { at, len };
            std::ptr::copy_nonoverlapping(code.as_ptr(), at, code.len());
            (mprotect(at, len, READ | EXECUTE) == 0).then_some(sealed)
        }
    }

    /// The function in it.
    pub fn code(&self) -> Code {
        // SAFETY: the bytes were assembled as a function of this type.
        unsafe { std::mem::transmute::<*mut u8, Code>(self.at) }
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and whole; nobody runs it, for they would hold the program that holds it.
        unsafe { munmap(self.at, self.len) };
    }
}
