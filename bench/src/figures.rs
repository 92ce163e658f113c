//! The figures of a run: value, unit, and the limit it must keep where there is one.

use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    kernel: String,
    cpus: usize,
    figures: Vec<Figure>,
}

#[derive(Debug, Serialize)]
struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    limit: Option<Limit>,
    #[serde(skip_serializing_if = "String::is_empty")]
    note: String,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    fn holds(self, value: f64) -> bool {
        match self {
            Limit::AtMost(limit) => value <= limit,
            Limit::AtLeast(limit) => value >= limit,
        }
    }
}

impl Figures {
    pub(crate) fn new() -> Figures {
        Figures {
            kernel: gpuwhy_host::kernel_release(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            figures: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.push(name.into(), value, unit, None, String::new());
    }

    pub(crate) fn add_with_note(
        &mut self,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        note: String,
    ) {
        self.push(name.into(), value, unit, None, note);
    }

    pub(crate) fn add_limited(
        &mut self,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        limit: Limit,
    ) {
        self.push(name.into(), value, unit, Some(limit), String::new());
    }

    pub(crate) fn add_limited_with_note(
        &mut self,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        limit: Limit,
        note: String,
    ) {
        self.push(name.into(), value, unit, Some(limit), note);
    }

    fn push(&mut self, name: String, value: f64, unit: &'static str, limit: Option<Limit>, note: String) {
        self.figures.push(Figure { name, value, unit, limit, note });
    }

    pub(crate) fn all_hold(&self) -> bool {
        self.figures.iter().all(|figure| figure.limit.is_none_or(|limit| limit.holds(figure.value)))
    }

    pub(crate) fn print(&self) {
        println!("Linux {}, {} CPUs", self.kernel, self.cpus);
        for figure in &self.figures {
            let limit = match figure.limit {
                None => String::new(),
                Some(limit) => {
                    let (word, value) = match limit {
                        Limit::AtMost(value) => ("at most", value),
                        Limit::AtLeast(value) => ("at least", value),
                    };
                    let verdict = if limit.holds(figure.value) { "ok" } else { "BEYOND" };
                    format!("{word} {value}: {verdict}")
                }
            };
            println!("{:<52} {:>12.2} {:<12} {limit}{}", figure.name, figure.value, figure.unit, figure.note);
        }
    }
}

/// The middle of some values.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
