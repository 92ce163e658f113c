//! Reads where a library file's functions are before it is attached, in a confined thread that lives as long as the agent:
//! starting one for each file takes longer than reading most of them.

use crate::known::Known;
use gpuwhy_confine::{Parser, Purpose};
use gpuwhy_probes::{LibraryFile, Sites, build_id};
use gpuwhy_proc::distrust;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const NAME: &str = "gpuwhy-sites";

/// Shared by those who find libraries.
pub(crate) type SharedKnown = Arc<Mutex<Known>>;

pub(crate) fn lock(known: &SharedKnown) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(crate) struct Preparer {
    parser: Parser,
    known: SharedKnown,
}

impl Preparer {
    pub(crate) fn start(known: SharedKnown) -> Preparer {
        Preparer { parser: Parser::start(NAME, Purpose::Parse), known }
    }

    /// Finds its functions. Where that fails, attaching tries again and says why.
    pub(crate) fn prepare(&self, file: &mut LibraryFile) {
        let (target, library, known) = (file.file.clone(), file.library, Arc::clone(&self.known));
        let read = move || {
            let id = build_id(&target).filter(|id| !id.is_empty());
            let seen = id.as_ref().and_then(|id| lock(&known).sites(library, id, &target));
            let sites = match seen.filter(|sites| sites.fit(&target)) {
                Some(sites) => sites,
                None => Arc::new(Sites::read(&target, library).ok()?),
            };
            if let Some(id) = id {
                lock(&known).learn(library, id, &target, Arc::clone(&sites));
            }
            Some(sites)
        };
        let read = self.parser.parse(read);
        if let (None, Some(pid)) = (&read, file.pid) {
            distrust(pid);
        }
        file.sites = read.flatten();
    }
}
