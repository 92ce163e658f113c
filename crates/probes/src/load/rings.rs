//! The sharded rings: made here, put into the kernel's array of maps, and read in one go.

use super::budget;
use super::error::LoadError;
use crate::raw::{cuda as raw, read};
use crate::stack::{self, Parts};
use crate::{call, cpu, io, mem, memory, nccl, process, rdma, stream, tcp, wait_event, xid};
use gpuwhy_model::Batch;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, RingBuffer, RingBufferBuilder};
use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;
use std::time::Duration;

/// More shards than this gain nothing: kept calls are few.
const MAX_SHARDS: usize = 8;

/// Rings, and what was read from them and not yet taken.
pub(crate) struct Rings {
    reader: RingBuffer<'static>,
    inbox: Rc<RefCell<Inbox>>,
    pub(crate) shards: usize,
}

impl std::fmt::Debug for Rings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rings").field("shards", &self.shards).finish_non_exhaustive()
    }
}

#[derive(Default)]
pub(crate) struct Inbox {
    batch: Batch,
    parts: Parts,
    clock_offset_ns: u64,
    records: u64,
    undecodable: u64,
}

impl Inbox {
    pub(crate) fn take_record(&mut self, bytes: &[u8]) {
        self.records += 1;
        let Some(head) = read::<raw::record>(bytes) else {
            self.undecodable += 1;
            return;
        };
        let offset = self.clock_offset_ns;
        let taken = match u32::from(head.kind) {
            raw::RECORD_CALL => call::decode(bytes, offset).map(|call| self.batch.calls.push(call)),
            raw::RECORD_CALL_NAMED => call::decode(bytes, offset).map(|mut call| {
                if let Some(address) = call::longer_name_at(bytes) {
                    call.name = memory::text_at(call.pid, address).or(call.name);
                }
                self.batch.calls.push(call);
            }),
            raw::RECORD_NCCL => nccl::decode(bytes, offset).map(|call| self.batch.nccl_calls.push(call)),
            raw::RECORD_STACK_PART => self.parts.take_part(bytes),
            raw::RECORD_STACK => {
                self.parts.decode_stack(bytes, offset).map(|stack| self.batch.raw_stacks.push(stack))
            }
            raw::RECORD_CODE => stack::decode_code(bytes, offset).map(|code| self.batch.raw_codes.push(code)),
            raw::RECORD_PROCESS => {
                process::decode(bytes, offset).map(|event| self.batch.process_events.push(event))
            }
            raw::RECORD_COMPLETION => {
                stream::decode_completion(bytes, offset).map(|done| self.batch.completions.push(done))
            }
            raw::RECORD_CPU_SAMPLE => {
                cpu::decode(bytes, offset).map(|sample| self.batch.cpu_samples.push(sample))
            }
            raw::RECORD_WAIT => {
                wait_event::decode(bytes, offset).map(|wait| self.batch.wait_events.push(wait))
            }
            raw::RECORD_OOM => mem::decode_oom(bytes, offset).map(|kill| self.batch.oom_events.push(kill)),
            raw::RECORD_IO => io::decode(bytes, offset).map(|request| self.batch.io_events.push(request)),
            raw::RECORD_TCP => tcp::decode(bytes, offset).map(|again| self.batch.tcp_events.push(again)),
            raw::RECORD_DEBT => budget::decode(bytes, offset).map(|debt| self.batch.debts.push(debt)),
            raw::RECORD_XID => xid::decode(bytes, offset).map(|error| self.batch.gpu_errors.push(error)),
            raw::RECORD_ASYNC_EVENT => {
                rdma::decode(bytes, offset).map(|event| self.batch.rdma_events.push(event))
            }
            _ => None,
        };
        if taken.is_none() {
            self.undecodable += 1;
        }
    }

    /// Records read so far, and those that made no sense.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.records, self.undecodable)
    }
}

/// How many rings a host of so many CPUs gets: a power of two.
pub(crate) fn shards_for(cpus: usize) -> usize {
    cpus.next_power_of_two().min(MAX_SHARDS)
}

/// One ring's map.
fn create(bytes: u32) -> Result<MapHandle, LoadError> {
    let opts = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
        ..Default::default()
    };
    MapHandle::create(MapType::RingBuf, Some("gpuwhy_ring"), 0, 0, bytes, &opts)
        .map_err(|error| LoadError::load("rings", &error))
}

impl Rings {
    /// Makes so many, puts them in place and reads from them.
    pub(crate) fn make(
        outer: &MapHandle,
        shards: usize,
        bytes: u32,
        clock_offset_ns: u64,
    ) -> Result<Self, LoadError> {
        let inner: Vec<MapHandle> = (0..shards).map(|_| create(bytes)).collect::<Result<_, _>>()?;
        Rings::new(outer, &inner, clock_offset_ns)
    }

    fn new(outer: &MapHandle, rings: &[MapHandle], clock_offset_ns: u64) -> Result<Self, LoadError> {
        let failed = |error: libbpf_rs::Error| LoadError::load("rings", &error);
        let inbox = Rc::new(RefCell::new(Inbox { clock_offset_ns, ..Inbox::default() }));
        let mut builder = RingBufferBuilder::new();
        for (shard, ring) in rings.iter().enumerate() {
            let fd = ring.as_fd().as_raw_fd();
            outer.update(&(shard as u32).to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
            let inbox = Rc::clone(&inbox);
            builder
                .add(ring, move |bytes: &[u8]| {
                    inbox.borrow_mut().take_record(bytes);
                    0
                })
                .map_err(failed)?;
        }
        let reader = builder.build().map_err(failed)?;
        Ok(Rings { reader, inbox, shards: rings.len() })
    }

    /// Waits for a wake-up or the timeout, then reads everything there is.
    pub(crate) fn poll(&self, timeout: Duration) {
        // Interrupted or not: what is there is read below.
        self.reader.poll_raw(timeout);
        self.reader.consume_raw();
    }

    pub(crate) fn ready_fd(&self) -> i32 {
        self.reader.epoll_fd()
    }

    pub(crate) fn take(&self) -> Batch {
        std::mem::take(&mut self.inbox.borrow_mut().batch)
    }

    /// Records read so far, and those that made no sense.
    pub(crate) fn counts(&self) -> (u64, u64) {
        self.inbox.borrow().counts()
    }
}
