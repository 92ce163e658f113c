//! `gpuwhy-fleet load`.

use crate::cli::LoadOptions;
use crate::failure::Failure;
use gpuwhy_load::{Load, LoadError, load};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) fn run(options: &LoadOptions) -> Result<(), Failure> {
    let token = match &options.token {
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| {
                Failure::Failed(format!("the tokens {} cannot be read: {error}", path.display()))
            })?;
            let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
            lines.filter_map(|line| line.split_whitespace().next()).next().map(String::from)
        }
        None => None,
    };
    let seed = options
        .seed
        .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs()));
    let share = |percent: f64| (percent / 100.0).clamp(0.0, 1.0);
    let plan = Load {
        grpc: options.otlp_grpc.clone(),
        api: options.api.clone(),
        token,
        certificates: options.ca.clone(),
        cluster: options.cluster.clone(),
        agents: options.agents,
        ranks: options.ranks,
        seconds: options.duration.as_secs_f64(),
        push_seconds: options.push.as_secs_f64().max(0.1),
        stragglers: share(options.stragglers),
        hangs: share(options.hangs),
        clock_offset_seconds: options.clock_offset.as_secs_f64(),
        connections: options.connections,
        seed,
    };
    let report = load(&plan)?;
    let text = match options.json {
        true => format!("{}\n", serde_json::to_string_pretty(&report).unwrap_or_default()),
        false => report.to_string(),
    };
    crate::print_out(&text)?;
    if report.is_good() {
        return Ok(());
    }
    Err(Failure::Failed("what was planted was not found as it should be: precision 0.97, recall 0.95".into()))
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Address(_) | LoadError::Trust(_) => Failure::Usage(error.to_string()),
            _ => Failure::Failed(error.to_string()),
        }
    }
}
