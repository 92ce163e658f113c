//! The journal's files: what was acknowledged is found again, whatever was in the middle of being written.

use super::open::look;
use super::record::tests::batch;
use super::{Journal, NotStored, Part, Position, Stored, decode, durable, frames, segment};
use crate::store::StoreError;
use crate::tally::Tally;
use std::path::Path;
use std::sync::Arc;

fn open(data: &Path, most: u64) -> Result<Journal, StoreError> {
    Journal::open(data, vec![1_000], Position::default(), most, Arc::new(Tally::default()))
}

fn ids(data: &Path) -> Vec<i128> {
    look(&data.join("journal"), Position::default()).unwrap().ids
}

#[test]
fn what_was_acknowledged_is_found_again_and_what_comes_again_is_told() {
    let data = tempfile::tempdir().unwrap();
    let journal = open(data.path(), u64::MAX).unwrap();
    for id in 0..3 {
        assert_eq!(journal.append_blocking(&batch(id, 5)), Ok(Stored::Now));
    }
    assert_eq!(journal.append_blocking(&batch(1, 5)), Ok(Stored::Before));
    assert_eq!(journal.append_blocking(&batch(1_000, 5)), Ok(Stored::Before), "the store has it");
    assert_eq!(ids(data.path()), [0, 1, 2]);
    drop(journal);
    // Another server goes on in another file, and knows them all.
    let journal = open(data.path(), u64::MAX).unwrap();
    assert_eq!(journal.append_blocking(&batch(2, 5)), Ok(Stored::Before));
    assert_eq!(journal.append_blocking(&batch(3, 5)), Ok(Stored::Now));
    assert_eq!(segment::numbers(&data.path().join("journal")).unwrap(), [1, 2]);
    assert_eq!(ids(data.path()), [0, 1, 2, 3]);
    let part =
        Part { from: Position { segment: 2, offset: segment::FIRST }, to: journal.progress().end().offset };
    let bytes = journal.read().bytes(part).unwrap();
    let read: Vec<_> = frames(&bytes).map(|frame| frame.record.and_then(decode).unwrap()).collect();
    assert_eq!(read, [batch(3, 5)]);
}

#[test]
fn many_at_once_are_all_taken_each_once() {
    let data = tempfile::tempdir().unwrap();
    let journal = Arc::new(open(data.path(), u64::MAX).unwrap());
    let senders: Vec<_> = (0..8i128)
        .map(|sender| {
            let journal = journal.clone();
            // Two of them send the same.
            std::thread::spawn(move || {
                let mine = (0..50).map(|n| batch((sender / 2) * 100 + n, 3));
                mine.filter(|batch| journal.append_blocking(batch) == Ok(Stored::Now)).count()
            })
        })
        .collect();
    let new: usize = senders.into_iter().map(|sender| sender.join().unwrap()).sum();
    let mut found = ids(data.path());
    found.sort_unstable();
    assert_eq!((new, found.len()), (200, 200));
    assert!(found.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn a_torn_end_is_left_out_and_told_and_a_flipped_bit_costs_one_push() {
    let data = tempfile::tempdir().unwrap();
    let journal = open(data.path(), u64::MAX).unwrap();
    for id in 0..3 {
        journal.append_blocking(&batch(id, 5)).unwrap();
    }
    drop(journal);
    let file = segment::path(&data.path().join("journal"), 1);
    let whole = std::fs::read(&file).unwrap();
    let size = (whole.len() - 8) / 3;
    for end in (0..whole.len()).step_by(7) {
        std::fs::write(&file, &whole[..end]).unwrap();
        let left = look(&data.path().join("journal"), Position::default()).unwrap();
        let (count, rest) = (end.saturating_sub(8) / size, end.saturating_sub(8) % size);
        assert_eq!(left.ids, (0..count as i128).collect::<Vec<_>>(), "{end} of {}", whole.len());
        assert_eq!(left.message.is_empty(), rest == 0, "{:?}", left.message);
        assert!(
            left.message.iter().all(|message| message.contains("never acknowledged")),
            "{:?}",
            left.message
        );
    }
    let mut bad = whole.clone();
    bad[8 + size + 20] ^= 0x10;
    std::fs::write(&file, &bad).unwrap();
    let left = look(&data.path().join("journal"), Position::default()).unwrap();
    assert_eq!(left.ids, [0, 2]);
    assert!(left.message[0].contains("1 pushes in") && left.message.len() == 1, "{:?}", left.message);
}

#[test]
fn what_is_in_the_store_is_not_read_again_and_its_files_go() {
    let data = tempfile::tempdir().unwrap();
    for id in 0..4 {
        // Each a segment of its own.
        open(data.path(), u64::MAX).unwrap().append_blocking(&batch(id, 5)).unwrap();
    }
    let folder = data.path().join("journal");
    let end = std::fs::metadata(segment::path(&folder, 3)).unwrap().len();
    let left = look(&folder, Position { segment: 3, offset: end }).unwrap();
    assert_eq!(left.ids, [3]);
    assert_eq!(segment::numbers(&folder).unwrap(), [3, 4]);
    // Where all files were deleted, numbers go on from where the store is.
    (3..5).for_each(|number| segment::delete(&folder, number));
    let stored = Position { segment: 4, offset: 99 };
    let journal =
        Journal::open(data.path(), Vec::new(), stored, u64::MAX, Arc::new(Tally::default())).unwrap();
    journal.append_blocking(&batch(9, 1)).unwrap();
    assert_eq!(segment::numbers(&folder).unwrap(), [5]);
}

#[test]
fn a_journal_that_the_store_does_not_follow_is_full_and_says_so() {
    let data = tempfile::tempdir().unwrap();
    let journal = open(data.path(), 10_000).unwrap();
    let taken =
        (0..1_000).take_while(|id| journal.append_blocking(&batch(*id, 20)) == Ok(Stored::Now)).count();
    assert!((3..100).contains(&taken), "{taken}");
    assert_eq!(journal.append_blocking(&batch(5_000, 20)), Err(NotStored::Full));
    journal.progress().stored(journal.progress().end());
    assert_eq!(journal.append_blocking(&batch(5_000, 20)), Ok(Stored::Now));
}

#[test]
fn a_journal_of_another_version_is_not_touched() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("journal");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(segment::path(&folder, 7), b"gpuwhyJ9 and what follows").unwrap();
    let refused = open(data.path(), u64::MAX).unwrap_err().to_string();
    assert!(refused.contains("no journal of this version"), "{refused}");
    // A crash while a file was made leaves less than its beginning.
    std::fs::write(segment::path(&folder, 7), b"gpu").unwrap();
    open(data.path(), u64::MAX).unwrap();
}

#[test]
fn a_disk_that_fails_refuses_pushes_and_works_again_afterwards() {
    let data = tempfile::tempdir().unwrap();
    let journal = open(data.path(), u64::MAX).unwrap();
    assert_eq!(journal.append_blocking(&batch(1, 5)), Ok(Stored::Now));
    drop(journal);
    let journal = open(data.path(), u64::MAX).unwrap();
    let folder = data.path().join("journal");
    let away = data.path().join("away");
    std::fs::rename(&folder, &away).unwrap();
    let failed = journal.append_blocking(&batch(2, 5));
    assert!(matches!(&failed, Err(NotStored::Failed(message)) if message.contains("journal")), "{failed:?}");
    std::fs::rename(&away, &folder).unwrap();
    assert_eq!(journal.append_blocking(&batch(2, 5)), Ok(Stored::Now), "it was not taken before");
    assert_eq!(ids(data.path()), [1, 2]);
}

#[test]
fn what_is_set_aside_counts_when_the_file_and_its_folder_are_on_disk() {
    let data = tempfile::tempdir().unwrap();
    let journal = open(data.path(), u64::MAX).unwrap();
    journal.append_blocking(&batch(7, 5)).unwrap();
    let from = Position { segment: 1, offset: segment::FIRST };
    let part = Part { from, to: journal.progress().end().offset };
    let aside = || {
        let files = std::fs::read_dir(data.path().join("journal")).unwrap().flatten();
        files.filter(|file| file.path().extension().is_some_and(|ending| ending == "aside")).count()
    };
    let no_files: durable::Sync = |file| match file.metadata()?.is_dir() {
        true => Ok(()),
        false => Err(std::io::Error::other("the disk does not answer")),
    };
    let no_folders: durable::Sync = |file| match file.metadata()?.is_dir() {
        true => Err(std::io::Error::other("the disk does not answer")),
        false => Ok(()),
    };
    let mut tail = journal.read();
    for sync in [no_files, no_folders] {
        tail.sync = sync;
        assert!(tail.set_aside(part).is_err());
        assert_eq!(aside(), 0);
    }
    tail.sync = std::fs::File::sync_all;
    assert_eq!(tail.set_aside(part).unwrap().1, Position { offset: part.to, ..from });
    assert_eq!(aside(), 1);
}
