//! Keys and values, and who speaks: the resource everything is about.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1;

pub(crate) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    pair(key, Value::StringValue(value.into()))
}

pub(crate) fn whole(key: &str, value: i64) -> KeyValue {
    pair(key, Value::IntValue(value))
}

pub(crate) fn real(key: &str, value: f64) -> KeyValue {
    pair(key, Value::DoubleValue(value))
}

pub(crate) fn list(key: &str, values: &[String]) -> KeyValue {
    let values = values.iter().map(|value| any(Value::StringValue(value.clone()))).collect();
    pair(key, Value::ArrayValue(ArrayValue { values }))
}

pub(crate) fn any(value: Value) -> AnyValue {
    AnyValue { value: Some(value) }
}

fn pair(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.into(), value: Some(any(value)), ..KeyValue::default() }
}

/// This host and this agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource(v1::Resource);

impl Resource {
    /// `more` are pairs the user named, which go before ours.
    pub fn new(host: &str, more: &[(String, String)]) -> Resource {
        let ours = [
            ("service.name", "gpuwhy"),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("service.instance.id", host),
            ("host.name", host),
        ];
        let is_named = |name: &str| more.iter().any(|(key, _)| key == name);
        let ours = ours.iter().filter(|(key, _)| !is_named(key)).map(|(key, value)| text(key, *value));
        let attributes = ours.chain(more.iter().map(|(key, value)| text(key, value))).collect();
        Resource(v1::Resource { attributes, ..v1::Resource::default() })
    }

    pub(crate) fn get(&self) -> Option<v1::Resource> {
        Some(self.0.clone())
    }
}

pub(crate) fn scope() -> Option<InstrumentationScope> {
    Some(InstrumentationScope {
        name: "gpuwhy".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..InstrumentationScope::default()
    })
}

/// `k=v,k2=v2` as OpenTelemetry's environment variables have it, values with `%20` and the like. What is no pair is left
/// out, as the specification says.
pub fn parse_pairs(words: &str) -> Vec<(String, String)> {
    let pairs = words.split(',').filter_map(|word| word.split_once('='));
    let pairs = pairs.map(|(key, value)| (key.trim().to_string(), unescaped(value.trim())));
    pairs.filter(|(key, _)| !key.is_empty()).collect()
}

fn unescaped(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = (*first == b'%').then(|| after.get(..2)).flatten();
        let byte = escaped.and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_as_the_specification_says() {
        let pairs = parse_pairs("authorization=Bearer%20a%3Db, x-tenant = one ,broken,=none,p=100%,q=%zz");
        let expected = [("authorization", "Bearer a=b"), ("x-tenant", "one"), ("p", "100%"), ("q", "%zz")];
        assert_eq!(pairs, expected.map(|(key, value)| (key.to_string(), value.to_string())));
    }

    #[test]
    fn what_the_user_named_goes_before_ours() {
        let resource = Resource::new("node7", &[("service.name".into(), "trainer".into())]).0;
        let named: Vec<&KeyValue> =
            resource.attributes.iter().filter(|pair| pair.key == "service.name").collect();
        assert_eq!(named, [&text("service.name", "trainer")]);
        assert!(resource.attributes.contains(&text("host.name", "node7")));
    }
}
