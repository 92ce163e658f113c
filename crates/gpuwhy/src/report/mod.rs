//! The answer on one page, for a ticket: one file of HTML without scripts, which asks nothing of any server.

mod about;
mod bar;
mod findings;
mod html;
mod palette;
mod steps;
mod utilisation;

use crate::explanation::first_screen::verdict;
use gpuwhy_model::Process;
use gpuwhy_model::units::{count, duration};
use gpuwhy_query::{Explained, Series};
use gpuwhy_store::Session;
use html::{Html, el, words};

/// What the page is made from.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) explained: Explained,
    /// Curves of each GPU's use; nothing where no counter was read.
    pub(crate) utilisation: Option<Series>,
    pub(crate) sessions: Vec<Session>,
    pub(crate) processes: Vec<Process>,
    /// Which part of the trace was asked about, in words; empty for all of it.
    pub(crate) part: String,
    /// The trace's name, without its folder.
    pub(crate) name: String,
}

const HEAD: &str = concat!(
    "<meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
    "<meta name=\"color-scheme\" content=\"light dark\">",
    // Nothing is loaded and nothing is run, whatever a traced program is called.
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">",
    "<meta name=\"referrer\" content=\"no-referrer\">",
);

impl Report {
    pub(crate) fn page(&self) -> String {
        let head = el(
            "head",
            &[],
            [
                Html::constant(HEAD),
                words("title", format!("gpuwhy: {}", self.name)),
                el("style", &[], [Html::constant(include_str!("style.css"))]),
            ],
        );
        let sections = [
            self.first(),
            section("Where does a step go?", steps::steps(&self.explained)),
            section("GPU utilisation", utilisation::figures(self)),
            section("Findings", findings::findings(&self.explained)),
            section("Coverage", about::coverage(&self.explained.coverage)),
            section("Environment", about::environment(self)),
            about::footer(self),
        ];
        let body = el("body", &[], [el("main", &[], sections)]);
        let page = el("html", &[("lang", "en")], [head, body]);
        format!("<!doctype html>\n{}\n", page.into_string())
    }

    /// The verdict, and what was looked at.
    fn first(&self) -> Html {
        let trace = &self.explained.trace;
        let nodes = match trace.nodes.is_empty() {
            true => String::new(),
            false => format!(" on {}", trace.nodes.join(", ")),
        };
        let length = duration(trace.end_ns.saturating_sub(trace.start_ns));
        let about = format!(
            "{}{nodes}: {length} from {} to {}, {} events{}",
            self.name,
            moment(trace.start_ns),
            moment(trace.end_ns),
            count(trace.events),
            self.part
        );
        Html::all([
            el("p", &[("class", "brand")], [Html::text("gpuwhy: why did the GPU stall?")]),
            words("h1", verdict(&self.explained)),
            el("p", &[("class", "dim")], [Html::text(about)]),
        ])
    }
}

fn section(title: &'static str, content: Html) -> Html {
    match content.is_empty() {
        true => content,
        false => el("section", &[], [words("h2", title), content]),
    }
}

/// As `2026-11-17 11:50:26 UTC`: a ticket is read on another day.
fn moment(unix_ns: u64) -> String {
    match jiff::Timestamp::from_nanosecond(unix_ns.into()) {
        Ok(time) => format!("{} UTC", time.strftime("%Y-%m-%d %H:%M:%S")),
        Err(_) => String::new(),
    }
}

/// As `11:50:26.512`.
fn clock(unix_ns: u64) -> String {
    jiff::Timestamp::from_nanosecond(unix_ns.into())
        .map_or_else(|_| String::new(), |time| time.strftime("%H:%M:%S%.3f").to_string())
}

/// Milliseconds as people read them.
fn time(ms: f64) -> String {
    duration((ms.max(0.0) * 1e6) as u64)
}
