//! The kernel's table of rules: one for each function, numbered by its place in the probes' lists.

use super::error::LoadError;
use crate::function::{Function, kernel_role};
use crate::probe::Probe;
use crate::raw::{bytes_of, cuda as raw};
use gpuwhy_model::{CallClass, OpId, OpInfo};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

/// One in so many ordinary calls is kept as an unbiased sample.
const SAMPLE_HOT: u32 = 1024;
const SAMPLE_OTHER: u32 = 64;

/// A function with its number (the lower part of the attach cookie), its probe and its operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    pub(crate) number: u16,
    pub(crate) probe: &'static str,
    pub(crate) op: OpId,
    pub(crate) function: &'static Function,
}

impl Rule {
    /// What the function is attached with in a library file.
    pub(crate) fn cookie(&self, library: u16) -> u64 {
        u64::from(self.number) | u64::from(library) << 16
    }
}

pub(crate) fn all(probes: &[&Probe], ops: &[OpInfo]) -> Vec<Rule> {
    probes
        .iter()
        .flat_map(|probe| probe.attach.functions().iter().map(|function| (probe.name, function)))
        .zip(1..)
        .filter_map(|((probe, function), number)| {
            let op = ops.iter().find(|op| op.name == function.op())?.id;
            Some(Rule { number, probe, op, function })
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
        flags: args.flags,
        op: rule.op.0,
        // 0 is no layer in the kernel's eyes: an empty frame must not look like a nested call.
        layer: rule.function.layer as u8 + 1,
        role: kernel_role(rule.function.role) as u8,
        bytes_arg: args.bytes,
        stream_arg: args.stream,
        handle_arg: args.handle,
        aux_arg: args.aux,
        name_arg: args.name,
        direction: args.direction,
        direction_arg: args.direction_arg,
        keep_all: u8::from(keep_all),
        class: rule.function.class().map_or(0, CallClass::number),
        reserved: [0; 7],
    };
    put(map, rule, bytes_of(&value))
}

/// The part that calls of the collective library have besides.
pub(crate) fn write_nccl(map: &MapHandle, rule: &Rule) -> Result<(), LoadError> {
    let nccl = rule.function.nccl;
    let value = crate::raw::nccl::nccl_rule {
        kind: nccl.kind,
        count_arg: nccl.count,
        type_arg: nccl.datatype,
        reduce_arg: nccl.reduce,
        peer_arg: nccl.peer,
        rank_arg: nccl.rank,
        nranks_arg: nccl.nranks,
        id_arg: nccl.id,
    };
    put(map, rule, bytes_of(&value))
}

fn put(map: &MapHandle, rule: &Rule, value: &[u8]) -> Result<(), LoadError> {
    map.update(&u32::from(rule.number).to_ne_bytes(), value, MapFlags::ANY)
        .map_err(|error| LoadError::Internal(format!("rule of {}: {error}", rule.function.symbol)))
}
