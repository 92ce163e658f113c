//! Segments that got lost on the way and had to be sent again, told by whose connection it was.

use crate::support::{Ended, Gated, Running, Trace, alone, can_trace, done, sim, simwork, skip, truth};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Two hosts with a cable between them, which loses some of the segments that go over one port.
pub(crate) struct Hosts {
    near: String,
    far: String,
}

pub(crate) const LOSSY_PORT: &str = "4711";
pub(crate) const CLEAN_PORT: &str = "4712";
const BYTES: u64 = 400_000;

/// Addresses of the two in either family.
pub(crate) const ADDRESSES: [(&str, &str); 2] = [("10.87.0.1", "10.87.0.2"), ("fd87::1", "fd87::2")];

fn runs(words: &str) -> Result<(), String> {
    let mut words = words.split(' ');
    let output =
        Command::new(words.next().unwrap()).args(words).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

impl Hosts {
    /// Loses every so manieth segment. Or what the host lacks for it.
    pub(crate) fn make(every: u64) -> Result<Hosts, String> {
        let own = std::process::id();
        let hosts = Hosts { near: format!("gpuwhy-near-{own}"), far: format!("gpuwhy-far-{own}") };
        let Hosts { near, far } = &hosts;
        runs(&format!("ip netns add {near}"))?;
        runs(&format!("ip netns add {far}"))?;
        runs(&format!("ip link add cable netns {near} type veth peer name cable netns {far}"))?;
        for (host, of) in [(near, 0), (far, 1)] {
            for pair in ADDRESSES {
                let address = [pair.0, pair.1][of];
                let (bits, flags) = if address.contains(':') { (64, " nodad") } else { (24, "") };
                runs(&format!("ip -n {host} address add {address}/{bits} dev cable{flags}"))?;
            }
            // One segment a packet: what the cable loses is what the connection's account counts.
            runs(&format!("ip -n {host} link set cable gso_max_segs 1"))?;
            runs(&format!("ip -n {host} link set cable up"))?;
        }
        hosts.lose(every)?;
        Ok(hosts)
    }

    /// What arrives at the far end, from or to the lossy port. Connections are let begin, as that takes seconds to
    /// try again.
    fn lose(&self, every: u64) -> Result<(), String> {
        let nft = |words: &str| runs(&format!("ip netns exec {} nft {words}", self.far));
        nft("add table inet lossy")?;
        nft("add chain inet lossy arriving { type filter hook input priority 0 ; }")?;
        for end in ["sport", "dport"] {
            nft(&format!(
                "add rule inet lossy arriving tcp {end} {LOSSY_PORT} tcp flags & syn == 0 numgen inc mod {every} 0 drop"
            ))?;
        }
        Ok(())
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in [&self.near, &self.far] {
            let _ = runs(&format!("ip netns delete {host}"));
        }
    }
}

/// One that sends and launches, at the near end; held at its gate. It lives on for a moment: its rank is read from its
/// environment after its first call.
pub(crate) fn sender(hosts: &Hosts, rank: &str, words: &[&str]) -> Gated {
    let program = simwork();
    let send = ["netns", "exec", hosts.near.as_str(), program.to_str().unwrap(), "send", "--live-ms", "500"];
    let all = [&send[..], words].concat();
    Gated::start_with(Path::new("ip"), &all, &[("RANK", rank), ("WORLD_SIZE", "8")])
}

/// One that receives and makes no calls, at the far end.
pub(crate) fn receiver(hosts: &Hosts, words: &[&str]) -> Ended {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &hosts.far]).arg(simwork()).arg("receive").args(words);
    Ended(command.stdout(Stdio::piped()).spawn().unwrap())
}

pub(crate) fn received(mut receiver: Ended) -> u64 {
    let status = receiver.0.wait().unwrap();
    let mut message = Vec::new();
    std::io::Read::read_to_end(receiver.0.stdout.as_mut().unwrap(), &mut message).unwrap();
    let output = std::process::Output { status, stdout: message, stderr: Vec::new() };
    truth(&done(output))["received"].as_u64().unwrap()
}

/// All that was sent again, in a line.
const ALL: &str = "SELECT group_concat(line, '; ') FROM (SELECT count(*) || ' of ' || ifnull(pid, 'nobody') || ' from ' || \
                   sport || ' to ' || dport || ' ' || state AS line FROM tcp_events GROUP BY pid, sport, dport, state)";

/// The rows of a process, which are of its connection and of bytes it sent.
fn assert_retransmits(trace: &Trace, truth: &Value, rank: i64) {
    let pid = truth["pid"].as_i64().unwrap();
    let db = trace.db();
    let mut rows = db
        .prepare(
            "SELECT seq, bytes, saddr || ' ' || sport || ' ' || daddr || ' ' || dport, rank, state FROM tcp_events \
             WHERE event = 'tcp_retransmit_skb' AND pid = ? ORDER BY timestamp_ns",
        )
        .unwrap();
    let rows: Vec<(u32, i64, String, Option<i64>, String)> = rows
        .query_map([pid], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert!(
        rows.len() > 5,
        "a quarter was lost, and {} were sent again: {}; {truth}",
        rows.len(),
        trace.text(ALL)
    );
    // A segment of the account may have been part of a larger one.
    let really = truth["retransmits"].as_u64().unwrap() as usize;
    // Its end is sent again, too, after the account was taken.
    let most = really + really / 20 + 5;
    assert!(rows.len() <= most, "{} were told of, and only {really} were sent again", rows.len());
    let text = |name: &str| truth[name].as_str().unwrap().to_string();
    let ends =
        format!("{} {} {} {}", text("local"), truth["local_port"], text("remote"), truth["remote_port"]);
    let first = truth["first_seq"].as_u64().map(|seq| seq as u32).unwrap_or(rows[0].0);
    let sent = truth["sent"].as_u64().unwrap();
    let mut places = Vec::new();
    for (seq, bytes, connection, of_rank, state) in &rows {
        assert_eq!(*connection, ends, "the two ends of the connection");
        let known = "SELECT group_concat(pid || ' is rank ' || ifnull(rank, '?'), ', ') FROM processes";
        assert_eq!(*of_rank, Some(rank), "the rank of its process, {pid}: {}", trace.text(known));
        assert!(*bytes > 0 || state != "ESTABLISHED", "a segment has bytes: {bytes}");
        let place = u64::from(seq.wrapping_sub(first));
        // The end of the connection has a number too.
        assert!(place <= sent, "{seq} is none of the {sent} numbers from {first}");
        places.push(place);
    }
    let half = places.len() / 2;
    let mean = |places: &[u64]| places.iter().sum::<u64>() / places.len() as u64;
    assert!(mean(&places[half..]) > mean(&places[..half]), "numbers rise: {places:?}");
    places.sort_unstable();
    places.dedup();
    assert!(places.len() > 1, "more than one segment was lost");
}

#[test]
fn what_was_sent_again_is_its_senders() {
    const TEST: &str = "what_was_sent_again_is_its_senders";
    if !can_trace(TEST) {
        return;
    }
    let _turn = alone();
    let hosts = match Hosts::make(4) {
        Ok(hosts) => hosts,
        Err(missing) => return skip(TEST, &format!("no lossy network could be made: {}", missing.trim())),
    };
    let bytes = BYTES.to_string();
    let library = sim().join("libcuda.so.1");
    for (near, far) in ADDRESSES {
        let trace = Trace::new();
        let mut running = Running::start(&trace, &[]);
        // It connected to send; a clean connection beside it.
        let lossy_far = receiver(&hosts, &["--to", far, "--port", LOSSY_PORT, "--listen"]);
        let clean_far = receiver(&hosts, &["--to", far, "--port", CLEAN_PORT, "--listen"]);
        let lossy = sender(&hosts, "3", &["--to", far, "--port", LOSSY_PORT, "--bytes", &bytes]);
        let clean = sender(&hosts, "4", &["--to", far, "--port", CLEAN_PORT, "--bytes", &bytes]);
        running.until_attached(&library);
        let connected = lossy.finish();
        let undisturbed = clean.finish();
        assert_eq!(received(lossy_far), BYTES);
        assert_eq!(received(clean_far), BYTES);
        // It was connected to.
        let words = ["--to", near, "--port", LOSSY_PORT, "--bytes", &bytes, "--listen"];
        let lossy = sender(&hosts, "5", &words);
        let lossy_far = receiver(&hosts, &["--to", near, "--port", LOSSY_PORT]);
        let accepted = lossy.finish();
        assert_eq!(received(lossy_far), BYTES);
        running.stop();
        assert_retransmits(&trace, &connected, 3);
        assert_retransmits(&trace, &accepted, 5);
        // A receiver that does not get the CPU for long may have it send something twice.
        let others = format!("SELECT count(*) FROM tcp_events WHERE pid = {}", undisturbed["pid"]);
        let really = undisturbed["retransmits"].as_i64().unwrap();
        let all = trace.text(ALL);
        assert!(
            trace.number(&others) <= really,
            "of the clean connection {really} segments were sent again: {all}; {undisturbed}"
        );
        let traced = format!("SELECT count(*) FROM processes WHERE pid = {}", undisturbed["pid"]);
        assert_eq!(trace.number(&traced), 1, "its process was traced");
    }
}
