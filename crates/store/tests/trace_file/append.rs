//! Several runs write one file, one after the other.

use crate::made::{START, calls, op, ops, plain, session, writer};
use gpuwhy_model::{Batch, Call, Facts, Family, Layer, OpId};
use gpuwhy_store::{Filter, Options, Reader, SessionInfo, StoreError, Writer};
use std::time::{Duration, Instant};

#[test]
fn a_second_run_appends_under_its_own_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut first = writer(&path);
    first.write(&calls(0..3), &Facts::default()).unwrap();
    first.finish(START + 9).unwrap();
    let renumbered =
        [op(1, "cudaMalloc", Layer::Cuda, Family::Alloc), op(2, "cudaFree", Layer::Cuda, Family::Free)];
    let mut second = Writer::create_or_append(&path, &session(), &renumbered, &Options::default()).unwrap();
    let batch = Batch {
        calls: vec![Call { op: OpId(1), ..plain(10) }, Call { op: OpId(2), ..plain(11) }],
        ..Batch::default()
    };
    second.write(&batch, &Facts::default()).unwrap();
    second.finish(START + 99).unwrap();
    let reader = Reader::open(&path).unwrap();
    let count = |op: &str| reader.calls(&Filter { op: Some(op.into()), ..Filter::default() }).unwrap().len();
    assert_eq!((count("cudaMalloc"), count("cudaFree")), (4, 1));
    let ends: Vec<_> = reader.sessions().unwrap().into_iter().map(|session| session.end_ns).collect();
    assert_eq!(ends, [Some(START + 9), Some(START + 99)]);
    assert_eq!(reader.ops().unwrap().len(), ops().len() + 1);
}

#[test]
fn finishing_leaves_one_plain_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    writer.write(&calls(0..100), &Facts::default()).unwrap();
    writer.finish(START).unwrap();
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["trace.db"]);
    // 1 is a rollback journal; 2 would be a log, which needs files beside it to be read.
    assert_eq!(std::fs::read(&path).unwrap()[18..20], [1, 1]);
}

#[test]
fn readers_see_commits_while_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    let reader = Reader::open(&path).unwrap();
    writer.write(&calls(0..10), &Facts::default()).unwrap();
    assert_eq!(reader.event_count().unwrap(), 0);
    writer.commit().unwrap();
    assert_eq!(reader.event_count().unwrap(), 10);
    writer.finish(START).unwrap();
    assert_eq!(reader.event_count().unwrap(), 10);
    drop(reader);
    assert_eq!(Reader::open(&path).unwrap().event_count().unwrap(), 10);
}

#[test]
fn a_second_writer_is_refused_and_the_first_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut first = writer(&path);
    let refused = Writer::create_or_append(&path, &session(), &ops(), &Options::default()).unwrap_err();
    let words = refused.to_string();
    assert!(matches!(refused, StoreError::Busy { .. }), "{words}");
    assert!(words.starts_with("another gpuwhy trace is writing ") && words.contains("(pid "), "{words}");
    first.write(&calls(0..5), &Facts::default()).unwrap();
    first.finish(START).unwrap();
    drop(writer(&path));
    assert_eq!(Reader::open(&path).unwrap().event_count().unwrap(), 5);
}

#[test]
fn folders_are_made_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/trace.db");
    let refused = Writer::create_or_append(&path, &session(), &ops(), &Options::default()).unwrap_err();
    assert!(refused.to_string().contains("folder does not exist"), "{refused}");
    let options = Options { create_folders: true, ..Options::default() };
    Writer::create_or_append(&path, &SessionInfo::default(), &ops(), &options).unwrap().finish(1).unwrap();
    assert_eq!(Reader::open(&path).unwrap().event_count().unwrap(), 0);
}

#[test]
fn an_empty_file_becomes_a_trace() {
    let file = tempfile::NamedTempFile::new().unwrap();
    writer(file.path()).finish(1).unwrap();
    assert_eq!(Reader::open(file.path()).unwrap().sessions().unwrap().len(), 1);
}

#[test]
fn readers_of_one_moment_see_the_same_however_fast_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    let reader = Reader::open(&path).unwrap();
    let goes_on = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for number in 0.. {
                writer.write(&calls(number..number + 1), &Facts::default()).unwrap();
                writer.commit().unwrap();
                // Without a pause, and then with one in which several readers can begin.
                if number % 20 == 0 {
                    std::thread::sleep(Duration::from_millis(20));
                }
                if !goes_on.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
            }
        });
        let (mut together, mut asked, began) = (0, 0, Instant::now());
        while (asked < 50 || together == 0) && began.elapsed() < Duration::from_secs(30) {
            asked += 1;
            let counted = reader.at_one_moment_with(2, |others| {
                let counts = || -> Result<Vec<u64>, StoreError> {
                    std::iter::once(&reader).chain(&others).map(Reader::event_count).collect()
                };
                let (before, after) = (counts()?, counts()?);
                assert_eq!(before, after);
                assert!(before.iter().all(|count| *count == before[0]), "{before:?}");
                Ok::<_, StoreError>(before.len())
            });
            together += usize::from(counted.unwrap() == 3);
        }
        goes_on.store(false, std::sync::atomic::Ordering::Relaxed);
        assert!(together > 0, "never three at once, of {asked} times");
    });
    // And again after it, once nobody writes.
    assert_eq!(reader.at_one_moment_with(2, |others| Ok::<_, StoreError>(others.len())).unwrap(), 2);
}
