//! Findings: what, why, who, where, what it cost, what to do, and what would show that it is not so.

use super::bar::{bar, swatch};
use super::html::{Html, el, words};
use super::{clock, time};
use crate::explanation::touched_steps;
use gpuwhy_model::advice;
use gpuwhy_model::units::{count, duration};
use gpuwhy_model::{CauseShare, Finding, Severity};
use gpuwhy_query::Explained;

/// In full at least so many, and all that are not low; at most so many.
const MIN: usize = 3;
const MAX: usize = 12;
const LINES: usize = 50;
const FRAMES: usize = 8;
const EVIDENCE: usize = 6;
const CULPRITS: usize = 3;

pub(super) fn findings(explained: &Explained) -> Html {
    let all = &explained.findings;
    if all.is_empty() {
        return words("p", "None: no calls were slow beyond the usual, and no rule applies.");
    }
    let worse = all.iter().filter(|finding| finding.severity != Severity::Low).count();
    let (full, rest) = all.split_at(worse.clamp(MIN, MAX).min(all.len()));
    let cards = full.iter().map(card);
    if rest.is_empty() {
        return Html::all(cards);
    }
    let lines =
        rest.iter().take(LINES).map(|finding| el("li", &[], [badge(finding), Html::text(&finding.title)]));
    let lines: Vec<Html> = lines.collect();
    let left_out = match rest.len() > LINES {
        true => words("p", format!("{} more are left out.", rest.len() - LINES)),
        false => Html::default(),
    };
    Html::all(cards.chain([words("h3", "Also"), el("ul", &[], lines), left_out]))
}

/// What follows from how a program is built is neither good nor bad: its colour is neutral.
fn class_of(finding: &Finding) -> &'static str {
    if finding.by_design.is_some() { "built" } else { finding.severity.name() }
}

/// How bad it is, or that the program is built so.
fn badge(finding: &Finding) -> Html {
    let class = format!("badge {}", class_of(finding));
    let word = match &finding.by_design {
        Some(how) => format!("as built: {how}"),
        None => finding.severity.name().into(),
    };
    el("span", &[("class", &class)], [Html::text(word)])
}

fn card(finding: &Finding) -> Html {
    let answers = [
        ("When", Html::text(when(finding))),
        ("Why", why(&finding.causes)),
        ("Where", place(finding)),
        ("Cost", Html::text(cost(finding))),
        ("Do", fixes(&finding.fixes)),
        ("Evidence", evidence(&finding.causes)),
        ("Refuted by", Html::text(&finding.refuted_by)),
        ("SQL", el("pre", &[], [Html::text(&finding.sql)])),
    ];
    let answers = answers
        .into_iter()
        .filter(|(_, answer)| !answer.is_empty())
        .map(|(name, answer)| el("div", &[], [words("dt", name), el("dd", &[], [answer])]));
    let class = format!("finding {}", class_of(finding));
    el(
        "article",
        &[("class", &class)],
        [el("h3", &[], [badge(finding), Html::text(&finding.title)]), el("dl", &[], answers)],
    )
}

fn when(finding: &Finding) -> String {
    let phase = finding.phase.as_deref().map(|phase| format!(", in the {phase}")).unwrap_or_default();
    let marked: String =
        finding.steps.iter().take(2).map(|touched| format!("; {}", touched_steps(touched))).collect();
    format!(
        "{} to {} UTC ({}){phase}{marked}",
        clock(finding.window.start_ns),
        clock(finding.window.end_ns),
        duration(finding.window.ns())
    )
}

fn why(causes: &[CauseShare]) -> Html {
    let shares: Vec<_> = causes.iter().map(|share| (share.class, share.share_pct)).collect();
    let lines = causes.iter().filter(|share| share.share_pct >= 1.0).map(|share| {
        let by: Vec<String> = share
            .by
            .iter()
            .take(CULPRITS)
            .map(|culprit| match (culprit.pid, culprit.rank) {
                (Some(pid), _) => format!("{}[{pid}] {}", culprit.comm, time(culprit.ms)),
                (None, Some(rank)) => format!("rank {rank} {}", time(culprit.ms)),
                (None, None) => format!("{} {}", culprit.comm, time(culprit.ms)),
            })
            .collect();
        let by = if by.is_empty() { String::new() } else { format!(", by {}", by.join(", ")) };
        el(
            "li",
            &[],
            [
                swatch(share.class),
                words("b", format!("{:.0}%", share.share_pct)),
                Html::text(" "),
                words("code", share.class.name()),
                Html::text(format!(" {}: {}{by}", time(share.ms), share.class.about())),
            ],
        )
    });
    let lines: Vec<Html> = lines.collect();
    Html::all([bar(&shares), el("ul", &[("class", "legend")], lines)])
}

fn place(finding: &Finding) -> Html {
    let place = &finding.place;
    let frames = if place.python.is_empty() { &place.native } else { &place.python };
    if frames.is_empty() && place.kernel.is_none() {
        return Html::default();
    }
    let shown = frames.iter().take(FRAMES).map(|frame| el("li", &[("class", "code")], [Html::text(frame)]));
    let shown: Vec<Html> = shown.collect();
    let frames = if shown.is_empty() { Html::default() } else { el("ol", &[], shown) };
    let kernel =
        place.kernel.as_ref().map(|kernel| el("p", &[], [Html::text("GPU kernel "), words("code", kernel)]));
    Html::all([frames].into_iter().chain(kernel))
}

fn cost(finding: &Finding) -> String {
    let impact = &finding.impact;
    let mut words = format!("{} ({:.1}% of its time)", time(impact.excess_ms), impact.wall_pct);
    if let Some(saves) = finding.saves_ms_per_step.filter(|saves| *saves > 0.0) {
        words += &format!("; without it a step takes {} less", time(saves));
    }
    if impact.calls > 0 {
        words += &format!(
            "; {} of {} calls slow, usually {}, p99 {}, at worst {}",
            count(impact.slow_calls),
            count(impact.calls),
            time(impact.p50_us / 1e3),
            time(impact.p99_us / 1e3),
            time(impact.max_us / 1e3)
        );
    }
    format!("{words}; {:.0}% explained", finding.explained_pct)
}

fn evidence(causes: &[CauseShare]) -> Html {
    let sentences: Vec<String> = causes
        .iter()
        .flat_map(|share| share.evidence.iter().map(|sentence| format!("{}: {sentence}", share.class.name())))
        .take(EVIDENCE)
        .collect();
    list("ul", &sentences)
}

/// Their commands as code: they can be pasted.
fn fixes(fixes: &[String]) -> Html {
    let fix = |fix: &String| match advice::parts(fix) {
        Some((before, command, after)) => {
            el("li", &[], [Html::text(before), words("code", command), Html::text(after)])
        }
        None => words("li", fix),
    };
    if fixes.is_empty() { Html::default() } else { el("ol", &[], fixes.iter().map(fix)) }
}

fn list(kind: &'static str, sentences: &[String]) -> Html {
    match sentences.is_empty() {
        true => Html::default(),
        false => el(kind, &[], sentences.iter().map(|sentence| words("li", sentence))),
    }
}
