//! The command a trace starts: it is a target from its first instruction on.

use crate::{AgentError, CommandOutput, Config, own};
use gpuwhy_probes::Engine;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};

#[derive(Debug)]
pub(crate) struct Started {
    child: Child,
    status: Option<ExitStatus>,
    /// Readable once it has ended; nothing where the kernel gives none.
    end: Option<OwnedFd>,
}

impl Started {
    /// The child must be a target before it runs, and only a fork tells the kernel in time: so this process is a
    /// followed target itself while it forks.
    pub(crate) fn start(words: &[OsString], config: &Config, engine: &Engine) -> Result<Started, AgentError> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(AgentError::Internal("no command was given".into()));
        };
        let failed = |error: &std::io::Error| AgentError::Command {
            command: program.to_string_lossy().into_owned(),
            reason: error.to_string(),
        };
        let own = std::process::id();
        let mut command = Command::new(program);
        command.args(arguments);
        // The agent's tokens are not for whom it traces.
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_token(name)) {
            command.env_remove(name);
        }
        if let Some(socket) = &config.annotate {
            command.env(gpuwhy_annotations::ENVIRONMENT, socket);
        }
        if config.command_output != CommandOutput::Inherit {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        }
        if let CommandOutput::File(path) = &config.command_output {
            command.stdout(File::create(path).map_err(|error| failed(&error))?);
        }
        engine.add_target(own, true)?;
        let child = command.spawn();
        engine.remove_target(own)?;
        let child = child.map_err(|error| failed(&error))?;
        let pid = Pid::from_child(&child);
        own::restore_descriptor_limit(pid);
        Ok(Started { child, status: None, end: pidfd_open(pid, PidfdFlags::empty()).ok() })
    }

    pub(crate) fn end_fd(&self) -> Option<i32> {
        self.end.as_ref().map(AsRawFd::as_raw_fd)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    /// Passes on that the trace was told to stop.
    pub(crate) fn terminate(&mut self) {
        if !self.has_ended() {
            // It may have ended just now: then there is nobody to tell.
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.wait().ok();
        }
        self.status
    }

    pub(crate) fn status(&self) -> Option<ExitStatus> {
        self.status
    }
}

/// Variables of ours that are secrets or lead to them.
fn is_token(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let is_secret = ["TOKEN", "SECRET", "PASSWORD", "KEY"].iter().any(|word| name.contains(word));
    name.starts_with("GPUWHY_") && is_secret
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_told_from_other_variables() {
        for own in ["GPUWHY_TOKEN", "GPUWHY_FLEET_TOKEN", "GPUWHY_FLEET_TOKEN_FILE"] {
            assert!(is_token(own.as_ref()), "{own}");
        }
        for other in ["GPUWHY_DB", "GPUWHY_ANNOTATE", "GPUWHY_CLUSTER", "HF_TOKEN", "PATH"] {
            assert!(!is_token(other.as_ref()), "{other}");
        }
    }
}
