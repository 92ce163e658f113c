//! What a trace covers: from when until when, how many events, and what is missing.

use super::Reader;
use super::records::{maybe, number, unsigned};
use crate::StoreError;
use crate::ingero::Ingero;
use crate::schema::TABLES;
use gpuwhy_model::{CallClass, Coverage, LossCount, ProbeState, Slice, Span, Watched};
use std::collections::HashMap;

impl Reader {
    /// The start of the newest event or window; `--since` counts back from it.
    pub fn newest_ns(&self) -> Result<Option<u64>, StoreError> {
        self.end_of_time("max").map(|ends| ends.into_iter().max())
    }

    /// From the first session or event to the last.
    pub fn span(&self) -> Result<Option<Span>, StoreError> {
        let sessions = self.sessions()?;
        let starts = sessions.iter().map(|session| session.info.start_ns);
        let ends = sessions.iter().filter_map(|session| session.end_ns);
        let start_ns = self.end_of_time("min")?.into_iter().chain(starts.clone()).min();
        let end_ns = self.end_of_time("max")?.into_iter().chain(ends).chain(starts).max();
        Ok(start_ns.zip(end_ns).map(|(start_ns, end_ns)| Span { start_ns, end_ns }))
    }

    /// How many events are on file.
    pub fn event_count(&self) -> Result<u64, StoreError> {
        self.count_events("")
    }

    /// The same of those that began within a time.
    pub fn event_count_in(&self, span: Span) -> Result<u64, StoreError> {
        let Span { start_ns, end_ns } = span;
        self.count_events(&format!(" WHERE timestamp_ns >= {start_ns} AND timestamp_ns <= {end_ns}"))
    }

    fn count_events(&self, clause: &str) -> Result<u64, StoreError> {
        let mut total = 0;
        for table in TABLES.iter().filter(|table| table.layer.is_some() || table.name == "calls") {
            total += self.number(&format!("SELECT count(*) FROM {}{clause}", table.name))?;
        }
        Ok(total)
    }

    /// Before which time rows were deleted to keep the file small, if any were.
    pub fn deleted_before_ns(&self) -> Result<Option<u64>, StoreError> {
        let rows = self.rows("SELECT max(before_ns) FROM retention", [], |row| maybe(row, 0))?;
        Ok(rows.into_iter().flatten().next())
    }

    /// What answers about the time from `from_ns` on do not cover.
    pub fn coverage(&self, from_ns: Option<u64>) -> Result<Coverage, StoreError> {
        let from = from_ns.unwrap_or(0).min(i64::MAX as u64);
        Ok(Coverage {
            lost: self.number(&format!("SELECT ifnull(sum(count), 0) FROM loss WHERE end_ns >= {from}"))?,
            lost_by: self.lost_by(from)?,
            sampled: self.sampled(from)?,
            degraded: self.degraded(from)?,
            unattached: self.probes(ProbeState::Refused)?,
            notes: self.origin().notes.clone(),
            missing: self.missing.clone(),
        })
    }

    /// Which probes lost records, and why; most first.
    fn lost_by(&self, from: u64) -> Result<Vec<LossCount>, StoreError> {
        let sql = "SELECT ifnull(probe, ''), ifnull(reason, ''), ifnull(sum(count), 0) FROM loss WHERE end_ns >= ?1 \
                   GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 16";
        self.rows(sql, [from as i64], |row| {
            let count = number(row, 2)?;
            Ok(LossCount { probe: row.get(0)?, reason: row.get(1)?, count })
        })
    }

    /// Calls that were counted, but not kept in full.
    fn sampled(&self, from: u64) -> Result<u64, StoreError> {
        let counted = "SELECT ifnull(sum(count) - sum(kept), 0) FROM main.call_stats INDEXED BY call_stats_kept \
                       WHERE window_start_ns >= ?1";
        let sql = match &self.ingero {
            None => counted,
            Some(Ingero { sampled_sql: Some(sql), .. }) => sql,
            // What was not stored was not counted either; the notes say so.
            Some(Ingero { sampled_sql: None, .. }) => return Ok(0),
        };
        Ok(self.rows(sql, [from as i64], |row| number(row, 0))?.first().copied().unwrap_or(0))
    }

    /// Probes that see less, and calls that were watched for a part of the time.
    fn degraded(&self, from: u64) -> Result<Vec<String>, StoreError> {
        let mut lines = self.sampled_classes(from)?;
        lines.extend(self.probes(ProbeState::Degraded)?);
        Ok(lines)
    }

    /// `launches sampled 9% of the time: the budget is 1%`.
    fn sampled_classes(&self, from: u64) -> Result<Vec<String>, StoreError> {
        let Some(span) = self.span()? else { return Ok(Vec::new()) };
        // Before the first call there was nothing to miss.
        let first_ns = self.number("SELECT ifnull(min(window_start_ns), 0) FROM call_stats")?;
        let within = Span { start_ns: span.start_ns.max(from).max(first_ns), end_ns: span.end_ns };
        let slices = self.slices()?;
        let attached = if slices.is_empty() { self.attached_pct(within)? } else { HashMap::new() };
        let budget = self.budget()?.map_or(String::new(), |budget| format!(": the budget is {budget}"));
        let line = |class: CallClass| {
            let watched = match attached.get(&class) {
                Some(attached_pct) => *attached_pct,
                // No process has this number: what all have in common.
                None => Watched::new(&slices, class, 0)?.pct_within(within),
            };
            (watched < 99.5).then(|| {
                let digits = if watched < 1.0 { 1 } else { 0 };
                format!("{} sampled {watched:.digits$}% of the time{budget}", class.name())
            })
        };
        Ok(CallClass::ALL.into_iter().filter_map(line).collect())
    }

    /// The share of a time in which all functions of a class were attached: earlier versions detached those
    /// that were called too often for a while.
    pub fn attached_pct(&self, within: Span) -> Result<HashMap<CallClass, f64>, StoreError> {
        let classes: HashMap<String, CallClass> = self
            .ops()?
            .into_iter()
            .filter_map(|op| Some((op.name.clone(), CallClass::of_op(&op)?)))
            .collect();
        let sql = "SELECT timestamp_ns, target, ifnull(file, ''), state FROM watch_changes WHERE probe <> 'governor' \
                   AND (reason LIKE '%too often for its budget%' OR state = 'attached') ORDER BY timestamp_ns, target";
        let changes: Vec<(u64, String, String, String)> =
            self.rows(sql, [], |row| Ok((row.get(0).map(unsigned)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
        let mut gaps: HashMap<CallClass, Vec<Span>> = HashMap::new();
        let mut open: HashMap<(String, String), u64> = HashMap::new();
        for (time_ns, target, file, state) in changes {
            let class = classes.get(&target).copied();
            let function = (target, file);
            if state != ProbeState::Attached.name() {
                open.entry(function).or_insert(time_ns);
            } else if let (Some(start_ns), Some(class)) = (open.remove(&function), class) {
                gaps.entry(class).or_default().push(Span { start_ns, end_ns: time_ns });
            }
        }
        for ((target, _), start_ns) in open {
            if let Some(class) = classes.get(&target) {
                gaps.entry(*class).or_default().push(Span { start_ns, end_ns: within.end_ns });
            }
        }
        if gaps.is_empty() {
            return Ok(HashMap::new());
        }
        let pct = |gaps| 100.0 * (1.0 - covered_ns(gaps, within) as f64 / within.ns().max(1) as f64);
        Ok(gaps.into_iter().map(|(class, gaps)| (class, pct(gaps))).collect())
    }

    /// When frequent calls were watched, where that was not all the time.
    pub fn slices(&self) -> Result<Vec<Slice>, StoreError> {
        Ok(self.slices_of_sessions()?.into_iter().map(|(_, slice)| slice).collect())
    }

    /// The same, with the session each is of: files of several nodes have those of each.
    pub fn slices_of_sessions(&self) -> Result<Vec<(i64, Slice)>, StoreError> {
        let sql = "SELECT start_ns, end_ns, class, pid, ifnull(slowed_ns, 0), ifnull(session_id, 0) FROM watch_slices \
                   ORDER BY start_ns";
        let rows = self.rows(sql, [], |row| {
            let class = CallClass::of_name(&row.get::<_, String>(2)?);
            let ns = |at: usize| row.get(at).map(unsigned);
            let span = Span { start_ns: ns(0)?, end_ns: ns(1)? };
            let (pid, slowed_ns, session) = (row.get(3)?, ns(4)?, row.get(5)?);
            Ok(class.map(|class| (session, Slice { class, span, pid, slowed_ns })))
        })?;
        Ok(rows.into_iter().flatten().collect())
    }

    /// As the latest step of the governor has it.
    fn budget(&self) -> Result<Option<String>, StoreError> {
        let sql = "SELECT reason FROM watch_changes WHERE probe = 'governor' AND reason LIKE '%the budget of %' \
                   ORDER BY timestamp_ns DESC LIMIT 1";
        let reason: Option<String> = self.rows(sql, [], |row| row.get(0))?.pop();
        Ok(reason
            .and_then(|reason| reason.rsplit_once("the budget of ").map(|(_, budget)| budget.to_string())))
    }

    /// `probe target in file: reason`, each once. What the governor does is told by the time that was watched.
    fn probes(&self, state: ProbeState) -> Result<Vec<String>, StoreError> {
        self.rows(
            "SELECT DISTINCT probe || ' ' || target || iif(file = '', '', ' in ' || file) \
             || ifnull(': ' || reason, '') FROM probes WHERE state = ? AND (probe <> 'governor' OR reason NOT LIKE 'watched in %') \
             ORDER BY 1",
            [state.name()],
            |row| row.get(0),
        )
    }

    /// The first or last time of every table that has events or windows in it.
    fn end_of_time(&self, which: &str) -> Result<Vec<u64>, StoreError> {
        // There the windows are computed from all rows, which would be read for it.
        if let Some(ingero) = &self.ingero {
            let place = usize::from(which == "max");
            let end = self.rows(&ingero.ends_sql, [], |row| maybe(row, place))?;
            return Ok(end.into_iter().flatten().collect());
        }
        let mut ends = Vec::new();
        for table in TABLES {
            let Some(age) = table.age.filter(|age| matches!(*age, "timestamp_ns" | "window_start_ns")) else {
                continue;
            };
            let sql = format!("SELECT {which}({age}) FROM {}", table.name);
            let end = self.rows(&sql, [], |row| maybe(row, 0))?;
            ends.extend(end.into_iter().flatten());
        }
        Ok(ends)
    }

    fn number(&self, sql: &str) -> Result<u64, StoreError> {
        Ok(self.rows(sql, [], |row| number(row, 0))?.first().copied().unwrap_or(0))
    }
}

/// The time within which at least one of them lies.
fn covered_ns(mut spans: Vec<Span>, within: Span) -> u64 {
    spans.sort_by_key(|span| span.start_ns);
    let mut covered_ns = 0;
    let mut until_ns = within.start_ns;
    for span in spans {
        let (start_ns, end_ns) = (span.start_ns.max(until_ns), span.end_ns.min(within.end_ns));
        covered_ns += end_ns.saturating_sub(start_ns);
        until_ns = until_ns.max(end_ns);
    }
    covered_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_spans_cover_together_is_counted_once() {
        let span = |start_ns, end_ns| Span { start_ns, end_ns };
        let within = span(100, 200);
        assert_eq!(covered_ns(vec![span(150, 160), span(110, 120), span(115, 130)], within), 30);
        assert_eq!(covered_ns(vec![span(0, 110), span(190, 900)], within), 20);
        assert_eq!(covered_ns(vec![span(0, 90), span(210, 300)], within), 0);
        assert_eq!(covered_ns(Vec::new(), within), 0);
    }
}
