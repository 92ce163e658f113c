//! How a command fails: one sentence on stderr and the right exit status.

use crate::cli::Cli;
use crate::log::log;
use crate::paths;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use gpuwhy_agent::AgentError;
use gpuwhy_query::QueryError;
use gpuwhy_serve::{HttpError, ServeError};
use gpuwhy_store::StoreError;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It failed: 1.
    Failed(String),
    /// It was asked wrongly: 2.
    Usage(String),
    /// There is nothing to answer from: 3.
    Nothing(String),
    /// What was traced failed, with this status; the summary has said so.
    Traced(u8),
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

    /// As a shell tells it: a command that a signal ended has 128 and the signal's number.
    pub(crate) fn of_command(status: Option<ExitStatus>) -> Result<(), Failure> {
        let status = status.and_then(|status| status.code().or_else(|| Some(128 + status.signal()?)));
        match status {
            None | Some(0) => Ok(()),
            Some(status) => Err(Failure::Traced(u8::try_from(status).unwrap_or(1))),
        }
    }

    pub(crate) fn report(&self) -> ExitCode {
        let (status, sentence) = match self {
            Failure::Failed(sentence) => (1, sentence),
            Failure::Usage(sentence) => (2, sentence),
            Failure::Nothing(sentence) => (3, sentence),
            Failure::Traced(status) => return ExitCode::from(*status),
            Failure::Silent => return ExitCode::SUCCESS,
        };
        log!("{}", gpuwhy_model::units::printable(sentence));
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
    if let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
    {
        let hidden = |name: &str| Cli::command().find_subcommand(name).is_none_or(clap::Command::is_hide_set);
        let names: Vec<&str> = match error.get(ContextKind::SuggestedSubcommand) {
            Some(ContextValue::Strings(names)) => names.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        };
        let similar = match names.into_iter().rfind(|name| !hidden(name)) {
            Some(name) => format!("; did you mean `gpuwhy {name}`?"),
            None => String::new(),
        };
        return Failure::Usage(format!(
            "there is no file or command '{word}'{similar}; `gpuwhy --help` lists the commands"
        ))
        .report();
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
        // Traces of the whole host are made by root, and read by others who do not know where they are.
        let advice = match &error {
            StoreError::NotFound { path } if paths::is_default_of_user(path) && paths::has_roots() => {
                format!("; what root has traced: sudo gpuwhy explain (it is in {})", paths::ROOTS)
            }
            _ => String::new(),
        };
        Failure::Failed(format!("{error}{advice}"))
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
            ServeError::Open { .. } | ServeError::ListenOptions(HttpError::Address { .. }) => {
                Failure::Usage(sentence)
            }
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
