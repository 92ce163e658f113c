//! `gpuwhy annotate`: marks a step, an epoch or a request in a running trace.

use crate::cli::AnnotateOptions;
use crate::failure::Failure;
use gpuwhy_annotations::{Line, MAX_LABELS, Subject, What, paths_to_try, send};

pub(crate) fn run(options: &AnnotateOptions) -> Result<(), Failure> {
    for (at, (name, _)) in options.labels.iter().enumerate() {
        if options.labels.iter().take(at).any(|(other, _)| other == name) {
            return Err(Failure::Usage(format!("--label {name} is given twice; give each name once")));
        }
    }
    if options.labels.len() > MAX_LABELS {
        return Err(Failure::Usage(format!("a mark has at most {MAX_LABELS} labels; give fewer")));
    }
    let line = Line {
        what: match (options.begin, options.end, options.next) {
            (true, ..) => What::Begin,
            (_, true, _) => What::End,
            (.., true) => What::Next,
            _ => What::At,
        },
        labels: options.labels.clone(),
        // This process is gone in a moment: a mark of its own would say nothing.
        pid: options.pid.map_or(Subject::All, Subject::Process),
        monotonic_ns: None,
        reply: false,
    };
    let paths = options.socket.clone().map_or_else(paths_to_try, |path| vec![path]);
    send(&paths, &line).map_err(|error| Failure::Failed(error.to_string()))
}
