//! One picture of the live screen: header, panels, footer.

use super::room::{is_enough, share};
use crate::explanation::wrap::wrap;
use crate::panels::{LEGEND, PAGES, Panel, Rest, TROUBLE, Topic, View, counted};
use gpuwhy_agent::Snapshot;
use gpuwhy_cause::StepTree;
use gpuwhy_host::Load;
use gpuwhy_model::units::{count, duration, size};
use gpuwhy_model::{Finding, OpInfo};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// Lines of a terminal on which an empty one does not matter.
const ROOMY: u16 = 30;

pub(super) struct Picture<'a> {
    /// Nothing before the first second is over.
    pub(super) snapshot: Option<&'a Snapshot>,
    pub(super) ops: &'a [OpInfo],
    pub(super) flavour: &'a str,
    pub(super) colour: bool,
    pub(super) page: usize,
    pub(super) no_gpus: Option<&'a str>,
    pub(super) findings: &'a [Finding],
    pub(super) steps: &'a [StepTree],
    pub(super) verdict: Option<&'a str>,
    /// What is shown is explained instead of shown.
    pub(super) help: bool,
    /// `trace` or `top`.
    pub(super) command: &'static str,
    pub(super) rest: Rest<'a>,
}

impl Picture<'_> {
    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let head = if frame.area().height < ROOMY { 2 } else { 3 };
        let [head, body, foot] =
            Layout::vertical([Constraint::Length(head), Constraint::Min(0), Constraint::Length(2)])
                .areas(frame.area());
        let (width, height) = (body.width as usize, body.height as usize);
        let (mut lines, all) = match self.snapshot {
            _ if self.help => (help(self.command, self.no_gpus, width), true),
            Some(snapshot) => {
                let view = View::of(snapshot, self.ops, self.findings, true);
                self.body(&view.with_steps(self.steps, self.verdict), width, height)
            }
            None => (Vec::new(), true),
        };
        if !self.help && self.snapshot.is_none_or(|snapshot| snapshot.tallies.calls() == 0) {
            lines.push(Line::from("waiting for GPU calls ..."));
        }
        frame.render_widget(Paragraph::new(self.header(width)), head);
        frame.render_widget(Paragraph::new(lines), body);
        frame.render_widget(Paragraph::new(self.footer(all, width)), foot);
        if !self.colour {
            for cell in &mut frame.buffer_mut().content {
                cell.fg = Color::Reset;
            }
        }
    }

    /// The lines, and whether they are of all pages.
    fn body(&self, view: &View<'_>, width: usize, height: usize) -> (Vec<Line<'static>>, bool) {
        let pages: Vec<Vec<Panel>> = PAGES.iter().map(|page| panels(view, page.topics)).collect();
        let trouble = panels(view, &[TROUBLE]);
        let all = with_trouble(pages.iter().flatten().collect(), &trouble);
        let fits = is_enough(&heights(&all, width), height);
        let shown = match fits {
            true => all,
            false => {
                let (before, rest) = pages.split_at(self.page);
                let (page, behind) = rest.split_at(1.min(rest.len()));
                let page = with_trouble(page.iter().flatten().collect(), &trouble);
                filled_up(page, behind.iter().chain(before).flatten(), width, height)
            }
        };
        let wanted = heights(&shown, width);
        // Empty lines between the panels, where there is room for them.
        let gap = fits || with_gaps(&wanted) <= height;
        let answers = shown.iter().take_while(|panel| panel.is_answer()).count();
        let given = share(&wanted, answers, height.saturating_sub(if gap { shown.len() } else { 0 }));
        let mut lines = Vec::new();
        for (panel, given) in shown.iter().zip(given).filter(|(_, given)| *given > 0) {
            lines.extend(panel.lines(width, given, self.rest));
            lines.extend(gap.then(Line::default));
        }
        (lines, fits)
    }

    fn header(&self, width: usize) -> Vec<Line<'static>> {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let name = format!("gpuwhy {} ", self.command);
        let Some(snapshot) = self.snapshot else { return vec![Line::styled(name, bold)] };
        let room = width.saturating_sub(name.chars().count());
        let so_far = so_far(snapshot, self.no_gpus.is_some(), room);
        let first = vec![Span::styled(name, bold), Span::raw(so_far)];
        vec![Line::from(first), Line::from(host(&snapshot.load))]
    }

    fn footer(&self, all: bool, width: usize) -> Vec<Line<'static>> {
        let Some(snapshot) = self.snapshot else { return Vec::new() };
        let (coverage, own) = (&snapshot.coverage, snapshot.own);
        let mut first = vec![Span::raw(format!("{} kept, ", count(snapshot.tallies.kept())))];
        first.push(match coverage.lost {
            0 => Span::raw("nothing lost"),
            lost => Span::styled(format!("{} LOST", count(lost)), Style::new().fg(Color::Red)),
        });
        if !coverage.unattached.is_empty() {
            let text = format!(", {} off", counted(coverage.unattached.len() as u64, "probe", "probes"));
            first.push(Span::styled(text, Style::new().fg(Color::Yellow)));
        }
        let cost = format!("; gpuwhy itself: {:.1}% CPU, {}", own.cpu * 100.0, size(own.rss_bytes));
        let room = width.saturating_sub(first.iter().map(Span::width).sum());
        let kinds = [format!("; {} probes{cost}", self.flavour), cost];
        // What does not fit is rather left out than cut.
        first.extend(kinds.into_iter().find(|words| words.chars().count() <= room).map(Span::raw));
        vec![Line::from(first), self.keys(all)]
    }

    fn keys(&self, all: bool) -> Line<'static> {
        let mut spans = Vec::new();
        if self.help {
            return Line::from("? or Esc: back   q: end");
        }
        if !all {
            for (number, page) in PAGES.iter().enumerate() {
                let style = match number == self.page {
                    true => Style::new().add_modifier(Modifier::REVERSED),
                    false => Style::new(),
                };
                spans.push(Span::styled(format!(" {} {} ", number + 1, page.name), style));
            }
            spans.push(Span::raw("  Tab: next  "));
        }
        spans.push(Span::raw("?: help  q: end"));
        Line::from(spans)
    }
}

/// How long, how much; how many have ended where there is room for that.
fn so_far(snapshot: &Snapshot, no_gpus: bool, room: usize) -> String {
    let ended = snapshot.processes.iter().filter(|process| process.end_ns.is_some()).count() as u64;
    let living = snapshot.processes.len() as u64 - ended;
    let gpus = &snapshot.overview.gpus;
    let busy: Vec<f64> = gpus.values().filter_map(|gpu| gpu.last.sm_pct).collect();
    let busy = match busy.len() {
        0 if no_gpus => "no GPU counters".to_string(),
        0 => "GPU ?".into(),
        many => format!("GPU busy {:.0}%", busy.iter().sum::<f64>() / many as f64),
    };
    let line = |ended: &str| {
        format!(
            "{}  {busy}  {}{ended}  {}",
            duration(snapshot.now_ns.saturating_sub(snapshot.start_ns)),
            counted(living, "process", "processes"),
            counted(snapshot.tallies.calls(), "call", "calls"),
        )
    };
    let whole = if ended > 0 { line(&format!(" ({} ended)", count(ended))) } else { line("") };
    if whole.chars().count() <= room { whole } else { line("") }
}

/// What bounds the program first, then what must not be overlooked, then the rest.
fn with_trouble<'a>(mut panels: Vec<&'a Panel>, trouble: &'a [Panel]) -> Vec<&'a Panel> {
    let answers = panels.iter().take_while(|panel| panel.is_answer()).count();
    panels.splice(answers..answers, trouble);
    panels
}

fn host(load: &Load) -> String {
    format!(
        "host: CPU {:.0}% of {} cores, {} runnable; {} of {} memory free",
        load.cpu * 100.0,
        load.cpus,
        load.runnable,
        size(load.memory_available),
        size(load.memory_total),
    )
}

/// What is on the screen, and what the keys do.
fn help(command: &str, no_gpus: Option<&str>, width: usize) -> Vec<Line<'static>> {
    const INDENT: &str = "               ";
    let ends = match command {
        "top" => "end; nothing is kept",
        _ => "end the trace and print the answer",
    };
    let mut entries = vec![
        ("1 2 3 4", "answer, code and cost, GPU work, transfers"),
        ("Tab, arrows", "the next or the last page"),
        ("q Esc Ctrl-C", ends),
        ("", ""),
        ("why", "what bounds the program (=>) and the worst findings, of the last minute"),
        ("steps", "what a step of each loop is made of; the red part is what it waits for"),
        (
            "operations",
            "calls of the GPU libraries; 99% take less than p99; the bar is where their time went:",
        ),
        ("", LEGEND),
        ("8,415 in 9%", "counted in 9% of the time: the rest would cost more than the budget"),
        ("(ended)", "the process is gone"),
        ("LOST", "records that did not get through, where and why: counts are too low by them"),
    ];
    entries.extend(no_gpus.map(|why| ("no GPU counters", why)));
    entries
        .into_iter()
        .flat_map(|(term, text)| match text == LEGEND {
            // Its gaps are part of it.
            true => vec![format!("  {text}")],
            false => wrap(&format!("{term:<15}"), INDENT, text, width, 3),
        })
        .map(Line::from)
        .collect()
}

/// What has anything to show.
fn panels(view: &View<'_>, topics: &[Topic]) -> Vec<Panel> {
    topics.iter().filter_map(|topic| topic(view)).collect()
}

fn heights(panels: &[&Panel], width: usize) -> Vec<usize> {
    panels.iter().map(|panel| panel.height(width)).collect()
}

fn with_gaps(heights: &[usize]) -> usize {
    heights.iter().map(|height| height + 1).sum()
}

/// A page, and below it what else finds room.
fn filled_up<'a>(
    mut page: Vec<&'a Panel>,
    others: impl Iterator<Item = &'a Panel>,
    width: usize,
    height: usize,
) -> Vec<&'a Panel> {
    let mut used = with_gaps(&heights(&page, width));
    for other in others {
        if used + other.height(width) < height {
            used += other.height(width) + 1;
            page.push(other);
        }
    }
    page
}

#[cfg(test)]
mod tests;
