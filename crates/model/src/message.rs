//! A text for people under two names: the one it has, and the one that earlier versions gave it.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// What such a field looks like in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Message<T> {
    /// What is found, in sentences.
    pub message: T,
    /// The same as `message`, under its old name; the next version has it no more.
    pub said: T,
}

/// For `#[serde(flatten, serialize_with = "...")]`.
pub fn with_old_name<T: Serialize, S: Serializer>(message: &T, serializer: S) -> Result<S::Ok, S::Error> {
    Message { message, said: message }.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Serialize, JsonSchema)]
    struct Verdict {
        rank: u32,
        #[serde(flatten, serialize_with = "with_old_name")]
        #[schemars(with = "Message<Vec<String>>")]
        message: Vec<String>,
    }

    #[test]
    fn a_message_has_its_old_name_beside_it() {
        let verdict = Verdict { rank: 3, message: vec!["rank 3 is late".into()] };
        let value = serde_json::to_value(&verdict).unwrap();
        assert_eq!(value, json!({"rank": 3, "message": ["rank 3 is late"], "said": ["rank 3 is late"]}));
        let schema = schemars::schema_for!(Verdict).to_value();
        for name in ["rank", "message", "said"] {
            assert!(schema["properties"][name].is_object(), "{schema}");
        }
    }
}
