//! Findings for people: what, why, who, where and what to do first, then the evidence.

mod brief;
pub(crate) mod coverage;
pub(crate) mod first_screen;
mod servers;
pub(crate) mod steps;
pub(crate) mod wrap;

use crate::cli::Colour;
use crate::shell;
use crate::summary::write_coverage;
use gpuwhy_cause::{Idle, Tail};
use gpuwhy_model::units::{self, clock, count, duration, printable};
use gpuwhy_model::{Cause, CauseShare, Estimate, Finding, Severity, Touched};
use gpuwhy_query::Explained;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// Errors and memory cost no time by themselves.
const MIN_MS: f64 = 0.001;
/// Without `--verbose`: findings in full, the others get a line each.
const MAX_IN_FULL: usize = 5;
const MAX_LINES: usize = 40;
const MAX_CULPRITS: usize = 3;
const MAX_EVIDENCE: usize = 4;
const MAX_FIXES: usize = 3;
/// Causes with less than this share of a finding are not worth a line.
const MIN_SHARE_PCT: f64 = 1.0;

/// How the page is to look.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Style {
    pub(crate) colour: bool,
    /// Findings under the process they are of.
    pub(crate) per_process: bool,
    /// Of other nodes, not of a file.
    pub(crate) nodes: bool,
    /// Everything that is known, however long: `--verbose`.
    pub(crate) all: bool,
}

impl Style {
    pub(crate) fn of(colour: Colour, per_process: bool) -> Style {
        let colour = match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        };
        Style { colour, per_process, nodes: false, all: false }
    }

    /// How many of a list are shown.
    fn max(self, max: usize) -> usize {
        if self.all { usize::MAX } else { max }
    }
}

/// All of it.
pub(crate) fn write(
    explained: &Explained,
    verdict: &str,
    style: Style,
    out: &mut impl Write,
) -> io::Result<()> {
    let trace = &explained.trace;
    writeln!(
        out,
        "{}: {}{}, {} events",
        printable(&trace.file),
        duration(trace.end_ns.saturating_sub(trace.start_ns)),
        if trace.nodes.is_empty() {
            String::new()
        } else {
            format!(" on {}", printable(&trace.nodes.join(", ")))
        },
        count(trace.events)
    )?;
    writeln!(out, "=> {verdict}")?;
    steps::write(explained, style, out)?;
    if explained.findings.is_empty() {
        writeln!(out, "\nNothing was found: no calls were slow beyond the usual, and no rule applies.")?;
    } else if style.per_process {
        write_by_process(explained, style, out)?;
    } else {
        write_findings(&explained.findings.iter().collect::<Vec<_>>(), &trace.file, style, out)?;
    }
    if !style.per_process {
        write_idle(&explained.idle, style, out)?;
    }
    servers::write(&explained.servers, style, out)?;
    write_coverage(&explained.coverage, out)
}

fn write_by_process(explained: &Explained, style: Style, out: &mut impl Write) -> io::Result<()> {
    let mut pids: Vec<Option<u32>> = Vec::new();
    for finding in &explained.findings {
        if !pids.contains(&finding.pid) {
            pids.push(finding.pid);
        }
    }
    for pid in pids {
        let of_process: Vec<&Finding> =
            explained.findings.iter().filter(|finding| finding.pid == pid).collect();
        let first = of_process.first().copied();
        let name = match (pid, first.and_then(|finding| finding.process.as_deref())) {
            (Some(pid), Some(name)) => format!("{}[{pid}]", printable(name)),
            (Some(pid), None) => format!("process {pid}"),
            (None, _) => "the node".into(),
        };
        let rank = first.and_then(|finding| finding.rank);
        let rank = rank.map_or_else(String::new, |rank| format!(", rank {rank}"));
        writeln!(out, "\n== {name}{rank}")?;
        write_findings(&of_process, &explained.trace.file, style, out)?;
        let idle: Vec<Idle> = explained.idle.iter().filter(|idle| Some(idle.pid) == pid).cloned().collect();
        write_idle(&idle, style, out)?;
    }
    Ok(())
}

fn write_findings(findings: &[&Finding], file: &str, style: Style, out: &mut impl Write) -> io::Result<()> {
    if style.all {
        for (at, finding) in findings.iter().enumerate() {
            write_finding(at + 1, finding, file, style, out)?;
        }
        return Ok(());
    }
    let (full, rest) = in_full(findings, MAX_IN_FULL);
    for (number, finding) in full {
        write_finding(number + 1, finding, file, style, out)?;
    }
    for (at, (number, finding)) in rest.iter().enumerate().take(MAX_LINES) {
        if at == 0 {
            writeln!(out, "\nAlso:")?;
        }
        writeln!(out, "{:>2}. {} {}", number + 1, severity(finding, style), printable(&finding.title))?;
    }
    if rest.len() > MAX_LINES {
        writeln!(out, "    and {} more; --verbose has them all", rest.len() - MAX_LINES)?;
    }
    Ok(())
}

type Numbered<'a> = Vec<(usize, &'a Finding)>;

/// The first ones, and of those that say the same of a process only the first: where the GPU is the limit, every operation
/// waits for it.
fn in_full<'a>(findings: &[&'a Finding], most: usize) -> (Numbered<'a>, Numbered<'a>) {
    let mut message: Vec<(Option<u32>, &str, Option<Cause>)> = Vec::new();
    let (mut full, mut rest) = (Vec::new(), Vec::new());
    for (number, finding) in findings.iter().enumerate() {
        let class = finding.class();
        let what = (finding.pid, finding.severity.name(), class);
        if full.len() < most && (finding.severity != Severity::Low || !message.contains(&what)) {
            message.push(what);
            full.push((number, *finding));
        } else {
            rest.push((number, *finding));
        }
    }
    (full, rest)
}

/// What follows from how a program is built is neither good nor bad, and has no colour.
pub(crate) const AS_BUILT: &str = "as built";

/// How bad it is; of what follows from how the program is built, that.
fn severity(finding: &Finding, style: Style) -> String {
    if finding.by_design.is_some() {
        return format!("{AS_BUILT:<8}");
    }
    let word = format!("{:<8}", finding.severity.name());
    let code = match finding.severity {
        Severity::Critical => "1;31",
        Severity::High => "31",
        Severity::Medium => "33",
        Severity::Low => "36",
    };
    if style.colour { format!("\u{1b}[{code}m{word}\u{1b}[0m") } else { word }
}

fn write_finding(
    number: usize,
    finding: &Finding,
    file: &str,
    style: Style,
    out: &mut impl Write,
) -> io::Result<()> {
    let bold = |text: String| if style.colour { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text };
    writeln!(out, "\n{number:>2}. {} {}", severity(finding, style), bold(printable(&finding.title)))?;
    let mut label = "why";
    for share in finding.causes.iter().filter(|share| style.all || share.share_pct >= MIN_SHARE_PCT) {
        writeln!(out, "      {label:<6} {}", cause_line(share, finding.pid, style.max(MAX_CULPRITS)))?;
        label = "";
        for sentence in share.evidence.iter().take(style.max(MAX_EVIDENCE)) {
            writeln!(out, "                    {}", printable(sentence))?;
        }
    }
    let places = if style.all { whole_place(finding) } else { place(finding).into_iter().collect() };
    let mut label = "where";
    for line in places {
        writeln!(out, "      {label:<6} {}", printable(&line))?;
        label = "";
    }
    let window = finding.window;
    let (from, to) = (clock(window.start_ns), clock(window.end_ns));
    let from = from.trim_end_matches(" UTC");
    writeln!(out, "      when   {from} to {to}, {}", duration(window.ns()))?;
    for touched in &finding.steps {
        writeln!(out, "             {}", printable(&touched_steps(touched)))?;
    }
    writeln!(out, "      cost   {}", cost(finding))?;
    let mut label = "do";
    for fix in finding.fixes.iter().take(style.max(MAX_FIXES)) {
        let (words, command) = shell::advice(fix, file);
        for line in [Some(words), command].into_iter().flatten().filter(|line| !line.is_empty()) {
            writeln!(out, "      {label:<6} {line}")?;
            label = "";
        }
    }
    if !finding.refuted_by.is_empty() {
        writeln!(out, "      refuted by: {}", printable(&finding.refuted_by))?;
    }
    let nodes = if style.nodes { "--nodes " } else { "" };
    let trace = file.to_string();
    let (file, sql) = (shell::quoted(file), shell::quoted(&finding.sql));
    let gpuwhy = shell::gpuwhy_for(Path::new(&trace));
    writeln!(out, "      see    {gpuwhy} query {nodes}{file} {sql}")
}

/// As `steps 140-152 (13 of 1,000) have 94% of the lost time`.
pub(crate) fn touched_steps(touched: &Touched) -> String {
    let many = if touched.count == 1 { "" } else { "s" };
    let (event, values) = (&touched.event, &touched.values);
    let which = format!("{event}{many} {values} ({} of {})", count(touched.count), count(touched.of));
    match touched.share_pct {
        Some(share) => {
            let have = if touched.count == 1 { "has" } else { "have" };
            format!("{which} {have} {share:.0}% of the lost time")
        }
        None => format!("in {which}"),
    }
}

fn cause_line(share: &CauseShare, own_pid: Option<u32>, max_culprits: usize) -> String {
    let mut line = format!("{:>3.0}%  {:<17} {}", share.share_pct, share.class.name(), share.class.about());
    let culprits: Vec<String> = share
        .by
        .iter()
        .take(max_culprits)
        .map(|by| {
            let owner = if by.pid.is_some() && by.pid == own_pid && by.rank.is_none() {
                "its own thread "
            } else {
                ""
            };
            let pid = by.pid.map_or_else(String::new, |pid| format!("[{pid}]"));
            let rank = by.rank.map_or_else(String::new, |rank| format!("rank {rank}, "));
            // What costs no time has a culprit all the same.
            let took =
                if by.ms < MIN_MS { String::new() } else { format!(" {}", duration((by.ms * 1e6) as u64)) };
            format!("{owner}{rank}{}{pid}{took}", printable(&by.comm))
        })
        .collect();
    if !culprits.is_empty() {
        line += &format!(": {}", culprits.join("; "));
        if share.by.len() > max_culprits {
            line += &format!("; {} more", share.by.len() - max_culprits);
        }
    }
    line
}

/// The innermost lines, the program's own language first.
fn place(finding: &Finding) -> Option<String> {
    const MAX_FRAMES: usize = 3;
    const MAX_CHARS: usize = 120;
    let place = &finding.place;
    let frames = if place.python.is_empty() { &place.native } else { &place.python };
    // From the program's own line on, where there is one: libraries call each other many times over.
    let own = frames.iter().position(|frame| !frame.contains("-packages/")).unwrap_or(0);
    let shown = frames.iter().take(1).chain(frames.iter().skip(own.max(1))).take(MAX_FRAMES);
    let short = |frame: &String| frame.chars().take(MAX_CHARS).collect::<String>();
    let mut words = shown.map(short).collect::<Vec<_>>().join(" < ");
    if let Some(kernel) = &place.kernel {
        const MAX_CHARS: usize = 60;
        let short: String = kernel.chars().take(MAX_CHARS).collect();
        words += &format!("{}kernel {short}", if words.is_empty() { "" } else { "; " });
    }
    (!words.is_empty()).then_some(words)
}

/// Every frame on a line of its own, and the kernel's whole name.
fn whole_place(finding: &Finding) -> Vec<String> {
    let place = &finding.place;
    let frames = if place.python.is_empty() { &place.native } else { &place.python };
    let kernel = place.kernel.iter().map(|kernel| format!("kernel {kernel}"));
    frames.iter().cloned().chain(kernel).collect()
}

fn cost(finding: &Finding) -> String {
    let impact = &finding.impact;
    let us = |us: f64| duration((us * 1e3) as u64);
    let mut words = match impact.excess_ms < MIN_MS {
        true => "no time of its own".to_string(),
        false => {
            format!("{} ({:.1}% of its time)", duration((impact.excess_ms * 1e6) as u64), impact.wall_pct)
        }
    };
    if impact.calls > 0 {
        let calls = match (impact.calls_interval, impact.watched_pct) {
            (Some([low, high]), Some(watched_pct)) => {
                let [value, low, high] = [impact.calls, low, high].map(|calls| calls as f64);
                format!("calls, {},", units::estimate(&Estimate { value, low, high, watched_pct }))
            }
            (None, Some(watched_pct)) => {
                format!("at least {} calls (watched {watched_pct:.0}% of the time)", count(impact.calls))
            }
            _ => format!("{} calls", count(impact.calls)),
        };
        words += &format!(
            "; {} of {calls} slow; usually {}, p99 {}, at worst {}",
            count(impact.slow_calls),
            us(impact.p50_us),
            us(impact.p99_us),
            us(impact.max_us)
        );
    }
    words + &format!("; {:.0}% explained", finding.explained_pct)
}

fn write_idle(idle: &[Idle], style: Style, out: &mut impl Write) -> io::Result<()> {
    let max_processes = style.max(8);
    const MIN_MS: f64 = 1.0;
    let worth: Vec<&Idle> = idle.iter().filter(|idle| !idle.causes.is_empty()).collect();
    if worth.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    for idle in worth.iter().take(max_processes) {
        let ms = |ms: f64| duration((ms * 1e6) as u64);
        let name = format!("{}[{}]", printable(idle.process.as_deref().unwrap_or("process")), idle.pid);
        let starved = match (idle.starved_ms, idle.busy_lower_pct, idle.busy_upper_pct) {
            (Some(starved), _, _) if idle.busy_pct.is_some() => format!(
                "busy {:.0}% by its own counter, idle {} of {}",
                idle.busy_pct.unwrap_or(0.0),
                ms(starved),
                ms(idle.wall_ms)
            ),
            (Some(starved), Some(lower), Some(upper)) => format!(
                "its GPU streams were busy {lower:.0} to {upper:.0}% and empty at least {} of {}",
                ms(starved),
                ms(idle.wall_ms)
            ),
            _ => format!("of {}", ms(idle.wall_ms)),
        };
        let parts: Vec<String> = idle
            .causes
            .iter()
            .filter(|share| share.ms >= MIN_MS && share.share_pct >= MIN_SHARE_PCT)
            .map(|share| {
                let by =
                    share.by.first().map_or_else(String::new, |by| format!(" ({})", printable(&by.comm)));
                format!("{} {}{by}", ms(share.ms), share.class.name())
            })
            .collect();
        let meanwhile =
            if parts.is_empty() { String::new() } else { format!("; meanwhile {}", parts.join(", ")) };
        writeln!(out, "GPU of {name}: {starved}{meanwhile}.")?;
    }
    if worth.len() > max_processes {
        writeln!(out, "and {} more processes; --verbose has them all", worth.len() - max_processes)?;
    }
    Ok(())
}

/// The tails of the operations with the longest ones.
pub(crate) fn write_tail(
    tails: &[Tail],
    quantile: &str,
    style: Style,
    out: &mut impl Write,
) -> io::Result<()> {
    const MAX_OPS: usize = 20;
    let mut chosen: Vec<&Tail> = tails.iter().filter(|tail| tail.quantile == quantile).collect();
    chosen.sort_by(|a, b| a.pid.cmp(&b.pid).then(b.p_us.total_cmp(&a.p_us)).then_with(|| a.op.cmp(&b.op)));
    if chosen.is_empty() {
        return writeln!(out, "\nNo calls at {quantile} and above were kept: --keep-all keeps every call.");
    }
    writeln!(out, "\nCalls at {quantile} and above, by what their time was spent on:")?;
    for tail in chosen.iter().take(style.max(MAX_OPS)) {
        let parts: Vec<String> = tail
            .by_cause
            .iter()
            .filter(|share| share.share_pct >= MIN_SHARE_PCT)
            .map(|share| format!("{:.0}% {}", share.share_pct, share.class.name()))
            .collect();
        let of = tail.pid.map_or_else(String::new, |pid| format!("{pid:<8} "));
        writeln!(
            out,
            "  {of}{:<28} {quantile} {:>8}  {}",
            printable(&tail.op),
            duration((tail.p_us * 1e3) as u64),
            parts.join(", ")
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More of everything than fits on a page that people read.
    fn crowded() -> Explained {
        let mut explained = first_screen::tests::recording("loader_cpu");
        let many = |what: &str, count: usize| -> Vec<String> {
            (0..count).map(|number| format!("{what} number {number}")).collect()
        };
        let first = explained.findings[0].clone();
        explained.findings = many("finding", 50)
            .into_iter()
            .map(|title| {
                let mut finding = Finding { title, fixes: many("fix", 6), ..first.clone() };
                finding.refuted_by = "a step without it being as slow".into();
                finding.causes[0].evidence = many("sentence", 9);
                let culprit = finding.causes[0].by[0].clone();
                finding.causes[0].by = many("culprit", 7)
                    .into_iter()
                    .map(|comm| gpuwhy_model::Culprit { comm, ..culprit.clone() })
                    .collect();
                finding.place.python = many("line", 5);
                finding.place.kernel = Some(format!("void gemm<{}>", "float, ".repeat(40)));
                finding
            })
            .collect();
        explained.coverage.degraded = many("degraded", 12);
        explained.coverage.unattached = many("unattached", 12);
        explained
    }

    fn page(explained: &Explained, style: Style) -> String {
        let mut out = Vec::new();
        write(explained, &first_screen::verdict(explained), style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn verbose_has_no_caps_and_says_what_would_refute_each_finding() {
        let explained = crowded();
        let all = page(&explained, Style { all: true, ..Style::default() });
        let kernel = explained.findings[0].place.kernel.clone().unwrap();
        for words in [
            "finding number 49",
            "sentence number 8",
            "fix number 5",
            "culprit number 6",
            "line number 4",
            "degraded number 11",
            "unattached number 11",
            &kernel,
        ] {
            assert!(all.contains(words), "{words} is not in\n{all}");
        }
        assert_eq!(all.matches("refuted by: a step without it being as slow").count(), 50);
        assert!(!all.contains(" more") && !all.contains("Also:"), "{all}");
        // Findings by process are a page that people read.
        let some = page(&explained, Style { per_process: true, ..Style::default() });
        assert!(some.contains("Also:") && some.len() * 2 < all.len(), "{some}");
    }

    #[test]
    fn a_quantile_without_calls_has_no_heading() {
        let mut out = Vec::new();
        write_tail(&[], "p99.9", Style::default(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("No calls at p99.9") && !text.contains("by what their time"), "{text}");
    }
}
