//! A node as it was named.

use gpuwhy_model::is_loopback;
use http::Uri;

/// Where `gpuwhy dashboard` listens unless it is told otherwise.
const PORT: u16 = 7777;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// As it was named.
    pub name: String,
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    #[error("'{0}' is no address of a node; write HOST:PORT or https://HOST:PORT")]
    Address(String),
    #[error("an address is seen by everybody on this host; put the token into --token-file or GPUWHY_TOKEN")]
    Password,
    #[error(
        "{0} is not on this host, so it is asked over TLS; write https://, or use http:// with an ssh tunnel's end on localhost"
    )]
    Open(String),
    #[error("{0} is named twice; leave one out")]
    Twice(String),
}

impl Node {
    /// `HOST`, `HOST:PORT` or `https://HOST:PORT`; `http://` on loopback only.
    pub fn parse(word: &str) -> Result<Node, NodeError> {
        let name = word.trim().trim_end_matches('/').to_string();
        let wrong = || NodeError::Address(word.trim().into());
        let (address, usual) = match name.contains("://") {
            true => (name.clone(), None),
            false => (format!("https://{name}"), Some(PORT)),
        };
        let uri: Uri = address.parse().map_err(|_| wrong())?;
        let (tls, usual) = match (uri.scheme_str(), usual) {
            (Some("https"), usual) => (true, usual.unwrap_or(443)),
            (Some("http"), _) => (false, 80),
            _ => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        if authority.as_str().contains('@') {
            return Err(NodeError::Password);
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?.to_string();
        // A port that is none is still in the text.
        let has_odd_port = uri.port_u16().is_none() && authority.as_str() != host;
        if has_odd_port || uri.query().is_some() || !matches!(uri.path(), "" | "/") {
            return Err(wrong());
        }
        if !tls && !is_loopback(&host) {
            return Err(NodeError::Open(name));
        }
        Ok(Node { tls, port: uri.port_u16().unwrap_or(usual), host, name })
    }

    /// All of a list, each once.
    pub fn parse_all<S: AsRef<str>>(words: &[S]) -> Result<Vec<Node>, NodeError> {
        let mut nodes: Vec<Node> = Vec::new();
        for word in words {
            let node = Node::parse(word.as_ref())?;
            if nodes.iter().any(|other| other.authority() == node.authority()) {
                return Err(NodeError::Twice(node.name));
            }
            nodes.push(node);
        }
        Ok(nodes)
    }

    /// With its port, whether that was named or not.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host.to_ascii_lowercase(), self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_a_host_and_a_port_over_tls() {
        for (word, authority, tls) in [
            ("node-a", "node-a:7777", true),
            ("node-a:8443", "node-a:8443", true),
            (" https://Node-A:8443/ ", "node-a:8443", true),
            ("https://node-a", "node-a:443", true),
            ("[fd00::1]:9", "[fd00::1]:9", true),
            ("http://127.0.0.1:7001", "127.0.0.1:7001", false),
            ("http://localhost:7001", "localhost:7001", false),
            ("http://[::1]:7001", "[::1]:7001", false),
        ] {
            let node = Node::parse(word).unwrap();
            assert_eq!((node.authority().as_str(), node.tls), (authority, tls), "{word}");
        }
    }

    #[test]
    fn what_is_no_node_is_refused() {
        for word in
            ["", "a b", "node:port", "node:99999", "ftp://node", "https://node/api", "https://node?x=1"]
        {
            assert_eq!(Node::parse(word), Err(NodeError::Address(word.into())), "{word}");
        }
        assert_eq!(Node::parse("https://me:secret@node"), Err(NodeError::Password));
        for word in ["http://node-a:7777", "http://10.0.0.1:7777", "http://localhost.evil.com:1"] {
            assert_eq!(Node::parse(word), Err(NodeError::Open(word.into())), "{word}");
        }
        assert_eq!(
            Node::parse_all(&["a", "b", "https://A:7777"]),
            Err(NodeError::Twice("https://A:7777".into()))
        );
    }
}
