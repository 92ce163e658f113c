//! The servers that are watched: looked for now and then, asked once a second, left alone for a while when they fail.

use crate::find::{Found, Place, find};
use crate::kind::Kind;
use crate::kinds::{KINDS, of_page};
use crate::reading::Reading;
use crate::{Target, http};
use gpuwhy_confine::Parser;
use gpuwhy_model::ServerSample;
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The first few times at every turn: what is traced is often just being started.
const FIRST_LOOKS: u32 = 10;
/// After it failed so often, it is asked less often.
const PATIENT_UNTIL: u32 = 3;
const ASK_FAILED_EVERY: Duration = Duration::from_secs(10);
const MAX_SERVERS: usize = 16;

/// Which servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Those that run here.
    Found,
    Named(Vec<Target>),
}

/// What one look brought.
#[derive(Debug, Default)]
pub struct Heard {
    pub samples: Vec<ServerSample>,
    /// Whom it is about, and why it cannot be read; nothing where it can. Told when it changes.
    pub news: Vec<(String, Option<String>)>,
}

#[derive(Debug)]
pub struct ServerMeter {
    wanted: Wanted,
    /// Talks to them and reads their pages.
    parser: Parser,
    servers: BTreeMap<Target, Server>,
    message: BTreeMap<String, Option<String>>,
    looked: Option<Instant>,
    looks: u32,
}

#[derive(Debug, Default)]
struct Server {
    pid: Option<u32>,
    kind: Option<&'static Kind>,
    last: Option<(Instant, Reading)>,
    failures: u32,
    asked: Option<Instant>,
}

impl ServerMeter {
    /// `parser` has to be one that may talk.
    pub fn new(wanted: Wanted, parser: Parser) -> ServerMeter {
        let servers = match &wanted {
            Wanted::Named(targets) => {
                targets.iter().map(|target| (target.clone(), Server::default())).collect()
            }
            Wanted::Found => BTreeMap::new(),
        };
        ServerMeter { wanted, parser, servers, message: BTreeMap::new(), looked: None, looks: 0 }
    }

    /// Asks all of them once. To be called about once a second; `now_ns` is the clock of the samples.
    pub fn read(&mut self, now_ns: &dyn Fn() -> u64) -> Heard {
        let mut heard = Heard::default();
        if self.looks < FIRST_LOOKS || self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) {
            self.looks += 1;
            self.looked = Some(Instant::now());
            self.look(find(Path::new("/proc")), &mut heard);
        }
        for (target, server) in &mut self.servers {
            if server.is_left_alone() {
                continue;
            }
            let url = target.url();
            match server.ask(target, &self.parser) {
                Ok(sample) => {
                    say(&mut self.message, &mut heard, &url, None);
                    heard.samples.extend(sample.map(|sample| ServerSample {
                        time_ns: now_ns(),
                        url,
                        ..sample
                    }));
                }
                // A server that has just been started is not said to have failed.
                Err(why) if server.failures >= PATIENT_UNTIL => {
                    say(&mut self.message, &mut heard, &url, Some(why));
                }
                Err(_) => {}
            }
        }
        heard
    }

    /// Takes over who runs here. Of servers that were named, only their processes.
    fn look(&mut self, found: Vec<Found>, heard: &mut Heard) {
        let mut known: Vec<Target> = Vec::new();
        for Found { kind, pid, place } in found {
            let who = format!("{} of process {pid}", kind.name);
            let targets = match place {
                Place::Here(targets) => targets,
                Place::OtherNetwork => {
                    if self.wanted == Wanted::Found {
                        let why = "it is in another network namespace and cannot be reached from here; trace in its container";
                        say(&mut self.message, heard, &who, Some(why.into()));
                    }
                    continue;
                }
                Place::Nowhere => continue,
            };
            for target in targets {
                if let Some(server) = self.servers.get_mut(&target) {
                    server.pid = Some(pid);
                } else if self.wanted == Wanted::Found && self.servers.len() < MAX_SERVERS {
                    let server = Server { pid: Some(pid), kind: Some(kind), ..Server::default() };
                    self.servers.insert(target.clone(), server);
                }
                known.push(target);
            }
        }
        if self.wanted == Wanted::Found {
            // Those that are gone are not asked for ever.
            self.servers.retain(|target, _| known.contains(target));
        }
    }
}

impl Server {
    fn is_left_alone(&self) -> bool {
        self.failures >= PATIENT_UNTIL && self.asked.is_some_and(|asked| asked.elapsed() < ASK_FAILED_EVERY)
    }

    /// What it says since it was last asked; nothing the first time.
    fn ask(&mut self, target: &Target, parser: &Parser) -> Result<Option<ServerSample>, String> {
        self.asked = Some(Instant::now());
        let (expected, asked) = (self.kind, target.clone());
        let page = http::connect(target).and_then(|stream| {
            let read = parser.parse(move || page(stream, &asked, expected));
            read.unwrap_or_else(|| Err("reading its page failed; this is a fault of gpuwhy's own".into()))
        });
        let (kind, reading) = match page {
            Ok(page) => page,
            Err(why) => {
                self.failures += 1;
                self.last = None;
                return Err(why);
            }
        };
        self.failures = 0;
        let now = Instant::now();
        let before = self.last.replace((now, reading.clone()));
        Ok(before.and_then(|(then, before)| {
            let window_ns = now.duration_since(then).as_nanos().min(u64::MAX.into()) as u64;
            let sample = reading.since(&before, window_ns)?;
            Some(ServerSample { server: kind.name.into(), pid: self.pid, ..sample })
        }))
    }
}

/// What a server's page says.
fn page(
    stream: TcpStream,
    target: &Target,
    expected: Option<&'static Kind>,
) -> Result<(&'static Kind, Reading), String> {
    let text = http::get(stream, target)?;
    // What it is, its page says best.
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    let kind = of_page(&text).ok_or_else(|| match expected {
        Some(kind) => format!("its page has no metric of {}; are its metrics on?", kind.name),
        None => format!("its page has no metric of {}", names.join(", ")),
    })?;
    Ok((kind, Reading::of(kind, &text)))
}

fn say(message: &mut BTreeMap<String, Option<String>>, heard: &mut Heard, who: &str, why: Option<String>) {
    const MAX_MESSAGES: usize = 1024;
    if message.len() < MAX_MESSAGES && message.get(who) != Some(&why) {
        message.insert(who.into(), why.clone());
        heard.news.push((who.into(), why));
    }
}
