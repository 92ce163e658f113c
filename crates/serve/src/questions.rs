//! All that can be asked, of the trace and of the host, and asking it: a few at a time, not for ever, and ended as soon as
//! nobody waits for the answer.

use crate::answers::Answers;
use crate::error::{of_query, of_store};
use crate::traces::Traces;
use gpuwhy_http::{AskError, Kind};
use gpuwhy_query::{ENDPOINTS, QueryError, Question};
use gpuwhy_store::{Reader, Stop, Worker};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// A question of the host: whoever serves answers it.
pub type HostEndpoint = Question<fn(Value, &Stop) -> Result<Value, QueryError>>;

/// What is run for a question.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Run {
    Trace(fn(&Reader, Value) -> Result<Value, QueryError>),
    Host(fn(Value, &Stop) -> Result<Value, QueryError>),
}

/// So many questions are answered at a time; others wait.
const AT_ONCE: usize = 4;
/// A question that does not get its turn in this time is refused.
const TURN: Duration = Duration::from_secs(30);
/// A question that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(120);
/// No request may ask for more rows, or for more seconds of SQL.
const CAPS: [(&str, u64); 2] = [("limit", 10_000), ("seconds", 30)];

#[derive(Debug)]
pub struct Questions {
    all: Vec<Question<Run>>,
    traces: Traces,
    answers: Answers,
    turns: Arc<Semaphore>,
}

impl Questions {
    /// Of the trace at `path`, which need not be there yet, and of this host.
    pub fn new(path: PathBuf, host: &[HostEndpoint]) -> Questions {
        Questions {
            all: all(host),
            traces: Traces::new(path),
            answers: Answers::default(),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Statements of users are answered by this process: see [`Reader::answer_in`].
    #[must_use]
    pub fn answered_in(mut self, worker: Worker) -> Questions {
        self.traces.answer_in(worker);
        self
    }

    pub(crate) fn all(&self) -> &[Question<Run>] {
        &self.all
    }

    pub(crate) fn path(&self) -> &Path {
        self.traces.path()
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Question<Run>> {
        self.all.iter().find(|question| question.name == name)
    }

    pub(crate) fn of_tool(&self, tool: &str) -> Option<&Question<Run>> {
        self.all.iter().find(|question| question.tool == tool)
    }

    /// Whoever drops the future ends the question.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        question: &Question<Run>,
        request: Value,
    ) -> Result<Arc<Value>, AskError> {
        let ended = EndOnDrop(Stop::default());
        let stop = ended.0.clone();
        let (me, question) = (self.clone(), question.with(question.run));
        let work = async move {
            let turn = tokio::time::timeout(TURN, me.turns.clone().acquire_owned()).await;
            let Ok(Ok(turn)) = turn else {
                return Err(AskError::new(
                    Kind::Busy,
                    "too many questions are being answered; ask again later",
                ));
            };
            // The turn is over when the work is, not when nobody waits for it any more.
            tokio::task::spawn_blocking(move || {
                let answered = me.answer(&question, request, &stop);
                drop(turn);
                answered
            })
            .await
            .map_err(|_| AskError::new(Kind::Failed, "answering failed; look at the server's messages"))?
        };
        tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| {
            Err(AskError::new(
                Kind::Slow,
                format!("it took longer than {PATIENCE:?} and was given up; ask about a shorter time"),
            ))
        })
    }

    fn answer(&self, question: &Question<Run>, request: Value, stop: &Stop) -> Result<Arc<Value>, AskError> {
        let request = capped(request);
        let run = match question.run {
            Run::Host(run) => return Ok(Arc::new(run(request, stop).map_err(|error| of_query(&error))?)),
            Run::Trace(run) => run,
        };
        let (words, look) = (request.to_string(), self.traces.look());
        // SQL may ask for the time, or for chance.
        let holds = question.name != "sql";
        if let Some(known) = self.answers.find(question.name, &words, &look).filter(|_| holds) {
            return Ok(known);
        }
        let began = Instant::now();
        let (identity, reader) = self.traces.take().map_err(of_store)?;
        reader.stop_with(stop);
        let answer = run(&reader, request);
        self.traces.give(identity, reader);
        let answer = Arc::new(answer.map_err(|error| of_query(&error))?);
        if holds {
            self.answers.keep(question.name, words, look, &answer, began.elapsed());
        }
        Ok(answer)
    }
}

/// The table that everything here is a projection of.
pub(crate) fn all(host: &[HostEndpoint]) -> Vec<Question<Run>> {
    let of_trace = ENDPOINTS.iter().map(|endpoint| endpoint.with(Run::Trace(endpoint.run)));
    of_trace.chain(host.iter().map(|endpoint| endpoint.with(Run::Host(endpoint.run)))).collect()
}

fn capped(mut request: Value) -> Value {
    // Nothing and no fields are the same question.
    if request.is_null() {
        request = Value::Object(serde_json::Map::new());
    }
    for (name, most) in CAPS {
        if let Some(number) = request.get_mut(name)
            && number.as_f64().is_some_and(|asked| asked > most as f64)
        {
            *number = most.into();
        }
    }
    request
}

struct EndOnDrop(Stop);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nobody_gets_more_than_is_allowed() {
        let capped = capped(json!({"limit": 1u64 << 60, "seconds": 1e18, "pid": 99_999}));
        assert_eq!(capped, json!({"limit": 10_000, "seconds": 30, "pid": 99_999}));
    }
}
