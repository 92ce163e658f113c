//! Metrics as rows, one a data point.

use super::attributes::Pairs;
use super::decode::{Around, Decoding, event};
use super::memory::Decoded;
use super::object::{Object, real};
use super::wire::{Field, Message, Read};
use crate::point::{Event, Kind};
use std::fmt::Write;
use std::sync::Arc;

/// What a metric has its points in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Number(Kind),
    Histogram,
    Exponential,
    Summary,
}

impl Decoding<'_> {
    pub(super) fn metrics(&mut self, request: Message<'_>) -> Decoded<()> {
        self.each(request, |this, around, metric| this.metric(around, metric))
    }

    fn metric<'m>(&mut self, around: &mut Around<'m>, metric: Message<'m>) -> Decoded<()> {
        let (mut name, mut data) = ("", None);
        for field in metric.fields() {
            let (number, field) = field?;
            let shape = match number {
                1 => {
                    name = field.text()?;
                    continue;
                }
                5 => Shape::Number(Kind::Gauge),
                7 => Shape::Number(Kind::Sum),
                9 => Shape::Histogram,
                10 => Shape::Exponential,
                11 => Shape::Summary,
                _ => continue,
            };
            data = Some((shape, field.message()?));
        }
        let Some((shape, data)) = data else { return Ok(()) };
        let mut points = data.messages(1).peekable();
        if points.peek().is_none() {
            return Ok(());
        }
        let name = match self.name(around, name)? {
            Ok(name) => name,
            Err(why) => {
                let mut count = 0;
                for point in points {
                    point?;
                    count += 1;
                }
                self.left_out.add(why, count);
                return Ok(());
            }
        };
        for point in points {
            let point = point?;
            let event = match shape {
                Shape::Number(kind) => self.number(around, &name, kind, point)?,
                Shape::Histogram => self.histogram(around, &name, point)?,
                Shape::Exponential => self.exponential(around, &name, point)?,
                Shape::Summary => self.summary(around, &name, point)?,
            };
            if let Some(event) = event {
                self.push(event)?;
            }
        }
        Ok(())
    }

    fn number<'m>(
        &mut self,
        around: &mut Around<'m>,
        name: &Arc<str>,
        kind: Kind,
        point: Message<'m>,
    ) -> Decoded<Option<Event>> {
        let (mut time, mut double, mut int) = (0, None, None);
        for field in point.fields() {
            match field? {
                (3, field) => time = field.fixed64()?,
                (4, field) => (double, int) = (Some(field.double()?), None),
                (6, field) => (double, int) = (None, Some(field.fixed64()? as i64)),
                _ => {}
            }
        }
        let pairs = Pairs { of: point, number: 7 };
        let made = self.point(around, name, kind, (time, pairs), |_| Ok(()))?;
        Ok(made.map(|event| Event { double, int, ..event }))
    }

    /// The sum is its real value, the count its whole one.
    fn histogram<'m>(
        &mut self,
        around: &mut Around<'m>,
        name: &Arc<str>,
        point: Message<'m>,
    ) -> Decoded<Option<Event>> {
        let (mut time, mut count, mut sum, mut min, mut max) = (0, 0, None, None, None);
        for field in point.fields() {
            match field? {
                (3, field) => time = field.fixed64()?,
                (4, field) => count = field.fixed64()?,
                (5, field) => sum = Some(field.double()?),
                (11, field) => min = Some(field.double()?),
                (12, field) => max = Some(field.double()?),
                _ => {}
            }
        }
        let add = |attrs: &mut Object| {
            let bounds = point.fixed64s(7).map(|bits| bits.map(f64::from_bits));
            attrs.add_list("bounds", bounds, real)?;
            attrs.add_list("counts", point.fixed64s(6), whole)?;
            extremes(attrs, min, max);
            Ok(())
        };
        let pairs = Pairs { of: point, number: 9 };
        let made = self.point(around, name, Kind::Histogram, (time, pairs), add)?;
        Ok(made.map(|event| Event { double: sum, int: i64::try_from(count).ok(), ..event }))
    }

    fn exponential<'m>(
        &mut self,
        around: &mut Around<'m>,
        name: &Arc<str>,
        point: Message<'m>,
    ) -> Decoded<Option<Event>> {
        let (mut time, mut count, mut sum, mut min, mut max) = (0, 0, None, None, None);
        let (mut scale, mut zero_count, mut positive, mut negative) = (0, 0, None, None);
        for field in point.fields() {
            match field? {
                (3, field) => time = field.fixed64()?,
                (4, field) => count = field.fixed64()?,
                (5, field) => sum = Some(field.double()?),
                (6, field) => scale = field.zigzag()?,
                (7, field) => zero_count = field.fixed64()?,
                (8, field) => positive = Some(field.message()?),
                (9, field) => negative = Some(field.message()?),
                (12, field) => min = Some(field.double()?),
                (13, field) => max = Some(field.double()?),
                _ => {}
            }
        }
        let add = |attrs: &mut Object| {
            attrs.add_json("scale", &scale.into());
            attrs.add_json("zero_count", &zero_count.into());
            for (name, buckets) in [("positive", positive), ("negative", negative)] {
                if let Some(buckets) = buckets {
                    let offset = buckets.all(1).last().transpose()?.map_or(Ok(0), Field::zigzag)?;
                    attrs.add_object(name, |attrs| {
                        attrs.add_json("offset", &offset.into());
                        attrs.add_list("counts", buckets.varints(2), whole)
                    })?;
                }
            }
            extremes(attrs, min, max);
            Ok(())
        };
        let pairs = Pairs { of: point, number: 1 };
        let made = self.point(around, name, Kind::Histogram, (time, pairs), add)?;
        Ok(made.map(|event| Event { double: sum, int: i64::try_from(count).ok(), ..event }))
    }

    fn summary<'m>(
        &mut self,
        around: &mut Around<'m>,
        name: &Arc<str>,
        point: Message<'m>,
    ) -> Decoded<Option<Event>> {
        let (mut time, mut count, mut sum) = (0, 0, 0.0);
        for field in point.fields() {
            match field? {
                (3, field) => time = field.fixed64()?,
                (4, field) => count = field.fixed64()?,
                (5, field) => sum = field.double()?,
                _ => {}
            }
        }
        let quantile = |at: Read<Message<'_>>| {
            let mut pair = (0.0, 0.0);
            for field in at?.fields() {
                match field? {
                    (1, field) => pair.0 = field.double()?,
                    (2, field) => pair.1 = field.double()?,
                    _ => {}
                }
            }
            Ok(pair)
        };
        let add = |attrs: &mut Object| {
            attrs.add_list("quantiles", point.messages(6).map(quantile), |out, (quantile, value)| {
                out.push('[');
                real(out, quantile);
                out.push(',');
                real(out, value);
                out.push(']');
            })
        };
        let pairs = Pairs { of: point, number: 7 };
        let made = self.point(around, name, Kind::Summary, (time, pairs), add)?;
        Ok(made.map(|event| Event { double: Some(sum), int: i64::try_from(count).ok(), ..event }))
    }

    fn point<'m>(
        &mut self,
        around: &mut Around<'m>,
        name: &Arc<str>,
        kind: Kind,
        (time_ns, pairs): (u64, Pairs<'m>),
        add: impl FnOnce(&mut Object) -> Read<()>,
    ) -> Decoded<Option<Event>> {
        let Some(time) = self.time(time_ns) else { return Ok(None) };
        Ok(self.inner(around, pairs, add)?.map(|inner| event(time, name, kind, inner)))
    }
}

fn whole(out: &mut String, number: u64) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{number}");
}

fn extremes(attrs: &mut Object, min: Option<f64>, max: Option<f64>) {
    if let (Some(min), Some(max)) = (min, max) {
        attrs.add_json("min", &min.into());
        attrs.add_json("max", &max.into());
    }
}
