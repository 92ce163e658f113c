//! The live screen while the agent traces: updates in, keys out.

use super::Screen;
use crate::failure::Failure;
use crate::findings::Explainer;
use crate::telemetry::Telemetry;
use gpuwhy_agent::{Agent, AgentError, Summary, Update};
use gpuwhy_model::{ProbeState, ProbeStatus};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Until the trace ends, with the file that it records into, if it does; how it ended. Nothing where the agent went without a word.
pub(crate) fn on_screen(
    command: &'static str,
    file: Option<&Path>,
    agent: &Agent,
    explainer: &Explainer,
    telemetry: &mut Telemetry,
) -> Result<Option<Result<Summary, AgentError>>, Failure> {
    let mut screen: Option<Screen> = None;
    let stop = agent.stop_flag();
    loop {
        let update = agent.updates().recv_timeout(Duration::from_millis(100));
        if let Ok(update) = &update {
            telemetry.take(update);
        }
        match update {
            Ok(Update::Started { ops, flavour, .. }) => {
                screen = Some(Screen::open(command, file, ops, flavour)?);
            }
            Ok(Update::Snapshot(snapshot)) => {
                if let Some(screen) = &mut screen {
                    screen.show(snapshot)?;
                }
            }
            Ok(Update::Ended(result)) => return Ok(Some(*result)),
            Ok(Update::Attached(statuses)) => {
                if let (Some(screen), Some(why)) = (&mut screen, no_gpu_counters(&statuses)) {
                    screen.show_no_gpus(why);
                }
            }
            Ok(Update::Batch(_) | Update::Skipped(_)) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
        if let (Some(screen), Some(explained)) = (&mut screen, explainer.newest()) {
            telemetry.take_findings(&explained.findings);
            screen.show_explained(explained)?;
        }
        if let Some(screen) = &mut screen
            && screen.wants_to_quit()?
        {
            stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Why there are none; told once a trace.
pub(crate) fn no_gpu_counters(statuses: &[ProbeStatus]) -> Option<&str> {
    let absent = |status: &&ProbeStatus| status.target == "nvml" && status.state == ProbeState::Absent;
    statuses.iter().find(absent).map(|status| status.reason.as_str())
}
