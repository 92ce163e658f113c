//! Waits that are told of one by one.

use crate::raw::{read, sched as raw, text};
use gpuwhy_model::{Ends, FileRef, OpId, Part, Reason, WaitEvent, WokenBy};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) fn decode(bytes: &[u8], clock_offset_ns: u64) -> Option<WaitEvent> {
    let record: raw::wait_record = read(bytes)?;
    let part = part_of(record.part);
    let blocked = !matches!(part, Part::Runnable | Part::Blocked(Reason::Throttled | Reason::Fault));
    Some(WaitEvent {
        start_ns: record.head.time_ns.wrapping_add(clock_offset_ns),
        duration_ns: record.duration_ns,
        pid: record.head.tgid,
        tid: record.head.tid,
        cgroup_id: record.head.cgroup_id,
        op: OpId(record.op),
        part,
        by_pid: record.by.tgid,
        by_tid: if record.by.tgid == 0 { 0 } else { record.by.tid },
        by_comm: text(&record.by.comm),
        cpu: record.head.cpu.into(),
        target_cpu: record.target_cpu,
        node: record.node,
        address: record.address,
        file: (record.fd >= 0).then(|| FileRef {
            fd: record.fd,
            device: device_of(record.device),
            device_name: None,
            inode: record.inode,
            path: None,
        }),
        socket: (record.ends.family != 0).then(|| decode_ends(&record.ends)),
        syscall: blocked.then_some(record.syscall).filter(|nr| *nr != u32::MAX),
        woken_by: woken_by(record.woken_by),
    })
}

fn woken_by(number: u32) -> Option<WokenBy> {
    WokenBy::ALL.get(number.checked_sub(raw::WOKEN_BY_TASK)? as usize).copied()
}

pub(crate) fn part_of(number: u16) -> Part {
    match Reason::ALL.get(usize::from(number)) {
        Some(reason) => Part::Blocked(*reason),
        None if usize::from(number) == Reason::COUNT => Part::Runnable,
        None => Part::OnCpu,
    }
}

/// Major and minor of the kernel's number.
pub(crate) fn device_of(number: u32) -> (u32, u32) {
    const MINOR_BITS: u32 = 20;
    (number >> MINOR_BITS, number & ((1 << MINOR_BITS) - 1))
}

pub(crate) fn decode_ends(ends: &raw::ends) -> Ends {
    let family = i32::from(ends.family);
    let address = |bytes: [u8; 16]| match family {
        libc::AF_INET => Some(IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))),
        libc::AF_INET6 => Some(readable(Ipv6Addr::from(bytes))),
        _ => None,
    };
    let protocol = match (family, i32::from(ends.protocol)) {
        (libc::AF_UNIX, _) => "unix",
        (libc::AF_NETLINK, _) => "netlink",
        (_, libc::IPPROTO_TCP) => "tcp",
        (_, libc::IPPROTO_UDP) => "udp",
        (_, libc::IPPROTO_MPTCP) => "mptcp",
        _ => "other",
    };
    Ends {
        protocol: protocol.into(),
        local: address(ends.local),
        remote: address(ends.remote),
        local_port: ends.local_port,
        remote_port: ends.remote_port,
        state: match protocol {
            "tcp" => TCP_STATES.get(ends.state as usize).copied().unwrap_or_default().into(),
            _ => String::new(),
        },
    }
}

/// An IPv4 peer of a socket that speaks both is shown as what it is.
fn readable(address: Ipv6Addr) -> IpAddr {
    address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
}

/// In the kernel's order, from 1.
const TCP_STATES: [&str; 13] = [
    "",
    "ESTABLISHED",
    "SYN_SENT",
    "SYN_RECV",
    "FIN_WAIT1",
    "FIN_WAIT2",
    "TIME_WAIT",
    "CLOSE",
    "CLOSE_WAIT",
    "LAST_ACK",
    "LISTEN",
    "CLOSING",
    "NEW_SYN_RECV",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_are_read() {
        let mut ends: raw::ends = read(&[0u8; size_of::<raw::ends>()]).unwrap();
        ends.family = libc::AF_INET as u16;
        ends.protocol = libc::IPPROTO_TCP as u16;
        ends.local[..4].copy_from_slice(&[10, 0, 0, 1]);
        ends.state = 1;
        let v4 = decode_ends(&ends);
        assert_eq!((v4.local, v4.state.as_str()), (Some("10.0.0.1".parse().unwrap()), "ESTABLISHED"));
        ends.family = libc::AF_INET6 as u16;
        ends.local = "fd00::1".parse::<Ipv6Addr>().unwrap().octets();
        ends.remote = "::ffff:10.0.0.2".parse::<Ipv6Addr>().unwrap().octets();
        let v6 = decode_ends(&ends);
        assert_eq!(v6.local, Some("fd00::1".parse().unwrap()));
        assert_eq!(v6.remote, Some("10.0.0.2".parse().unwrap()));
    }

    #[test]
    fn what_ended_a_wait_has_the_kernels_order() {
        assert_eq!(woken_by(raw::WOKEN_UNKNOWN), None);
        assert_eq!(woken_by(raw::WOKEN_BY_TASK), Some(WokenBy::Task));
        assert_eq!(woken_by(raw::WOKEN_BY_TIMER), Some(WokenBy::Timer));
        assert_eq!(woken_by(raw::WOKEN_BY_INTERRUPT), Some(WokenBy::Interrupt));
        assert_eq!(woken_by(raw::WOKEN_BY_INTERRUPT + 1), None);
    }

    #[test]
    fn devices_have_two_numbers() {
        assert_eq!(device_of(254 << 20 | 3), (254, 3));
    }
}
