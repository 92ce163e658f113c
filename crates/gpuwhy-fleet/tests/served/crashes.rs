//! kill -9 at any moment, again and again, with clients that send until they are told that it is stored.

use crate::server::{ALL, Server, gauges, now_ns, try_ask};
use gpuwhy_testkit::skip;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Points of one push.
const POINTS: u32 = 50;
const CLIENTS: u64 = 4;

/// GPUWHY_KILLS for more.
fn kills() -> u64 {
    std::env::var("GPUWHY_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(5)
}

#[test]
fn whatever_was_acknowledged_is_there_exactly_once_however_often_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &[]);
    let at = Arc::new(Mutex::new(server.http.clone()));
    let (done, sent_again) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (at, done, sent_again) = (at.clone(), done.clone(), sent_again.clone());
            std::thread::spawn(move || {
                let mut acknowledged = Vec::new();
                for push in 0u64.. {
                    let name = format!("c{client}.p{push}");
                    let values: Vec<(u32, f64)> = (0..POINTS).map(|rank| (rank, f64::from(rank))).collect();
                    let body = gauges("a", &name, now_ns(), &values).to_string();
                    loop {
                        let address = at.lock().unwrap().clone();
                        let kind = [("content-type", "application/json")];
                        match try_ask(&address, "POST", "/v1/metrics", Some(ALL), &kind, body.as_bytes()) {
                            Ok(reply) if reply.status == 200 => break,
                            _ if done.load(Ordering::Relaxed) => return acknowledged,
                            _ => {
                                sent_again.fetch_add(1, Ordering::Relaxed);
                                std::thread::sleep(Duration::from_millis(20));
                            }
                        }
                    }
                    acknowledged.push(name);
                    if done.load(Ordering::Relaxed) {
                        return acknowledged;
                    }
                }
                acknowledged
            })
        })
        .collect();
    for kill in 0..kills() {
        // At another moment each time.
        std::thread::sleep(Duration::from_millis(150 + (kill * 97) % 350));
        server.kill();
        server = Server::start(folder.path(), &[]);
        *at.lock().unwrap() = server.http.clone();
    }
    std::thread::sleep(Duration::from_millis(500));
    done.store(true, Ordering::Relaxed);
    let acknowledged: Vec<String> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
    assert!(acknowledged.len() as u64 > kills() * CLIENTS, "{} pushes", acknowledged.len());
    let twice = server.sql(
        "SELECT metric_name, count(*) AS n, count(DISTINCT rank) AS ranks FROM events GROUP BY ALL HAVING n <> 50 OR ranks <> 50",
    );
    assert_eq!(twice, Vec::<serde_json::Value>::new(), "a push is there whole and once, or not at all");
    let mut there = BTreeSet::new();
    loop {
        let rows = server.sql(&format!(
            "SELECT DISTINCT metric_name AS name FROM events ORDER BY name LIMIT 1000 OFFSET {}",
            there.len()
        ));
        if rows.is_empty() {
            break;
        }
        there.extend(rows.iter().map(|row| row["name"].as_str().unwrap().to_string()));
    }
    let lost: Vec<&String> = acknowledged.iter().filter(|name| !there.contains(*name)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    let counted = server.get(Some(ALL), "/api/v1/health").json()["counted"].clone();
    eprintln!(
        "{} kills, {} pushes acknowledged, {} sent again; since the last start {counted}",
        kills(),
        acknowledged.len(),
        sent_again.load(Ordering::Relaxed)
    );
    assert_eq!(counted["failed_writes"], json!(0));
}

/// A disk of its own, taken away when dropped.
struct Disk<'a>(&'a Path);

impl Disk<'_> {
    fn mount(at: &Path) -> Option<Disk<'_>> {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=48m", "tmpfs"]).arg(at).output();
        mounted.is_ok_and(|mounted| mounted.status.success()).then_some(Disk(at))
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).output();
    }
}

#[test]
fn a_full_disk_is_told_and_got_over_and_nothing_acknowledged_is_lost() {
    let test = "a_full_disk_is_told_and_got_over_and_nothing_acknowledged_is_lost";
    let folder = tempfile::tempdir().unwrap();
    let Some(_disk) = Disk::mount(folder.path()) else {
        return skip(test, "a disk can be mounted by root only");
    };
    let server = Server::start(folder.path(), &[]);
    let mut acknowledged = 0;
    let mut push = |name: String| {
        let values: Vec<(u32, f64)> = (0..2_000).map(|rank| (rank, f64::from(rank))).collect();
        let reply = server.push(ALL, &gauges("a", &name, now_ns(), &values));
        acknowledged += i64::from(reply.status == 200) * 2_000;
        reply
    };
    assert_eq!(push("before".into()).status, 200);
    let filler = folder.path().join("filler");
    let full = std::fs::write(&filler, vec![1; 100 << 20]);
    assert!(full.is_err(), "the disk is full");
    let refused = (0..20).map(|n| push(format!("full{n}"))).find(|reply| reply.status != 200);
    let refused = refused.expect("a push that is not taken");
    assert_eq!(
        (refused.status, refused.header("retry-after").as_deref()),
        (503, Some("1")),
        "{}",
        refused.text()
    );
    assert_eq!(server.get(None, "/api/v1/health").status, 200, "it lives");
    std::fs::remove_file(&filler).unwrap();
    let again = (0..20).any(|n| {
        std::thread::sleep(Duration::from_millis(100));
        push(format!("after{n}")).status == 200
    });
    assert!(again, "it takes pushes again");
    let rows = server.sql("SELECT count(*) AS n FROM events");
    assert_eq!(rows, [json!({"n": acknowledged})]);
    drop(server);
}

/// Makes every sync of a process take so long, until it is dropped.
struct Slow(Child);

impl Slow {
    fn make(pid: u32) -> Option<Slow> {
        let delay = "inject=fdatasync,fsync:delay_enter=300000";
        let mut strace = Command::new("strace");
        strace.args([
            "-f",
            "-e",
            "trace=fdatasync,fsync",
            "-e",
            delay,
            "-o",
            "/dev/null",
            "-p",
            &pid.to_string(),
        ]);
        let mut child = strace.stderr(Stdio::null()).spawn().ok()?;
        let traced = || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
        };
        for _ in 0..200 {
            if traced() {
                return Some(Slow(child));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        None
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        // It lets go of the process when it is asked to end.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

#[test]
fn a_slow_disk_makes_pushes_slow_and_loses_none() {
    let test = "a_slow_disk_makes_pushes_slow_and_loses_none";
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let Some(slow) = Slow::make(server.pid()) else {
        return skip(test, "strace is needed, and a process that may be traced");
    };
    let began = Instant::now();
    std::thread::scope(|scope| {
        for client in 0..4 {
            let server = &server;
            scope.spawn(move || {
                for push in 0..5 {
                    let values: Vec<(u32, f64)> = (0..POINTS).map(|rank| (rank, f64::from(rank))).collect();
                    let reply =
                        server.push(ALL, &gauges("a", &format!("c{client}.p{push}"), now_ns(), &values));
                    assert_eq!(reply.status, 200, "{}", reply.text());
                }
            });
        }
    });
    assert!(began.elapsed() > Duration::from_millis(1_500), "five syncs of 300 ms one after the other");
    assert_eq!(server.get(None, "/api/v1/health").status, 200, "it lives");
    drop(slow);
    let rows = server.sql("SELECT count(*) AS n, count(DISTINCT metric_name) AS pushes FROM events");
    assert_eq!(rows, [json!({"n": 20 * POINTS, "pushes": 20})]);
}
