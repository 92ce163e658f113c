//! How busy each GPU was over time: a curve for each, as an inline drawing.

use super::html::{Html, el, words};
use super::{Report, clock, moment};
use gpuwhy_model::units::count;
use gpuwhy_query::Series;

/// The drawing is stretched to its place; its lines and the words around it are not.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 100.0;
/// GPUs that are drawn.
const MAX: usize = 8;
const TICKS: u64 = 4;

pub(super) fn figures(report: &Report) -> Html {
    let Some(series) = &report.utilisation else {
        return words(
            "p",
            "The trace has no samples of the GPU's own counters (NVML was not there), so how busy it was over time is not known.",
        );
    };
    let figures =
        series.series.iter().take(MAX).map(|curve| figure(report, series, &curve.name, &curve.points));
    let left_out = match series.series.len() > MAX {
        true => words("p", format!("{} more GPUs are left out.", series.series.len() - MAX)),
        false => Html::default(),
    };
    let about = "By the GPU's own counter. The loop is shaded.";
    Html::all(figures.chain([left_out, el("p", &[("class", "dim")], [Html::text(about)])]))
}

fn figure(report: &Report, series: &Series, name: &str, points: &[(u64, f64)]) -> Html {
    let values = points.iter().map(|(_, value)| *value);
    let mean = values.clone().sum::<f64>() / points.len().max(1) as f64;
    let (least, most) =
        values.fold((f64::MAX, 0.0), |(least, most), value| (value.min(least), value.max(most)));
    let gpu = name.rsplit(" of ").next().unwrap_or(name);
    let label = format!(
        "{gpu} busy: mean {mean:.0}% of all this time, least {:.0}%, most {most:.0}% ({} samples)",
        least.min(most),
        count(points.len() as u64)
    );
    let span = series.end_ns.saturating_sub(series.start_ns);
    let values = ["100%", "50%", "0%"].map(|value| words("li", value));
    let times = (0..=TICKS).map(|tick| {
        let time = clock(series.start_ns.saturating_add(span / TICKS * tick));
        words("li", time.split('.').next().unwrap_or_default())
    });
    let chart = [
        el("ul", &[("class", "values"), ("aria-hidden", "true")], values),
        drawing(report, series, points, &label),
        el("ul", &[("class", "times"), ("aria-hidden", "true")], times),
    ];
    el("figure", &[], [el("figcaption", &[], [words("b", &label)]), el("div", &[("class", "chart")], chart)])
}

fn drawing(report: &Report, series: &Series, points: &[(u64, f64)], label: &str) -> Html {
    let span = series.end_ns.saturating_sub(series.start_ns).max(1) as f64;
    let x = |ns: f64| (ns / span).clamp(0.0, 1.0) * WIDTH;
    let y = |value: f64| (1.0 - value.clamp(0.0, 100.0) / 100.0) * HEIGHT;
    let mut parts = Vec::new();
    // Where the first loop was, behind the curve.
    if let Some(tree) = report.explained.steps.iter().find(|tree| tree.phase == "loop") {
        let since = |ns: u64| x(ns.saturating_sub(series.start_ns) as f64);
        let (from, to) = (since(tree.window.start_ns), since(tree.window.end_ns));
        let [from, width] = [format!("{from:.1}"), format!("{:.1}", (to - from).max(0.0))];
        let [top, height] = [y(100.0).to_string(), (y(0.0) - y(100.0)).to_string()];
        let loop_box =
            [("class", "loop"), ("x", from.as_str()), ("y", &top), ("width", &width), ("height", &height)];
        parts.push(el("rect", &loop_box, []));
    }
    for value in [0.0, 50.0, 100.0] {
        let [right, height] = [WIDTH.to_string(), format!("{:.1}", y(value))];
        parts.push(el(
            "line",
            &[("class", "grid"), ("x1", "0"), ("x2", &right), ("y1", &height), ("y2", &height)],
            [],
        ));
    }
    let curve: Vec<String> = points
        .iter()
        .map(|(ns, value)| format!("{:.1} {:.1}", x((*ns + series.step_ns / 2) as f64), y(*value)))
        .collect();
    if let (Some((first, _)), Some((last, _))) = (points.first(), points.last()) {
        let [from, to] = [first, last].map(|ns| x((*ns + series.step_ns / 2) as f64));
        let area = format!("M{from:.1} {:.1}L{}L{to:.1} {:.1}Z", y(0.0), curve.join("L"), y(0.0));
        parts.push(el("path", &[("class", "area"), ("d", &area)], []));
        parts.push(el("path", &[("class", "curve"), ("d", &format!("M{}", curve.join("L")))], []));
    }
    let from_to = format!("{label}, {} to {}", moment(series.start_ns), moment(series.end_ns));
    let view = format!("0 -1 {WIDTH} {}", HEIGHT + 2.0);
    let about = [
        ("viewBox", view.as_str()),
        ("preserveAspectRatio", "none"),
        ("role", "img"),
        ("aria-label", &from_to),
    ];
    el("svg", &about, parts)
}
