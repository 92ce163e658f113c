//! Calls that have not returned.

use super::Engine;
use crate::{inflight, raw};
use gpuwhy_model::{BetweenCalls, CallClass, InFlight, Layer, ThreadPlace, ThreadRegisters};
use libbpf_rs::{Iter, MapCore, MapFlags};
use std::collections::HashMap;
use std::io::Read;

impl Engine {
    /// All calls that have not returned, but those that wait for as long as all is well. Nothing where the kernel cannot
    /// tell.
    pub fn in_flight(&self) -> Option<Vec<InFlight>> {
        let mut bytes = Vec::new();
        Iter::new(self.walks.get("each_task")?).ok()?.read_to_end(&mut bytes).ok()?;
        let function =
            |number: u16| self.rules.iter().find(|rule| rule.number == number).map(|rule| rule.function);
        let mut calls: Vec<InFlight> = bytes
            .chunks_exact(inflight::RECORD_BYTES)
            .filter_map(|record| inflight::decode(record, self.clock_offset_ns, function))
            .collect();
        calls.retain(|call| {
            // What returned while nothing was attached is not in flight any more.
            let gone_ns = |op| CallClass::of_op(op).and_then(|class| self.gone_ns.get(&class)).copied();
            self.ops.iter().any(|op| {
                op.id == call.op
                    && !matches!(op.layer, Layer::Rdma | Layer::Driver)
                    && call.start_ns >= gone_ns(op).unwrap_or(0)
            })
        });
        if calls.iter().any(|call| call.communicator != 0) {
            let known = self.communicators();
            for call in &mut calls {
                if let Some(communicator) = known.get(&call.communicator) {
                    call.comm_id_hash = Some(communicator.hash).filter(|hash| *hash != 0);
                    call.rank = Some(communicator.rank).filter(|rank| *rank >= 0);
                    call.nranks = Some(communicator.nranks).filter(|ranks| *ranks >= 0);
                }
            }
        }
        Some(calls)
    }

    /// Threads that make GPU calls and are in none just now; empty where the kernel cannot tell.
    pub fn between_calls(&self) -> Vec<BetweenCalls> {
        let mut threads = self.followed_threads();
        threads.retain(BetweenCalls::is_between_calls);
        threads
    }

    /// All followed threads but those that run in a GPU call or are idle; empty where the kernel cannot tell.
    pub fn followed_threads(&self) -> Vec<BetweenCalls> {
        let decode = |record: &[u8]| inflight::decode_between(record, self.clock_offset_ns);
        self.walk("each_between", inflight::BETWEEN_BYTES, decode)
    }

    /// Where threads that make GPU calls were in user space when they last came into the kernel; empty where the kernel
    /// cannot tell.
    pub fn registers(&self) -> Vec<ThreadRegisters> {
        self.walk("each_registers", inflight::REGISTERS_BYTES, inflight::decode_registers)
    }

    fn walk<T>(&self, name: &str, bytes: usize, decode: impl Fn(&[u8]) -> Option<T>) -> Vec<T> {
        let mut read = Vec::new();
        let walk = self.walks.get(name).and_then(|walk| Iter::new(walk).ok());
        match walk.map(|mut walk| walk.read_to_end(&mut read)) {
            Some(Ok(_)) => read.chunks_exact(bytes).filter_map(decode).collect(),
            _ => Vec::new(),
        }
    }

    /// Where all followed threads run; empty where the kernel cannot tell.
    pub fn thread_places(&self) -> Vec<ThreadPlace> {
        self.walk("each_place", inflight::PLACE_BYTES, inflight::decode_place)
    }

    /// By the kernel's number.
    fn communicators(&self) -> HashMap<u64, raw::nccl::communicator> {
        let Ok(map) = self.maps.get("communicators") else { return HashMap::new() };
        map.keys()
            .filter_map(|key| raw::read::<raw::nccl::communicator>(&map.lookup(&key, MapFlags::ANY).ok()??))
            .map(|communicator| (communicator.number, communicator))
            .collect()
    }
}
