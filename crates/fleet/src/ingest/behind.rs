//! The store behind the journal: one that is slow, that fails, or that was in the middle of it.

use super::writer::Writer;
use crate::journal::{Journal, NotStored, Position, Stored, decode, frames};
use crate::point::{Batch, BatchId, Event, Kind, Origin};
use crate::store::{Forgotten, Retention, Sink, StoreError};
use crate::tally::Tally;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Keeps ids only.
#[derive(Default)]
struct Fake {
    ids: Mutex<Vec<BatchId>>,
    at: Mutex<Position>,
    /// It waits for as long as this is held.
    gate: Mutex<()>,
    is_full: AtomicBool,
    /// Of the next writes, so many say that they failed and did not.
    lies: AtomicU32,
    refused: Option<BatchId>,
}

impl Fake {
    fn ids(&self) -> Vec<BatchId> {
        self.ids.lock().unwrap().clone()
    }
}

impl Sink for Fake {
    fn write(&self, group: &[&Batch], to: Position) -> Result<(), StoreError> {
        let _turn = self.gate.lock().unwrap();
        if group.iter().any(|batch| Some(batch.id) == self.refused) {
            return Err(StoreError::Refused("a number is too large".into()));
        }
        if self.is_full.load(Ordering::Relaxed) {
            return Err(StoreError::Write("no space left on device".into()));
        }
        self.ids.lock().unwrap().extend(group.iter().map(|batch| batch.id));
        *self.at.lock().unwrap() = to;
        let lies = self.lies.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |lies| lies.checked_sub(1));
        match lies {
            Ok(_) => Err(StoreError::Write("the answer was lost".into())),
            Err(_) => Ok(()),
        }
    }

    fn stored(&self) -> Result<Position, StoreError> {
        Ok(*self.at.lock().unwrap())
    }

    fn recent(&self) -> Result<Vec<BatchId>, StoreError> {
        Ok(self.ids())
    }

    fn forget_batches(&self, _before_ns: i64) -> Result<(), StoreError> {
        Ok(())
    }

    fn forget(&self, _now_ns: i64, _keep: Retention) -> Result<Forgotten, StoreError> {
        Ok(Forgotten::default())
    }
}

fn batch(id: BatchId) -> Batch {
    let origin = Origin { cluster: "c".into(), node: "n".into(), job: None, rank: Some(1), nranks: None };
    let event = Event {
        timestamp_ns: 5,
        origin,
        name: format!("metric {id}").into(),
        kind: Kind::Gauge,
        double: Some(1.0),
        int: None,
        attrs: None,
    };
    Batch { id, received_ns: 1, events: vec![event], ..Batch::default() }
}

/// A server on these data; what is dropped first ends first.
fn start(data: &Path, store: &Arc<Fake>, most: u64) -> (Journal, Writer) {
    let tally = Arc::new(Tally::default());
    let (known, at) = (store.recent().unwrap(), store.stored().unwrap());
    let journal = Journal::open(data, known.clone(), at, most, tally.clone()).unwrap();
    let writer = Writer::start(store.clone(), &journal, known, tally, Retention::default()).unwrap();
    (journal, writer)
}

/// Ends it, with all that is in the journal stored.
fn end((journal, writer): (Journal, Writer)) {
    drop(journal);
    drop(writer);
}

#[test]
fn a_slow_store_holds_up_nobody_until_the_journal_is_full_and_then_it_is_said() {
    let (data, store) = (tempfile::tempdir().unwrap(), Arc::new(Fake::default()));
    let server = start(data.path(), &store, 20_000);
    let slow = store.gate.lock().unwrap();
    let taken: Vec<BatchId> =
        (0..10_000).take_while(|id| server.0.append_blocking(&batch(*id)) == Ok(Stored::Now)).collect();
    assert!((100..2_000).contains(&taken.len()), "{} were taken", taken.len());
    assert_eq!(server.0.append_blocking(&batch(-1)), Err(NotStored::Full));
    assert_eq!(store.ids(), Vec::<BatchId>::new());
    drop(slow);
    while server.0.progress().behind() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(server.0.append_blocking(&batch(-1)), Ok(Stored::Now), "it goes on");
    end(server);
    assert_eq!(store.ids(), taken.into_iter().chain([-1]).collect::<Vec<_>>(), "all of it, in order, once");
}

#[test]
fn a_store_that_fails_for_a_while_has_everything_once_afterwards() {
    let (data, store) = (tempfile::tempdir().unwrap(), Arc::new(Fake::default()));
    store.is_full.store(true, Ordering::Relaxed);
    let server = start(data.path(), &store, u64::MAX);
    for id in 0..50 {
        assert_eq!(server.0.append_blocking(&batch(id)), Ok(Stored::Now));
    }
    std::thread::sleep(Duration::from_millis(700));
    store.lies.store(2, Ordering::Relaxed);
    store.is_full.store(false, Ordering::Relaxed);
    end(server);
    assert_eq!(store.ids(), (0..50).collect::<Vec<_>>());
}

#[test]
fn what_a_server_left_in_its_journal_the_next_one_stores_once() {
    let (data, store) = (tempfile::tempdir().unwrap(), Arc::new(Fake::default()));
    let server = start(data.path(), &store, u64::MAX);
    for id in 0..10 {
        server.0.append_blocking(&batch(id)).unwrap();
    }
    end(server);
    store.is_full.store(true, Ordering::Relaxed);
    let server = start(data.path(), &store, u64::MAX);
    for id in 10..20 {
        assert_eq!(server.0.append_blocking(&batch(id)), Ok(Stored::Now));
    }
    end(server);
    assert_eq!(store.ids().len(), 10, "it could not be stored");
    store.is_full.store(false, Ordering::Relaxed);
    let server = start(data.path(), &store, u64::MAX);
    assert_eq!(store.ids(), (0..20).collect::<Vec<_>>(), "it is there before anybody is let in");
    assert_eq!(server.0.append_blocking(&batch(15)), Ok(Stored::Before));
    assert_eq!(server.0.append_blocking(&batch(20)), Ok(Stored::Now));
    end(server);
    assert_eq!(store.ids(), (0..21).collect::<Vec<_>>());
    let files = std::fs::read_dir(data.path().join("journal")).unwrap().count();
    assert_eq!(files, 1, "what is stored is deleted");
}

#[test]
fn one_push_that_the_store_never_takes_does_not_hold_up_the_others() {
    let data = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake { refused: Some(7), ..Fake::default() });
    let server = start(data.path(), &store, u64::MAX);
    for id in 0..20 {
        server.0.append_blocking(&batch(id)).unwrap();
    }
    while server.0.progress().behind() > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    end(server);
    assert_eq!(store.ids(), (0..20).filter(|id| *id != 7).collect::<Vec<_>>());
    let files = std::fs::read_dir(data.path().join("journal")).unwrap();
    let aside = files.map(|file| file.unwrap().path()).find(|file| file.extension().unwrap() == "aside");
    let bytes = std::fs::read(aside.unwrap()).unwrap();
    let kept: Vec<_> = frames(&bytes).map(|frame| decode(frame.record.unwrap()).unwrap()).collect();
    assert_eq!(kept, [batch(7)], "it is not lost");
}
