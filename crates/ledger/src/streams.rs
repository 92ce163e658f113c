//! How busy each stream was, window by window: the kernel's sums, taken apart.

use crate::table::Table;
use gpuwhy_model::{Facts, GpuTime, StreamState};

/// As many as the kernel follows, and more. A stream is not forgotten at its process's end: its last state comes later.
const MAX_STREAMS: usize = 8_192;
/// What a stream's first window is taken to be: its sums may be older than the ledger.
const FIRST_WINDOW_NS: u64 = 500_000_000;

#[derive(Debug)]
pub(crate) struct Streams {
    /// By slot.
    last: Table<u32, Last>,
}

#[derive(Debug)]
struct Last {
    state: StreamState,
    /// How much of the lower bound was told. A wait that lasts is counted while it does, and when it is over less of
    /// it may prove that the stream was busy: then more was told than there is, and later windows make up for it.
    reported_lower_ns: u64,
}

impl Streams {
    pub(crate) fn new() -> Self {
        Streams { last: Table::new(MAX_STREAMS) }
    }

    pub(crate) fn take(&mut self, state: &StreamState, facts: &mut Facts) {
        let last = self.last.remove(&state.stream_slot).filter(|last| last.is_of(state));
        let Some(last) = last else {
            self.begin(state, facts);
            return;
        };
        if state.time_ns <= last.state.time_ns {
            // Overtaken by a later one.
            self.last.insert(state.stream_slot, last);
            return;
        }
        let before = &last.state;
        let window_ns = state.time_ns - before.time_ns;
        let busy_upper_ns = state.busy_upper_ns.saturating_sub(before.busy_upper_ns).min(window_ns);
        let busy_lower_ns = state.busy_lower_ns.saturating_sub(last.reported_lower_ns).min(busy_upper_ns);
        emit(state, before, window_ns, busy_lower_ns, busy_upper_ns, facts);
        let reported_lower_ns = last.reported_lower_ns + busy_lower_ns;
        self.last.insert(state.stream_slot, Last { state: state.clone(), reported_lower_ns });
    }

    fn begin(&mut self, state: &StreamState, facts: &mut Facts) {
        let nothing = StreamState {
            submitted: 0,
            launches: 0,
            launch_ns: 0,
            busy_upper_ns: 0,
            busy_lower_ns: 0,
            ..state.clone()
        };
        let busy_upper_ns = state.busy_upper_ns.min(FIRST_WINDOW_NS);
        let busy_lower_ns = state.busy_lower_ns.min(busy_upper_ns);
        emit(state, &nothing, FIRST_WINDOW_NS, busy_lower_ns, busy_upper_ns, facts);
        let reported_lower_ns = state.busy_lower_ns;
        self.last.insert(state.stream_slot, Last { state: state.clone(), reported_lower_ns });
    }
}

impl Last {
    /// Slots are given to other streams after their process has ended.
    fn is_of(&self, state: &StreamState) -> bool {
        let last = &self.state;
        (last.pid, last.stream, last.tid) == (state.pid, state.stream, state.tid)
            && (last.submitted <= state.submitted || state.time_ns <= last.time_ns)
    }
}

/// A row, unless nothing happened.
fn emit(
    state: &StreamState,
    before: &StreamState,
    window_ns: u64,
    busy_lower_ns: u64,
    busy_upper_ns: u64,
    facts: &mut Facts,
) {
    let submitted = state.submitted - before.submitted;
    if submitted == 0 && busy_upper_ns == 0 {
        return;
    }
    facts.gpu_times.push(GpuTime {
        window_start_ns: state.time_ns.saturating_sub(window_ns),
        window_ns,
        pid: state.pid,
        stream: state.stream,
        stream_tid: state.tid,
        submitted,
        launches: state.launches.saturating_sub(before.launches),
        launch_ns: state.launch_ns.saturating_sub(before.launch_ns),
        busy_lower_ns,
        busy_upper_ns,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::PID;

    const MS: u64 = 1_000_000;

    fn state(time_ms: u64, submitted: u64, lower_ms: u64, upper_ms: u64) -> StreamState {
        StreamState {
            time_ns: time_ms * MS,
            pid: PID,
            stream: 0x10,
            stream_slot: 3,
            tid: 0,
            submitted,
            launches: submitted,
            launch_ns: submitted * 10,
            busy_upper_ns: upper_ms * MS,
            busy_lower_ns: lower_ms * MS,
        }
    }

    /// Start and length of the window, submitted, lower and upper; times in milliseconds.
    fn rows(states: &[StreamState]) -> Vec<(u64, u64, u64, u64, u64)> {
        let (mut streams, mut facts) = (Streams::new(), Facts::default());
        for state in states {
            streams.take(state, &mut facts);
        }
        let row = |row: &GpuTime| {
            let (lower, upper) = (row.busy_lower_ns / MS, row.busy_upper_ns / MS);
            (row.window_start_ns / MS, row.window_ns / MS, row.submitted, lower, upper)
        };
        facts.gpu_times.iter().map(row).collect()
    }

    #[test]
    fn windows_are_differences_and_quiet_ones_are_left_out() {
        let states = [
            state(10_000, 5, 20, 100),
            state(10_500, 5, 20, 100),
            state(11_000, 8, 120, 400),
            state(11_500, 8, 120, 500),
        ];
        assert_eq!(
            rows(&states),
            [(9_500, 500, 5, 20, 100), (10_500, 500, 3, 100, 300), (11_000, 500, 0, 0, 100)]
        );
    }

    #[test]
    fn the_first_window_is_clipped() {
        let states = [state(10_000, 5, 7_000, 9_000), state(10_500, 6, 7_100, 9_200)];
        assert_eq!(rows(&states), [(9_500, 500, 5, 500, 500), (10_000, 500, 1, 100, 200)]);
    }

    #[test]
    fn bounds_stay_within_the_window_and_what_overshot_is_carried() {
        // More at once than the window holds: the rest goes to the next.
        let more = [state(10_000, 1, 0, 0), state(10_500, 2, 700, 600), state(11_000, 3, 700, 1_000)];
        assert_eq!(
            rows(&more),
            [(9_500, 500, 1, 0, 0), (10_000, 500, 1, 500, 500), (10_500, 500, 1, 200, 400)]
        );
        // A wait that was counted as it went on proved less in the end.
        let less = [
            state(10_000, 1, 0, 0),
            state(10_500, 2, 500, 500),
            state(11_000, 3, 400, 1_000),
            state(11_500, 4, 700, 1_500),
        ];
        let lower: Vec<u64> = rows(&less).iter().map(|row| row.3).collect();
        assert_eq!(lower, [0, 500, 0, 200]);
    }

    #[test]
    fn a_slot_of_another_begins_anew() {
        let other = StreamState { pid: 8, ..state(10_500, 2, 10, 20) };
        let again = StreamState { submitted: 1, ..other.clone() };
        let again = StreamState { time_ns: 11_000 * MS, ..again };
        let found = rows(&[state(10_000, 5, 20, 100), other, again]);
        assert_eq!(found, [(9_500, 500, 5, 20, 100), (10_000, 500, 2, 10, 20), (10_500, 500, 1, 10, 20)]);
    }

    #[test]
    fn a_state_that_was_overtaken_is_nothing() {
        let found = rows(&[state(10_500, 5, 20, 100), state(10_000, 3, 10, 50), state(11_000, 6, 20, 100)]);
        assert_eq!(found, [(10_000, 500, 5, 20, 100), (10_500, 500, 1, 0, 0)]);
    }
}
