//! A bar of parts of a whole in the colours of their causes.

use super::html::{Html, el};
use super::palette::colour;
use gpuwhy_model::Cause;

pub(super) fn bar(parts: &[(Cause, f64)]) -> Html {
    let label: Vec<String> = parts
        .iter()
        .filter(|(_, share)| *share >= 0.5)
        .map(|(cause, share)| format!("{share:.0}% {}", cause.name()))
        .collect();
    let segments = parts.iter().filter(|(_, share)| *share > 0.0).map(|(cause, share)| {
        let style = format!("flex-grow:{share:.3};background:{}", colour(*cause));
        el("span", &[("style", &style), ("title", &format!("{share:.1}% {}", cause.name()))], [])
    });
    el("div", &[("class", "bar"), ("role", "img"), ("aria-label", &label.join(", "))], segments)
}

pub(super) fn swatch(cause: Cause) -> Html {
    let style = format!("background:{}", colour(cause));
    el("span", &[("class", "swatch"), ("aria-hidden", "true"), ("style", &style)], [])
}
