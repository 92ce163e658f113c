//! OTLP's JSON, written as protobuf while it is read: one decoder serves both, and nothing is built of what a request claims to
//! contain. The result is a few times as long as the JSON at most.

use super::budget::Full;
use super::otlp::{Kind, Schema};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Lengths have so many bytes, whatever they are: what is inside is written before its length is known.
const LENGTH: usize = 4;
const MAX_LEN: usize = 1 << (7 * LENGTH);

/// Told how much memory the result takes, each time it takes more.
pub(super) type Charge<'c> = dyn FnMut(usize) -> Result<(), Full> + 'c;

#[derive(Debug, PartialEq)]
pub(super) enum JsonError {
    Malformed(String),
    Full,
}

/// A message of this kind, from its JSON.
pub(super) fn of_json(
    schema: &'static Schema,
    json: &[u8],
    charge: &mut Charge<'_>,
) -> Result<Vec<u8>, JsonError> {
    let mut out = Out { bytes: Vec::new(), charged: 0, is_full: false, charge };
    let mut from = serde_json::Deserializer::from_slice(json);
    let read = Whole { schema, out: &mut out }.deserialize(&mut from).and_then(|()| from.end());
    match read {
        Err(_) if out.is_full => Err(JsonError::Full),
        Err(error) => Err(JsonError::Malformed(error.to_string())),
        Ok(()) => Ok(out.bytes),
    }
}

struct Out<'c, 'd> {
    bytes: Vec<u8>,
    charged: usize,
    is_full: bool,
    charge: &'c mut Charge<'d>,
}

impl Out<'_, '_> {
    fn put<E: Error>(&mut self, bytes: &[u8]) -> Result<(), E> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.capacity() > self.charged {
            let more = self.bytes.capacity() - self.charged;
            self.charged += more;
            if (self.charge)(more).is_err() {
                self.is_full = true;
                return Err(E::custom("there is no room"));
            }
        }
        Ok(())
    }

    fn varint<E: Error>(&mut self, mut number: u64) -> Result<(), E> {
        let (mut bytes, mut count) = ([0; 10], 0);
        loop {
            bytes[count] = number as u8 & 0x7f | if number > 0x7f { 0x80 } else { 0 };
            (number, count) = (number >> 7, count + 1);
            if number == 0 {
                return self.put(&bytes[..count]);
            }
        }
    }

    fn key<E: Error>(&mut self, number: u32, wire: u32) -> Result<(), E> {
        self.varint(u64::from(number << 3 | wire))
    }

    /// What `inside` writes, with its length before it.
    fn long<E: Error>(&mut self, inside: impl FnOnce(&mut Self) -> Result<(), E>) -> Result<(), E> {
        self.put(&[0; LENGTH])?;
        let from = self.bytes.len();
        inside(self)?;
        let length = self.bytes.len() - from;
        if length >= MAX_LEN {
            return Err(E::custom("it is too long"));
        }
        for (index, byte) in self.bytes[from - LENGTH..from].iter_mut().enumerate() {
            *byte = (length >> (7 * index)) as u8 & 0x7f | if index + 1 < LENGTH { 0x80 } else { 0 };
        }
        Ok(())
    }
}

/// The fields of one message.
struct Whole<'o, 'c, 'd> {
    schema: &'static Schema,
    out: &'o mut Out<'c, 'd>,
}

impl<'de> DeserializeSeed<'de> for Whole<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Whole<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key_seed(Name(self.schema))? {
            match field {
                Some((number, kind)) => map.next_value_seed(Value { number, kind, out: self.out })?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Which field it is; None for one that nobody reads.
struct Name(&'static Schema);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<(u32, Kind)>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<(u32, Kind)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.0.iter().find(|(known, ..)| *known == name).map(|(_, number, kind)| (*number, *kind)))
    }
}

/// One field's value; null is as none.
struct Value<'o, 'c, 'd> {
    number: u32,
    kind: Kind,
    out: &'o mut Out<'c, 'd>,
}

impl<'de> DeserializeSeed<'de> for Value<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl Value<'_, '_, '_> {
    fn wrong<E: Error>(&self) -> E {
        E::custom(format_args!(
            "a value is of another kind than OTLP says ({:?} is wanted)",
            self.kind_name()
        ))
    }

    fn kind_name(&self) -> &'static str {
        match self.kind {
            Kind::Text | Kind::Hex | Kind::Base64 => "a string",
            Kind::Bool => "true or false",
            Kind::Varint | Kind::Zigzag | Kind::Fixed64 | Kind::Double => "a number",
            Kind::One(_) => "an object",
            Kind::Many(_) | Kind::Fixed64s | Kind::Doubles | Kind::Varints => "a list",
        }
    }

    fn bytes<E: Error>(self, bytes: &[u8]) -> Result<(), E> {
        self.out.key(self.number, 2)?;
        self.out.varint(bytes.len() as u64)?;
        self.out.put(bytes)
    }

    /// A whole number of up to 64 bits, with or without a sign.
    fn whole<E: Error>(self, number: i128) -> Result<(), E> {
        let wide = || E::custom("a number has more than 64 bits");
        let bits = match number < 0 {
            true => i64::try_from(number).map_err(|_| wide())? as u64,
            false => u64::try_from(number).map_err(|_| wide())?,
        };
        match self.kind {
            Kind::Varint => {
                self.out.key(self.number, 0)?;
                self.out.varint(bits)
            }
            Kind::Zigzag => {
                let number = bits as i64;
                self.out.key(self.number, 0)?;
                self.out.varint((number << 1 ^ number >> 63) as u64)
            }
            Kind::Fixed64 => {
                self.out.key(self.number, 1)?;
                self.out.put(&bits.to_le_bytes())
            }
            Kind::Double => self.real(number as f64),
            _ => Err(self.wrong()),
        }
    }

    fn real<E: Error>(self, number: f64) -> Result<(), E> {
        match self.kind {
            Kind::Double => {
                self.out.key(self.number, 1)?;
                self.out.put(&number.to_bits().to_le_bytes())
            }
            _ if number.fract() == 0.0 && number.abs() < 9e15 => self.whole(number as i128),
            _ => Err(self.wrong()),
        }
    }
}

impl<'de> Visitor<'de> for Value<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind_name())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<(), E> {
        match self.kind {
            Kind::Bool => {
                self.out.key(self.number, 0)?;
                self.out.varint(u64::from(truth))
            }
            _ => Err(self.wrong()),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.whole(number.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.whole(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.real(number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self.kind {
            Kind::Text => self.bytes(text.as_bytes()),
            Kind::Base64 => match STANDARD.decode(text) {
                Ok(bytes) => self.bytes(&bytes),
                Err(_) => Err(E::custom("bytes are not in base64")),
            },
            Kind::Hex => match unhex(text) {
                Some(bytes) => self.bytes(&bytes),
                None => Err(E::custom("an id is not in hex")),
            },
            Kind::Double => match text.parse() {
                Ok(number) => self.real(number),
                Err(_) => Err(self.wrong()),
            },
            Kind::Varint | Kind::Zigzag | Kind::Fixed64 => match text.parse() {
                Ok(number) => self.whole(number),
                Err(_) => Err(self.wrong()),
            },
            _ => Err(self.wrong()),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let Kind::One(schema) = self.kind else { return Err(self.wrong()) };
        self.out.key(self.number, 2)?;
        self.out.long(|out| Whole { schema, out }.visit_map(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let kind = match self.kind {
            Kind::Many(schema) => Kind::One(schema),
            // One by one instead of packed is as good, and a byte longer.
            Kind::Fixed64s => Kind::Fixed64,
            Kind::Doubles => Kind::Double,
            Kind::Varints => Kind::Varint,
            _ => return Err(self.wrong()),
        };
        let number = self.number;
        while list.next_element_seed(Value { number, kind, out: &mut *self.out })?.is_some() {}
        Ok(())
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pairs = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::super::otlp::{LOGS, METRICS, SPANS};
    use super::*;
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use prost::Message;
    use serde_json::json;

    fn free(_: usize) -> Result<(), Full> {
        Ok(())
    }

    /// As OTLP's own library reads it.
    fn same<M: Message + Default + serde::de::DeserializeOwned + PartialEq + fmt::Debug>(
        schema: &'static Schema,
        json: &serde_json::Value,
    ) {
        let bytes = of_json(schema, json.to_string().as_bytes(), &mut free).unwrap();
        let theirs: M = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(M::decode(bytes.as_slice()).unwrap(), theirs);
    }

    #[test]
    fn it_becomes_what_the_protocols_own_library_makes_of_it() {
        let resource = json!({"attributes": [{"key": "a", "value": {"kvlistValue": {"values": [
            {"key": "b", "value": {"arrayValue": {"values": [{"intValue": "-5"}, {"doubleValue": 0.5}, {"boolValue": true}]}}}]}}}]});
        same::<ExportMetricsServiceRequest>(
            &METRICS,
            &json!({"resourceMetrics": [{"resource": resource, "scopeMetrics": [
            {"scope": {"attributes": [{"key": "s", "value": {"stringValue": "größe \"\n"}}]}, "metrics": [
                {"name": "g", "gauge": {"dataPoints": [{"timeUnixNano": "1800000000000000000", "asInt": "-7"}, {"asDouble": 1.5}]}},
                {"name": "h", "histogram": {"dataPoints": [{"count": "3", "sum": 1.5, "bucketCounts": ["1", "2"], "explicitBounds": [0.5]}]}},
                {"name": "e", "exponentialHistogram": {"dataPoints": [{"scale": -3, "positive": {"offset": -1, "bucketCounts": ["2"]}}]}},
                {"name": "s", "summary": {"dataPoints": [{"quantileValues": [{"quantile": 0.5, "value": 0.25}]}]}},
            ]}]}]}),
        );
        same::<ExportLogsServiceRequest>(
            &LOGS,
            &json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [
            {"timeUnixNano": "5", "severityText": "INFO", "body": {"stringValue": "x"}, "eventName": "e"}]}]}]}),
        );
        same::<ExportTraceServiceRequest>(
            &SPANS,
            &json!({"resourceSpans": [{"scopeSpans": [{"spans": [
            {"traceId": "0102030405060708090a0b0c0d0e0f10", "spanId": "0102030405060708", "name": "n", "endTimeUnixNano": "9",
             "status": {"code": 2, "message": "m"}, "events": [{"timeUnixNano": "4", "name": "e"}]}]}]}]}),
        );
    }

    #[test]
    fn what_is_no_otlp_is_told_and_what_is_unknown_is_passed_over() {
        for wrong in [
            "7",
            "{",
            "{\"resourceMetrics\": 7}",
            "{\"resourceMetrics\": [7]}",
            "{\"resourceMetrics\": [{\"resource\": []}]}",
            "{} {}",
        ] {
            let read = of_json(&METRICS, wrong.as_bytes(), &mut free);
            assert!(matches!(read, Err(JsonError::Malformed(_))), "{wrong}: {read:?}");
        }
        let read = of_json(&METRICS, b"{\"new\": [{\"x\": 1}], \"resourceMetrics\": null}", &mut free);
        assert_eq!(read, Ok(Vec::new()));
    }

    #[test]
    fn memory_is_asked_for_before_it_is_used() {
        let many = format!("{{\"resourceSpans\": [{}{{}}]}}", "{},".repeat(100_000));
        let mut asked = 0;
        let bytes = of_json(&SPANS, many.as_bytes(), &mut |more| {
            asked += more;
            Ok(())
        });
        let bytes = bytes.unwrap();
        assert!(bytes.len() <= many.len() * 2 && asked >= bytes.capacity(), "{} {asked}", bytes.len());
        let mut left = 10_000usize;
        let refused = of_json(&SPANS, many.as_bytes(), &mut |more| {
            left = left.checked_sub(more).ok_or(Full)?;
            Ok(())
        });
        assert_eq!(refused, Err(JsonError::Full));
    }
}
