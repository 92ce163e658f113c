//! Names of threads. A thread is listed when it begins, before it gives itself a name such as `pt_autograd_0`; whoever it wakes later
//! records the name it has by then.

use gpuwhy_store::{Reader, StoreError};
use std::collections::HashMap;

/// By process and thread; what has no name is left out.
pub fn thread_names<E: From<StoreError>>(reader: &Reader) -> Result<HashMap<(u32, u32), String>, E> {
    let mut processes: HashMap<u32, String> = HashMap::new();
    for process in reader.processes()? {
        processes.insert(process.pid, process.comm);
    }
    let mut names: HashMap<(u32, u32), String> = HashMap::new();
    // The latest name counts. A lock's holder is recorded by the name of its process, which says less.
    let mut statements = vec!["SELECT pid, tid, comm FROM threads LIMIT 1000000".to_string()];
    if reader.origin().has_blame() {
        for order in ["ASC", "DESC"] {
            statements.push(of_wakers("blame", "window_start_ns", "cause <> 'cpu.interrupt'", order));
            statements.push(of_wakers("sched_events", "timestamp_ns", "true", order));
        }
    }
    for sql in &statements {
        reader.stream::<E>(sql, &[], |record| {
            let id = |at: usize| record.integer(at).and_then(|number| u32::try_from(number).ok());
            let (Some(pid), Some(tid), Some(comm)) = (id(0), id(1), record.text(2)) else { return Ok(()) };
            let is_of_process = tid != pid && processes.get(&pid).is_some_and(|name| *name == comm);
            let is_shorter = comm.is_empty() || (is_of_process && names.contains_key(&(pid, tid)));
            if !is_shorter {
                names.insert((pid, tid), comm.into_owned());
            }
            Ok(())
        })?;
    }
    Ok(names)
}

/// Who ended waits, in the order of time. Of more rows than these the first and the last are read: a name is given once.
fn of_wakers(table: &str, time: &str, condition: &str, order: &str) -> String {
    const ROWS: u32 = 50_000;
    format!(
        "SELECT by_pid, by_tid, by_comm, max(time_ns) FROM (SELECT by_pid, by_tid, by_comm, {time} AS time_ns FROM {table} \
         WHERE by_tid > 0 AND {condition} ORDER BY {time} {order} LIMIT {ROWS}) GROUP BY 1, 2, 3 ORDER BY 4"
    )
}
