//! Ctrl-C: the first asks the run to save and end, the second ends the process.

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};
use std::{
    io,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
static WATCHING: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C (and a polite `kill`) asks first: [`requested`] then says so. Asked twice, the process ends at
/// once, with 130 as its result.
pub fn watch() -> io::Result<()> {
    if WATCHING.swap(true, Relaxed) {
        return Ok(());
    }
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag down and raises it, the second finds it up.
        flag::register_conditional_shutdown(signal, 130, ASKED.clone())?;
        flag::register(signal, ASKED.clone())?;
    }
    Ok(())
}

/// Whether somebody asked to stop.
pub fn requested() -> bool {
    ASKED.load(Relaxed)
}

/// Asks to stop, as Ctrl-C does.
pub fn request() {
    ASKED.store(true, Relaxed);
}

/// Takes the request back, once it was seen to.
pub fn clear() {
    ASKED.store(false, Relaxed);
}
