//! What a trace needs before its first event, made side by side: the probes are the kernel's work for the most part, the
//! file is the disk's, and libraries are looked for meanwhile.

use crate::known::Known;
use crate::preparing::{Preparer, SharedKnown, lock};
use crate::sink::{Sink, session_info};
use crate::{AgentError, Config, discovery, words_masked};
use gpuwhy_probes::{Engine, LibraryFile, Settings, op_infos};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) struct Starting {
    pub(super) engine: Engine,
    pub(super) sink: Sink,
    /// Libraries to attach, in that order.
    pub(super) found: Vec<LibraryFile>,
    pub(super) known: SharedKnown,
}

impl Starting {
    pub(super) fn begin(config: &Config, mut settings: Settings) -> Result<Starting, AgentError> {
        let known = config.known_libraries.as_deref().map(Known::read).unwrap_or_default();
        let known: SharedKnown = Arc::new(Mutex::new(known));
        // Looked at before anything else: which probes are loaded depends on it.
        let asked = discovery::of_asked(config);
        settings.libraries = asked.iter().map(|file| file.library).collect();
        if foresees(config) {
            settings.libraries.extend(lock(&known).libraries());
        }
        let flags = if config.mask { words_masked(&config.flags) } else { config.flags.clone() };
        let (engine, sink, found) = std::thread::scope(|scope| {
            let found = scope.spawn(|| find(config, asked, &known));
            let sink = scope.spawn(|| {
                // When it begins is known only when the probes are there.
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let session = session_info(now.as_nanos() as u64, 0, flags);
                Sink::open(&config.out, &session, &op_infos(&settings.probes), &config.store)
            });
            let engine = Engine::load(&settings);
            (engine, sink.join(), found.join())
        });
        let died =
            |what: &str| AgentError::Internal(format!("{what} failed; this is a fault of gpuwhy's own"));
        let sink = sink.unwrap_or_else(|_| {
            Err(gpuwhy_store::StoreError::Disk {
                path: config.out.clone(),
                why: "opening it failed; this is a fault of gpuwhy's own".into(),
            })
        });
        // Why nothing can be traced matters more than the file.
        let (engine, sink) = match (engine, sink) {
            (Ok(engine), sink) => (engine, sink?),
            (Err(error), sink) => {
                if let Ok(sink) = sink {
                    sink.abandon();
                }
                return Err(error.into());
            }
        };
        match found {
            Ok(found) => Ok(Starting { engine, sink, found, known }),
            Err(_) => {
                sink.abandon();
                Err(died("looking for libraries"))
            }
        }
    }
}

/// Files that nobody maps are attached where new processes are traced: a process that runs already has its own.
fn foresees(config: &Config) -> bool {
    config.traces_everyone() || config.command.is_some()
}

fn find(config: &Config, asked: Vec<LibraryFile>, known: &SharedKnown) -> Vec<LibraryFile> {
    let mut files = asked;
    files.extend(discovery::of_others(config));
    if foresees(config) {
        let remembered = lock(known).present();
        files.extend(remembered);
    }
    let mut seen = std::collections::HashSet::new();
    files.retain(|file| seen.insert(file.file.id()));
    let preparer = Preparer::start(Arc::clone(known));
    for file in &mut files {
        preparer.prepare(file);
    }
    files.sort_by_key(|file| discovery::turn(file.library));
    files
}
