//! Every question, asked of a small trace through the table of endpoints.

#![allow(clippy::unwrap_used)]

mod calls;
mod device;
mod explain;
mod made;
mod marks;
mod older;
mod shapes;
mod work;

use gpuwhy_query::ENDPOINTS;
use made::trace;
use serde_json::{Value, json};

#[test]
fn every_endpoint_answers_or_says_what_it_wants() {
    let (_folder, reader) = trace();
    for endpoint in ENDPOINTS {
        assert!(!endpoint.about.is_empty());
        match (endpoint.run)(&reader, Value::Null) {
            Ok(answer) => assert!(answer.is_object(), "{}", endpoint.name),
            Err(error) if error.exit_status() == 3 => {
                let words = error.to_string();
                assert!(words.starts_with("the trace has no ") && words.contains("; "), "{words}");
            }
            Err(error) => assert_eq!((endpoint.name, error.exit_status()), ("sql", 2), "{error}"),
        }
        let wrong = (endpoint.run)(&reader, json!({"colour": "red"})).unwrap_err();
        assert_eq!(wrong.exit_status(), 2, "{}: {wrong}", endpoint.name);
    }
    let mut names: Vec<_> = ENDPOINTS.iter().map(|endpoint| endpoint.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ENDPOINTS.len());
}
