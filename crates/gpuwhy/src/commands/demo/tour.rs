//! The end of a scenario without a fault: everything that was seen, and what to ask next.

use super::Played;
use super::scenario::Question;
use crate::failure::Failure;
use crate::panels::REST;
use crate::summary::{write_coverage, write_panels};
use std::io::Write;

pub(crate) fn write(questions: &[Question], played: &Played, out: &mut impl Write) -> Result<(), Failure> {
    write_panels(&played.view(), REST, out)?;
    write_coverage(&played.coverage, out)?;
    writeln!(out, "\nGo on with:")?;
    for question in questions {
        writeln!(
            out,
            "  # {}\n  gpuwhy query {} \"{}\"",
            question.about,
            played.file.display(),
            question.sql
        )?;
    }
    Ok(())
}
