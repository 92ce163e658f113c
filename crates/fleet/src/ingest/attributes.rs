//! Attributes: those that say whom something is about are lifted out, all others become JSON (`object.rs`).

use super::wire::{Message, Read};
use std::borrow::Cow;

/// A value of any kind, where it lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Any<'m> {
    Nothing,
    Text(&'m str),
    Bool(bool),
    Int(i64),
    Double(f64),
    List(Message<'m>),
    Map(Message<'m>),
    Bytes(&'m [u8]),
}

impl<'m> Any<'m> {
    pub(super) fn read(message: Message<'m>) -> Read<Any<'m>> {
        let mut value = Any::Nothing;
        for field in message.fields() {
            let (number, field) = field?;
            value = match number {
                1 => Any::Text(field.text()?),
                2 => Any::Bool(field.varint()? != 0),
                3 => Any::Int(field.varint()? as i64),
                4 => Any::Double(field.double()?),
                5 => Any::List(field.message()?),
                6 => Any::Map(field.message()?),
                7 => Any::Bytes(field.bytes()?),
                // Among them an index into a table that only profiles have.
                _ => value,
            };
        }
        Ok(value)
    }
}

/// A key and its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pair<'m> {
    pub(super) key: &'m str,
    pub(super) value: Any<'m>,
}

/// The pairs of a message, in the fields of one number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pairs<'m> {
    pub(super) of: Message<'m>,
    pub(super) number: u32,
}

impl<'m> Pairs<'m> {
    /// The entries of a map.
    pub(super) fn of_map(map: Message<'m>) -> Pairs<'m> {
        Pairs { of: map, number: 1 }
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Read<Pair<'m>>> {
        self.of.messages(self.number).map(|message| {
            let mut pair = Pair { key: "", value: Any::Nothing };
            for field in message?.fields() {
                match field? {
                    (1, field) => pair.key = field.text()?,
                    (2, field) => pair.value = Any::read(field.message()?)?,
                    _ => {}
                }
            }
            Ok(pair)
        })
    }

    pub(super) fn get(self, key: &str) -> Read<Option<Any<'m>>> {
        for pair in self.iter() {
            let pair = pair?;
            if pair.key == key {
                return Ok(Some(pair.value));
            }
        }
        Ok(None)
    }

    pub(super) fn text(self, key: &str) -> Read<Option<&'m str>> {
        Ok(match self.get(key)? {
            Some(Any::Text(text)) => Some(text),
            _ => None,
        })
    }

    pub(super) fn whole_number(self, key: &str) -> Read<Option<i64>> {
        Ok(self.get(key)?.and_then(whole_number))
    }
}

pub(super) fn whole_number(value: Any<'_>) -> Option<i64> {
    match value {
        Any::Int(number) => Some(number),
        Any::Text(text) => text.parse().ok(),
        _ => None,
    }
}

/// What attributes say of whom something is about. Inner ones go before outer ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lifted<'m> {
    pub(super) cluster: Option<Cow<'m, str>>,
    pub(super) node: Option<Cow<'m, str>>,
    pub(super) host: Option<Cow<'m, str>>,
    pub(super) job: Option<Cow<'m, str>>,
    pub(super) rank: Option<i32>,
    pub(super) nranks: Option<i32>,
}

impl<'m> Lifted<'m> {
    /// Whether it was one of these.
    pub(super) fn take(&mut self, pair: &Pair<'m>) -> bool {
        let value = pair.value;
        match pair.key {
            "cluster_id" => self.cluster = text(value).or(self.cluster.take()),
            "node_id" => self.node = text(value).or(self.node.take()),
            "host.name" => self.host = text(value).or(self.host.take()),
            "job_id" => self.job = text(value).or(self.job.take()),
            "rank" => self.rank = number(value).or(self.rank),
            "nranks" => self.nranks = number(value).or(self.nranks),
            _ => return false,
        }
        true
    }

    /// Something but a rank.
    pub(super) fn has_names(&self) -> bool {
        self.cluster.is_some() || self.node.is_some() || self.host.is_some() || self.job.is_some()
    }

    /// With what stands around it.
    pub(super) fn within(self, outer: &Lifted<'m>) -> Lifted<'m> {
        Lifted {
            cluster: self.cluster.or_else(|| outer.cluster.clone()),
            node: self.node.or_else(|| outer.node.clone()),
            host: self.host.or_else(|| outer.host.clone()),
            job: self.job.or_else(|| outer.job.clone()),
            rank: self.rank.or(outer.rank),
            nranks: self.nranks.or(outer.nranks),
        }
    }

    pub(super) fn node(&self) -> &str {
        self.node.as_deref().or(self.host.as_deref()).unwrap_or("unknown")
    }

    pub(super) fn cluster(&self) -> &str {
        self.cluster.as_deref().unwrap_or("default")
    }
}

fn text(value: Any<'_>) -> Option<Cow<'_, str>> {
    match value {
        Any::Text(text) if !text.is_empty() => Some(text.into()),
        Any::Int(number) => Some(number.to_string().into()),
        _ => None,
    }
}

fn number(value: Any<'_>) -> Option<i32> {
    let number = match value {
        Any::Int(number) => i32::try_from(number).ok(),
        Any::Text(text) => text.parse().ok(),
        Any::Double(number) if number.fract() == 0.0 && number.abs() < 1e9 => Some(number as i32),
        _ => None,
    };
    number.filter(|number| *number >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_it_is_about_is_lifted_whatever_type_it_came_as() {
        let mut lifted = Lifted::default();
        for (key, value) in [
            ("host.name", Any::Text("host7")),
            ("rank", Any::Text("5")),
            ("nranks", Any::Double(8.0)),
            ("job_id", Any::Int(42)),
        ] {
            assert!(lifted.take(&Pair { key, value }), "{key}");
        }
        assert!(!lifted.take(&Pair { key: "class", value: Any::Text("io.block") }));
        assert_eq!((lifted.rank, lifted.nranks, lifted.job.as_deref()), (Some(5), Some(8), Some("42")));
        assert_eq!((lifted.node(), lifted.cluster()), ("host7", "default"));
        lifted.take(&Pair { key: "node_id", value: Any::Text("node7") });
        lifted.take(&Pair { key: "rank", value: Any::Int(-1) });
        assert_eq!(
            (lifted.node(), lifted.rank),
            ("node7", Some(5)),
            "the host stands in, and nonsense changes nothing"
        );
    }
}
