//! Why the probes could not be loaded, one sentence each.

use super::attach::message;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum LoadError {
    #[error(
        "the kernel does not allow loading eBPF programs here ({0}); run as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN"
    )]
    NotAllowed(String),
    #[error(
        "this kernel has no BTF (/sys/kernel/btf/vmlinux), which the probes need; use a kernel built with CONFIG_DEBUG_INFO_BTF"
    )]
    NoBtf,
    #[error("this kernel is too old: its probes on functions have no cookies; use Linux 5.15 or newer")]
    TooOld,
    #[error("the kernel refused the probe '{probe}': {reason}")]
    Refused { probe: String, reason: String },
    #[error("the cgroup {path} cannot be followed: {reason}")]
    Cgroup { path: String, reason: String },
    #[error("{0}")]
    Internal(String),
}

impl LoadError {
    /// What the kernel said, without the advice.
    pub(crate) fn reason(&self) -> String {
        match self {
            LoadError::NotAllowed(reason) | LoadError::Refused { reason, .. } => reason.clone(),
            other => other.to_string(),
        }
    }

    pub(crate) fn open(probe: &str, error: &libbpf_rs::Error) -> Self {
        LoadError::Refused { probe: probe.into(), reason: message(error) }
    }

    pub(crate) fn load(probe: &str, error: &libbpf_rs::Error) -> Self {
        // EPERM is a missing privilege; EACCES is the verifier's answer.
        if message(error).contains("Operation not permitted") {
            LoadError::NotAllowed(message(error))
        } else {
            Self::open(probe, error)
        }
    }
}
