//! A session: one run of the recorder, as written and as read back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is known of a run when it begins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SessionInfo {
    /// Unix time.
    pub start_ns: u64,
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    pub gpus: Vec<String>,
    /// GPU driver version; empty where there is none.
    pub driver: String,
    /// Version of gpuwhy.
    pub version: String,
    /// The command line it was started with.
    pub flags: Vec<String>,
    /// Unix time minus the monotonic clock.
    pub clock_offset_ns: i64,
}

/// A run as the file tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    pub session_id: i64,
    /// None while it runs, or where it was killed.
    pub end_ns: Option<u64>,
    pub writer_pid: Option<u32>,
    #[serde(flatten)]
    pub info: SessionInfo,
}

impl Session {
    pub(crate) const SQL: &str = "SELECT session_id, start_ns, end_ns, host, kernel, gpus, driver, version, flags, \
        clock_offset_ns, writer_pid FROM sessions ORDER BY session_id";

    pub(crate) fn from_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Session> {
        let list = |at: usize| -> rusqlite::Result<Vec<String>> {
            let json: Option<String> = row.get(at)?;
            Ok(json.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default())
        };
        let word = |at: usize| row.get::<_, Option<String>>(at).map(Option::unwrap_or_default);
        Ok(Session {
            session_id: row.get(0)?,
            end_ns: row.get::<_, Option<i64>>(2)?.map(|ns| ns as u64),
            writer_pid: row.get(10)?,
            info: SessionInfo {
                start_ns: row.get::<_, i64>(1)? as u64,
                host: word(3)?,
                kernel: word(4)?,
                gpus: list(5)?,
                driver: word(6)?,
                version: word(7)?,
                flags: list(8)?,
                clock_offset_ns: row.get::<_, Option<i64>>(9)?.unwrap_or_default(),
            },
        })
    }
}
