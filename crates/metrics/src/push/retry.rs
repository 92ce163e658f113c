//! What an answer means, and how long to wait before asking again: as the OTLP specification has it.

use std::time::{Duration, SystemTime};
use tonic::Code;

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Taken, but for so many items.
    Taken { rejected: u64, message: String },
    /// Not now; after so long where the server said so.
    Later { after: Option<Duration>, message: String },
    /// Never.
    Refused { message: String },
    /// The server does not know this kind of data at all.
    Unknown { message: String },
}

const FIRST_WAIT: Duration = Duration::from_millis(500);
const MAX_WAIT: Duration = Duration::from_secs(30);
/// A server that asks for more is asked again after this.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// How long to wait after so many failures in a row: twice as long each time, and between half of it and all of it by
/// chance (`random` is any number), so that agents that failed together do not come back together.
pub(super) fn wait(failures: u32, asked: Option<Duration>, random: u64) -> Duration {
    if let Some(asked) = asked {
        return asked.min(MAX_RETRY_AFTER);
    }
    let longest = FIRST_WAIT.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(MAX_WAIT);
    longest.mul_f64(0.5 + (random % 1000) as f64 / 2000.0)
}

/// What an HTTP status means. `retry_after` is the header's value.
pub(super) fn of_http(status: u16, retry_after: Option<&str>, now: SystemTime, message: String) -> Outcome {
    match status {
        429 | 502 | 503 | 504 => {
            Outcome::Later { after: retry_after.and_then(|value| asked_wait(value, now)), message }
        }
        404 | 405 | 501 => Outcome::Unknown { message },
        _ => Outcome::Refused { message },
    }
}

/// Seconds, or a date.
fn asked_wait(value: &str, now: SystemTime) -> Option<Duration> {
    match value.trim().parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            let date = httpdate::parse_http_date(value.trim()).ok()?;
            Some(date.duration_since(now).unwrap_or_default())
        }
    }
}

/// What a gRPC status means. `details` are those of the status.
pub(super) fn of_grpc(code: Code, details: &[u8], message: String) -> Outcome {
    let after = retry_info(details);
    match code {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => Outcome::Later { after, message },
        // Only where the server says that it will get better.
        Code::ResourceExhausted if after.is_some() => Outcome::Later { after, message },
        Code::Unimplemented => Outcome::Unknown { message },
        _ => Outcome::Refused { message },
    }
}

/// `google.rpc.RetryInfo` among the details, if it is there.
fn retry_info(details: &[u8]) -> Option<Duration> {
    let status: GoogleStatus = prost::Message::decode(details).ok()?;
    let info = status.details.iter().find(|any| any.type_url.ends_with("/google.rpc.RetryInfo"))?;
    let info: RetryInfo = prost::Message::decode(info.value.as_slice()).ok()?;
    let delay = info.retry_delay?;
    Some(Duration::new(delay.seconds.try_into().ok()?, delay.nanos.try_into().ok()?))
}

#[derive(Clone, PartialEq, prost::Message)]
struct GoogleStatus {
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Delay>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

/// The answer to each kind of request has the same shape.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Reply {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<Partial>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Partial {
    #[prost(int64, tag = "1")]
    rejected: i64,
    #[prost(string, tag = "2")]
    message: String,
}

/// What a server that took a request says. A body that is no such answer took all of it.
pub(super) fn of_reply(body: &[u8]) -> Outcome {
    let reply: Reply = prost::Message::decode(body).unwrap_or_default();
    let partial = reply.partial_success.unwrap_or_default();
    Outcome::Taken { rejected: partial.rejected.max(0) as u64, message: partial.message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    #[test]
    fn only_what_the_specification_names_is_sent_again() {
        let now = SystemTime::now();
        for status in 300..600u16 {
            let later = matches!(of_http(status, None, now, String::new()), Outcome::Later { .. });
            assert_eq!(later, matches!(status, 429 | 502 | 503 | 504), "{status}");
        }
        let later = |code| matches!(of_grpc(code, &[], String::new()), Outcome::Later { .. });
        let again: Vec<i32> = (1..17).filter(|code| later(Code::from(*code))).collect();
        assert_eq!(again, [1, 4, 10, 11, 14, 15]);
    }

    #[test]
    fn the_server_says_how_long() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let after = |value: &str| match of_http(503, Some(value), now, String::new()) {
            Outcome::Later { after, .. } => after,
            other => panic!("{other:?}"),
        };
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        let date = httpdate::fmt_http_date(now + Duration::from_secs(90));
        assert_eq!(after(&date), Some(Duration::from_secs(90)));
        assert_eq!(after("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(after("soon"), None);
        let info = RetryInfo { retry_delay: Some(Delay { seconds: 2, nanos: 500_000_000 }) };
        let any =
            Any { type_url: "type.googleapis.com/google.rpc.RetryInfo".into(), value: info.encode_to_vec() };
        let details = GoogleStatus { details: vec![any] }.encode_to_vec();
        let expected = Outcome::Later { after: Some(Duration::from_millis(2500)), message: String::new() };
        assert_eq!(of_grpc(Code::ResourceExhausted, &details, String::new()), expected);
    }

    #[test]
    fn waits_grow_to_an_end_and_are_spread() {
        for random in [0, 1, 999, u64::MAX] {
            for failures in 1..100 {
                let now = wait(failures, None, random);
                assert!(now >= FIRST_WAIT / 2 && now <= MAX_WAIT, "{failures}: {now:?}");
            }
            assert!(wait(20, None, random) >= MAX_WAIT / 2);
        }
        assert_ne!(wait(3, None, 0), wait(3, None, 999));
        assert_eq!(wait(9, Some(Duration::from_secs(3)), 0), Duration::from_secs(3));
        assert_eq!(wait(1, Some(Duration::from_secs(86_400)), 0), MAX_RETRY_AFTER);
    }

    #[test]
    fn a_partial_success_is_told() {
        let partial = Partial { rejected: 3, message: "too old".into() };
        let body = Reply { partial_success: Some(partial) }.encode_to_vec();
        assert_eq!(of_reply(&body), Outcome::Taken { rejected: 3, message: "too old".into() });
        assert_eq!(of_reply(&[]), Outcome::Taken { rejected: 0, message: String::new() });
    }
}
