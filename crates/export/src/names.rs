//! Names for numbers: processes, threads, operations, kernels, libraries.

use crate::text::name;
use crate::{ExportError, Source};
use gpuwhy_model::{OpId, OpInfo};
use gpuwhy_store::Record;
use std::collections::{HashMap, HashSet};

#[derive(Debug, Default)]
pub(crate) struct Names {
    ops: HashMap<OpId, OpInfo>,
    processes: HashMap<u32, Process>,
    threads: HashMap<(u32, u32), String>,
    kernels: HashMap<(u32, u64), String>,
    libraries: HashMap<u16, String>,
}

/// The last process of a number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Process {
    pub(crate) comm: String,
    pub(crate) cmdline: String,
    /// As `python (rank 3, node-7)`.
    pub(crate) label: String,
}

impl Names {
    pub(crate) fn of(source: &Source<'_>) -> Result<Names, ExportError> {
        let mut names = Names::default();
        for mut op in source.reader.ops()? {
            op.name = name(&op.name).into_owned();
            names.ops.insert(op.id, op);
        }
        names.read_processes(source)?;
        let Names { threads, kernels, libraries, .. } = &mut names;
        let named = gpuwhy_query::thread_names::<ExportError>(source.reader)?;
        threads.extend(named.into_iter().map(|(thread, comm)| (thread, name(&comm).into_owned())));
        texts(source, "SELECT name, pid, handle FROM kernels WHERE name IS NOT NULL", |kernel, record| {
            if let Some(handle) = record.text(2).as_deref().and_then(address) {
                kernels.insert((number(record, 1), handle), kernel);
            }
        })?;
        texts(source, "SELECT file, library_id FROM libraries", |file, record| {
            libraries.insert(number(record, 1) as u16, file);
        })?;
        Ok(names)
    }

    fn read_processes(&mut self, source: &Source<'_>) -> Result<(), ExportError> {
        let hosts: HashSet<String> =
            source.reader.sessions()?.into_iter().map(|session| session.info.host).collect();
        // Who was not traced has a name, too, where it stood behind a wait.
        let sql = "SELECT pid, comm, NULL, NULL, NULL FROM neighbours \
                   UNION ALL SELECT * FROM (SELECT p.pid, p.comm, p.cmdline, p.rank, s.host FROM processes p \
                   LEFT JOIN sessions s ON s.session_id = p.session_id ORDER BY p.start_ns)";
        source.reader.stream::<ExportError>(sql, &[], |record| {
            let text = |at: usize| name(&record.text(at).unwrap_or_default()).into_owned();
            let (comm, host) = (text(1), text(4));
            let mut facts = Vec::new();
            if let Some(rank) = record.integer(3) {
                facts.push(format!("rank {rank}"));
            }
            if hosts.len() > 1 && !host.is_empty() {
                facts.push(host);
            }
            let label = match facts.is_empty() {
                true => comm.clone(),
                false => format!("{comm} ({})", facts.join(", ")),
            };
            self.processes.insert(number(&record, 0), Process { comm, cmdline: text(2), label });
            Ok(())
        })
    }

    pub(crate) fn op(&self, id: OpId) -> Option<&OpInfo> {
        self.ops.get(&id)
    }

    pub(crate) fn op_name(&self, id: OpId) -> &str {
        self.ops.get(&id).map_or("?", |op| &op.name)
    }

    /// Of a collective, which is stored under its function's name.
    pub(crate) fn op_named(&self, function: &str) -> Option<&OpInfo> {
        self.ops.values().find(|op| op.name == function)
    }

    pub(crate) fn process(&self, pid: u32) -> Option<&Process> {
        self.processes.get(&pid)
    }

    pub(crate) fn comm(&self, pid: u32) -> &str {
        self.processes.get(&pid).map_or("", |process| &process.comm)
    }

    /// As `python 4242`.
    pub(crate) fn title(&self, pid: u32) -> String {
        match self.comm(pid) {
            "" => format!("process {pid}"),
            comm => format!("{comm} {pid}"),
        }
    }

    /// As `pt_autograd_0 4243`.
    pub(crate) fn thread_title(&self, pid: u32, tid: u32) -> String {
        match self.thread(pid, tid).unwrap_or_else(|| self.comm(pid)) {
            "" => format!("thread {tid}"),
            comm => format!("{comm} {tid}"),
        }
    }

    pub(crate) fn thread(&self, pid: u32, tid: u32) -> Option<&str> {
        self.threads.get(&(pid, tid)).map(String::as_str)
    }

    pub(crate) fn kernel(&self, pid: u32, handle: u64) -> Option<&str> {
        self.kernels.get(&(pid, handle)).map(String::as_str)
    }

    pub(crate) fn library(&self, id: u16) -> Option<&str> {
        self.libraries.get(&id).map(String::as_str)
    }
}

/// Every row of a statement whose first column is a name.
fn texts(
    source: &Source<'_>,
    sql: &str,
    mut keep: impl FnMut(String, &Record<'_>),
) -> Result<(), ExportError> {
    source.reader.stream::<ExportError>(sql, &[], |record| {
        keep(name(&record.text(0).unwrap_or_default()).into_owned(), &record);
        Ok(())
    })
}

fn number(record: &Record<'_>, at: usize) -> u32 {
    record.integer(at).unwrap_or(0) as u32
}

/// As `0x7f00`.
pub(crate) fn address(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}
