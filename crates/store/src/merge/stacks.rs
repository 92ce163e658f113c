//! Stacks: their numbers are made from what is in them, so two files may have the same one, and rarely two under one
//! number.

use super::MergeError;
use super::processes::Shift;
use crate::Reader;
use crate::schema::Table;
use crate::schema::code::{FRAMES, STACKS};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The stacks of the output: what is in each, as a number.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    contents: HashMap<i64, u64>,
}

/// What becomes of the stacks of a file.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    /// Those that need another number.
    renumbered: HashMap<i64, i64>,
    /// Those that are there already.
    known: std::collections::HashSet<i64>,
}

impl Mapped {
    pub(super) fn number(&self, stack_id: i64) -> i64 {
        self.renumbered.get(&stack_id).copied().unwrap_or(stack_id)
    }

    pub(super) fn is_known(&self, stack_id: i64) -> bool {
        self.known.contains(&stack_id)
    }
}

impl Stacks {
    pub(super) fn add(&mut self, reader: &Reader, shift: &Shift) -> Result<Mapped, MergeError> {
        let mut mapped = Mapped::default();
        for (stack_id, content) in contents(reader, shift)? {
            let mut number = stack_id;
            loop {
                match self.contents.get(&number) {
                    None => break,
                    Some(there) if *there == content => {
                        mapped.known.insert(stack_id);
                        break;
                    }
                    // Taken by another stack.
                    Some(_) => {
                        let mut hasher = DefaultHasher::new();
                        (number, content).hash(&mut hasher);
                        number = hasher.finish() as i64;
                    }
                }
            }
            if number != stack_id {
                mapped.renumbered.insert(stack_id, number);
            }
            self.contents.insert(number, content);
        }
        Ok(mapped)
    }
}

/// In the order of their numbers in the file, so that the same files always merge to the same.
fn contents(reader: &Reader, shift: &Shift) -> Result<std::collections::BTreeMap<i64, u64>, MergeError> {
    let mut contents = std::collections::BTreeMap::new();
    for table in [&STACKS, &FRAMES] as [&Table; 2] {
        let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        let pid = columns.iter().position(|name| *name == "pid");
        let sql = format!("SELECT {} FROM {}", columns.join(", "), table.name);
        reader.stream::<MergeError>(&sql, &[], |record| {
            let mut hasher = DefaultHasher::new();
            table.name.hash(&mut hasher);
            for at in 1..columns.len() {
                match pid == Some(at) {
                    true => record.integer(at).map(|pid| shift.of(pid)).hash(&mut hasher),
                    false => (record.integer(at), record.text(at)).hash(&mut hasher),
                }
            }
            // Rows come in no order that matters: each frame says its depth.
            *contents.entry(record.integer(0).unwrap_or(0)).or_insert(0u64) ^= hasher.finish();
            Ok(())
        })?;
    }
    Ok(contents)
}
