//! What the GPU was given to do: streams, copies, graphs, kernels.

use gpuwhy_model::{CopyWindow, GpuTime, Graph, Kernel};

/// A window that ended longer ago says nothing about now.
const RECENT_NS: u64 = 2_000_000_000;

/// How long a stream was busy, between two bounds, from its first window on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamBusy {
    pub first_ns: u64,
    pub whole: StreamWindow,
    pub last: StreamWindow,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamWindow {
    pub end_ns: u64,
    /// Of windows in which anything happened.
    pub window_ns: u64,
    pub lower_ns: u64,
    pub upper_ns: u64,
    pub launches: u64,
    pub launch_ns: u64,
}

impl StreamBusy {
    pub(super) fn take(&mut self, time: &GpuTime) {
        let window = StreamWindow {
            end_ns: time.window_start_ns + time.window_ns,
            window_ns: time.window_ns,
            lower_ns: time.busy_lower_ns,
            upper_ns: time.busy_upper_ns,
            launches: time.launches,
            launch_ns: time.launch_ns,
        };
        if self.whole.window_ns == 0 {
            self.first_ns = time.window_start_ns;
        }
        self.whole.end_ns = self.whole.end_ns.max(window.end_ns);
        self.whole.window_ns += window.window_ns;
        self.whole.lower_ns += window.lower_ns;
        self.whole.upper_ns += window.upper_ns;
        self.whole.launches += window.launches;
        self.whole.launch_ns += window.launch_ns;
        if window.end_ns >= self.last.end_ns {
            self.last = window;
        }
    }

    /// The last window; an empty one where nothing has happened since.
    pub fn recent(&self, now_ns: u64) -> StreamWindow {
        if self.last.end_ns + RECENT_NS >= now_ns { self.last } else { StreamWindow::default() }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopySum {
    pub count: u64,
    pub bytes: u64,
    /// The host's time in the calls.
    pub sum_ns: u64,
    pub errors: u64,
    /// Of the last window: its end, its length, its bytes.
    last: (u64, u64, u64),
}

impl CopySum {
    pub(super) fn take(&mut self, copy: &CopyWindow) {
        self.count += copy.count;
        self.bytes += copy.bytes;
        self.sum_ns += copy.sum_ns;
        self.errors += copy.errors;
        let end_ns = copy.window_start_ns + copy.window_ns;
        if end_ns >= self.last.0 {
            self.last = (end_ns, copy.window_ns, copy.bytes);
        }
    }

    /// In the last window.
    pub fn bytes_per_s(&self, now_ns: u64) -> u64 {
        let (end_ns, window_ns, bytes) = self.last;
        match window_ns {
            0 => 0,
            _ if end_ns + RECENT_NS < now_ns => 0,
            _ => (bytes as f64 * 1e9 / window_ns as f64) as u64,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GraphSum {
    pub launches: u64,
    /// The host's time in them.
    pub launch_ns: u64,
    /// Nothing where it was made before the trace.
    pub kernels: Option<u64>,
    pub destroyed: bool,
}

impl GraphSum {
    pub(super) fn of(graph: &Graph) -> GraphSum {
        GraphSum {
            launches: graph.launches,
            launch_ns: graph.launch_ns,
            kernels: graph.kernels,
            destroyed: graph.destroyed_ns.is_some(),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelSum {
    /// Empty where nobody has told.
    pub name: String,
    pub launches: u64,
    /// The host's time in them.
    pub launch_ns: u64,
}

impl KernelSum {
    pub(super) fn of(kernel: &Kernel) -> KernelSum {
        KernelSum { name: kernel.name.clone(), launches: kernel.launches, launch_ns: kernel.launch_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::Direction;

    const S: u64 = 1_000_000_000;

    #[test]
    fn an_old_window_is_not_now() {
        let time = |start_s: u64, upper_ns| GpuTime {
            window_start_ns: start_s * S,
            window_ns: S,
            pid: 1,
            stream: 0,
            stream_tid: 0,
            submitted: 4,
            launches: 3,
            launch_ns: 30,
            busy_lower_ns: 1,
            busy_upper_ns: upper_ns,
        };
        let mut busy = StreamBusy::default();
        busy.take(&time(10, 100));
        busy.take(&time(12, 200));
        assert_eq!((busy.first_ns, busy.whole.upper_ns, busy.whole.launches), (10 * S, 300, 6));
        assert_eq!(busy.recent(14 * S).upper_ns, 200);
        assert_eq!(busy.recent(16 * S), StreamWindow::default());
    }

    #[test]
    fn copies_have_the_rate_of_the_last_window() {
        let mut sum = CopySum::default();
        sum.take(&CopyWindow {
            window_start_ns: S,
            window_ns: S / 2,
            pid: 1,
            cgroup_id: 0,
            direction: Direction::HostToDevice,
            count: 2,
            bytes: 1000,
            sum_ns: 5,
            errors: 0,
        });
        assert_eq!((sum.bytes_per_s(2 * S), sum.bytes_per_s(9 * S)), (2000, 0));
    }
}
