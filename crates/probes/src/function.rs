//! A probed function: where its arguments are and what its calls mean. Tables are written with the builder
//! methods here.

use crate::probe::Library;
use crate::raw::{cuda as raw, nccl as raw_nccl};
use gpuwhy_model::{CallClass, Family, Layer, Role};

const MICROSECOND: u64 = 1_000;
/// `cudaErrorNotReady`, `CUDA_ERROR_NOT_READY` and `hipErrorNotReady`: a query's ordinary answer.
const NOT_READY: i32 = 600;

/// Where an argument's value is found; numbers count from 1, 0 is none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Args {
    pub(crate) bytes: u8,
    pub(crate) stream: u8,
    pub(crate) handle: u8,
    pub(crate) aux: u8,
    pub(crate) name: u8,
    /// `enum direction` in `bpf/rule.h`, or the argument that tells.
    pub(crate) direction: u8,
    pub(crate) direction_arg: u8,
    /// Bits of `enum rule_flags` in `bpf/rule.h`.
    pub(crate) flags: u32,
}

/// The arguments only calls of the collective library have; see `struct nccl_rule`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NcclArgs {
    pub(crate) kind: u8,
    pub(crate) count: u8,
    pub(crate) datatype: u8,
    pub(crate) reduce: u8,
    pub(crate) peer: u8,
    pub(crate) rank: u8,
    pub(crate) nranks: u8,
    pub(crate) id: u8,
}

/// One exported function, or one device file's ioctls.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    pub symbol: &'static str,
    pub library: Library,
    pub layer: Layer,
    pub family: Family,
    pub role: Role,
    pub waits_for_gpu: bool,
    pub(crate) args: Args,
    pub(crate) nccl: NcclArgs,
    /// A return value besides 0 that is no error.
    pub benign_ret: i32,
    /// Slower than this is kept until the agent has seen enough to say what is slow here.
    pub slow_ns: u64,
}

impl Function {
    pub(crate) const fn new(library: Library, layer: Layer, symbol: &'static str, family: Family) -> Self {
        Function {
            symbol,
            library,
            layer,
            family,
            role: Role::None,
            waits_for_gpu: false,
            args: Args {
                bytes: 0,
                stream: 0,
                handle: 0,
                aux: 0,
                name: 0,
                direction: 0,
                direction_arg: 0,
                flags: if has_thread_stream(symbol) { raw::RULE_THREAD_STREAM } else { 0 },
            },
            nccl: NcclArgs { kind: 0, count: 0, datatype: 0, reduce: 0, peer: 0, rank: 0, nranks: 0, id: 0 },
            benign_ret: 0,
            slow_ns: 200 * MICROSECOND,
        }
    }

    pub fn op(&self) -> &'static str {
        op_of_symbol(self.symbol)
    }

    pub(crate) const fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    pub(crate) const fn bytes(mut self, number: u8) -> Self {
        self.args.bytes = number;
        self.reaching(number)
    }

    /// Bytes are the product of this argument and the next: width and height.
    pub(crate) const fn area(self, number: u8) -> Self {
        self.bytes(number).with(raw::RULE_BYTES_PRODUCT)
    }

    /// The same with a pitch that the call finds: `(pointer, pitch, width, height)`.
    pub(crate) const fn pitched(self) -> Self {
        self.area(3).with(raw::RULE_BYTES_PITCH)
    }

    /// The argument counts words of four bytes.
    pub(crate) const fn words(self, number: u8) -> Self {
        self.bytes(number).with(raw::RULE_BYTES_WORDS)
    }

    pub(crate) const fn stream(mut self, number: u8) -> Self {
        self.args.stream = number;
        self.reaching(number)
    }

    pub(crate) const fn handle(mut self, number: u8) -> Self {
        self.args.handle = number;
        self.reaching(number)
    }

    /// The argument points to where the call puts the handle.
    pub(crate) const fn handle_out(self, number: u8) -> Self {
        self.handle(number).with(raw::RULE_HANDLE_OUT)
    }

    pub(crate) const fn aux(mut self, number: u8) -> Self {
        self.args.aux = number;
        self.reaching(number)
    }

    /// The argument points to it.
    pub(crate) const fn aux_out(self, number: u8) -> Self {
        self.aux(number).with(raw::RULE_AUX_OUT)
    }

    pub(crate) const fn name(mut self, number: u8) -> Self {
        self.args.name = number;
        self
    }

    /// A copy that goes where its name says.
    pub(crate) const fn goes(mut self, direction: u32) -> Self {
        self.args.direction = direction as u8;
        self
    }

    /// A copy that goes where an argument says.
    pub(crate) const fn kind(mut self, number: u8) -> Self {
        self.args.direction_arg = number;
        self.reaching(number)
    }

    pub(crate) const fn with(mut self, flag: u32) -> Self {
        self.args.flags |= flag;
        self
    }

    /// Every call of it reaches the ledger.
    pub(crate) const fn state(self) -> Self {
        self.with(raw::RULE_STATE)
    }

    pub(crate) const fn waits(mut self) -> Self {
        self.waits_for_gpu = true;
        self.slow_ns = 1_000 * MICROSECOND;
        self.with(raw::RULE_WAITS)
    }

    pub(crate) const fn slow(mut self, microseconds: u64) -> Self {
        self.slow_ns = microseconds * MICROSECOND;
        self
    }

    pub(crate) const fn query(self) -> Self {
        self.benign(NOT_READY).hot()
    }

    pub(crate) const fn benign(mut self, ret: i32) -> Self {
        self.benign_ret = ret;
        self
    }

    /// With which others it is attached and detached, where it may be watched in slices.
    pub(crate) fn class(&self) -> Option<CallClass> {
        CallClass::of(self.family, self.role)
    }

    pub(crate) const fn hot(self) -> Self {
        self.with(raw::RULE_HOT)
    }

    pub(crate) const fn nccl(mut self, kind: u32) -> Self {
        self.nccl.kind = kind as u8;
        self
    }

    /// Arguments from the 7th on are on the stack.
    const fn reaching(self, number: u8) -> Self {
        if number > 6 { self.with(raw::RULE_STACK_ARGS) } else { self }
    }
}

/// Where stream 0 means the thread's own: CUDA's `_ptsz` and `_ptds`, HIP's `_spt`.
const fn has_thread_stream(symbol: &str) -> bool {
    let bytes = symbol.as_bytes();
    let len = bytes.len();
    len > 5
        && ((bytes[len - 5] == b'_' && bytes[len - 4] == b'p' && bytes[len - 3] == b't')
            || (bytes[len - 4] == b'_'
                && bytes[len - 3] == b's'
                && bytes[len - 2] == b'p'
                && bytes[len - 1] == b't'))
}

/// The operation a function is: its symbol less version and per-thread-stream suffixes, which users never type.
pub fn op_of_symbol(symbol: &str) -> &str {
    ["_ptsz", "_ptds", "_spt", "_v2", "_v3", "_v4"]
        .iter()
        .fold(symbol, |name, suffix| name.strip_suffix(suffix).unwrap_or(name))
}

/// What the kernel must know of a role.
pub(crate) const fn kernel_role(role: Role) -> u32 {
    match role {
        Role::Launch => raw::ROLE_LAUNCH,
        Role::GraphLaunch => raw::ROLE_GRAPH_LAUNCH,
        Role::Submit => raw::ROLE_SUBMIT,
        Role::SyncStream => raw::ROLE_SYNC_STREAM,
        Role::SyncEvent => raw::ROLE_SYNC_EVENT,
        Role::SyncDevice => raw::ROLE_SYNC_DEVICE,
        Role::EventRecord => raw::ROLE_EVENT_RECORD,
        Role::EventQuery => raw::ROLE_EVENT_QUERY,
        Role::StreamQuery => raw::ROLE_STREAM_QUERY,
        Role::StreamWait => raw::ROLE_STREAM_WAIT,
        Role::CaptureBegin => raw::ROLE_CAPTURE_BEGIN,
        Role::CaptureEnd => raw::ROLE_CAPTURE_END,
        Role::SetDevice => raw::ROLE_SET_DEVICE,
        Role::Register => raw::ROLE_REGISTER,
        _ => raw::ROLE_NONE,
    }
}

const _: () = assert!(raw_nccl::NCCL_OTHER == 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_no_part_of_an_operation() {
        assert_eq!(op_of_symbol("cuMemcpyHtoDAsync_v2_ptsz"), "cuMemcpyHtoDAsync");
        assert_eq!(op_of_symbol("cuCtxCreate_v4"), "cuCtxCreate");
        assert!(has_thread_stream("cuLaunchKernel_ptsz") && has_thread_stream("cudaMemcpy_ptds"));
        assert!(has_thread_stream("hipLaunchKernel_spt") && !has_thread_stream("cuMemAlloc_v2"));
        assert_eq!(op_of_symbol("hipLaunchKernel_spt"), "hipLaunchKernel");
    }
}
