//! How the allocator keeps what was freed.

/// From then on large blocks go back to the system when they are freed, and few threads have an arena of their own. By default
/// the allocator takes a large block that was freed as a sign that blocks of its size are to be kept, up to 32 MB.
pub fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        const LARGE: libc::c_int = 256 << 10;
        const ARENAS: libc::c_int = 2;
        // SAFETY: it takes numbers and locks the allocator itself. What it refuses stays as it is.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
            libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE);
            libc::mallopt(libc::M_ARENA_MAX, ARENAS);
        }
    }
}
