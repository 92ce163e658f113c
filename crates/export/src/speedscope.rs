//! speedscope's file format: a sampled profile for each process, threads outermost, whose weights are nanoseconds. Samples are sums over
//! the whole time, so they are in no order of time.

use crate::about::About;
use crate::json::{Commas, string};
use crate::profile::Profile;
use crate::stacks::{Frame, Stacks};
use crate::{ExportError, Exported, Source};
use std::collections::HashMap;
use std::io::Write;

pub(crate) fn write(source: &Source<'_>, out: &mut dyn Write) -> Result<Exported, ExportError> {
    let about = About::of(source)?;
    let profile = Profile::of(source)?;
    let mut stacks = Stacks::default();
    let mut numbers: HashMap<Frame, usize> = HashMap::new();
    let mut frames: Vec<Frame> = Vec::new();
    let mut number = |frame: Frame| {
        *numbers.entry(frame).or_insert_with_key(|frame| {
            frames.push(frame.clone());
            frames.len() - 1
        })
    };
    out.write_all(b"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":")?;
    string(out, &about.exporter)?;
    out.write_all(b",\"name\":")?;
    string(out, &about.trace)?;
    // What the format does not know it leaves alone.
    out.write_all(b",\"gpuwhy\":")?;
    serde_json::to_writer(&mut *out, &about)?;
    out.write_all(b",\"activeProfileIndex\":0,\"profiles\":[")?;
    let mut profiles = Commas::default();
    for pid in profile.pids() {
        let mine = || profile.samples().iter().filter(|(key, sums)| key.pid == pid && sums.ns > 0);
        let total: u64 = mine().map(|(_, sums)| sums.ns).sum();
        profiles.next(out, ",\n")?;
        out.write_all(b"{\"type\":\"sampled\",\"name\":")?;
        string(out, &profile.names.title(pid))?;
        write!(out, ",\"unit\":\"nanoseconds\",\"startValue\":0,\"endValue\":{total},\"samples\":[")?;
        let mut commas = Commas::default();
        for (key, _) in mine() {
            let thread = Frame::word(profile.names.thread_title(key.pid, key.tid));
            let frames = profile.frames(source, &mut stacks, key)?;
            let mut stack: Vec<usize> = [thread].into_iter().chain(frames).map(&mut number).collect();
            stack.push(number(Frame::word(format!("[{}]", key.cause.name()))));
            commas.next(out, ",\n")?;
            serde_json::to_writer(&mut *out, &stack)?;
        }
        out.write_all(b"],\"weights\":[")?;
        let mut commas = Commas::default();
        for (_, sums) in mine() {
            commas.next(out, ",")?;
            write!(out, "{}", sums.ns)?;
        }
        out.write_all(b"]}")?;
    }
    // The frames are known when all stacks are written.
    out.write_all(b"],\"shared\":{\"frames\":[")?;
    let mut commas = Commas::default();
    for frame in &frames {
        commas.next(out, ",\n")?;
        out.write_all(b"{\"name\":")?;
        string(out, &frame.function)?;
        let file = if frame.file.is_empty() { &frame.module } else { &frame.file };
        if !file.is_empty() {
            out.write_all(b",\"file\":")?;
            string(out, file)?;
        }
        if frame.line > 0 {
            write!(out, ",\"line\":{}", frame.line)?;
        }
        out.write_all(b"}")?;
    }
    out.write_all(b"]}}\n")?;
    Ok(profile.exported)
}
