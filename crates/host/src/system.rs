//! The host itself: kernel, memory, and how busy its CPUs are.

use std::fs;

/// `6.12.0-1-amd64`
pub fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_string()
}

/// Total and available memory in bytes.
pub fn memory() -> (u64, u64) {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let of = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
            .unwrap_or(0)
            * 1024
    };
    (of("MemTotal:"), of("MemAvailable:"))
}

/// The host's load at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Load {
    /// Share of all CPUs' time not idle since the last reading, 0 to 1.
    pub cpu: f64,
    pub cpus: usize,
    /// Tasks running or waiting to run now.
    pub runnable: u64,
    pub memory_total: u64,
    pub memory_available: u64,
}

/// Tells the load between two readings.
#[derive(Debug, Default)]
pub struct LoadMeter {
    busy: u64,
    total: u64,
}

impl LoadMeter {
    pub fn read(&mut self) -> Load {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let (memory_total, memory_available) = memory();
        let (busy, total) = cpu_ticks(&stat);
        let load = Load {
            cpu: if total > self.total {
                busy.saturating_sub(self.busy) as f64 / (total - self.total) as f64
            } else {
                0.0
            },
            cpus: stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count(),
            runnable: stat
                .lines()
                .find_map(|line| line.strip_prefix("procs_running ")?.trim().parse().ok())
                .unwrap_or(0),
            memory_total,
            memory_available,
        };
        (self.busy, self.total) = (busy, total);
        load
    }
}

/// Busy and total ticks of all CPUs; idle and iowait are not busy.
fn cpu_ticks(stat: &str) -> (u64, u64) {
    let ticks: Vec<u64> = stat
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("cpu "))
        .map(|line| line.split_ascii_whitespace().take(8).filter_map(|tick| tick.parse().ok()).collect())
        .unwrap_or_default();
    let total: u64 = ticks.iter().sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    (total - idle, total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_split() {
        assert_eq!(cpu_ticks("cpu  10 0 5 80 5 0 0 0 0 0\ncpu0 1\n"), (15, 100));
        assert_eq!(cpu_ticks(""), (0, 0));
    }
}
