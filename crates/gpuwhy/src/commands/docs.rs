//! `gpuwhy docs`: the documentation pages that are projections of the program's tables.

use super::host::HOST;
use crate::cli::DocsPage;
use crate::failure::Failure;
use gpuwhy_cause::RULES;
use gpuwhy_export::{FORMATS, Shape};
use gpuwhy_model::Cause;
use gpuwhy_probes::{Attach, PROBES, When};
use std::io::Write;

pub(crate) fn run(page: DocsPage) -> Result<(), Failure> {
    let text = match page {
        DocsPage::Schema => gpuwhy_store::schema::markdown(),
        DocsPage::Probes => probes(),
        DocsPage::Rules => rules(),
        DocsPage::Formats => formats(),
        DocsPage::Metrics => gpuwhy_metrics::markdown(),
        DocsPage::Api => gpuwhy_serve::markdown(HOST),
        DocsPage::Causes => causes(),
    };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// docs/rules.md
fn rules() -> String {
    let mut out = String::from(
        "# Rules of `gpuwhy explain`\n\nMade from the `RULES` table by `make docs`. Severity: low costs little; above it something takes \
         time from the program that it should have. What follows from how a program is built is tagged `by_design`, however much it takes, \
         and raises no alarm.\n",
    );
    for rule in RULES {
        let causes: Vec<String> = rule.causes.iter().map(|cause| format!("`{}`", cause.name())).collect();
        out.push_str(&format!(
            "\n## {}\n\n{}.\n\n- names: {}\n- from when on: {}\n- refuted by: {}\n",
            rule.name,
            rule.about,
            causes.join(", "),
            rule.threshold,
            rule.refuted_by
        ));
    }
    out.push_str("\n## Classes of causes\n\n| class | meaning |\n|---|---|\n");
    for cause in Cause::ALL {
        out.push_str(&format!("| `{}` | {} |\n", cause.name(), cause.about()));
    }
    out
}

/// docs/causes.md
fn causes() -> String {
    let mut out = String::from(
        "# Causes\n\nMade from the program's tables by `make docs`. Every share of time that gpuwhy reports has one of these classes: in \
         `explain`, in the `blame` table, over MCP and in the fleet. The words of a class are its family: `cpu`, `lock`, `mem`, `io`, \
         `net`, `gpu`, `rank`, ... [Rules](rules.md) says from when on a class becomes a finding.\n\n",
    );
    for cause in Cause::ALL {
        let name = cause.name();
        out.push_str(&format!("[`{name}`](#{}) ", name.replace('.', "")));
    }
    out.push('\n');
    for cause in Cause::ALL {
        let rules: Vec<String> = RULES
            .iter()
            .filter(|rule| rule.causes.contains(cause))
            .map(|rule| format!("[{0}](rules.md#{0})", rule.name))
            .collect();
        let rules = if rules.is_empty() { "none of its own".into() } else { rules.join(", ") };
        out.push_str(&format!(
            "\n## {}\n\n- **Means**: {}.\n- **Seen by**: {}.\n- **Do**: {}.\n- **Rules**: {rules}.\n",
            cause.name(),
            cause.about(),
            cause.seen_by(),
            cause.advice()
        ));
    }
    out
}

/// docs/formats.md
fn formats() -> String {
    let mut out = String::from(
        "# Formats of `gpuwhy export`\n\nMade from the `FORMATS` table by `make docs`; [export](export.md) tells what is in them.\n\n\
         | `--format` | what opens it, and what is in it | usual ending | `-o -` | findings |\n|---|---|---|---|---|\n",
    );
    for format in FORMATS {
        let stdout = match format.shape {
            Shape::Stream { text: true, .. } => "yes",
            Shape::Stream { text: false, .. } => "yes, not to a terminal",
            Shape::Folder { .. } => "no, a folder",
        };
        let findings = if format.findings { "yes" } else { "" };
        out.push_str(&format!(
            "| `{}` | {} | `{}` | {stdout} | {findings} |\n",
            format.name, format.about, format.ending
        ));
    }
    out
}

/// docs/probes.md
fn probes() -> String {
    let mut out = String::from("# Probes\n\nMade from the `PROBES` table by `make docs`.\n");
    for probe in PROBES {
        let when = match probe.when {
            When::Always => "Always on.",
            When::Default => "On unless others are asked for by name.",
            When::Asked => "On only when asked for.",
        };
        let when = match probe.needs {
            Some(other) => format!("{when} Brings `{other}`, which follows the threads."),
            None => when.into(),
        };
        let (name, about, cost) = (probe.name, probe.about, probe.cost);
        out.push_str(&format!("\n## {name}\n\n{about}.\n{when} Cost: {cost}.\n\n"));
        match probe.attach {
            Attach::Tracepoints(names) => {
                for name in names {
                    out.push_str(&format!("- tracepoint `{name}`\n"));
                }
            }
            Attach::Functions(functions) | Attach::Devices(functions) => {
                out.push_str("| function | operation | library | family | waits for the GPU |\n|---|---|---|---|---|\n");
                for function in functions {
                    out.push_str(&format!(
                        "| `{}` | `{}` | {} | {} | {} |\n",
                        function.symbol,
                        function.op(),
                        function.library.name(),
                        function.family.name(),
                        if function.waits_for_gpu { "yes" } else { "" },
                    ));
                }
            }
        }
    }
    out
}
