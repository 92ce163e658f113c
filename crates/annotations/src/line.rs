//! One line: `{"do": "begin", "labels": {"step": 140}, "monotonic_ns": 123}`. Pure; what it names is checked elsewhere.

use crate::Refusal;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// Without the end of the line.
pub const MAX_LINE_BYTES: usize = 4096;
pub const MAX_LABELS: usize = 16;
pub const MAX_NAME_BYTES: usize = 64;
pub const MAX_VALUE_BYTES: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    #[serde(rename = "do", default)]
    pub what: What,
    /// In the order of the line: the first says what is marked.
    #[serde(with = "labels")]
    pub labels: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Subject::is_own")]
    pub pid: Subject,
    /// When it was, on CLOCK_MONOTONIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monotonic_ns: Option<u64>,
    /// Whether the sender wants to know that it was taken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reply: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    Begin,
    End,
    /// Ends what is open under the same name, and begins.
    Next,
    #[default]
    At,
}

/// Whom it is about. Processes in a container do not know the number by which the host knows them: so nobody has to say
/// his own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Subject {
    /// The field is not there: of whoever sends it.
    #[default]
    Own,
    /// `null`: of all processes of the user who sends it; of all, if that is root.
    All,
    Process(u32),
}

impl Subject {
    fn is_own(&self) -> bool {
        *self == Subject::Own
    }
}

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Subject::Own | Subject::All => serializer.serialize_none(),
            Subject::Process(pid) => serializer.serialize_u32(*pid),
        }
    }
}

impl<'de> Deserialize<'de> for Subject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Subject, D::Error> {
        Ok(Option::<u32>::deserialize(deserializer)?.map_or(Subject::All, Subject::Process))
    }
}

impl Line {
    pub fn parse(line: &[u8]) -> Result<Line, Refusal> {
        if line.len() > MAX_LINE_BYTES {
            return Err(Refusal::TooLong);
        }
        let parsed: Line =
            serde_json::from_slice(line).map_err(|error| Refusal::NotJson(error.to_string()))?;
        if parsed.labels.is_empty() || parsed.labels.len() > MAX_LABELS {
            return Err(Refusal::Labels(format!("a mark has 1 to {MAX_LABELS} labels")));
        }
        for (at, (name, value)) in parsed.labels.iter().enumerate() {
            fits(name, value)?;
            if parsed.labels.iter().take(at).any(|(other, _)| other == name) {
                return Err(Refusal::Labels(format!("'{name}' is given twice")));
            }
        }
        Ok(parsed)
    }
}

/// Names are words that need no quotes anywhere; values may be anything short without control characters.
fn fits(name: &str, value: &str) -> Result<(), Refusal> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/');
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(is_word) {
        return Err(Refusal::Labels(format!(
            "a label's name has 1 to {MAX_NAME_BYTES} letters, digits, '_', '.', '-' or '/'"
        )));
    }
    if value.len() > MAX_VALUE_BYTES || value.contains(char::is_control) {
        return Err(Refusal::Labels(format!(
            "a label's value has at most {MAX_VALUE_BYTES} bytes and no control characters"
        )));
    }
    Ok(())
}

/// `name=value` as people write it.
pub fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("'{text}' is no label; write it as name=value, such as step=140"))?;
    match fits(name, value) {
        Ok(()) => Ok((name.into(), value.into())),
        Err(refusal) => Err(refusal.to_string()),
    }
}

/// An object whose order matters, with values that are text, numbers or truth values.
mod labels {
    use super::{Deserializer, Error, MapAccess, SerializeMap, Serializer, Visitor, fmt};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(
        labels: &[(String, String)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(labels.len()))?;
        for (name, value) in labels {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(String, String)>, D::Error> {
        struct Labels;
        impl<'de> Visitor<'de> for Labels {
            type Value = Vec<(String, String)>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object of labels")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut labels = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    let value = match value {
                        Value::String(text) => text,
                        Value::Number(number) => number.to_string(),
                        Value::Bool(truth) => truth.to_string(),
                        _ => return Err(M::Error::custom("a label's value is text or a number")),
                    };
                    labels.push((name, value));
                }
                Ok(labels)
            }
        }
        deserializer.deserialize_map(Labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_marked_first() {
        let line = br#"{"do":"next","labels":{"step":140,"epoch":"3","warm":true},"monotonic_ns":5}"#;
        let line = Line::parse(line).unwrap();
        assert_eq!(line.what, What::Next);
        assert_eq!(line.labels[0], ("step".into(), "140".into()));
        assert_eq!(line.labels[2], ("warm".into(), "true".into()));
        assert_eq!((line.pid, line.monotonic_ns, line.reply), (Subject::Own, Some(5), false));
        let text = serde_json::to_vec(&line).unwrap();
        assert_eq!(Line::parse(&text).unwrap(), line);
    }

    #[test]
    fn whom_it_is_about_has_three_answers() {
        let subject =
            |rest: &str| Line::parse(format!(r#"{{"labels":{{"a":1}}{rest}}}"#).as_bytes()).unwrap().pid;
        assert_eq!(subject(""), Subject::Own);
        assert_eq!(subject(r#","pid":null"#), Subject::All);
        assert_eq!(subject(r#","pid":42"#), Subject::Process(42));
        let all = Line { pid: Subject::All, ..Line::parse(br#"{"labels":{"a":1}}"#).unwrap() };
        assert_eq!(Line::parse(&serde_json::to_vec(&all).unwrap()).unwrap().pid, Subject::All);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_a_reason() {
        let labels = |labels: &str| Line::parse(format!(r#"{{"labels":{{{labels}}}}}"#).as_bytes());
        for garbage in [
            &b""[..],
            b"step=3",
            b"\xff\xfe",
            b"[]",
            b"{}",
            br#"{"labels":{"a":1},"colour":"red"}"#,
            br#"{"labels":{"a":[1]}}"#,
            br#"{"labels":{"a":1},"pid":-1}"#,
            br#"{"do":"jump","labels":{"a":1}}"#,
        ] {
            assert!(matches!(Line::parse(garbage), Err(Refusal::NotJson(_))), "{garbage:?}");
        }
        for unfit in [
            String::new(),
            r#""":1"#.into(),
            r#""a b":1"#.into(),
            r#""a":1,"a":2"#.into(),
            r#""a":"\u001b[31m""#.into(),
            format!(r#""{}":1"#, "x".repeat(65)),
            format!(r#""a":"{}""#, "x".repeat(257)),
            (0..17).map(|n| format!(r#""l{n}":1"#)).collect::<Vec<_>>().join(","),
        ] {
            assert!(matches!(labels(&unfit), Err(Refusal::Labels(_))), "{unfit}");
        }
        assert_eq!(Line::parse(&[b' '; MAX_LINE_BYTES + 1]), Err(Refusal::TooLong));
        assert!(labels(&format!(r#""{}":"{}""#, "x".repeat(64), "y".repeat(256))).is_ok());
    }

    #[test]
    fn people_write_labels_with_an_equals_sign() {
        assert_eq!(label("step=140"), Ok(("step".into(), "140".into())));
        assert_eq!(label("url=a=b"), Ok(("url".into(), "a=b".into())));
        assert!(label("step").unwrap_err().contains("name=value"));
        assert!(label("=1").is_err());
    }
}
