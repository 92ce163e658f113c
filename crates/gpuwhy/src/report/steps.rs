//! The step tree of each process.

use super::bar::{bar, swatch};
use super::html::{Html, el, words};
use super::time;
use crate::explanation::steps::part_line;
use gpuwhy_cause::{PathPart, StepTree};
use gpuwhy_model::units::count;
use gpuwhy_query::Explained;

/// Processes in full; the others in a line.
const FULL: usize = 3;
const LINES: usize = 20;
/// Parts below this share are summed.
const MIN_PCT: f64 = 1.0;

pub(super) fn steps(explained: &Explained) -> Html {
    let first_pid = explained.findings.first().and_then(|finding| finding.pid);
    let mut loops: Vec<&StepTree> = explained.steps.iter().filter(|tree| tree.phase == "loop").collect();
    if loops.is_empty() {
        return words("p", "No loop was seen in this trace.");
    }
    loops.sort_by_key(|tree| Some(tree.pid) != first_pid);
    let is_one_of_many = loops.len() > 1;
    let (full, rest) = loops.split_at(loops.len().min(FULL));
    let trees = full.iter().map(|tree| in_full(tree, is_one_of_many));
    let others = rest.iter().take(LINES).map(|tree| words("li", title(tree, true)));
    let others: Vec<Html> = others.collect();
    let more = match rest.len() > LINES {
        true => words("p", format!("{} more processes are left out.", rest.len() - LINES)),
        false => Html::default(),
    };
    let starts = explained.steps.iter().filter(|tree| tree.phase == "start").take(FULL).map(|tree| {
        let parts = tree.path.iter().filter(|part| part.share_pct >= 10.0).take(3);
        let parts: Vec<String> =
            parts.map(|part| format!("{:.0}% {}", part.share_pct, part.message)).collect();
        let name = format!("{}[{}]", tree.process.as_deref().unwrap_or("process"), tree.pid);
        let text =
            format!("Before its loop {name} took {} to start: {}", time(tree.median_ms), parts.join(", "));
        el("p", &[("class", "dim")], [Html::text(text)])
    });
    let list = if others.is_empty() { Html::default() } else { el("ul", &[], others) };
    Html::all(trees.chain([list, more]).chain(starts))
}

/// How long a step takes, and how busy the GPU is.
fn title(tree: &StepTree, is_one_of_many: bool) -> String {
    let name = match is_one_of_many {
        true => format!("{}[{}]: ", tree.process.as_deref().unwrap_or("process"), tree.pid),
        false => String::new(),
    };
    let step = match &tree.found_by {
        Some(_) => format!(
            "step {}; median {}, p99 {} of {} steps",
            time(tree.mean_ms),
            time(tree.median_ms),
            time(tree.p99_ms),
            count(tree.count)
        ),
        None => format!("{} of work; no repeating step was found", time(tree.median_ms)),
    };
    let busy = match (tree.gpu_busy_pct, &tree.gpu_busy_source) {
        (Some(pct), Some(source)) => format!("; GPU busy {pct:.0}% ({source})"),
        _ => String::new(),
    };
    format!("{name}{step}{busy}")
}

fn in_full(tree: &StepTree, is_one_of_many: bool) -> Html {
    let shown: Vec<&PathPart> =
        tree.path.iter().filter(|part| part.share_pct >= MIN_PCT && part.process != 0).collect();
    let rest = 100.0 - shown.iter().map(|part| part.share_pct).sum::<f64>();
    let mut rows: Vec<Html> = shown.iter().map(|part| row(part, tree.pid)).collect();
    if rest >= 0.5 && tree.path.len() > shown.len() {
        rows.push(el(
            "tr",
            &[],
            [
                el(
                    "th",
                    &[("scope", "row"), ("class", "number")],
                    [Html::text(time(tree.mean_ms * rest / 100.0))],
                ),
                number(format!("{rest:.0}%")),
                words("td", "small parts"),
                words("td", ""),
            ],
        ));
    }
    let shares: Vec<_> = tree.path.iter().map(|part| (part.class, part.share_pct)).collect();
    let unit = if tree.found_by.is_some() { "a step" } else { "time" };
    let heads = [(unit, true), ("share", true), ("goes to", false), ("saved without it", true)];
    let heads = heads.map(|(head, is_number)| {
        let class = if is_number { "number" } else { "" };
        el("th", &[("scope", "col"), ("class", class)], [Html::text(head)])
    });
    el(
        "div",
        &[],
        [
            words("h3", title(tree, is_one_of_many)),
            bar(&shares),
            el(
                "div",
                &[
                    ("class", "scrolls"),
                    ("role", "region"),
                    ("aria-label", "Parts of a step"),
                    ("tabindex", "0"),
                ],
                [el("table", &[], [el("thead", &[], [el("tr", &[], heads)]), el("tbody", &[], rows)])],
            ),
        ],
    )
}

fn row(part: &PathPart, pid: u32) -> Html {
    let [least, most] = part.saves_ms;
    let saved = match most >= 0.001 {
        true if (most - least) / most < 0.1 => time(most),
        true => format!("{} to {}", time(least), time(most)),
        false => "–".into(),
    };
    let what = part_line(part, pid);
    el(
        "tr",
        &[],
        [
            el("th", &[("scope", "row"), ("class", "number")], [Html::text(time(part.ms))]),
            number(format!("{:.0}%", part.share_pct)),
            el(
                "td",
                &[],
                [swatch(part.class), words("code", part.class.name()), Html::text(format!(" {what}"))],
            ),
            number(saved),
        ],
    )
}

fn number(text: String) -> Html {
    el("td", &[("class", "number")], [Html::text(text)])
}
