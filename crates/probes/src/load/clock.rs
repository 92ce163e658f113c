//! The kernel's clock, and what to add to it for unix time.

/// CLOCK_MONOTONIC, the clock of `bpf_ktime_get_ns`.
pub(crate) fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

pub(crate) fn unix_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Now on the clock of a run's records, for those who do not hold its engine.
pub fn now_ns(clock_offset_ns: u64) -> u64 {
    monotonic_ns().wrapping_add(clock_offset_ns)
}

/// Unix time less monotonic time, from the closest of a few readings.
pub(crate) fn offset_ns() -> u64 {
    (0..8)
        .map(|_| {
            let before = monotonic_ns();
            let unix = unix_ns();
            let after = monotonic_ns();
            (after - before, unix.wrapping_sub(before + (after - before) / 2))
        })
        .min()
        .map_or(0, |(_, offset)| offset)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
