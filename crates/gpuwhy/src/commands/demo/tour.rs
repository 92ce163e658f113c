//! The end of a scenario without a fault: everything that was seen, and what to ask next.

use super::Played;
use super::scenario::Question;
use crate::failure::Failure;
use crate::panels::{REST, Rest};
use crate::shell::quoted;
use crate::summary::{write_coverage, write_panels};
use std::io::Write;

/// `is_kept`: the trace stays.
pub(crate) fn write(
    questions: &[Question],
    played: &Played,
    is_kept: bool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let file = if is_kept { played.file.display().to_string() } else { "tour.db".into() };
    let file = quoted(&file);
    let rest = if is_kept { Rest::Recorded { explain: "" } } else { Rest::Nowhere };
    write_panels(&played.view(), REST, rest, out)?;
    write_coverage(&played.coverage, out)?;
    writeln!(out, "\nGo on with:")?;
    if !is_kept {
        writeln!(out, "  # Keep the trace\n  gpuwhy demo tour --out {file}")?;
    }
    for question in questions {
        writeln!(out, "  # {}\n  gpuwhy query {file} {}", question.about, quoted(question.sql))?;
    }
    Ok(())
}
