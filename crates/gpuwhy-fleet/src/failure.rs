//! How a command fails: one sentence on stderr and the right exit status.

use clap::error::ErrorKind;
use gpuwhy_fleet_core::{FleetError, HttpError};
use std::process::ExitCode;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It failed: 1.
    Failed(String),
    /// It was asked wrongly: 2.
    Usage(String),
}

impl Failure {
    pub(crate) fn report(&self) -> ExitCode {
        let (status, sentence) = match self {
            Failure::Failed(sentence) => (1, sentence),
            Failure::Usage(sentence) => (2, sentence),
        };
        eprintln!("gpuwhy-fleet: {}", gpuwhy_model::units::printable(sentence));
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
    let first = text.split("\n\n").next().unwrap_or_default();
    let first = first.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = first.trim_start_matches("error: ");
    Failure::Usage(format!("{sentence}; `gpuwhy-fleet --help` tells more")).report()
}

impl From<FleetError> for Failure {
    fn from(error: FleetError) -> Self {
        match error {
            FleetError::ListenOptions(HttpError::Address { .. }) => Failure::Usage(error.to_string()),
            _ => Failure::Failed(error.to_string()),
        }
    }
}

impl From<HttpError> for Failure {
    fn from(error: HttpError) -> Self {
        FleetError::from(error).into()
    }
}
