//! How busy each process kept its GPU: two bounds, and the time the host spent launching.

use super::panel::{Panel, plain};
use super::view::View;
use super::words::{counted, hex, interval, percent};
use gpuwhy_agent::{StreamBusy, StreamWindow};
use gpuwhy_model::CallClass;
use gpuwhy_model::units::{count, duration};
use ratatui::text::Line;
use std::collections::BTreeMap;

/// Streams named of a process that has several.
const MAX_STREAMS: usize = 4;

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let mut by_process: BTreeMap<u32, Vec<Stream>> = BTreeMap::new();
    for ((pid, stream, _), busy) in &view.overview.streams {
        by_process.entry(*pid).or_default().push(Stream::of(view, *pid, *stream, busy));
    }
    let mut processes: Vec<(u32, Vec<Stream>)> = by_process.into_iter().collect();
    processes.sort_by_key(|(_, streams)| std::cmp::Reverse(all(streams).whole.upper_ns));
    let mut panel = Panel::new("GPU busy", "gpu_time");
    panel = match view.live {
        true => panel.column("now").column("since first use").column("launches/s").column("launching"),
        false => panel.column("between").column("of").column("share").column("launches").column("launching"),
    };
    for (pid, mut streams) in processes {
        streams.sort_by_key(|stream| std::cmp::Reverse(stream.whole.upper_ns));
        let number = match streams.len() {
            1 => String::new(),
            many => format!(", {}", counted(many as u64, "stream", "streams")),
        };
        panel.row(cells(view, format!("{}{number}", view.who(pid)), &all(&streams)));
        if streams.len() > 1 {
            for stream in streams.iter().take(MAX_STREAMS) {
                panel.row(cells(view, format!("  stream {}", hex(stream.handle)), stream));
            }
        }
    }
    panel.if_any()
}

/// A stream, or all of a process.
#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    handle: u64,
    since_ns: u64,
    until_ns: u64,
    whole: StreamWindow,
    recent: StreamWindow,
}

impl Stream {
    fn of(view: &View<'_>, pid: u32, handle: u64, busy: &StreamBusy) -> Stream {
        Stream {
            handle,
            since_ns: busy.first_ns,
            until_ns: view.until_ns(pid).unwrap_or(busy.whole.end_ns),
            whole: busy.whole,
            recent: busy.recent(view.now_ns),
        }
    }

    fn span_ns(&self) -> u64 {
        self.until_ns.saturating_sub(self.since_ns).max(1)
    }
}

/// Streams work side by side: all together are busy at least as long as one of them, and at most as long as one after
/// the other.
fn all(streams: &[Stream]) -> Stream {
    let sum = |window: fn(&Stream) -> &StreamWindow| {
        streams.iter().map(window).fold(StreamWindow::default(), |sum, window| StreamWindow {
            end_ns: sum.end_ns.max(window.end_ns),
            window_ns: sum.window_ns.max(window.window_ns),
            lower_ns: sum.lower_ns.max(window.lower_ns),
            upper_ns: sum.upper_ns + window.upper_ns,
            launches: sum.launches + window.launches,
            launch_ns: sum.launch_ns + window.launch_ns,
        })
    };
    let mut all = Stream {
        handle: 0,
        since_ns: streams.iter().map(|stream| stream.since_ns).min().unwrap_or(0),
        until_ns: streams.iter().map(|stream| stream.until_ns).max().unwrap_or(0),
        whole: sum(|stream| &stream.whole),
        recent: sum(|stream| &stream.recent),
    };
    all.whole.upper_ns = all.whole.upper_ns.min(all.span_ns());
    all.recent.upper_ns = all.recent.upper_ns.min(all.recent.window_ns);
    all
}

fn cells(view: &View<'_>, name: String, stream: &Stream) -> Vec<Line<'static>> {
    let (whole, recent, span_ns) = (&stream.whole, &stream.recent, stream.span_ns());
    // Between slices nobody knows what a stream had to do, nor what launching took.
    let is_sliced = view.watched_pct(Some(CallClass::Launches)).is_some();
    let upper_ns = if is_sliced { span_ns } else { whole.upper_ns.min(span_ns) };
    let recent_ns = if is_sliced { recent.window_ns } else { recent.upper_ns };
    let known = |text: String| if is_sliced { "-".to_string() } else { text };
    let share = plain(interval(whole.lower_ns, upper_ns, span_ns));
    if view.live {
        let per_s = recent.launches as f64 * 1e9 / recent.window_ns.max(1) as f64;
        return vec![
            plain(name),
            plain(interval(recent.lower_ns, recent_ns, recent.window_ns)),
            share,
            plain(known(count(per_s as u64))),
            plain(known(percent(recent.launch_ns, recent.window_ns))),
        ];
    }
    vec![
        plain(name),
        plain(format!("{} and {}", duration(whole.lower_ns.min(upper_ns)), duration(upper_ns))),
        plain(duration(span_ns)),
        share,
        plain(view.calls(Some(CallClass::Launches), whole.launches)),
        plain(known(format!("{} ({})", duration(whole.launch_ns), percent(whole.launch_ns, span_ns)))),
    ]
}
