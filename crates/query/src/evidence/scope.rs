//! Which rows are looked at: all, or those of one phase of each process.

use gpuwhy_model::Span;

/// Windows are half a second long: one belongs to the phase that has most of it.
const HALF_WINDOW_NS: u64 = 250_000_000;

#[derive(Debug, Clone, Default)]
pub(crate) enum Scope {
    #[default]
    All,
    /// The loops of the processes that have one, and everything of the others.
    Loop(Vec<(u32, Span)>),
    /// What those processes did before.
    Start(Vec<(u32, Span)>),
}

impl Scope {
    /// Of the loops that are as long as a window: in a shorter one there may be none.
    pub(crate) fn of_loops(loops: Vec<(u32, Span)>) -> Scope {
        let loops: Vec<_> = loops.into_iter().filter(|(_, span)| span.ns() >= 2 * HALF_WINDOW_NS).collect();
        if loops.is_empty() { Scope::All } else { Scope::Loop(loops) }
    }

    /// What was before the loops; nothing where there is no such time.
    pub(crate) fn start(&self) -> Option<Scope> {
        match self {
            Scope::Loop(loops) => Some(Scope::Start(loops.clone())),
            Scope::All | Scope::Start(_) => None,
        }
    }

    pub(crate) fn loops(&self) -> &[(u32, Span)] {
        match self {
            Scope::All => &[],
            Scope::Loop(loops) | Scope::Start(loops) => loops,
        }
    }

    pub(crate) fn name(&self) -> Option<&'static str> {
        match self {
            Scope::All => None,
            Scope::Loop(_) => Some("loop"),
            Scope::Start(_) => Some("start"),
        }
    }

    /// Whether a window, or a moment, of a process belongs to it.
    pub(super) fn has(&self, pid: u32, time_ns: u64) -> bool {
        let span = |loops: &[(u32, Span)]| loops.iter().find(|(of, _)| *of == pid).map(|(_, span)| *span);
        match self {
            Scope::All => true,
            Scope::Loop(loops) => span(loops).is_none_or(|span| (begin(span)..end(span)).contains(&time_ns)),
            Scope::Start(loops) => span(loops).is_some_and(|span| time_ns < begin(span)),
        }
    }

    /// What of a time belongs to it, of a process.
    pub(super) fn within(&self, pid: u32, time: Span) -> Span {
        let span = |loops: &[(u32, Span)]| loops.iter().find(|(of, _)| *of == pid).map(|(_, span)| *span);
        match self {
            Scope::All => time,
            Scope::Loop(loops) => span(loops).map_or(time, |span| Span {
                start_ns: begin(span).max(time.start_ns),
                end_ns: span.end_ns.min(time.end_ns),
            }),
            Scope::Start(loops) => {
                span(loops).map_or(time, |span| Span { end_ns: begin(span).min(time.end_ns), ..time })
            }
        }
    }

    /// The same as a condition, to be put behind others. The engine takes neither deep nor long statements: however many processes there
    /// are, it is a few expressions deep, and has `time`, which may be a statement of its own, once.
    pub(super) fn condition(&self, pid: &str, time: &str) -> String {
        let by_process = |loops: &[(u32, Span)], bound: &dyn Fn(Span) -> u64, otherwise: i64| {
            let each: String =
                loops.iter().map(|(of, span)| format!(" WHEN {of} THEN {}", bound(*span))).collect();
            if loops.is_empty() {
                otherwise.to_string()
            } else {
                format!("CASE {pid}{each} ELSE {otherwise} END")
            }
        };
        match self {
            Scope::All => String::new(),
            Scope::Loop(loops) => format!(
                " AND {time} BETWEEN {} AND {}",
                by_process(loops, &begin, 0),
                by_process(loops, &|span| end(span).saturating_sub(1), i64::MAX)
            ),
            Scope::Start(loops) => format!(" AND {time} < {}", by_process(loops, &begin, 0)),
        }
    }
}

fn end(span: Span) -> u64 {
    span.end_ns.saturating_sub(HALF_WINDOW_NS).max(span.start_ns)
}

fn begin(span: Span) -> u64 {
    span.start_ns.saturating_sub(HALF_WINDOW_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_has_a_window_whenever_windows_begin() {
        let span = Span { start_ns: 1_000_000_000, end_ns: 1_500_000_000 };
        let scope = Scope::of_loops(vec![(7, span)]);
        for first in (0..500_000_000).step_by(10_000_000) {
            assert!((0..6).any(|window| scope.has(7, first + window * 500_000_000)), "{first}");
        }
        let short = Span { end_ns: 1_450_000_000, ..span };
        assert!(matches!(Scope::of_loops(vec![(7, short)]), Scope::All));
    }

    #[test]
    fn a_condition_says_what_has_says() {
        let span = Span { start_ns: 1_000_000_000, end_ns: 2_000_000_000 };
        let (of_loop, of_start) = (Scope::Loop(vec![(7, span)]), Scope::Start(vec![(7, span)]));
        let times = [0, 700_000_000, 760_000_000, 1_740_000_000, 1_760_000_000, 2_000_000_000];
        assert_eq!(times.map(|time| of_loop.has(7, time)), [false, false, true, true, false, false]);
        assert_eq!(times.map(|time| of_start.has(7, time)), [true, true, false, false, false, false]);
        assert!(of_loop.has(8, 0) && !of_start.has(8, 0) && Scope::All.has(7, 0));
        let db = rusqlite::Connection::open_in_memory().unwrap();
        for scope in [of_loop, of_start, Scope::Start(Vec::new()), Scope::All] {
            for (pid, time) in times.map(|time| [(7_u32, time), (8, time)]).concat() {
                let sql = format!("SELECT 1 WHERE 1{}", scope.condition(&pid.to_string(), &time.to_string()));
                let found = db.query_row(&sql, [], |_| Ok(())).is_ok();
                assert_eq!(found, scope.has(pid, time), "{scope:?} {pid} {time}");
            }
        }
    }

    #[test]
    fn a_thousand_processes_make_a_shallow_and_short_condition() {
        let db = rusqlite::Connection::open_in_memory().unwrap();
        db.set_limit(rusqlite::limits::Limit::SQLITE_LIMIT_EXPR_DEPTH, 20).unwrap();
        db.set_limit(rusqlite::limits::Limit::SQLITE_LIMIT_SQL_LENGTH, 128 << 10).unwrap();
        let span = Span { start_ns: 1_000_000_000, end_ns: 2_000_000_000 };
        let loops: Vec<(u32, Span)> = (1..=1_000).map(|pid| (pid, span)).collect();
        for scope in [Scope::Loop(loops.clone()), Scope::Start(loops)] {
            let sql = format!(
                "SELECT 1 WHERE 1{}",
                scope.condition("1000", &format!("({} 1500000000)", " ".repeat(200)))
            );
            let found = db.prepare(&sql).and_then(|mut statement| statement.exists([])).unwrap();
            assert_eq!(found, scope.has(1_000, 1_500_000_000));
        }
    }
}
