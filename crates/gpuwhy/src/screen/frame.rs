//! One picture of the live screen: header, panels, footer.

use super::room::{is_enough, share};
use crate::panels::{PAGES, Panel, TROUBLE, Topic, View, counted};
use gpuwhy_agent::Snapshot;
use gpuwhy_cause::StepTree;
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
}

impl Picture<'_> {
    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let head = if frame.area().height < ROOMY { 2 } else { 3 };
        let [head, body, foot] =
            Layout::vertical([Constraint::Length(head), Constraint::Min(0), Constraint::Length(2)])
                .areas(frame.area());
        let (width, height) = (body.width as usize, body.height as usize);
        let (mut lines, all) = match self.snapshot {
            Some(snapshot) => {
                let view = View::of(snapshot, self.ops, self.findings, true).with_steps(self.steps);
                self.body(&view, width, height)
            }
            None => (Vec::new(), true),
        };
        if self.snapshot.is_none_or(|snapshot| snapshot.tallies.calls() == 0) {
            lines.push(Line::from("waiting for GPU calls ..."));
        }
        frame.render_widget(Paragraph::new(self.header()), head);
        frame.render_widget(Paragraph::new(lines), body);
        frame.render_widget(Paragraph::new(self.footer(all)), foot);
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
        let all: Vec<&Panel> = trouble.iter().chain(pages.iter().flatten()).collect();
        let fits = is_enough(&heights(&all), height);
        let shown = match fits {
            true => all,
            false => {
                let (before, rest) = pages.split_at(self.page);
                let (page, behind) = rest.split_at(1.min(rest.len()));
                let page: Vec<&Panel> = trouble.iter().chain(page.iter().flatten()).collect();
                filled_up(page, behind.iter().chain(before).flatten(), height)
            }
        };
        let wanted = heights(&shown);
        // Empty lines between the panels, where there is room for them.
        let gap = fits || with_gaps(&wanted) <= height;
        let given = share(&wanted, height.saturating_sub(if gap { shown.len() } else { 0 }));
        let mut lines = Vec::new();
        for (panel, given) in shown.iter().zip(given).filter(|(_, given)| *given > 0) {
            lines.extend(panel.lines(width, given));
            lines.extend(gap.then(Line::default));
        }
        (lines, fits)
    }

    fn header(&self) -> Vec<Line<'static>> {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let Some(snapshot) = self.snapshot else { return vec![Line::styled("gpuwhy", bold)] };
        let living = snapshot.processes.iter().filter(|process| process.end_ns.is_none()).count() as u64;
        let load = snapshot.load;
        let mut first = vec![
            Span::styled("gpuwhy ", bold),
            Span::raw(format!(
                "tracing {}   {}, {} ({} probes)",
                duration(snapshot.now_ns.saturating_sub(snapshot.start_ns)),
                counted(living, "process", "processes"),
                counted(snapshot.libraries as u64, "library", "libraries"),
                self.flavour,
            )),
        ];
        if let Some(why) = self.no_gpus {
            first.push(Span::styled(format!("   no GPU counters: {why}"), Style::new().fg(Color::DarkGray)));
        }
        let second = format!(
            "host   CPU {:.0}% of {}, {} running or waiting; memory {} of {} free",
            load.cpu * 100.0,
            load.cpus,
            load.runnable,
            size(load.memory_available),
            size(load.memory_total),
        );
        vec![Line::from(first), Line::from(second)]
    }

    fn footer(&self, all: bool) -> Vec<Line<'static>> {
        let Some(snapshot) = self.snapshot else { return Vec::new() };
        let (coverage, own) = (&snapshot.coverage, snapshot.own);
        let mut first = vec![Span::raw(format!("{} kept, ", count(snapshot.tallies.kept())))];
        first.push(match coverage.lost {
            0 => Span::raw("nothing lost"),
            lost => Span::styled(format!("{} records LOST", count(lost)), Style::new().fg(Color::Red)),
        });
        if !coverage.unattached.is_empty() {
            let text = format!(", {} probes not attached", coverage.unattached.len());
            first.push(Span::styled(text, Style::new().fg(Color::Yellow)));
        }
        first.push(Span::raw(format!(
            "   gpuwhy itself: {:.1}% CPU, {}",
            own.cpu * 100.0,
            size(own.rss_bytes)
        )));
        vec![Line::from(first), self.keys(all)]
    }

    fn keys(&self, all: bool) -> Line<'static> {
        let mut spans = Vec::new();
        if !all {
            for (number, page) in PAGES.iter().enumerate() {
                let style = match number == self.page {
                    true => Style::new().add_modifier(Modifier::REVERSED),
                    false => Style::new(),
                };
                spans.push(Span::styled(format!(" {} {} ", number + 1, page.name), style));
                spans.push(Span::raw(" "));
            }
            spans.push(Span::raw("  Tab next page   "));
        }
        spans.push(Span::raw("q ends the trace"));
        Line::from(spans)
    }
}

/// What has anything to show.
fn panels(view: &View<'_>, topics: &[Topic]) -> Vec<Panel> {
    topics.iter().filter_map(|topic| topic(view)).collect()
}

fn heights(panels: &[&Panel]) -> Vec<usize> {
    panels.iter().map(|panel| panel.height()).collect()
}

fn with_gaps(heights: &[usize]) -> usize {
    heights.iter().map(|height| height + 1).sum()
}

/// A page, and below it what else finds room.
fn filled_up<'a>(
    mut page: Vec<&'a Panel>,
    others: impl Iterator<Item = &'a Panel>,
    height: usize,
) -> Vec<&'a Panel> {
    let mut used = with_gaps(&heights(&page));
    for other in others {
        if used + other.height() < height {
            used += other.height() + 1;
            page.push(other);
        }
    }
    page
}
