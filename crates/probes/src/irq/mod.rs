//! Interrupts and softirqs: time they took from threads on the CPU.

use crate::probe::{Attach, Probe, When};
use crate::raw::bpf_object;

pub(crate) static PROBE: Probe = Probe {
    name: "irq",
    about: "time that interrupts and softirqs took from traced threads on the CPU",
    object: bpf_object!("irq"),
    attach: Attach::Tracepoints(&[
        "irq_handler_entry",
        "irq_handler_exit",
        "softirq_entry",
        "softirq_exit",
        "local_timer_entry",
        "local_timer_exit",
    ]),
    when: When::Default,
    needs: Some("sched"),
    cost: "two short programs at each interrupt and softirq of the host",
};

/// In the kernel's order.
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
/// As in `bpf/interrupt.h`.
const MAX_SOFTIRQS: u32 = 16;
const TIMER_INTERRUPT: u32 = MAX_SOFTIRQS - 1;

/// What an interrupt is called; `number` is the kernel side's, `name` what its handler calls itself.
pub(crate) fn name(number: u32, name: &str) -> String {
    match number.checked_sub(MAX_SOFTIRQS) {
        Some(irq) if name.is_empty() => format!("irq {irq}"),
        Some(_) => format!("irq {name}"),
        None if number == TIMER_INTERRUPT => "irq timer".into(),
        None => format!("softirq {}", SOFTIRQS.get(number as usize).unwrap_or(&"other")),
    }
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn interrupts_have_names() {
        assert_eq!(name(3, ""), "softirq NET_RX");
        assert_eq!(name(14, ""), "softirq other");
        assert_eq!(name(15, ""), "irq timer");
        assert_eq!(name(16 + 24, "virtio0"), "irq virtio0");
        assert_eq!(name(16 + 24, ""), "irq 24");
    }
}
