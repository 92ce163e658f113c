//! Somebody wants to stop, and files that are not as they should be.

use crate::made::{bytes, trace};
use gpuwhy_export::{ExportError, FORMATS, Shape, Source};

#[test]
fn every_format_stops_when_it_is_told_to() {
    let (_folder, reader) = trace(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
         INSERT INTO calls (timestamp_ns, duration_ns, op_id, pid, tid, kept) SELECT T + i * 10, 5, 1, 10, 11, 2 FROM n;",
    );
    for format in FORMATS {
        let source = Source { go_on: &|rows| rows < 10_000, ..Source::whole(&reader) };
        let stopped = match format.shape {
            Shape::Stream { write, .. } => write(&source, &mut std::io::sink()),
            Shape::Folder { write } => write(&source, &mut |_| Ok(Box::new(std::io::sink()))),
        };
        assert!(matches!(stopped, Err(ExportError::Interrupted)), "{}", format.name);
    }
}

/// A disk that is full after some bytes.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_told_as_such_by_every_format() {
    let (_folder, reader) = trace(
        "INSERT INTO calls (timestamp_ns, duration_ns, op_id, pid, tid, kept) VALUES (T + 10, 5, 1, 10, 11, 2);",
    );
    for format in FORMATS {
        let source = Source::whole(&reader);
        let failed = match format.shape {
            Shape::Stream { write, .. } => write(&source, &mut Full(20)),
            Shape::Folder { write } => write(&source, &mut |_| Ok(Box::new(Full(20)))),
        };
        match failed {
            Err(ExportError::Io(error)) => {
                assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{}", format.name);
            }
            other => panic!("{}: {other:?}", format.name),
        }
    }
}

#[test]
fn values_of_the_wrong_kind_and_extreme_times_break_nothing() {
    let (_folder, reader) = trace(
        "INSERT INTO sched_events (timestamp_ns, duration_ns, event, pid, tid) VALUES
             (-5, -7, 'before', 10, 11), (9223372036854775807, 9223372036854775807, 'after', -1, 99999999999),
             (T + 1, 'long', x'00ff', 'ten', 3.5);
         INSERT INTO nccl_events (timestamp_ns, op, seq, comm_id_hash, rank, completed_ns) VALUES (T + 2, 'X', -1, '', -1, -9);
         INSERT INTO gpu_samples (timestamp_ns, gpu, sm_pct, power_mw) VALUES (T + 3, 0, 9e999, 'much');
         INSERT INTO frames (stack_id, depth, line) VALUES (1, 0, -4);",
    );
    for format in ["perfetto", "chrome", "pprof", "speedscope", "folded"] {
        let (out, _) =
            bytes(&Source::whole(&reader), format).unwrap_or_else(|error| panic!("{format}: {error}"));
        if ["chrome", "speedscope"].contains(&format) {
            serde_json::from_slice::<serde_json::Value>(&out)
                .unwrap_or_else(|error| panic!("{format}: {error}"));
        }
    }
}
