//! pprof's format: a gzipped message with calls and time by stack, and labels to divide them by.

mod messages;

use crate::about::About;
use crate::profile::{self, Key, Sums};
use crate::stacks::{Frame, Stacks};
use crate::{ExportError, Exported, Source};
use flate2::Compression;
use flate2::write::GzEncoder;
use messages::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};
use prost::Message;
use std::collections::HashMap;
use std::io::Write;

pub(crate) fn write(source: &Source<'_>, out: &mut dyn Write) -> Result<Exported, ExportError> {
    let about = About::of(source)?;
    let summed = profile::Profile::of(source)?;
    let mut stacks = Stacks::default();
    let mut build = Build::default();
    // The format wants the empty text first.
    build.text("");
    let types = [("calls", "count"), ("time", "nanoseconds")];
    for (kind, unit) in types {
        let value = ValueType { r#type: build.text(kind), unit: build.text(unit) };
        build.profile.sample_type.push(value);
    }
    build.profile.default_sample_type = build.text("time");
    build.profile.time_nanos = about.start_ns as i64;
    build.profile.duration_nanos = about.end_ns.saturating_sub(about.start_ns) as i64;
    for (key, text) in about.lines() {
        let comment = build.text(&format!("{key}: {text}"));
        build.profile.comment.push(comment);
    }
    for (key, sums) in summed.samples() {
        let frames = summed.frames(source, &mut stacks, key)?;
        let comm = summed.names.comm(key.pid);
        let labels = [
            ("op", summed.op(key)),
            ("comm", comm),
            ("thread", summed.names.thread(key.pid, key.tid).unwrap_or(comm)),
            ("cause", key.cause.name()),
        ];
        build.sample(key, *sums, &frames, &labels);
    }
    let mut gzip = GzEncoder::new(out, Compression::fast());
    gzip.write_all(&build.profile.encode_to_vec())?;
    gzip.finish()?;
    Ok(summed.exported)
}

/// A profile while it grows: what it has is found again.
#[derive(Debug, Default)]
struct Build {
    profile: Profile,
    texts: HashMap<String, i64>,
    mappings: HashMap<String, u64>,
    functions: HashMap<(i64, i64), u64>,
    locations: HashMap<Frame, u64>,
}

impl Build {
    fn text(&mut self, text: &str) -> i64 {
        if let Some(place) = self.texts.get(text) {
            return *place;
        }
        let place = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_string());
        self.texts.insert(text.to_string(), place);
        place
    }

    fn sample(&mut self, key: &Key, sums: Sums, frames: &[Frame], labels: &[(&str, &str)]) {
        let location_id = frames.iter().rev().map(|frame| self.location(frame)).collect();
        let mut label: Vec<Label> = labels
            .iter()
            .map(|(key, value)| Label { key: self.text(key), str: self.text(value), num: 0 })
            .collect();
        for (name, id) in [("pid", key.pid), ("tid", key.tid)] {
            label.push(Label { key: self.text(name), str: 0, num: id.into() });
        }
        let value = vec![sums.calls as i64, sums.ns as i64];
        self.profile.sample.push(Sample { location_id, value, label });
    }

    fn location(&mut self, frame: &Frame) -> u64 {
        if let Some(id) = self.locations.get(frame) {
            return *id;
        }
        let id = self.profile.location.len() as u64 + 1;
        self.locations.insert(frame.clone(), id);
        let function_id = self.function(frame);
        let mapping_id = self.mapping(&frame.module);
        let line = vec![Line { function_id, line: frame.line.into() }];
        self.profile.location.push(Location { id, mapping_id, address: frame.address, line });
        id
    }

    fn function(&mut self, frame: &Frame) -> u64 {
        let (name, filename) = (self.text(&frame.function), self.text(&frame.file));
        let next = self.profile.function.len() as u64 + 1;
        *self.functions.entry((name, filename)).or_insert_with(|| {
            self.profile.function.push(Function { id: next, name, system_name: name, filename });
            next
        })
    }

    /// None for Python.
    fn mapping(&mut self, module: &str) -> u64 {
        if module.is_empty() {
            return 0;
        }
        if let Some(id) = self.mappings.get(module) {
            return *id;
        }
        let id = self.profile.mapping.len() as u64 + 1;
        let filename = self.text(module);
        self.profile.mapping.push(Mapping {
            id,
            filename,
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
        });
        self.mappings.insert(module.to_string(), id);
        id
    }
}
