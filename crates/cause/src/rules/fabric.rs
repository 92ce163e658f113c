//! InfiniBand and RoCE ports whose error counters rise, and their asynchronous events.

use super::Rule;
use crate::attribution::{Attribution, Share, Who};
use crate::case::Case;
use crate::draft::Draft;
use gpuwhy_model::units::quoted;
use gpuwhy_model::{Cause, RdmaEvent, Severity};
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    name: "fabric",
    about: "ports of the fabric with rising error counters, and events of the adapter such as a port going down",
    causes: &[Cause::RdmaFabric],
    threshold: "any rise of a counter of errors, drops or timeouts; any asynchronous event of a port or device: on a healthy \
                fabric they stand still. Congestion marks alone are low",
    refuted_by: "`SELECT device, counter, sum(delta) FROM rdma_events GROUP BY 1, 2` without rises while the calls are slow",
    find,
};

/// Marks of congestion: the fabric is busy, not broken.
const CONGESTION: [&str; 5] = ["ecn", "cnp", "np_cnp_sent", "rp_cnp_handled", "port_xmit_wait"];

fn find(case: &Case<'_>) -> Vec<Draft> {
    let mut devices: BTreeMap<(&str, Option<u32>), Vec<&RdmaEvent>> = BTreeMap::new();
    for event in &case.evidence.fabric {
        devices.entry((&event.device, event.port)).or_default().push(event);
    }
    devices.into_iter().map(|((device, port), events)| draft(case, device, port, &events)).collect()
}

fn draft(case: &Case<'_>, device: &str, port: Option<u32>, events: &[&RdmaEvent]) -> Draft {
    // An event that a process was told of does not say of which adapter.
    let reported = events.iter().find_map(|event| event.pid).filter(|_| device.is_empty());
    let name = match (reported, port) {
        (Some(pid), _) => format!("an adapter of {}", case.name(pid)),
        (None, Some(port)) => format!("{device} port {port}"),
        (None, None) => device.to_string(),
    };
    let mut attribution = Attribution::default();
    attribution.add(Cause::RdmaFabric, 1);
    let mut rises: BTreeMap<&str, u64> = BTreeMap::new();
    for event in events {
        let what = if event.event == "counter" { event.counter.as_str() } else { event.event.as_str() };
        *rises.entry(what).or_default() += event.delta.unwrap_or(1);
    }
    for (what, rise) in &rises {
        attribution.note(Cause::RdmaFabric, format!("{name}: {what} rose by {rise}"));
    }
    let share =
        Share { comm: name.clone(), pid: reported, ns: 1, count: rises.values().sum(), ..Share::default() };
    attribution.blame(Cause::RdmaFabric, Who::Named(name.clone()), share);
    let congestion = rises.keys().all(|what| CONGESTION.iter().any(|mark| what.contains(mark)));
    let list: Vec<String> = rises.iter().map(|(what, rise)| format!("{what} +{rise}")).collect();
    Draft {
        severity: Some(if congestion { Severity::Low } else { Severity::High }),
        title: format!("the fabric at {name} reports errors: {}", list.join(", ")),
        fixes: vec![
            match device {
                "" => "see the counters of all ports: `rdma statistic show`".into(),
                device => format!(
                    "see the counters of the port: `rdma statistic show link {}`",
                    quoted(&format!("{device}/{}", port.unwrap_or(1)))
                ),
            },
            "check the cable and the switch port; swap the cable first".into(),
        ],
        sql: format!(
            "SELECT timestamp_ns, event, counter, delta FROM rdma_events WHERE device = '{}'",
            device.replace('\'', "''")
        ),
        pid: reported.filter(|pid| case.process(*pid).is_some()),
        attribution,
        ..Draft::default()
    }
}
