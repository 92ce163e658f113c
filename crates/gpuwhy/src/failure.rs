//! How a command fails: one sentence on stderr and the right exit status.

use clap::error::ErrorKind;
use gpuwhy_agent::AgentError;
use gpuwhy_query::QueryError;
use gpuwhy_serve::{DoorError, ServeError};
use gpuwhy_store::StoreError;
use std::process::ExitCode;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It failed: 1.
    Failed(String),
    /// It was asked wrongly: 2.
    Usage(String),
    /// There is nothing to answer from: 3.
    Nothing(String),
    /// The reader of our output went away: nothing to say, and nobody to say it to.
    Silent,
}

impl Failure {
    /// No temporary folder.
    pub(crate) fn no_folder(error: &std::io::Error) -> Failure {
        Failure::Failed(format!(
            "no temporary folder could be made ({error}); set TMPDIR to a folder that exists"
        ))
    }

    /// A file and nodes.
    pub(crate) fn both() -> Failure {
        Failure::Usage("--nodes are asked instead of a file; leave one of them out".into())
    }

    pub(crate) fn report(&self) -> ExitCode {
        let (status, sentence) = match self {
            Failure::Failed(sentence) => (1, sentence),
            Failure::Usage(sentence) => (2, sentence),
            Failure::Nothing(sentence) => (3, sentence),
            Failure::Silent => return ExitCode::SUCCESS,
        };
        eprintln!("gpuwhy: {}", gpuwhy_model::units::printable(sentence));
        ExitCode::from(status)
    }
}

/// What clap has to say: help and version as they are, a mistake as one sentence.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // Nobody listens: nobody to tell.
        let _ = error.print();
        return ExitCode::from(error.exit_code() as u8);
    }
    let text = error.to_string();
    let mut paragraphs =
        text.split("\n\n").map(|lines| lines.split_whitespace().collect::<Vec<_>>().join(" "));
    let first = paragraphs.next().unwrap_or_default();
    let similar = paragraphs.find(|paragraph| paragraph.contains("similar")).unwrap_or_default();
    let mut sentence = first.trim_start_matches("error: ").to_string();
    if let Some(tip) = similar.strip_prefix("tip: ") {
        sentence += &format!("; {tip}");
    }
    Failure::Usage(format!("{sentence}; `gpuwhy --help` tells more")).report()
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        let advice = match &error {
            AgentError::NoProcess(_) => "; `ps` lists those that run",
            AgentError::Cgroup { .. } => "; name a folder below /sys/fs/cgroup",
            AgentError::Command { .. } => "; name a program that can be run",
            AgentError::Annotate { .. } => "; name another socket with --annotate=PATH",
            _ => "",
        };
        Failure::Failed(format!("{error}{advice}"))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::Failed(error.to_string())
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        let sentence = error.to_string();
        match error {
            QueryError::Usage(_) => Failure::Usage(sentence),
            QueryError::NoData(_) => Failure::Nothing(sentence),
            QueryError::Failed(_) | QueryError::Store(_) => Failure::Failed(sentence),
        }
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let sentence = error.to_string();
        match error {
            ServeError::Open { .. } | ServeError::Door(DoorError::Address { .. }) => Failure::Usage(sentence),
            _ => Failure::Failed(sentence),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::Silent,
            _ => Failure::Failed(error.to_string()),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Failure::Failed(format!("JSON could not be written: {error}"))
    }
}
