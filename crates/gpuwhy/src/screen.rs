//! The live screen of `gpuwhy trace`: operations with their percentiles and the blame split as a bar, the host, what
//! gpuwhy itself costs, and loss.

use gpuwhy_agent::Snapshot;
use gpuwhy_cause::{Stall, Tally, stalls};
use gpuwhy_model::units::{count, duration, printable, size};
use gpuwhy_model::{OpInfo, Part, Reason};
use ratatui::DefaultTerminal;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use std::io;
use std::time::Duration;

const BAR_WIDTH: usize = 20;
const MOST_STALLS: usize = 4;

/// The terminal while the trace runs; given back when dropped.
pub(crate) struct Screen {
    terminal: DefaultTerminal,
    ops: Vec<OpInfo>,
    flavour: &'static str,
    colour: bool,
}

impl Screen {
    pub(crate) fn open(ops: Vec<OpInfo>, flavour: &'static str) -> io::Result<Screen> {
        let terminal = ratatui::try_init()?;
        Ok(Screen { terminal, ops, flavour, colour: std::env::var_os("NO_COLOR").is_none() })
    }

    pub(crate) fn show(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let view = View { snapshot, ops: &self.ops, flavour: self.flavour, colour: self.colour };
        self.terminal.draw(|frame| view.draw(frame))?;
        Ok(())
    }

    /// Whether q, Esc or Ctrl-C was pressed; does not wait.
    pub(crate) fn wants_to_quit(&mut self) -> io::Result<bool> {
        let mut quit = false;
        while event::poll(Duration::ZERO)? {
            if let Event::Key(key) = event::read()? {
                let control_c =
                    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                quit |= control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
            }
        }
        Ok(quit)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Failing to give the terminal back leaves nothing better to do.
        let _ = ratatui::try_restore();
    }
}

struct View<'a> {
    snapshot: &'a Snapshot,
    ops: &'a [OpInfo],
    flavour: &'a str,
    colour: bool,
}

impl View<'_> {
    fn draw(&self, frame: &mut Frame<'_>) {
        let stalls = stalls(&self.snapshot.tallies, self.ops);
        let shown = stalls.iter().filter(|stall| self.worth_saying(stall)).take(MOST_STALLS).count() as u16;
        let [head, table, why, foot] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Min(3),
            Constraint::Length(if shown > 0 { shown + 2 } else { 0 }),
            Constraint::Length(3),
        ])
        .areas(frame.area());
        frame.render_widget(self.header(), head);
        self.draw_operations(frame, table);
        frame.render_widget(self.why(&stalls), why);
        frame.render_widget(self.footer(), foot);
    }

    fn style(&self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    fn header(&self) -> Paragraph<'_> {
        let snapshot = self.snapshot;
        let load = snapshot.load;
        Paragraph::new(vec![
            Line::from(vec![
                Span::styled("gpuwhy ", Style::new().add_modifier(Modifier::BOLD)),
                Span::raw(format!(
                    "tracing {}   {}, {} ({} probes)",
                    duration(snapshot.now_ns.saturating_sub(snapshot.start_ns)),
                    counted(
                        snapshot.processes.iter().filter(|process| process.end_ns.is_none()).count(),
                        "process",
                        "processes"
                    ),
                    counted(snapshot.libraries, "library", "libraries"),
                    self.flavour,
                )),
            ]),
            Line::from(format!(
                "host   CPU {:.0}% of {}, {} running or waiting; memory {} of {} free",
                load.cpu * 100.0,
                load.cpus,
                load.runnable,
                size(load.memory_available),
                size(load.memory_total),
            )),
        ])
    }

    fn draw_operations(&self, frame: &mut Frame<'_>, area: Rect) {
        let mut rows: Vec<(&OpInfo, Tally)> = self
            .snapshot
            .tallies
            .by_op()
            .into_iter()
            .filter_map(|(id, tally)| Some((self.ops.iter().find(|op| op.id == id)?, tally)))
            .collect();
        rows.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.sum_ns));
        if rows.is_empty() {
            frame.render_widget(Paragraph::new("waiting for GPU calls ..."), area);
            return;
        }
        let numbers = ["calls", "p50", "p95", "p99", "max", "failed"];
        let header = std::iter::once(Cell::from("operation"))
            .chain(numbers.map(|name| Cell::from(Line::from(name).right_aligned())))
            .chain([Cell::from("where the time went")]);
        let table = Table::new(
            rows.iter().map(|(op, tally)| self.operation(op, tally)),
            [
                Constraint::Length(26),
                Constraint::Length(12),
                Constraint::Length(8),
                Constraint::Length(8),
                Constraint::Length(8),
                Constraint::Length(8),
                Constraint::Length(6),
                Constraint::Min(BAR_WIDTH as u16 + 18),
            ],
        )
        .header(Row::new(header).style(Style::new().add_modifier(Modifier::BOLD)));
        frame.render_widget(table, area);
    }

    fn operation(&self, op: &OpInfo, tally: &Tally) -> Row<'_> {
        let cell = |text: String| Cell::from(Line::from(text).right_aligned());
        Row::new(vec![
            Cell::from(op.name.clone()),
            cell(count(tally.count)),
            cell(duration(tally.quantile_ns(0.5))),
            cell(duration(tally.quantile_ns(0.95))),
            cell(duration(tally.quantile_ns(0.99))),
            cell(duration(tally.max_ns)),
            cell(if tally.errors > 0 { count(tally.errors) } else { String::new() }),
            Cell::from(self.bar(op, tally)),
        ])
    }

    /// The blame split: each part with its own character, so that it reads without colour too.
    fn bar(&self, op: &OpInfo, tally: &Tally) -> Line<'_> {
        let mut spans = Vec::new();
        let mut used = 0;
        let total = tally.blame.total_ns().max(1);
        let mut largest = (0, "");
        for (part, ns) in tally.blame.parts() {
            let (symbol, colour, name) = look(part, op.waits_for_gpu);
            if ns > largest.0 {
                largest = (ns, name);
            }
            let width =
                (((ns as f64 / total as f64) * BAR_WIDTH as f64).round() as usize).min(BAR_WIDTH - used);
            used += width;
            spans.push(Span::styled(symbol.repeat(width), self.style(colour)));
        }
        spans.push(Span::raw(" ".repeat(BAR_WIDTH - used)));
        spans.push(Span::raw(format!(" {:>3.0}% {}", 100.0 * largest.0 as f64 / total as f64, largest.1)));
        Line::from(spans)
    }

    /// Worth a line: more than a thousandth of the time traced.
    fn worth_saying(&self, stall: &Stall) -> bool {
        stall.excess_ns * 1000 > self.snapshot.now_ns.saturating_sub(self.snapshot.start_ns)
    }

    fn why(&self, stalls: &[Stall]) -> Paragraph<'_> {
        let mut lines = vec![Line::from("where the time beyond the usual went:").style(Modifier::BOLD)];
        for stall in stalls.iter().filter(|stall| self.worth_saying(stall)).take(MOST_STALLS) {
            let causes: Vec<String> = stall
                .causes
                .iter()
                .filter(|cause| cause.share_pct >= 5.0)
                .take(2)
                .map(|cause| {
                    let by = cause.by.first().map(|by| format!(" by {} ({})", printable(&by.comm), by.pid));
                    format!("{:.0}% {}{}", cause.share_pct, cause.cause.name(), by.unwrap_or_default())
                })
                .collect();
            lines.push(Line::from(format!(
                "  {} pid {}: {} lost, {}",
                stall.op,
                stall.pid,
                duration(stall.excess_ns),
                causes.join(", "),
            )));
        }
        Paragraph::new(lines)
    }

    fn footer(&self) -> Paragraph<'_> {
        let coverage = &self.snapshot.coverage;
        let own = self.snapshot.own;
        let lost = if coverage.lost > 0 {
            Span::styled(format!("{} records LOST", count(coverage.lost)), self.style(Color::Red))
        } else {
            Span::raw("nothing lost")
        };
        let mut second = vec![Span::raw(format!("{} kept, ", count(self.snapshot.tallies.kept()))), lost];
        if !coverage.unattached.is_empty() {
            second.push(Span::styled(
                format!(", {} probes not attached", coverage.unattached.len()),
                self.style(Color::Yellow),
            ));
        }
        second.push(Span::raw(format!(
            "   gpuwhy itself: {:.1}% CPU, {}",
            own.cpu * 100.0,
            size(own.rss_bytes)
        )));
        Paragraph::new(vec![Line::default(), Line::from(second), Line::from("q or Ctrl-C ends the trace")])
    }
}

fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Character, colour and name of a part of time.
fn look(part: Part, waits_for_gpu: bool) -> (&'static str, Color, &'static str) {
    match part {
        Part::OnCpu if waits_for_gpu => ("█", Color::Blue, "waiting for the GPU"),
        Part::OnCpu => ("█", Color::Green, "on CPU"),
        Part::Runnable => ("▓", Color::Red, "ready, CPU taken"),
        Part::Blocked(Reason::Futex) => ("▒", Color::Yellow, "lock"),
        Part::Blocked(Reason::BlockIo) => ("░", Color::Magenta, "disk"),
        Part::Blocked(Reason::File) => ("░", Color::Magenta, "file"),
        Part::Blocked(Reason::Socket) => ("░", Color::Cyan, "socket"),
        Part::Blocked(Reason::Poll) => ("░", Color::Cyan, "poll"),
        Part::Blocked(Reason::Ioctl) => ("░", Color::Blue, "driver"),
        Part::Blocked(Reason::Fault) => ("░", Color::Yellow, "page fault"),
        Part::Blocked(Reason::Sleep) => ("·", Color::Gray, "asleep"),
        Part::Blocked(Reason::Other) => ("·", Color::Gray, "blocked"),
    }
}
