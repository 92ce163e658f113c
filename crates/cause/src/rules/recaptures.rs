//! Graphs that are captured again and again instead of being replayed.

use super::Rule;
use crate::attribution::Attribution;
use crate::case::Case;
use crate::draft::{Draft, at, place_of_stack, seconds};
use crate::fixes::fixes;
use crate::severity::{matters, of_taken, percent};
use gpuwhy_model::{Cause, Family, Role};

pub(super) const RULE: Rule = Rule {
    name: "recaptures",
    about: "graphs captured again and again: capturing and instantiating cost more than the launches they save",
    causes: &[Cause::GraphRecapture],
    threshold: "8 graphs, each launched less than 8 times on average, and 1% of the time spent in making them: a graph pays for \
                itself after some launches, and a warm-up makes few",
    refuted_by: "`SELECT exec, launches, updates FROM graphs` with many launches each",
    find,
};

const MIN_GRAPHS: u64 = 8;
const MAX_REPEATED_LAUNCHES: u64 = 8;

fn find(case: &Case<'_>) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = Vec::new();
    for graphs in &case.evidence.graphs {
        let wall = case.wall(graphs.pid).ns();
        let made_ns = graphs.capture_ns + graphs.instantiate_ns;
        if graphs.graphs < MIN_GRAPHS
            || graphs.launches >= graphs.graphs * MAX_REPEATED_LAUNCHES
            || !matters(made_ns, wall)
        {
            continue;
        }
        let mut attribution = Attribution::default();
        attribution.add(Cause::GraphRecapture, made_ns);
        attribution.note(
            Cause::GraphRecapture,
            format!(
                "{} graphs were made in {} and launched {} times, {} updates",
                graphs.graphs,
                seconds(made_ns),
                graphs.launches,
                graphs.updates
            ),
        );
        let place = place_of_stack(case, graphs.stack_id);
        let at = at(&place);
        let makes = |role: Role| matches!(role, Role::GraphInstantiate | Role::CaptureEnd);
        let op = case
            .ops_of(graphs.pid)
            .filter(|op| makes(op.info.role))
            .max_by_key(|op| (op.sums.sum_ns, std::cmp::Reverse(op.sums.op.as_str())))
            .or_else(|| case.main_op(graphs.pid, Family::Graph));
        drafts.push(Draft {
            severity: Some(of_taken(made_ns, wall)),
            title: format!(
                "{} captures its graphs anew{at}: {} graphs for {} launches, {} ({:.0}% of its time)",
                case.name(graphs.pid),
                graphs.graphs,
                graphs.launches,
                seconds(made_ns),
                percent(made_ns, wall)
            ),
            op: op.map(|op| op.sums.op.clone()),
            pid: Some(graphs.pid),
            fixes: fixes(case, graphs.pid, &attribution),
            sql: format!(
                "SELECT graph, created_ns, capture_ns, instantiate_ns, launches, updates FROM graphs WHERE pid = {}",
                graphs.pid
            ),
            attribution,
            place,
            ..Draft::default()
        });
    }
    drafts
}
