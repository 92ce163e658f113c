//! What the trace does not cover, where it comes from, and how to look further.

use super::html::{Html, el, words};
use super::{Report, moment};
use gpuwhy_model::units::{count, quoted};
use gpuwhy_model::{Coverage, Process};
use gpuwhy_store::Session;

const PROCESSES: usize = 20;
const LINES: usize = 30;

pub(super) fn coverage(coverage: &Coverage) -> Html {
    let lost = match coverage.lost {
        0 => "No record was lost.".into(),
        lost => format!("{} records were lost: counts are too low.", count(lost)),
    };
    let sampled = match coverage.sampled {
        0 => String::new(),
        sampled => format!(" {} calls were counted without a record of their own.", count(sampled)),
    };
    let lines: Vec<&String> = coverage
        .notes
        .iter()
        .chain(&coverage.missing)
        .chain(&coverage.degraded)
        .chain(&coverage.unattached)
        .collect();
    let shown = lines.iter().take(LINES).map(|line| words("li", line));
    let shown: Vec<Html> = shown.collect();
    let more = match lines.len() > LINES {
        true => words("p", format!("and {} more", lines.len() - LINES)),
        false => Html::default(),
    };
    let list = if shown.is_empty() { Html::default() } else { el("ul", &[], shown) };
    Html::all([words("p", format!("{lost}{sampled}")), list, more])
}

pub(super) fn environment(report: &Report) -> Html {
    let sessions = report.sessions.iter().map(session);
    let shown = report.processes.iter().take(PROCESSES).map(process);
    let shown: Vec<Html> = shown.collect();
    if shown.is_empty() {
        return Html::all(sessions);
    }
    let more = match report.processes.len() > PROCESSES {
        true => words("p", format!("and {} more processes", report.processes.len() - PROCESSES)),
        false => Html::default(),
    };
    Html::all(sessions.chain([words("h3", "Processes"), el("ul", &[], shown), more]))
}

fn session(session: &Session) -> Html {
    let info = &session.info;
    let facts = [
        ("host", info.host.clone()),
        ("kernel", info.kernel.clone()),
        ("GPUs", info.gpus.join(", ")),
        ("GPU driver", info.driver.clone()),
        ("gpuwhy", info.version.clone()),
        ("traced with", info.flags.join(" ")),
        ("from", moment(info.start_ns)),
    ];
    let facts = facts
        .into_iter()
        .filter(|(_, fact)| !fact.is_empty())
        .map(|(name, fact)| el("div", &[], [words("dt", name), words("dd", fact)]));
    el("dl", &[("class", "pairs")], facts)
}

fn process(process: &Process) -> Html {
    let rank = process.rank.map(|rank| format!(" rank {rank}")).unwrap_or_default();
    let owner = [&process.pod, &process.job_id, &process.container_id].into_iter().flatten().next();
    let owner = owner.map(|owner| format!(" in {owner}")).unwrap_or_default();
    let exit = process.exit_code.filter(|code| *code != 0).map(|code| format!(", ended with {code}"));
    el(
        "li",
        &[],
        [
            words("b", format!("{}[{}]", process.comm, process.pid)),
            Html::text(format!("{rank}{owner}{} ", exit.unwrap_or_default())),
            words("code", &process.cmdline),
        ],
    )
}

pub(super) fn footer(report: &Report) -> Html {
    let name = quoted(&report.name);
    el(
        "footer",
        &[("class", "dim")],
        [
            Html::text(format!(
                "Made by gpuwhy {} from {}. To look further: ",
                env!("CARGO_PKG_VERSION"),
                report.name
            )),
            words("code", format!("gpuwhy explain {name} --verbose")),
            Html::text(", "),
            words("code", format!("gpuwhy dashboard {name}")),
            Html::text("."),
        ],
    )
}
