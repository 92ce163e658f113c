//! What a kept call says beside its name and time.

use super::Arg;
use crate::names::Names;
use gpuwhy_model::{Call, Family, OpInfo, Part};
use std::borrow::Cow;

/// Zero is nothing.
pub(super) fn args<'a>(
    call: &Call,
    op: Option<&OpInfo>,
    names: &'a Names,
    blame: bool,
    args: &mut Vec<(&'static str, Arg<'a>)>,
) {
    let mut integer = |name: &'static str, value: i64| {
        if value != 0 {
            args.push((name, Arg::Integer(value)));
        }
    };
    if blame {
        for (part, ns) in call.blame.parts() {
            let name = match part {
                Part::OnCpu => "oncpu_ns",
                Part::Runnable => "runq_ns",
                Part::Blocked(reason) => reason.column(),
            };
            integer(name, ns as i64);
        }
    }
    integer("bytes", call.bytes as i64);
    integer("ret", call.ret.into());
    integer("sample_weight", call.sample_weight.into());
    if let Some(launch) = call.launch {
        let names = ["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"];
        for (name, value) in names.into_iter().zip(launch.grid.into_iter().chain(launch.block)) {
            integer(name, value.into());
        }
        integer("shared_bytes", launch.shared_bytes.into());
    }
    if let Some(gpu) = call.device {
        args.push(("gpu", Arg::Integer(gpu.into())));
    }
    let mut text = |name: &'static str, value: Option<&'a str>| {
        if let Some(value) = value {
            args.push((name, Arg::Text(Cow::Borrowed(value))));
        }
    };
    text("kept", Some(call.kept.name()));
    text("via", call.via.map(gpuwhy_model::Via::name));
    text("direction", call.direction.map(gpuwhy_model::Direction::name));
    if op.is_some_and(|op| op.family == Family::Launch) {
        text("kernel", names.kernel(call.pid, call.handle));
    }
    text("library", names.library(call.library));
    for (name, value) in [("stream", call.stream), ("handle", call.handle)] {
        if value != 0 {
            args.push((name, Arg::Hex(value)));
        }
    }
}
