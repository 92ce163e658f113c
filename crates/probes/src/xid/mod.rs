//! Xid errors of NVIDIA GPUs.

use crate::probe::{Attach, Probe, When};
use crate::raw::{bpf_object, read, text, xid as raw};
use gpuwhy_model::GpuError;

pub(crate) static PROBE: Probe = Probe {
    name: "xid",
    about: "errors the NVIDIA driver reports (Xid), with its own words",
    object: bpf_object!("xid"),
    attach: Attach::Tracepoints(&["nvidia_dev_xid"]),
    when: When::Default,
    needs: None,
    cost: "nothing until one happens",
};

pub(crate) fn decode(bytes: &[u8], clock_offset_ns: u64) -> Option<GpuError> {
    let record: raw::xid_record = read(bytes)?;
    let message = text(&record.message);
    Some(GpuError {
        time_ns: record.head.time_ns.wrapping_add(clock_offset_ns),
        event: "xid".into(),
        gpu: None,
        uuid: String::new(),
        device: text(&record.device),
        code: record.code.into(),
        pid: pid_in(&message),
        message,
        source: "tracepoint".into(),
    })
}

/// The driver's words name the process: `pid=4242, name=python, ...`, or `'<unknown>'`.
fn pid_in(message: &str) -> Option<u32> {
    let rest = message.split("pid=").nth(1)?;
    let digits: String =
        rest.trim_start_matches(['\'', '"']).chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|pid| *pid != 0)
}

#[cfg(test)]
mod tests {
    use super::pid_in;

    #[test]
    fn the_process_is_found_in_the_drivers_words() {
        assert_eq!(pid_in("pid=4242, name=python, Ch 00000008"), Some(4242));
        assert_eq!(pid_in("pid='<unknown>', name=<unknown>, GPU has fallen off the bus."), None);
        assert_eq!(pid_in("no process"), None);
    }
}
