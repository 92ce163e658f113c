//! The live screen of `gpuwhy trace`: what was seen in panels, on one page where there is room, else on pages; the
//! host, what gpuwhy itself costs, and loss.

mod frame;
mod room;
mod watching;

pub(crate) use watching::{no_gpu_counters, on_screen};

use crate::explanation::first_screen::verdict;
use crate::panels::{PAGES, Rest};
use crate::shell;
use frame::Picture;
use gpuwhy_agent::Snapshot;
use gpuwhy_cause::StepTree;
use gpuwhy_model::{Finding, OpInfo};
use gpuwhy_query::Explained;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io;
use std::path::Path;
use std::time::Duration;

/// The terminal while the trace runs; given back when dropped.
pub(crate) struct Screen {
    terminal: DefaultTerminal,
    ops: Vec<OpInfo>,
    flavour: &'static str,
    colour: bool,
    page: usize,
    /// Why there are no counters of GPUs.
    no_gpus: Option<String>,
    last: Option<Box<Snapshot>>,
    findings: Vec<Finding>,
    steps: Vec<StepTree>,
    verdict: Option<String>,
    help: bool,
    command: &'static str,
    /// What explains the trace, as it can be pasted; nothing where none is kept.
    explain: Option<String>,
}

impl Screen {
    /// `command`: `trace` or `top`; `file`: where it records, if it does.
    pub(crate) fn open(
        command: &'static str,
        file: Option<&Path>,
        ops: Vec<OpInfo>,
        flavour: &'static str,
    ) -> io::Result<Screen> {
        let terminal = ratatui::try_init()?;
        let colour = std::env::var_os("NO_COLOR").is_none();
        let mut screen = Screen {
            terminal,
            ops,
            flavour,
            colour,
            page: 0,
            no_gpus: None,
            last: None,
            findings: Vec::new(),
            steps: Vec::new(),
            verdict: None,
            help: false,
            command,
            explain: file.map(shell::explain),
        };
        screen.draw()?;
        Ok(screen)
    }

    pub(crate) fn show(&mut self, snapshot: Box<Snapshot>) -> io::Result<()> {
        self.last = Some(snapshot);
        self.draw()
    }

    pub(crate) fn show_no_gpus(&mut self, why: &str) {
        self.no_gpus = Some(why.to_string());
    }

    pub(crate) fn show_explained(&mut self, explained: Explained) -> io::Result<()> {
        self.verdict = Some(verdict(&explained));
        self.findings = explained.findings;
        self.steps = explained.steps;
        self.draw()
    }

    fn draw(&mut self) -> io::Result<()> {
        let picture = Picture {
            snapshot: self.last.as_deref(),
            ops: &self.ops,
            flavour: self.flavour,
            colour: self.colour,
            page: self.page,
            no_gpus: self.no_gpus.as_deref(),
            findings: &self.findings,
            steps: &self.steps,
            verdict: self.verdict.as_deref(),
            help: self.help,
            command: self.command,
            rest: self.explain.as_deref().map_or(Rest::Nowhere, |explain| Rest::Recorded { explain }),
        };
        self.terminal.draw(|frame| picture.draw(frame))?;
        Ok(())
    }

    /// Takes the keys that were pressed: turns pages, and tells whether the trace is to end. Does not wait.
    pub(crate) fn wants_to_quit(&mut self) -> io::Result<bool> {
        // Reading from a terminal that is gone would never end.
        if is_hung_up() {
            return Ok(true);
        }
        let (mut quit, mut changed) = (false, false);
        while event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) if key.code == KeyCode::Char('?') => {
                    self.help = !self.help;
                    changed = true;
                }
                Event::Key(key) if self.help && key.code == KeyCode::Esc => {
                    self.help = false;
                    changed = true;
                }
                Event::Key(key) if is_quit(key) => quit = true,
                Event::Key(key) => {
                    let page = page_after(self.page, key.code);
                    changed |= page != self.page;
                    self.page = page;
                }
                Event::Resize(..) => changed = true,
                _ => {}
            }
        }
        if changed {
            self.draw()?;
        }
        Ok(quit)
    }
}

fn is_hung_up() -> bool {
    let stdin = io::stdin();
    let mut looked = [PollFd::new(&stdin, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut looked, Some(&now))
        .is_ok_and(|_| looked[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL))
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Failing to give the terminal back leaves nothing better to do.
        let _ = ratatui::try_restore();
    }
}

fn is_quit(key: KeyEvent) -> bool {
    let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

fn page_after(page: usize, key: KeyCode) -> usize {
    match key {
        KeyCode::Tab | KeyCode::Right => (page + 1) % PAGES.len(),
        KeyCode::BackTab | KeyCode::Left => (page + PAGES.len() - 1) % PAGES.len(),
        KeyCode::Char(digit) => match digit.to_digit(10).map(|number| number as usize) {
            Some(number @ 1..) if number <= PAGES.len() => number - 1,
            _ => page,
        },
        _ => page,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_turn_pages_round_and_round() {
        assert_eq!(page_after(0, KeyCode::Tab), 1);
        assert_eq!(page_after(PAGES.len() - 1, KeyCode::Tab), 0);
        assert_eq!(page_after(0, KeyCode::BackTab), PAGES.len() - 1);
        assert_eq!(page_after(0, KeyCode::Char('3')), 2);
        for other in ['0', '9', 'x'] {
            assert_eq!(page_after(1, KeyCode::Char(other)), 1);
        }
    }
}
