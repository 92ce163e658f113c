//! Work that can wait gives way to work that somebody waits for.

/// This thread, and those that it starts, have the CPU when others do not want it.
pub(crate) fn give_way() {
    // Where that is not allowed, all threads are alike.
    let _ = rustix::process::nice(10);
}
