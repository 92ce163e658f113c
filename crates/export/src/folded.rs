//! Folded stacks, as flame graph programs read them: process, thread, frames from the outermost, `;` between them, a space, a
//! number. The number is nanoseconds; the last frame is what they went to.

use crate::profile::Profile;
use crate::stacks::{Frame, Stacks};
use crate::{ExportError, Exported, Source};
use std::collections::BTreeMap;
use std::io::Write;

pub(crate) fn write(source: &Source<'_>, out: &mut dyn Write) -> Result<Exported, ExportError> {
    let profile = Profile::of(source)?;
    let mut stacks = Stacks::default();
    // Stacks that differ only in addresses are one line.
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for (key, sums) in profile.samples().iter().filter(|(_, sums)| sums.ns > 0) {
        let mut line = word(&profile.names.title(key.pid));
        line.push(';');
        line.push_str(&word(&profile.names.thread_title(key.pid, key.tid)));
        for frame in profile.frames(source, &mut stacks, key)? {
            line.push(';');
            line.push_str(&word(&label(&frame)));
        }
        line.push_str(&format!(";[{}]", key.cause.name()));
        *lines.entry(line).or_default() += sums.ns;
    }
    for (line, ns) in lines {
        writeln!(out, "{line} {ns}")?;
    }
    Ok(profile.exported)
}

/// As `forward (train.py:142)`.
fn label(frame: &Frame) -> String {
    match frame.line {
        0 => frame.function.clone(),
        line => {
            format!("{} ({}:{line})", frame.function, frame.file.rsplit('/').next().unwrap_or_default())
        }
    }
}

/// What separates frames is no part of one.
fn word(text: &str) -> String {
    text.replace(';', ":")
}
