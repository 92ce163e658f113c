//! Samples of running code: where followed threads are when a timer interrupts their CPU.

use crate::probe::{Attach, Probe, When};
use crate::raw::{bpf_object, cpu as raw, read};
use gpuwhy_model::{CpuSample, OpId};

pub(crate) static PROBE: Probe = Probe {
    name: "cpu",
    about: "samples of the code that traced threads run, 49 times a second of CPU time: Python frames, native place, system call",
    object: bpf_object!("cpu"),
    attach: Attach::Tracepoints(&["cpu_clock"]),
    when: When::Default,
    needs: Some("sched"),
    cost: "49 timer interrupts a second on each busy CPU, with a task-storage look-up; a few microseconds where a traced thread has it",
};

pub(crate) fn decode(bytes: &[u8], clock_offset_ns: u64) -> Option<CpuSample> {
    let record: raw::cpu_sample_record = read(bytes)?;
    Some(CpuSample {
        time_ns: record.head.time_ns.wrapping_add(clock_offset_ns),
        pid: record.head.tgid,
        tid: record.head.tid,
        cpu: record.head.cpu.into(),
        op: OpId(record.op),
        weight_ns: record.weight_ns,
        in_kernel: record.in_kernel != 0,
        syscall: u32::try_from(record.syscall).ok(),
        collecting: match u32::from(record.collecting) {
            raw::COLLECTING => Some(true),
            raw::COLLECTING_NOT => Some(false),
            _ => None,
        },
        stack_id: None,
        stack_key: record.stack_key,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::bytes_of;

    fn record() -> raw::cpu_sample_record {
        let mut record: raw::cpu_sample_record = read(&[0u8; size_of::<raw::cpu_sample_record>()]).unwrap();
        record.head.time_ns = 1_000;
        record.head.cpu = 3;
        record.head.tgid = 42;
        record.head.tid = 43;
        record.stack_key = 77;
        record.weight_ns = 20_408_163;
        record.op = 5;
        record.in_kernel = 1;
        record.syscall = 202;
        record.collecting = raw::COLLECTING_NOT as u8;
        record
    }

    #[test]
    fn a_golden_record_decodes() {
        let sample = decode(bytes_of(&record()), 5_000).unwrap();
        let expected = CpuSample {
            time_ns: 6_000,
            pid: 42,
            tid: 43,
            cpu: 3,
            op: OpId(5),
            weight_ns: 20_408_163,
            in_kernel: true,
            syscall: Some(202),
            collecting: Some(false),
            stack_id: None,
            stack_key: 77,
        };
        assert_eq!(sample, expected);
    }

    #[test]
    fn no_system_call_and_no_interpreter_decode_to_nothing() {
        let record = raw::cpu_sample_record {
            syscall: -1,
            in_kernel: 0,
            collecting: raw::COLLECTING_UNKNOWN as u8,
            op: 0,
            ..record()
        };
        let sample = decode(bytes_of(&record), 0).unwrap();
        assert_eq!((sample.syscall, sample.in_kernel, sample.collecting), (None, false, None));
        assert_eq!(sample.op, OpId::NONE);
        let record = raw::cpu_sample_record { collecting: raw::COLLECTING as u8, ..record };
        assert_eq!(decode(bytes_of(&record), 0).unwrap().collecting, Some(true));
    }

    #[test]
    fn a_truncated_record_is_rejected() {
        let record = record();
        let bytes = bytes_of(&record);
        assert_eq!(decode(&bytes[..bytes.len() - 1], 0), None);
    }
}
