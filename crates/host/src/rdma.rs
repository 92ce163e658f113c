//! Counters of RDMA ports (InfiniBand, RoCE, EFA), as the kernel lists them below /sys/class/infiniband.

use gpuwhy_model::RdmaEvent;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Traffic that is told of, in words of 4 bytes: enough to see a port at its limit.
const TRAFFIC_COUNTERS: &[&str] = &["port_xmit_data", "port_rcv_data"];

/// Parts of names that speak of errors or congestion, in any driver's spelling.
const TROUBLE: &[&str] = &[
    "err",
    "retrans",
    "discard",
    "drop",
    "cnp",
    "ecn",
    "nak",
    "timeout",
    "wait",
    "exceed",
    "overrun",
    "fail",
    "down",
    "out_of",
    "duplicate",
    "no_completion",
    "unresponsive",
];

/// Parts of names that speak of traffic, or of what exists now.
const TRAFFIC: &[&str] = &[
    "data",
    "bytes",
    "octets",
    "packets",
    "pkts",
    "segs",
    "requests",
    "_req",
    "_wrs",
    "reads",
    "writes",
    "sends",
    "atomics",
    "cmds",
    "connect",
    "keep_alive",
    "active_",
    "watermark",
    "lifespan",
];

/// One counter: device, port where it is of one, name.
type Key = (String, Option<u32>, String);

/// Tells which counters rose between two readings.
#[derive(Debug)]
pub struct RdmaMeter {
    root: PathBuf,
    last: HashMap<Key, u64>,
    ports: usize,
}

impl RdmaMeter {
    pub fn new(root: &Path) -> RdmaMeter {
        RdmaMeter { root: root.to_path_buf(), last: HashMap::new(), ports: 0 }
    }

    /// An event for each counter that rose. A counter seen for the first time is where its counting starts.
    pub fn read(&mut self, now_ns: u64) -> Vec<RdmaEvent> {
        let mut counters = HashMap::new();
        self.ports = 0;
        for (device, folder) in entries(&self.root) {
            // Some drivers count by device, some by port.
            read_folder(&mut counters, &device, None, &folder.join("hw_counters"));
            for (port, folder) in entries(&folder.join("ports")) {
                let Ok(port) = port.parse() else { continue };
                self.ports += 1;
                read_folder(&mut counters, &device, Some(port), &folder.join("counters"));
                read_folder(&mut counters, &device, Some(port), &folder.join("hw_counters"));
            }
        }
        let mut rose: Vec<RdmaEvent> = counters
            .iter()
            .filter_map(|(key, value)| Some((key, *value, delta(*self.last.get(key)?, *value)?)))
            .map(|((device, port, counter), value, delta)| RdmaEvent {
                time_ns: now_ns,
                event: "counter".to_string(),
                device: device.clone(),
                port: *port,
                counter: counter.clone(),
                value: Some(value),
                delta: Some(delta),
                pid: None,
                tid: None,
            })
            .collect();
        rose.sort_by(|one, other| {
            (&one.device, one.port, &one.counter).cmp(&(&other.device, other.port, &other.counter))
        });
        self.last = counters;
        rose
    }

    /// Ports at the last reading.
    pub fn ports(&self) -> usize {
        self.ports
    }
}

/// By how much a counter rose, if it did. One that went back was reset, and counts from 0.
fn delta(before: u64, now: u64) -> Option<u64> {
    Some(now.checked_sub(before).unwrap_or(now)).filter(|delta| *delta > 0)
}

/// Whether a counter is worth an event: everything but traffic, since a name nobody foresaw may be an error's.
fn is_reported(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let speaks_of = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    TRAFFIC_COUNTERS.contains(&name.as_str()) || speaks_of(TROUBLE) || !speaks_of(TRAFFIC)
}

fn read_folder(counters: &mut HashMap<Key, u64>, device: &str, port: Option<u32>, folder: &Path) {
    for (name, path) in entries(folder) {
        // Each file read asks the card, so what will not be told is not read.
        if !is_reported(&name) {
            continue;
        }
        let Ok(text) = fs::read_to_string(&path) else { continue };
        // Not all are numbers: a card without a counter says `N/A (no PMA)`.
        let Ok(value) = text.trim().parse() else { continue };
        counters.insert((device.to_string(), port, name), value);
    }
}

/// Names and paths in a folder; none where there is no such folder.
fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let Ok(folder) = fs::read_dir(folder) else { return Vec::new() };
    folder
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.file_name().into_string().ok()?, entry.path()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Device, port, counter, value and delta of each event.
    fn read(meter: &mut RdmaMeter) -> Vec<(String, Option<u32>, String, u64, u64)> {
        meter
            .read(7)
            .into_iter()
            .inspect(|event| assert_eq!((event.time_ns, event.event.as_str()), (7, "counter")))
            .map(|event| {
                (event.device, event.port, event.counter, event.value.unwrap(), event.delta.unwrap())
            })
            .collect()
    }

    fn rose(
        device: &str,
        port: Option<u32>,
        counter: &str,
        value: u64,
        delta: u64,
    ) -> (String, Option<u32>, String, u64, u64) {
        (device.to_string(), port, counter.to_string(), value, delta)
    }

    #[test]
    fn counters_that_rose_are_told() {
        let root = tempfile::tempdir().unwrap();
        let port = "mlx5_0/ports/1";
        write(root.path(), &format!("{port}/counters/port_xmit_data"), "1000\n");
        write(root.path(), &format!("{port}/counters/port_xmit_packets"), "10\n");
        write(root.path(), &format!("{port}/counters/symbol_error"), "3\n");
        write(root.path(), &format!("{port}/counters/VL15_dropped"), "N/A (no PMA)\n");
        write(root.path(), &format!("{port}/hw_counters/np_cnp_sent"), "0\n");
        write(root.path(), &format!("{port}/hw_counters/lifespan"), "10\n");
        write(root.path(), "efa_0/hw_counters/retrans_pkts", "5\n");
        let mut meter = RdmaMeter::new(root.path());
        assert!(read(&mut meter).is_empty(), "the first reading is where counting starts");
        assert_eq!(meter.ports(), 1);
        assert!(read(&mut meter).is_empty(), "nothing rose");

        write(root.path(), &format!("{port}/counters/port_xmit_data"), "5000\n");
        write(root.path(), &format!("{port}/counters/port_xmit_packets"), "50\n");
        write(root.path(), &format!("{port}/hw_counters/np_cnp_sent"), "2\n");
        write(root.path(), &format!("{port}/hw_counters/lifespan"), "20\n");
        write(root.path(), "efa_0/hw_counters/retrans_pkts", "6\n");
        assert_eq!(
            read(&mut meter),
            [
                rose("efa_0", None, "retrans_pkts", 6, 1),
                rose("mlx5_0", Some(1), "np_cnp_sent", 2, 2),
                rose("mlx5_0", Some(1), "port_xmit_data", 5000, 4000),
            ]
        );
    }

    #[test]
    fn a_counter_that_was_reset_counts_from_zero() {
        let root = tempfile::tempdir().unwrap();
        let counter = "mlx5_0/ports/1/counters/link_downed";
        write(root.path(), counter, "9");
        let mut meter = RdmaMeter::new(root.path());
        read(&mut meter);
        write(root.path(), counter, "2");
        assert_eq!(read(&mut meter), [rose("mlx5_0", Some(1), "link_downed", 2, 2)]);
        write(root.path(), counter, "0");
        assert!(read(&mut meter).is_empty());
    }

    #[test]
    fn devices_come_and_go() {
        let root = tempfile::tempdir().unwrap();
        let mut meter = RdmaMeter::new(&root.path().join("absent"));
        assert!(read(&mut meter).is_empty());
        assert_eq!(meter.ports(), 0);

        let mut meter = RdmaMeter::new(root.path());
        read(&mut meter);
        write(root.path(), "mlx5_1/ports/1/counters/symbol_error", "4");
        write(root.path(), "mlx5_1/ports/2/counters/symbol_error", "4");
        assert!(read(&mut meter).is_empty(), "a new device's counters start where they are");
        assert_eq!(meter.ports(), 2);
        fs::remove_dir_all(root.path().join("mlx5_1")).unwrap();
        assert!(read(&mut meter).is_empty());
        write(root.path(), "mlx5_1/ports/1/counters/symbol_error", "1");
        assert!(read(&mut meter).is_empty());
        assert_eq!(meter.ports(), 1);
    }

    #[test]
    fn errors_and_congestion_are_told_and_traffic_is_not() {
        for name in [
            "port_xmit_data",
            "port_rcv_data",
            "port_rcv_errors",
            "port_xmit_discards",
            "port_xmit_wait",
            "link_error_recovery",
            "link_downed",
            "local_link_integrity_errors",
            "VL15_dropped",
            "out_of_sequence",
            "packet_seq_err",
            "duplicate_request",
            "rnr_nak_retry_err",
            "roce_adp_retrans",
            "roce_slow_restart",
            "rx_icrc_encapsulated",
            "np_ecn_marked_roce_packets",
            "rp_cnp_handled",
            "retrans_bytes",
            "impaired_remote_conn_events",
            "tcpRetransSegs",
            "ip4InDiscards",
            "rx_ecn_marked_pkts",
        ] {
            assert!(is_reported(name), "{name}");
        }
        for name in [
            "port_xmit_packets",
            "port_rcv_packets",
            "unicast_rcv_packets",
            "multicast_xmit_packets",
            "rx_read_requests",
            "rx_atomic_requests",
            "rx_write_requests",
            "tx_bytes",
            "rx_pkts",
            "rdma_read_wrs",
            "completed_cmds",
            "keep_alive_rcvd",
            "ip4InOctets",
            "InRdmaReads",
            "tx_send_req",
            "active_qps",
            "lifespan",
        ] {
            assert!(!is_reported(name), "{name}");
        }
    }
}
