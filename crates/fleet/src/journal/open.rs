//! Opening the journal: what a crash left is looked through once, and what is not whole is told and left out.

use super::ahead::Ahead;
use super::recent::Recent;
use super::{Journal, Position, Progress, WAITING, Work, frames, record, segment};
use crate::point::BatchId;
use crate::store::StoreError;
use crate::tally::Tally;
use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

/// What is in a journal that the store does not have.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) segments: BTreeMap<u64, u64>,
    pub(super) ids: Vec<BatchId>,
    /// Sentences.
    pub(super) message: Vec<String>,
}

impl Journal {
    /// Of this folder, which the store has locked; `known` are pushes that the store has, `stored` is how far it is.
    pub(crate) fn open(
        data: &Path,
        known: Vec<BatchId>,
        stored: Position,
        most: u64,
        tally: Arc<Tally>,
    ) -> Result<Journal, StoreError> {
        let folder = data.join("journal");
        let unusable = |why: String| StoreError::Open { path: folder.clone(), why };
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        // The folder, too, is there after a crash.
        let made = made.and_then(|()| std::fs::File::open(data)?.sync_all());
        made.map_err(|error| unusable(error.to_string()))?;
        let left = look(&folder, stored).map_err(&unusable)?;
        left.message.iter().for_each(|sentence| crate::log::log!("{sentence}"));
        let newest = left.segments.last_key_value().map_or(0, |(number, _)| *number);
        let progress = Arc::new(Progress::new(left.segments, stored));
        let (jobs, waiting) = sync_channel(WAITING);
        let work = Work {
            folder: folder.clone(),
            progress: progress.clone(),
            tally,
            recent: Recent::new(known.into_iter().chain(left.ids)),
            file: None,
            number: newest.max(stored.segment),
            length: 0,
            message: None,
        };
        let thread = std::thread::Builder::new()
            .name("journal".into())
            .spawn(move || work.run(&waiting))
            .map_err(|error| unusable(error.to_string()))?;
        let ahead = Ahead::new(most, false);
        Ok(Journal { jobs: Some(jobs), thread: Some(thread), progress, folder, most, ahead })
    }
}

pub(super) fn look(folder: &Path, stored: Position) -> Result<Left, String> {
    let mut left = Left::default();
    let failed = |path: PathBuf| move |error: std::io::Error| format!("{}: {error}", path.display());
    for number in segment::numbers(folder).map_err(failed(folder.into()))? {
        if number < stored.segment {
            segment::delete(folder, number);
            continue;
        }
        let path = segment::path(folder, number);
        if !segment::is_known(folder, number).map_err(failed(path.clone()))? {
            return Err(format!(
                "{} is no journal of this version; store it with the gpuwhy-fleet that wrote it, or move it away",
                path.display()
            ));
        }
        let offset =
            if number == stored.segment { stored.offset.max(segment::FIRST) } else { segment::FIRST };
        let from = Position { segment: number, offset };
        let bytes = segment::read(folder, from, None).map_err(failed(path.clone()))?;
        let (mut end, mut bad) = (0, 0);
        for frame in frames(&bytes) {
            end = frame.end;
            match frame.record.and_then(record::id) {
                Some(id) => left.ids.push(id),
                None => bad += 1,
            }
        }
        if bad > 0 {
            left.message.push(format!("{bad} pushes in {} have gone bad and are lost", path.display()));
        }
        if end < bytes.len() {
            left.message.push(format!(
                "the last {} bytes of {} are not whole and were never acknowledged; they are left out",
                bytes.len() - end,
                path.display()
            ));
        }
        left.segments.insert(number, offset + end as u64);
    }
    Ok(left)
}
