//! Inference servers beside the findings.

use super::Style;
use gpuwhy_cause::{Coincidence, LatencyReport, ServerReport, Worst};
use gpuwhy_model::units::{count, duration, printable};
use gpuwhy_model::{Quantile, Span};
use std::io::{self, Write};

const MAX_SERVERS: usize = 8;

pub(super) fn write(servers: &[ServerReport], style: Style, out: &mut impl Write) -> io::Result<()> {
    let max_servers = style.max(MAX_SERVERS);
    for server in servers.iter().take(max_servers) {
        let process = server.pid.map_or_else(String::new, |pid| format!(", process {pid}"));
        let model = match server.model.is_empty() {
            true => String::new(),
            false => format!(", {}", printable(&server.model)),
        };
        let requests = server.requests.map_or_else(String::new, |n| format!("{} requests in ", count(n)));
        writeln!(
            out,
            "\nServer {} at {}{process}{model}: {requests}{}",
            printable(&server.server),
            printable(&server.url),
            duration(server.end_ns.saturating_sub(server.start_ns))
        )?;
        for (signal, latency) in server.latencies.iter().filter(|(_, latency)| latency.count > 0) {
            writeln!(out, "      {:<6} {}", signal.name(), in_words(latency, signal.about()))?;
        }
        writeln!(out, "      state  {}", state(server))?;
        for worst in &server.worst {
            write_worst(worst, out)?;
        }
    }
    if servers.len() > max_servers {
        writeln!(out, "and {} more servers; --verbose has them all", servers.len() - max_servers)?;
    }
    Ok(())
}

/// A server in a line: its tails.
pub(super) fn line(server: &ServerReport) -> String {
    let tails = server.latencies.iter().filter_map(|(signal, latency)| {
        let p99 = latency.p99.as_ref()?;
        Some(format!("{} p99 {}", signal.name(), time(p99.us)))
    });
    let requests = server.requests.map(|n| format!("{} requests", count(n)));
    let words: Vec<String> = requests.into_iter().chain(tails).collect();
    format!("Server {}: {}", printable(&server.server), words.join(", "))
}

fn time(us: f64) -> String {
    duration((us * 1e3) as u64)
}

/// With the bucket it lies in: nothing finer is known for certain.
fn bounded(quantile: &Quantile) -> String {
    match quantile.upper_us {
        Some(upper) => format!("{} ({} to {})", time(quantile.us), time(quantile.lower_us), time(upper)),
        None => format!("over {}", time(quantile.lower_us)),
    }
}

fn in_words(latency: &LatencyReport, about: &str) -> String {
    let mean = latency.mean_us.map_or_else(String::new, |mean| format!("mean {}", time(mean)));
    let quantiles = match (&latency.p50, &latency.p99) {
        (Some(p50), Some(p99)) => format!("p50 {}, p99 {}, ", bounded(p50), bounded(p99)),
        _ => String::new(),
    };
    format!("{about}: {quantiles}{mean} of {}", count(latency.count))
}

fn state(server: &ServerReport) -> String {
    let mut words = Vec::new();
    for (what, mean, most) in [
        ("running", server.running_mean, server.running_max),
        ("waiting", server.waiting_mean, server.waiting_max),
    ] {
        if let (Some(mean), Some(most)) = (mean, most) {
            words.push(format!("{mean:.1} {what}, at most {most:.0}"));
        }
    }
    words.extend(server.kv_cache_max_pct.map(|pct| format!("KV cache at most {pct:.0}%")));
    words.extend(server.preemptions.filter(|n| *n > 0).map(|n| format!("{} preemptions", count(n))));
    words.extend(
        server.generation_tokens_per_s.map(|rate| format!("{} tokens/s", count(rate.round() as u64))),
    );
    words.extend(server.spec_accept_pct.map(|pct| format!("{pct:.0}% of drafted tokens accepted")));
    words.join("; ")
}

fn write_worst(worst: &Worst, out: &mut impl Write) -> io::Result<()> {
    let Some(p99) = &worst.p99 else { return Ok(()) };
    let otherwise =
        worst.else_p99.as_ref().map_or_else(String::new, |p99| format!(", else {}", time(p99.us)));
    let length: u64 = worst.windows.iter().map(Span::ns).sum();
    write!(
        out,
        "      worst  {} p99 {} in {} of it{otherwise}",
        worst.signal.name(),
        bounded(p99),
        duration(length)
    )?;
    if worst.findings.is_empty() {
        return writeln!(out, "; no finding lost more than at other times");
    }
    writeln!(out, ". Lost in that time:")?;
    for found in &worst.findings {
        writeln!(out, "             {}", lost(found))?;
    }
    Ok(())
}

fn lost(found: &Coincidence) -> String {
    let why = match found.same_process {
        true => "in the server's own process",
        false => "at the same time, which is no proof",
    };
    format!(
        "{} ({:.0}% of its loss in {:.0}% of the time; {why}): {}",
        time(found.ms * 1e3),
        found.share_pct,
        found.time_pct,
        printable(&found.title)
    )
}
