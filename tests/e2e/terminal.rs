//! The live screen in a terminal of 80 columns and 24 lines, as script(1) makes one: what it draws, and what keys do.

use crate::support::{Ended, Gated, PATIENCE, Trace, alone, can_trace, simwork, skip};
use std::io::{Read, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

const COLUMNS: usize = 80;
const LINES: usize = 24;

/// What stands in a place: a character, and whether it is shown the other way round.
type Cell = (char, bool);

/// As much of a terminal as the screen asks of one: text, places, erasing, reverse video.
struct Terminal {
    cells: Vec<Vec<Cell>>,
    line: usize,
    column: usize,
    reversed: bool,
    /// Of an escape sequence, or of a character, that has not come in full.
    rest: Vec<u8>,
}

impl Terminal {
    fn new() -> Terminal {
        let cells = vec![vec![(' ', false); COLUMNS]; LINES];
        Terminal { cells, line: 0, column: 0, reversed: false, rest: Vec::new() }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend(bytes);
        let rest = std::mem::take(&mut self.rest);
        let whole = match std::str::from_utf8(&rest) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap(),
        };
        self.rest = rest[whole.len()..].to_vec();
        let mut left = whole;
        while let Some(c) = left.chars().next() {
            let behind = &left[c.len_utf8()..];
            if c != '\u{1b}' {
                self.put(c);
                left = behind;
                continue;
            }
            let Some(length) = sequence(behind) else {
                self.rest = [left.as_bytes(), &self.rest].concat();
                return;
            };
            self.obey(&behind[..length]);
            left = &behind[length..];
        }
    }

    fn put(&mut self, c: char) {
        match c {
            '\r' => self.column = 0,
            '\n' if self.line + 1 == LINES => {
                self.cells.remove(0);
                self.cells.push(vec![(' ', false); COLUMNS]);
            }
            '\n' => self.line += 1,
            c if c >= ' ' && self.column < COLUMNS => {
                self.cells[self.line][self.column] = (c, self.reversed);
                self.column += 1;
            }
            _ => {}
        }
    }

    /// A sequence without its escape character.
    fn obey(&mut self, sequence: &str) {
        let Some(rest) = sequence.strip_prefix('[') else { return };
        let (numbers, verb) = rest.split_at(rest.len() - 1);
        let number = |at: usize| numbers.split(';').nth(at).and_then(|number| number.parse::<usize>().ok());
        match verb {
            "H" => {
                self.line = number(0).unwrap_or(1).clamp(1, LINES) - 1;
                self.column = number(1).unwrap_or(1).clamp(1, COLUMNS) - 1;
            }
            "J" => self.cells = Terminal::new().cells,
            "K" => self.cells[self.line][self.column.min(COLUMNS - 1)..].fill((' ', false)),
            "m" => {
                for number in numbers.split(';') {
                    match number {
                        "7" => self.reversed = true,
                        "" | "0" | "27" => self.reversed = false,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn lines(&self) -> Vec<String> {
        let text = |line: &Vec<Cell>| line.iter().map(|(c, _)| c).collect::<String>().trim_end().to_string();
        self.cells.iter().map(text).collect()
    }

    fn text(&self) -> String {
        self.lines().join("\n")
    }

    fn reversed(&self) -> String {
        self.cells.iter().flatten().filter(|(_, reversed)| *reversed).map(|(c, _)| c).collect()
    }
}

/// How long an escape sequence is; nothing where its end has not come.
fn sequence(behind: &str) -> Option<usize> {
    match behind.as_bytes().first()? {
        b'[' => Some(behind[1..].find(|c: char| ('@'..='~').contains(&c))? + 2),
        b'(' | b')' => (behind.len() >= 2).then_some(2),
        _ => Some(1),
    }
}

/// A program in such a terminal.
struct Session {
    child: Ended,
    keys: ChildStdin,
    output: Receiver<Vec<u8>>,
    terminal: Terminal,
}

impl Session {
    fn start(command: &str) -> Session {
        let mut child = Command::new("script")
            .args(["-qfec", &format!("stty rows {LINES} cols {COLUMNS}; exec {command}"), "/dev/null"])
            .env_remove("GPUWHY_DB")
            .env("GPUWHY_LIBRARIES", "")
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, output) = channel();
        let mut stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = stdout.read(&mut bytes) {
                if sender.send(bytes[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        let keys = child.stdin.take().unwrap();
        Session { child: Ended(child), keys, output, terminal: Terminal::new() }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits until the terminal shows what fits.
    fn until(&mut self, what: &str, fits: impl Fn(&Terminal) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !fits(&self.terminal) {
            match self.output.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.terminal.take(&bytes),
                Err(error) => panic!("no {what}: {error}\n{}", self.terminal.text()),
            }
        }
    }
}

#[test]
fn the_live_screen_is_whole_in_a_terminal_and_obeys_its_keys() {
    const TEST: &str = "the_live_screen_is_whole_in_a_terminal_and_obeys_its_keys";
    if !can_trace(TEST) {
        return;
    }
    if Command::new("script").arg("--version").output().is_err() {
        return skip(TEST, "there is no script(1)");
    }
    let _turn = alone();
    let trace = Trace::new();
    let work = Gated::start(&simwork(), &["train", "--steps", "100000000", "--kernel-us", "200"]);
    work.open();
    let program = env!("CARGO_BIN_EXE_gpuwhy");
    let file = trace.file();
    let command = format!("{program} trace --out {} --pid {}", file.display(), work.pid());
    let mut session = Session::start(&command);
    session.until("header", |terminal| {
        let lines = terminal.lines();
        let is_whole = lines[0].starts_with("gpuwhy trace ") && lines[0].ends_with(" calls");
        is_whole && lines[1].starts_with("host: CPU ") && lines[1].ends_with(" memory free")
    });
    session.until("findings", |terminal| terminal.text().contains("\n=> "));
    session.until("first page", |terminal| terminal.reversed() == " 1 answer ");
    session.press("\t");
    session.until("second page", |terminal| terminal.reversed() == " 2 code ");
    session.press("?");
    session.until("help", |terminal| {
        let text = terminal.text();
        text.contains("q Esc Ctrl-C   end the trace") && text.ends_with("? or Esc: back   q: end")
    });
    assert!(session.terminal.lines()[0].ends_with(" calls"), "{}", session.terminal.text());
    session.press("?");
    session.until("second page again", |terminal| terminal.reversed() == " 2 code ");
    session.press("q");
    // The screen is given back, and the answer stays.
    session.until("answer", |terminal| {
        let text = terminal.text();
        text.contains("\nCoverage: ") && text.contains(" gpuwhy explain ") && text.ends_with("--verbose\n")
    });
    let status = session.child.0.wait().unwrap();
    assert!(status.success(), "{status}: {}", session.terminal.text());
    assert!(trace.number("SELECT count(*) FROM calls") > 0);
}
