//! The network between ranks, and the fabric.

use super::draw::Draw;
use super::setup::{Fault, Played, Setup, Who, words};
use super::stillness::everywhere;
use super::{Culprit, Hit, OnTorch, Program, Scenario};
use crate::network::{ADDRESSES, CLEAN_PORT, Hosts, LOSSY_PORT, received, receiver, sender};
use crate::support::{Running, Trace, gpuwhy};
use std::process::{Command, Stdio};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        number: 15,
        name: "packet loss between two ranks",
        quick: &[],
        set: loss,
        hit: Hit::Anywhere,
        classes: &["net.tcp"],
        culprit: Culprit::Them,
        explained: true,
        torch: OnTorch::Not("the fault is between two ranks that send to each other over a network"),
    },
    Scenario {
        number: 19,
        name: "fabric errors",
        quick: &[],
        set: fabric,
        hit: Hit::Anywhere,
        classes: &["rdma.fabric"],
        culprit: Culprit::Them,
        explained: true,
        torch: OnTorch::Not("the fault is of a network adapter, and of no program"),
    },
];

/// A rank sends its part to another over a link that loses some of it.
fn loss(draw: &mut Draw, _: Program) -> Setup {
    // So much that not all of it can be mended at once: some segments wait for their timer.
    let every = draw.between(3, 6);
    let bytes = draw.between(600, 1_200) * 1_000;
    let rank = draw.between(0, 7) as i32;
    let addresses = draw.one_of(&ADDRESSES);
    Setup {
        words: words(&format!("--bytes {bytes}")),
        stage: Some(Box::new(move |setup, faulty| play_loss(setup, every, rank, addresses, faulty))),
        ..Setup::default()
    }
}

fn play_loss(
    setup: &Setup,
    every: u64,
    rank: i32,
    addresses: (&str, &str),
    faulty: bool,
) -> Result<Played, String> {
    let hosts = Hosts::make(every)
        .map_err(|missing| format!("no lossy network could be made: {}", missing.trim()))?;
    let port = if faulty { LOSSY_PORT } else { CLEAN_PORT };
    let trace = Trace::new();
    let far = receiver(&hosts, &["--to", addresses.1, "--port", port, "--listen", "1", "--answers"]);
    let mut options = vec!["--to", addresses.1, "--port", port, "--answers"];
    options.extend(setup.words.iter().map(String::as_str));
    let near = everywhere(|| sender(&hosts, &rank.to_string(), &options));
    let pid = near.pid();
    let mut running = Running::start(&trace, &["--pid", &pid.to_string()]);
    let tracer = running.child.id();
    near.finish();
    received(far);
    running.until_ended(&[pid]);
    running.stop();
    Ok(Played {
        trace,
        victims: vec![pid],
        helpers: vec![tracer],
        culprits: vec![Who::Rank(rank)],
        order: Vec::new(),
    })
}

/// Counters that rise, or an event of the adapter.
fn fabric(draw: &mut Draw, _: Program) -> Setup {
    let event = draw.one_of(&[10_u64, 8, 0]);
    let counter =
        draw.one_of(&["symbol_error", "port_rcv_errors", "link_downed", "local_link_integrity_errors"]);
    let device = draw.one_of(&["mlx5_0", "mlx5_3", "bnxt_re1"]);
    let rise = draw.between(1, 500);
    match event {
        0 => Setup {
            stage: Some(Box::new(move |_, faulty| Ok(play_counters(device, counter, rise, faulty)))),
            words: words(&format!("{device} {counter} +{rise}")),
            ..Setup::default()
        },
        event => Setup {
            words: words("ibverbs --events 0"),
            flags: words("--rdma-verbs"),
            fault: Fault {
                words: words("--events 1"),
                env: vec![("SIMGPU_ASYNC_EVENT", event.to_string())],
                // An event does not tell its adapter; whose it is, it does.
                culprit: Some(Who::Own),
                ..Fault::default()
            },
            ..Setup::default()
        },
    }
}

/// A host with a card: its sysfs, in a mount namespace of its own.
fn play_counters(device: &str, counter: &str, rise: u64, faulty: bool) -> Played {
    let trace = Trace::new();
    let later = if faulty { 100 + rise } else { 100 };
    let script = format!(
        "mount -t tmpfs none /sys/class && C=/sys/class/infiniband/{device}/ports/1/counters && mkdir -p $C && \
         echo 100 > $C/{counter} && (sleep 3; echo {later} > $C/{counter}) & sleep 0.5; exec \"$@\""
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, "sh"]).arg(gpuwhy().get_program());
    command.args(["trace", "--duration", "9s", "--out"]).arg(trace.file());
    assert!(command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success());
    let culprits = vec![Who::Comm(format!("{device} port 1"))];
    Played { trace, victims: Vec::new(), helpers: Vec::new(), culprits, order: Vec::new() }
}
