//! `series`: numbers over time, thinned out to so many points.

use crate::QueryError;
use crate::evidence::row::{Row, each_row};
use crate::since::{selection, span};
use gpuwhy_model::{Coverage, Span};
use gpuwhy_store::Reader;
use gpuwhy_store::schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const POINTS: usize = 120;
const MAX_POINTS: usize = 2_000;
const WINDOW_NS: u64 = 500_000_000;
/// Call sites that are told apart.
const SITES: usize = 8;

/// What the numbers are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SeriesOf {
    /// The GPUs' counters: the mean of each step.
    #[default]
    Gpus,
    /// Live device memory by process, GPU and kind: the most of each step.
    Memory,
    /// Live device memory of the eight call sites that held most.
    Sites,
    /// Calls a second by process.
    Calls,
    /// Time by class of cause, as a share of one thread's time: 100 is a thread that does nothing else.
    Blame,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SeriesRequest {
    /// What the numbers are of: `gpus`, `memory`, `sites`, `calls` or `blame`.
    pub of: SeriesOf,
    /// Only this process; the counters of GPUs are of the whole GPU.
    pub pid: Option<u32>,
    /// Of GPUs: these counters, as columns of `gpu_samples`; use, memory, power, temperature and clock where nothing is given.
    pub metrics: Vec<String>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
    /// From this time on, unix time in nanoseconds.
    pub from_ns: Option<u64>,
    /// Until this time, unix time in nanoseconds.
    pub to_ns: Option<u64>,
    /// At most so many points a series (120).
    pub points: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Series {
    pub start_ns: u64,
    pub end_ns: u64,
    /// The time between two points.
    pub step_ns: u64,
    pub series: Vec<Curve>,
    pub coverage: Coverage,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Curve {
    /// As `sm_pct of GPU 0`.
    pub name: String,
    pub unit: String,
    /// Pairs of the time at which a step begins, in nanoseconds after `start_ns`, and the number; steps without one are left out.
    pub points: Vec<(u64, f64)>,
}

pub fn series(reader: &Reader, request: &SeriesRequest) -> Result<Series, QueryError> {
    let span = span(reader, request.since.as_deref(), request.from_ns, request.to_ns)?;
    let points = request.points.unwrap_or(POINTS).clamp(2, MAX_POINTS) as u64;
    // Sums are of half a second.
    let least = if matches!(request.of, SeriesOf::Calls | SeriesOf::Blame) { WINDOW_NS } else { 1 };
    let asked = Asked { reader, request, span, step: (span.ns() / points).max(least) };
    let mut curves = match request.of {
        SeriesOf::Gpus => asked.gpus()?,
        SeriesOf::Memory => asked.memory()?,
        SeriesOf::Sites => asked.sites()?,
        SeriesOf::Calls => asked.calls()?,
        SeriesOf::Blame => asked.blame()?,
    };
    curves.retain(|curve| !curve.points.is_empty());
    if curves.is_empty() {
        let selection = selection(None, request.pid, request.since.as_deref());
        return Err(QueryError::NoData(format!(
            "the trace has no numbers of that kind{selection}; trace a process that uses the GPU, or ask about a longer time"
        )));
    }
    Ok(Series {
        start_ns: span.start_ns,
        end_ns: span.end_ns,
        step_ns: asked.step,
        series: curves,
        coverage: reader.coverage(Some(span.start_ns))?,
    })
}

/// By name and unit, by step.
type Curves = BTreeMap<(String, &'static str), BTreeMap<u64, f64>>;

struct Asked<'a> {
    reader: &'a Reader,
    request: &'a SeriesRequest,
    span: Span,
    step: u64,
}

impl Asked<'_> {
    fn of_process(&self) -> String {
        self.request.pid.map(|pid| format!(" AND pid = {pid}")).unwrap_or_default()
    }

    /// A statement whose rows begin with the number of the step.
    fn read(
        &self,
        columns: &str,
        from: &str,
        time: &str,
        groups: &str,
        visit: impl FnMut(&Row<'_>),
    ) -> Result<(), QueryError> {
        let sql = format!(
            "SELECT ({time} - ?1) / {}, {columns} FROM {from} WHERE {time} >= ?1 AND {time} < ?2{} GROUP BY 1{groups}",
            self.step,
            if from == "gpu_samples" { String::new() } else { self.of_process() }
        );
        each_row(self.reader, &sql, [self.span.start_ns, self.span.end_ns.saturating_add(1)], visit)
    }

    fn curves(&self, curves: Curves) -> Vec<Curve> {
        let points = |points: BTreeMap<u64, f64>| {
            points.into_iter().map(|(step, value)| (step * self.step, value)).collect()
        };
        curves
            .into_iter()
            .map(|((name, unit), steps)| Curve { name, unit: unit.into(), points: points(steps) })
            .collect()
    }

    fn gpus(&self) -> Result<Vec<Curve>, QueryError> {
        let usual = ["sm_pct", "memory_used_bytes", "power_mw", "temperature_c", "sm_clock_mhz"];
        let columns = schema::table("gpu_samples").map_or(&[][..], |table| table.columns);
        let counters = |column: &&schema::Column| {
            column.kind != "TEXT" && !["timestamp_ns", "gpu", "session_id"].contains(&column.name)
        };
        let wanted: Vec<&schema::Column> = columns
            .iter()
            .filter(counters)
            .filter(|column| match self.request.metrics.is_empty() {
                true => usual.contains(&column.name),
                false => self.request.metrics.iter().any(|metric| metric == column.name),
            })
            .collect();
        if let Some(unknown) =
            self.request.metrics.iter().find(|metric| !columns.iter().any(|column| column.name == **metric))
        {
            return Err(QueryError::Usage(format!(
                "there is no counter {unknown}; the columns of gpu_samples are counters"
            )));
        }
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let means: Vec<String> = wanted.iter().map(|column| format!("avg({})", column.name)).collect();
        let mut curves = Curves::new();
        self.read(&format!("gpu, {}", means.join(", ")), "gpu_samples", "timestamp_ns", ", gpu", |row| {
            for (place, column) in wanted.iter().enumerate() {
                if let Some(mean) = row.real(2 + place) {
                    let name = format!("{} of GPU {}", column.name, row.number(1));
                    curves.entry((name, column.unit)).or_default().insert(row.number(0), mean);
                }
            }
        })?;
        Ok(self.curves(curves))
    }

    fn memory(&self) -> Result<Vec<Curve>, QueryError> {
        let mut curves = Curves::new();
        self.read(
            "pid, gpu, kind, max(live_bytes)",
            "memory_stats",
            "timestamp_ns",
            ", pid, gpu, kind",
            |row| {
                let gpu = row.maybe(2).map(|gpu| format!(" on GPU {gpu}")).unwrap_or_default();
                let name = format!("{} memory of process {}{gpu}", row.text(3), row.number(1));
                curves.entry((name, "bytes")).or_default().insert(row.number(0), row.number(4) as f64);
            },
        )?;
        Ok(self.curves(curves))
    }

    /// What was allocated less what was freed, step by step.
    fn sites(&self) -> Result<Vec<Curve>, QueryError> {
        let mut changes: BTreeMap<i64, BTreeMap<u64, f64>> = BTreeMap::new();
        for (time, sign) in [("allocated_ns", 1.0), ("freed_ns", -1.0)] {
            self.read("ifnull(stack_id, 0), sum(bytes)", "allocations", time, ", stack_id", |row| {
                let site = changes.entry(row.signed(1).unwrap_or(0)).or_default();
                *site.entry(row.number(0)).or_default() += sign * row.number(2) as f64;
            })?;
        }
        let mut sites: Vec<(i64, BTreeMap<u64, f64>, f64)> = changes
            .into_iter()
            .map(|(site, steps)| {
                let mut live = 0.0;
                let mut most: f64 = 0.0;
                let levels = steps
                    .into_iter()
                    .map(|(step, change)| {
                        live += change;
                        most = most.max(live);
                        (step, live)
                    })
                    .collect();
                (site, levels, most)
            })
            .collect();
        sites.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
        let mut curves = Vec::new();
        for (site, steps, _) in sites.into_iter().take(SITES) {
            let points = steps.into_iter().map(|(step, bytes)| (step * self.step, bytes)).collect();
            curves.push(Curve { name: self.site(site)?, unit: "bytes".into(), points });
        }
        Ok(curves)
    }

    /// The innermost line of Python, else the innermost native function.
    fn site(&self, stack_id: i64) -> Result<String, QueryError> {
        let sql = "SELECT function, file, line FROM frames WHERE stack_id = ?1 AND function IS NOT NULL \
                   ORDER BY kind <> 'python', depth LIMIT 1";
        let mut name = None;
        self.reader.select_each(sql, &[stack_id.into()], |row| {
            let row = Row::of(row);
            let file = row.text(1);
            let file = file.rsplit('/').next().unwrap_or_default();
            name = Some(match row.maybe(2) {
                Some(line) => format!("{file}:{line} {}", row.text(0)),
                None => row.text(0),
            });
        })?;
        Ok(name.unwrap_or_else(|| format!("stack {stack_id}")))
    }

    fn calls(&self) -> Result<Vec<Curve>, QueryError> {
        let mut curves = Curves::new();
        let seconds = self.step as f64 / 1e9;
        self.read("pid, sum(count)", "call_stats", "window_start_ns", ", pid", |row| {
            let name = format!("calls of process {}", row.number(1));
            let rate = row.number(2) as f64 / seconds;
            curves.entry((name, "calls/s")).or_default().insert(row.number(0), rate);
        })?;
        Ok(self.curves(curves))
    }

    fn blame(&self) -> Result<Vec<Curve>, QueryError> {
        let mut curves = Curves::new();
        let step = self.step as f64;
        self.read("cause, sum(ns)", "blame", "window_start_ns", ", cause", |row| {
            let share = 100.0 * row.number(2) as f64 / step;
            curves.entry((row.text(1), "%")).or_default().insert(row.number(0), share);
        })?;
        Ok(self.curves(curves))
    }
}
