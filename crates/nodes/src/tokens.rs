//! What each node is shown: one token for all of them, or one of its own, which no other node gets to see.

use crate::Node;
use std::collections::HashMap;

#[derive(Clone, Default)]
pub struct Tokens {
    of: HashMap<String, String>,
    all: Option<String>,
}

/// They are secrets.
impl std::fmt::Debug for Tokens {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Tokens({})", self.of.len() + usize::from(self.all.is_some()))
    }
}

impl Tokens {
    /// Lines are `TOKEN`, or `NODE TOKEN`; without a line for all, the variable's value is for all.
    pub fn new<S: AsRef<str>>(lines: &[S], variable: Option<&str>) -> Result<Tokens, String> {
        let mut tokens = Tokens::default();
        for line in lines {
            let words: Vec<&str> = line.as_ref().split_whitespace().collect();
            match words.as_slice() {
                [token] => {
                    if tokens.all.replace((*token).to_string()).is_some() {
                        return Err(
                            "there are two tokens for all nodes in it; write the others as `HOST:PORT TOKEN`"
                                .into(),
                        );
                    }
                }
                [node, token] => {
                    // The word may be a secret in the wrong place.
                    let node = Node::parse(node).map_err(|_| {
                        "a line of it begins with no node; write `HOST:PORT TOKEN`".to_string()
                    })?;
                    tokens.of.insert(node.authority(), (*token).to_string());
                }
                _ => {
                    return Err(
                        "a line of it has more than a node and a token; write `HOST:PORT TOKEN`".into()
                    );
                }
            }
        }
        let variable = variable.map(str::trim).filter(|token| !token.is_empty());
        tokens.all = tokens.all.or_else(|| variable.map(ToString::to_string));
        Ok(tokens)
    }

    pub(crate) fn of(&self, node: &Node) -> Option<&str> {
        self.of.get(&node.authority()).or(self.all.as_ref()).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_shown_its_own_token_or_the_one_for_all() {
        let node = |word| Node::parse(word).unwrap();
        let tokens = Tokens::new(&["for-all", "node-b:7777  for-b"], Some("variable")).unwrap();
        assert_eq!(tokens.of(&node("node-a")), Some("for-all"));
        assert_eq!(tokens.of(&node("https://node-b:7777")), Some("for-b"));
        assert_eq!(tokens.of(&node("node-b:1")), Some("for-all"));
        let own = Tokens::new(&["node-b for-b"], None).unwrap();
        assert_eq!((own.of(&node("node-a")), own.of(&node("node-b"))), (None, Some("for-b")));
        let variable = Tokens::new::<&str>(&[], Some(" variable\n")).unwrap();
        assert_eq!(variable.of(&node("node-a")), Some("variable"));
        assert!(!format!("{tokens:?}").contains("for"), "{tokens:?}");
    }

    #[test]
    fn lines_that_mean_nothing_are_refused_and_not_shown() {
        for lines in
            [&["secret-1", "secret-2"][..], &["a b secret"], &["secret/x secret"], &["http://secret secret"]]
        {
            let message = Tokens::new(lines, None).unwrap_err();
            assert!(!message.contains("secret") && message.contains("HOST:PORT TOKEN"), "{message}");
        }
    }
}
