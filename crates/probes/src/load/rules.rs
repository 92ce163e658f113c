//! The kernel's table of rules: one for each function, numbered by its place in the probes' lists.

use super::error::LoadError;
use crate::probe::{Function, Probe, functions};
use crate::raw::{bytes_of, cuda as raw};
use gpuwhy_model::{OpId, OpInfo};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

/// One in so many ordinary calls is kept as an unbiased sample.
const SAMPLE_HOT: u32 = 1024;
const SAMPLE_OTHER: u32 = 64;

/// A function with its number (the attach cookie) and operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    pub(crate) cookie: u64,
    pub(crate) op: OpId,
    pub(crate) function: &'static Function,
}

pub(crate) fn all(probes: &[&Probe], ops: &[OpInfo]) -> Vec<Rule> {
    functions(probes)
        .zip(1..)
        .filter_map(|(function, cookie)| {
            let op = ops.iter().find(|op| op.name == function.op())?.id;
            Some(Rule { cookie, op, function })
        })
        .collect()
}

/// Writes a rule; `slow_ns` overrides the function's own idea of slow.
pub(crate) fn write(map: &MapHandle, rule: &Rule, slow_ns: u64, keep_all: bool) -> Result<(), LoadError> {
    let args = rule.function.args;
    let sample = if args.flags & raw::RULE_HOT != 0 { SAMPLE_HOT } else { SAMPLE_OTHER };
    let value = raw::rule {
        slow_ns,
        sample_mask: sample - 1,
        benign_ret: rule.function.benign_ret,
        op: rule.op.0,
        // 0 is no layer in the kernel's eyes: an empty frame must not look like a nested call.
        layer: rule.function.layer as u8 + 1,
        flags: args.flags as u8,
        bytes_arg: args.bytes,
        stream_arg: args.stream,
        handle_arg: args.handle,
        keep_all: u8::from(keep_all),
    };
    map.update(&(rule.cookie as u32).to_ne_bytes(), bytes_of(&value), MapFlags::ANY)
        .map_err(|error| LoadError::Internal(format!("rule of {}: {error}", rule.function.symbol)))
}
