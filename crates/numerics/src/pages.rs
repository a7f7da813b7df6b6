//! Huge pages under large buffers: a fault for each small page costs more than what is written to it.

/// The size of a huge page, in bytes; buffers from here on are aligned to it.
pub const HUGE: usize = 2 << 20;

/// Asks for huge pages under a large buffer; failing to get them costs speed only.
///
/// # Safety
///
/// The range was allocated by the caller, and is the caller's alone. Its content does not change.
pub unsafe fn advise_huge(p: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    if bytes >= HUGE {
        unsafe extern "C" {
            fn madvise(addr: *mut u8, len: usize, advice: i32) -> i32;
        }
        const MADV_HUGEPAGE: i32 = 14;
        // SAFETY: the caller's promise; the advice changes no content.
        unsafe { madvise(p, bytes & !(HUGE - 1), MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (p, bytes);
}
