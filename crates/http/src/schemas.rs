//! The schemas of requests and answers, for whoever wants them with what definitions they share.

use gpuwhy_model::Question;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

pub type Object = Map<String, Value>;

/// The request's schema, self-contained.
pub fn request<Run>(question: &Question<Run>) -> Object {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.meta_schema = None);
    let mut schema = (question.request)(&mut settings.into_generator()).to_value();
    without_null_defaults(&mut schema);
    let mut schema = object(schema);
    // A request without any field is an object nevertheless.
    schema.entry("properties").or_insert_with(|| json!({}));
    schema.remove("title");
    schema
}

/// The answer's schema, self-contained.
pub fn answer<Run>(question: &Question<Run>) -> Object {
    let settings =
        SchemaSettings::draft2020_12().for_serialize().with(|settings| settings.meta_schema = None);
    let mut schema = object((question.answer)(&mut settings.into_generator()).to_value());
    schema.remove("title");
    schema
}

/// Request and answer with their shared definitions moved to `definitions`, where `#/components/schemas/` finds them.
pub fn shared<Run>(question: &Question<Run>, definitions: &mut Object) -> (Value, Value) {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.definitions_path = "/components/schemas".into();
    });
    let mut hoisted = |schema: Value| {
        let mut schema = object(schema);
        if let Some(Value::Object(mut components)) = schema.remove("components")
            && let Some(Value::Object(schemas)) = components.remove("schemas")
        {
            definitions.extend(schemas);
        }
        Value::Object(schema)
    };
    let request = (question.request)(&mut settings.clone().into_generator()).to_value();
    let answer = (question.answer)(&mut settings.for_serialize().into_generator()).to_value();
    (hoisted(request), hoisted(answer))
}

/// Answers to assistants leave out what is null, so nothing that may be null is required.
pub fn without_nulls(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let nullable: Vec<String> = match fields.get("properties") {
                Some(Value::Object(properties)) => properties
                    .iter()
                    .filter(|(_, property)| may_be_null(property))
                    .map(|(name, _)| name.clone())
                    .collect(),
                _ => Vec::new(),
            };
            if let Some(Value::Array(required)) = fields.get_mut("required") {
                required.retain(|name| !nullable.iter().any(|nullable| name == nullable));
            }
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// A choice of described words as a list of the words alone.
pub fn with_plain_enums(schema: &mut Value) {
    let words: Option<Vec<Value>> = schema.get("oneOf").and_then(Value::as_array).and_then(|choices| {
        let words = choices.iter().map(|choice| match choice.get("enum") {
            Some(Value::Array(words)) => Some(words.clone()),
            _ => choice.get("const").map(|word| vec![word.clone()]),
        });
        words.collect::<Option<Vec<Vec<Value>>>>().map(|words| words.concat())
    });
    if let Some(words) = words {
        *schema = json!({"enum": words});
        return;
    }
    match schema {
        Value::Object(fields) => fields.values_mut().for_each(with_plain_enums),
        Value::Array(list) => list.iter_mut().for_each(with_plain_enums),
        _ => {}
    }
}

/// That nothing is the default goes without saying.
fn without_null_defaults(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("default") == Some(&Value::Null) {
                fields.remove("default");
            }
            fields.values_mut().for_each(without_null_defaults);
        }
        Value::Array(list) => list.iter_mut().for_each(without_null_defaults),
        _ => {}
    }
}

fn may_be_null(schema: &Value) -> bool {
    let is_null = |schema: &Value| schema == "null";
    let by_type = match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(is_null),
        Some(one) => is_null(one),
        None => false,
    };
    by_type || schema.get("anyOf").and_then(Value::as_array).is_some_and(|any| any.iter().any(may_be_null))
}

fn object(schema: Value) -> Object {
    match schema {
        Value::Object(fields) => fields,
        _ => Object::new(),
    }
}
