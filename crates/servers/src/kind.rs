//! A kind of server as data: how its process looks, where it listens, and what its metrics mean.

use gpuwhy_model::Signal;

#[derive(Debug)]
pub struct Kind {
    pub name: &'static str,
    /// Whether a command line is one of its.
    pub(crate) is_command: fn(&Command<'_>) -> bool,
    /// Options that name the port its metrics are on, the likelier first, and the port without them.
    pub(crate) port_options: &'static [&'static str],
    pub(crate) port: u16,
    /// Every metric of its begins so: a page without one is somebody else's.
    pub(crate) prefix: &'static str,
    /// Labels that name the model.
    pub(crate) model_labels: &'static [&'static str],
    pub(crate) metrics: &'static [Metric],
}

/// What a metric of theirs is to us. Of several for the same, the first one on the page counts: newer names come first.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) means: Means,
    /// Only samples with this label.
    pub(crate) only: Option<(&'static str, &'static str)>,
    /// Makes our unit of theirs.
    pub(crate) scale: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Means {
    /// Gauges: requests, requests, and a share in percent.
    Running,
    Waiting,
    KvCache,
    /// Counters.
    Preemptions,
    Requests,
    PromptTokens,
    GenerationTokens,
    Drafted,
    Accepted,
    /// Gauges that the server has worked out itself: tokens a second, and a share in percent.
    GenerationRate,
    AcceptRate,
    /// A histogram; in microseconds.
    Histogram(Signal),
    /// A counter of time alone; in microseconds.
    Sum(Signal),
}

impl Means {
    /// Whether it can only rise while the server lives.
    pub(crate) fn is_counter(self) -> bool {
        use Means::{Accepted, Drafted, GenerationTokens, Preemptions, PromptTokens, Requests, Sum};
        matches!(self, Preemptions | Requests | PromptTokens | GenerationTokens | Drafted | Accepted | Sum(_))
    }

    /// Of several engines or models, the fullest cache matters; requests and tokens add up.
    pub(crate) fn adds_up(self) -> bool {
        !matches!(self, Means::KvCache | Means::AcceptRate)
    }
}

pub(crate) const fn metric(name: &'static str, means: Means) -> Metric {
    Metric { name, means, only: None, scale: 1.0 }
}

impl Metric {
    pub(crate) const fn scaled(self, scale: f64) -> Metric {
        Metric { scale, ..self }
    }

    pub(crate) const fn only(self, label: &'static str, value: &'static str) -> Metric {
        Metric { only: Some((label, value)), ..self }
    }
}

/// A histogram in seconds.
pub(crate) const fn seconds(name: &'static str, signal: Signal) -> Metric {
    metric(name, Means::Histogram(signal)).scaled(1e6)
}

/// The words a process was started with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Command<'a> {
    pub(crate) words: &'a [String],
}

impl Command<'_> {
    /// Whether one of the first words is this program, started by itself or by an interpreter.
    pub(crate) fn runs(&self, program: &str) -> bool {
        self.place_of(program).is_some()
    }

    /// The same, with this word right behind it.
    pub(crate) fn runs_with(&self, program: &str, word: &str) -> bool {
        self.place_of(program).is_some_and(|at| self.words.get(at + 1).is_some_and(|next| next == word))
    }

    /// `python -m module`.
    pub(crate) fn runs_module(&self, module: &str) -> bool {
        self.words.windows(2).any(|pair| pair[0] == "-m" && pair[1] == module)
    }

    fn place_of(&self, program: &str) -> Option<usize> {
        const FIRST: usize = 4;
        let is = |word: &String| word.rsplit('/').next() == Some(program);
        self.words.iter().take(FIRST).position(is)
    }

    /// The value of an option, as `--port 1` or `--port=1`.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        self.words.iter().enumerate().find_map(|(at, word)| match word.strip_prefix(name)? {
            "" => self.words.get(at + 1).map(String::as_str),
            rest => rest.strip_prefix('='),
        })
    }
}
