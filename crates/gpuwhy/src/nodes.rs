//! What a command is asked of: a trace file, or the traces of other nodes, fetched and merged into a file that goes when the
//! command is done.

use crate::cli::NodesOptions;
use crate::failure::Failure;
use crate::log::log;
use crate::paths;
use crate::progress::Progress;
use gpuwhy_model::units::{count, duration, printable, quoted, size};
use gpuwhy_nodes::{Ask, Fetched, Node, Part, Tokens, Trouble, check_certificates, gather};
use gpuwhy_query::QueryError;
use gpuwhy_serve::{ServeError, lines_of};
use gpuwhy_store::merge::{Clock, ClockSource, Clocks, MergedFile, Offset, merge};
use gpuwhy_store::{Reader, Stop};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tempfile::TempDir;

/// A node that says nothing for so long is left out.
const PATIENCE: Duration = Duration::from_secs(30);
/// As exports name the trace they are of.
const MERGED: &str = "nodes.db";

/// A trace that can be asked.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) reader: Reader,
    /// What became of each node; nothing where a file was asked.
    pub(crate) nodes: Option<Vec<NodeReport>>,
    /// Not all of their traces was fetched.
    in_part: bool,
    /// Holds the file while it is asked.
    _folder: Option<TempDir>,
}

/// What became of a node.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct NodeReport {
    pub(crate) node: String,
    ok: bool,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
enum Outcome {
    Answered {
        /// As its trace names them.
        hosts: Vec<String>,
        rows: u64,
        /// On the way, packed.
        bytes: u64,
        /// Its clock against that of this host, when it was asked.
        measured: Offset,
        /// What was done to its times.
        clock: Clock,
    },
    Failed {
        error: String,
    },
}

/// An answer as JSON, and what became of the nodes it is from.
#[derive(Debug, Serialize)]
pub(crate) struct WithNodes<'a, T> {
    #[serde(flatten)]
    pub(crate) answer: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nodes: Option<&'a [NodeReport]>,
}

impl Asked {
    pub(crate) fn file(path: &Path) -> Result<Asked, Failure> {
        let reader = Reader::open(path)?;
        paths::mention_roots(path, "explain");
        Ok(Asked { reader, nodes: None, in_part: false, _folder: None })
    }

    pub(crate) fn nodes(options: &NodesOptions, part: Part) -> Result<Asked, Failure> {
        let progress = Progress::begin()?;
        let gathered = Gathered::of(options, part, &progress)?;
        let path = match gathered.files.as_slice() {
            [only] => only.clone(),
            _ => gathered.folder.path().join(MERGED),
        };
        let merged = match gathered.files.len() {
            1 => None,
            _ => Some(gathered.merge(&path, false, &progress)?),
        };
        progress.clear();
        let mut reader = Reader::open(&path)?;
        reader.stop_with(&Stop::from(progress.stop()));
        let (nodes, folder) = gathered.reports(merged.as_deref())?;
        let missing = nodes.iter().filter_map(NodeReport::trouble).collect();
        reader.without(missing);
        Ok(Asked { reader, nodes: Some(nodes), in_part: part != Part::All, _folder: Some(folder) })
    }

    /// Why there is no answer. What else there is in a trace is not known from a part of it.
    pub(crate) fn failure(&self, error: QueryError) -> Failure {
        match error {
            QueryError::NoData(sentence) if self.in_part => {
                let nothing = sentence.split("; ").next().unwrap_or_default();
                Failure::Nothing(format!("{nothing} on these nodes; ask about a longer time"))
            }
            error => error.into(),
        }
    }

    /// The nodes as they were named.
    pub(crate) fn names(&self) -> Option<String> {
        let nodes = self.nodes.as_ref()?;
        Some(nodes.iter().map(|node| node.node.as_str()).collect::<Vec<_>>().join(","))
    }

    /// What was asked, as a command is given it.
    pub(crate) fn words(&self) -> String {
        match self.names() {
            Some(names) => format!("--nodes {}", quoted(&names)),
            None => quoted(&self.reader.path().display().to_string()),
        }
    }

    /// For people: what was done to clocks, and how many are in the answer.
    pub(crate) fn report(&self) {
        let Some(nodes) = &self.nodes else { return };
        report(nodes);
    }
}

impl NodeReport {
    /// What is missing, where it failed.
    fn trouble(&self) -> Option<String> {
        match &self.outcome {
            Outcome::Failed { error } => Some(format!("{}: {error}", self.node)),
            Outcome::Answered { .. } => None,
        }
    }

    fn answered(&self) -> Option<(u64, u64, Clock)> {
        match &self.outcome {
            Outcome::Answered { rows, bytes, clock, .. } => Some((*rows, *bytes, *clock)),
            Outcome::Failed { .. } => None,
        }
    }
}

/// The traces of the nodes that answered, as files.
#[derive(Debug)]
pub(crate) struct Gathered {
    folder: TempDir,
    pub(crate) files: Vec<PathBuf>,
    offsets: Vec<Offset>,
    nodes: Vec<(Node, Result<Fetched, String>)>,
}

impl Gathered {
    /// Each node that fails is told at once; it is no answer at all only if all do.
    pub(crate) fn of(options: &NodesOptions, part: Part, progress: &Progress) -> Result<Gathered, Failure> {
        let nodes = Node::parse_all(&options.nodes).map_err(|error| Failure::Usage(error.to_string()))?;
        let lines = options
            .token_file
            .as_deref()
            .map(lines_of)
            .transpose()
            .map_err(ServeError::from)?
            .unwrap_or_default();
        let tokens = Tokens::new(&lines, std::env::var("GPUWHY_TOKEN").ok().as_deref())
            .map_err(|why| Failure::Failed(format!("the token file cannot be used: {why}")))?;
        if let Some(ca) = &options.ca {
            check_certificates(ca)
                .map_err(|error| Failure::Failed(format!("the file of --ca cannot be used: {error}")))?;
        }
        let folder = tempfile::Builder::new()
            .prefix("gpuwhy-nodes-")
            .tempdir()
            .map_err(|error| Failure::no_folder(&error))?;
        let ask = Ask {
            tokens: &tokens,
            ca: options.ca.as_deref(),
            part,
            most_bytes: options.max_transfer,
            patience: PATIENCE,
        };
        let of = nodes.len();
        let results = gather(&nodes, &ask, folder.path(), &|now| {
            progress.say(|| {
                let rows = now.rows.load(Ordering::Relaxed);
                let bytes = now.bytes.load(Ordering::Relaxed);
                let done = now.nodes.load(Ordering::Relaxed);
                format!("{done} of {of} nodes, {} rows, {}", count(rows), size(bytes))
            })
        });
        progress.clear();
        let mut gathered = Gathered { folder, files: Vec::new(), offsets: Vec::new(), nodes: Vec::new() };
        for (node, result) in nodes.into_iter().zip(results) {
            match &result {
                Ok(fetched) => {
                    gathered.files.push(fetched.file.clone());
                    gathered.offsets.push(fetched.offset);
                }
                Err(Trouble::Interrupted) => {
                    return Err(Failure::Failed("it was interrupted before all nodes had answered".into()));
                }
                // The only one: it is why there is no answer.
                Err(trouble) if of == 1 => {
                    return Err(Failure::Failed(format!("{}: {trouble}", node.name)));
                }
                Err(trouble) => {
                    log!("{}", printable(&format!("{}: {trouble}", node.name)));
                }
            }
            gathered.nodes.push((node, result.map_err(|trouble| trouble.to_string())));
        }
        match gathered.files.is_empty() {
            false => Ok(gathered),
            true => Err(Failure::Failed(format!(
                "none of {of} nodes answered, so there is nothing to answer from"
            ))),
        }
    }

    pub(crate) fn merge(
        &self,
        out: &Path,
        keep_clocks: bool,
        progress: &Progress,
    ) -> Result<Vec<MergedFile>, Failure> {
        let clocks = if keep_clocks { Clocks::Keep } else { Clocks::Measured(&self.offsets) };
        let merged = merge(&self.files, out, clocks, &|rows| progress.rows(rows));
        // Fetched files are called as their nodes are.
        let folder = format!("{}/", self.folder.path().display());
        merged.map_err(|error| Failure::Failed(error.to_string().replace(&folder, "")))
    }

    /// And the folder of the files, of which only the one that is asked is left.
    fn reports(self, merged: Option<&[MergedFile]>) -> Result<(Vec<NodeReport>, TempDir), Failure> {
        let reports = match merged {
            Some(merged) => {
                for file in &self.files {
                    std::fs::remove_file(file)?;
                }
                self.reported(merged)
            }
            None => self.reported(&self.alone()?),
        };
        Ok((reports, self.folder))
    }

    /// What became of a single file, which is not merged with anything.
    pub(crate) fn alone(&self) -> Result<Vec<MergedFile>, Failure> {
        let alone = |file: &PathBuf| -> Result<MergedFile, Failure> {
            let sessions = Reader::open(file)?.sessions()?;
            let mut nodes: Vec<String> = sessions.into_iter().map(|session| session.info.host).collect();
            nodes.dedup();
            let rows = self.nodes.iter().filter_map(|(_, fetched)| Some(fetched.as_ref().ok()?.rows)).sum();
            let (file, clock) = (file.clone(), Clock::REFERENCE);
            Ok(MergedFile { file, nodes, rows, clock, pid_shift: 0, pids_shifted: 0 })
        };
        self.files.iter().map(alone).collect()
    }

    pub(crate) fn reported(&self, merged: &[MergedFile]) -> Vec<NodeReport> {
        let of = |(node, result): &(Node, Result<Fetched, String>)| {
            let outcome = match result {
                Err(error) => Outcome::Failed { error: error.clone() },
                Ok(fetched) => {
                    let merged = merged.iter().find(|merged| merged.file == fetched.file);
                    Outcome::Answered {
                        hosts: merged.map_or_else(Vec::new, |merged| merged.nodes.clone()),
                        rows: fetched.rows,
                        bytes: fetched.bytes,
                        measured: fetched.offset,
                        clock: merged.map_or(Clock::UNKNOWN, |merged| merged.clock),
                    }
                }
            };
            NodeReport { node: node.name.clone(), ok: result.is_ok(), outcome }
        };
        self.nodes.iter().map(of).collect()
    }
}

/// On stderr: whose times were changed by how much, and how many nodes are in the answer.
pub(crate) fn report(nodes: &[NodeReport]) {
    let answered: Vec<(&NodeReport, (u64, u64, Clock))> =
        nodes.iter().filter_map(|node| Some((node, node.answered()?))).collect();
    let reference = answered.iter().find(|(_, (.., clock))| clock.source == ClockSource::Reference);
    let reference = reference.map_or("the others", |(node, _)| node.node.as_str());
    for (node, (.., clock)) in answered.iter().filter(|(_, (.., clock))| clock.shift_ns != 0) {
        let way = if clock.shift_ns < 0 { "ahead of" } else { "behind" };
        let reported = match clock.source {
            ClockSource::Collectives => format!("by {} collectives", count(clock.collectives)),
            _ => "measured now".into(),
        };
        let error = clock.error_ns.map_or_else(
            || "nobody knows how exactly".into(),
            |ns| format!("right within {}", duration(ns.unsigned_abs())),
        );
        let apart = duration(clock.shift_ns.unsigned_abs());
        let message = format!(
            "{}: its clock is {apart} {way} that of {reference} ({reported}, {error}); its times were corrected",
            node.node
        );
        log!("{}", printable(&message));
    }
    let sum = |of: fn(&(u64, u64, Clock)) -> u64| answered.iter().map(|(_, one)| of(one)).sum::<u64>();
    let errors: Option<Vec<i64>> = answered.iter().map(|(_, (.., clock))| clock.error_ns).collect();
    let clocks = match errors.and_then(|errors| errors.into_iter().max()).filter(|_| answered.len() > 1) {
        Some(error) => format!("; clocks agree within {}", duration(error.unsigned_abs())),
        None => String::new(),
    };
    log!(
        "{} of {} nodes answered: {} rows, {} on the way{clocks}",
        answered.len(),
        nodes.len(),
        count(sum(|one| one.0)),
        size(sum(|one| one.1)),
    );
}
