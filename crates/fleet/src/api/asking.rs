//! Asking: a few questions at a time, each ended as soon as nobody waits for its answer.

use super::audit::Audit;
use super::tools::{TOOLS, Tool};
use crate::journal::Progress;
use crate::peers::Peers;
use crate::store::{Stop, Store, StoreError};
use crate::tally::Tally;
use crate::tokens::Grant;
use gpuwhy_cohort::Rates;
use gpuwhy_http::{AskError, Kind};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many questions are answered at a time; others wait.
const AT_ONCE: usize = 4;
/// Of one token. Its others wait for these: whoever asks next waits for two of each at most.
const OF_A_TOKEN: usize = 2;
/// A question that does not get its turn in this time is refused.
const TURN: Duration = Duration::from_secs(30);
/// The store is behind the journal; a question waits for what was acknowledged before it, but not for longer than that.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(crate) struct Asking(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    peers: Arc<Peers>,
    tally: Arc<Tally>,
    audit: Arc<Audit>,
    rates: Rates,
    progress: Arc<Progress>,
    turns: Arc<Semaphore>,
    /// By token.
    own_turns: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl std::fmt::Debug for Asking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Asking")
    }
}

/// What a tool works with.
pub(super) struct Work<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) peers: &'a Peers,
    pub(super) grant: &'a Grant,
    pub(super) stop: &'a Stop,
    pub(super) rates: &'a Rates,
    pub(super) tally: &'a Tally,
    pub(super) audit: &'a Audit,
}

impl Asking {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        peers: Arc<Peers>,
        tally: Arc<Tally>,
        audit: Arc<Audit>,
        rates: Rates,
        progress: Arc<Progress>,
    ) -> Asking {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let own_turns = Mutex::default();
        Asking(Arc::new(Inner { store, peers, tally, audit, rates, progress, turns, own_turns }))
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.0.tally
    }

    pub(super) fn peers(&self) -> &Peers {
        &self.0.peers
    }

    /// One of its token's, then one of all.
    async fn turn(&self, grant: &Grant) -> Option<[OwnedSemaphorePermit; 2]> {
        let own = {
            let mut own = self.0.own_turns.lock().unwrap_or_else(PoisonError::into_inner);
            own.entry(grant.short.clone()).or_insert_with(|| Arc::new(Semaphore::new(OF_A_TOKEN))).clone()
        };
        let own = own.acquire_owned().await.ok()?;
        Some([own, self.0.turns.clone().acquire_owned().await.ok()?])
    }

    /// Whoever drops the future ends the question.
    pub(super) async fn ask(
        &self,
        tool: &'static Tool,
        grant: &Arc<Grant>,
        request: Value,
    ) -> Result<Value, AskError> {
        let scope = tool.run.scope;
        if !grant.has(scope) {
            let sentence = format!("this token may not ask this; it needs the scope `{}`", scope.name());
            return Err(AskError::new(Kind::Refused, sentence));
        }
        let turn = tokio::time::timeout(TURN, self.turn(grant)).await;
        let Ok(Some(turn)) = turn else {
            return Err(AskError::new(Kind::Busy, "too many questions are being answered; ask again later"));
        };
        self.0.progress.caught_up(PATIENCE).await;
        let ended = EndOnDrop(Stop::default());
        let (inner, grant, stop) = (self.0.clone(), grant.clone(), ended.0.clone());
        // The turn is over when the work is, not when nobody waits for it any more.
        let work = tokio::task::spawn_blocking(move || {
            let work = Work {
                store: &*inner.store,
                peers: &inner.peers,
                grant: &grant,
                stop: &stop,
                rates: &inner.rates,
                tally: &inner.tally,
                audit: &inner.audit,
            };
            let answered = (tool.run.run)(&work, request);
            drop(turn);
            answered
        });
        let failed = |_| AskError::new(Kind::Failed, "answering failed; look at the server's messages");
        work.await.map_err(failed)?
    }
}

/// The tool of that name.
pub(super) fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

pub(super) fn of_store(error: &StoreError) -> AskError {
    let kind = match error {
        StoreError::Sql(_) | StoreError::Died(_) => Kind::Usage,
        StoreError::Busy => Kind::Busy,
        StoreError::Slow(_) => Kind::Slow,
        StoreError::Stopped => Kind::Stopped,
        _ => Kind::Failed,
    };
    AskError::new(kind, error.to_string())
}

struct EndOnDrop(Stop);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}
