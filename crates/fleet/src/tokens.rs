//! Who may do what: tokens of a file, each with clusters and scopes, known by their digests only.

use gpuwhy_cohort::shares::Sharing;
use gpuwhy_http::{Digest, HttpError, lines_of};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Push,
    Read,
    Sql,
    Admin,
}

impl Scope {
    fn parse(word: &str) -> Option<Scope> {
        match word {
            "push" => Some(Scope::Push),
            "read" => Some(Scope::Read),
            "sql" => Some(Scope::Sql),
            "admin" => Some(Scope::Admin),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Scope::Push => "push",
            Scope::Read => "read",
            Scope::Sql => "sql",
            Scope::Admin => "admin",
        }
    }
}

/// What one token allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// None: all of them.
    pub clusters: Option<BTreeSet<String>>,
    pub scopes: BTreeSet<Scope>,
    /// Tells tokens apart in the audit log.
    pub short: String,
}

impl Grant {
    pub fn has(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    pub fn covers(&self, cluster: &str) -> bool {
        self.clusters.as_ref().is_none_or(|clusters| clusters.contains(cluster))
    }
}

#[derive(Debug, Clone, Default)]
pub struct Tokens(Vec<(Digest, Arc<Grant>)>);

impl Tokens {
    /// One a line: `TOKEN CLUSTERS SCOPES`, both lists with commas, `*` for all clusters.
    pub fn read(path: &Path) -> Result<Tokens, HttpError> {
        let wrong = |line: usize, why: &str| HttpError::TokenFile {
            path: path.into(),
            why: format!(
                "token {line} {why}; a line is TOKEN CLUSTERS SCOPES, as in `TOKEN training push,read`"
            ),
        };
        let mut tokens = Vec::new();
        for (index, line) in lines_of(path)?.iter().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [token, clusters, scopes] = words[..] else {
                return Err(wrong(index + 1, &format!("has {} words on its line instead of 3", words.len())));
            };
            let clusters: BTreeSet<String> =
                clusters.split(',').filter(|name| !name.is_empty()).map(String::from).collect();
            let scopes: Option<BTreeSet<Scope>> = scopes.split(',').map(Scope::parse).collect();
            let Some(scopes) = scopes else {
                return Err(wrong(index + 1, "has a scope that is none of push, read, sql and admin"));
            };
            let digest = Digest::new(token)?;
            let clusters = (!clusters.contains("*")).then_some(clusters);
            let grant = Grant { clusters, scopes, short: digest.short() };
            tokens.push((digest, Arc::new(grant)));
        }
        Ok(Tokens(tokens))
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether pushes come from more than one token, and may be of more than one cluster.
    pub(crate) fn sharing(&self) -> Sharing {
        let pushing = || self.0.iter().map(|(_, grant)| grant).filter(|grant| grant.has(Scope::Push));
        let clusters: Option<BTreeSet<&String>> = pushing()
            .map(|grant| grant.clusters.as_ref())
            .collect::<Option<Vec<_>>>()
            .map(|of_each| of_each.into_iter().flatten().collect());
        Sharing { tokens: pushing().count() > 1, clusters: clusters.is_none_or(|named| named.len() > 1) }
    }

    /// Takes as long whatever is shown: digests are compared, all of them, to their ends.
    pub fn grant(&self, shown: &str) -> Option<Arc<Grant>> {
        let shown = Digest::of(shown);
        self.0.iter().fold(None, |found, (token, grant)| match bool::from(token.fits(&shown)) {
            true => Some(grant.clone()),
            false => found,
        })
    }
}

/// The token of `Authorization: Bearer TOKEN`.
pub(crate) fn bearer(headers: &axum::http::HeaderMap) -> Option<&str> {
    let value = headers.get(axum::http::header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn read(text: &str) -> Result<Tokens, HttpError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600)).unwrap();
        Tokens::read(file.path())
    }

    #[test]
    fn a_token_has_its_clusters_and_scopes_and_no_others() {
        let tokens =
            read("# ours\n0123456789abcdef a,b push,read\nfedcba9876543210 * read,sql,admin\n").unwrap();
        let tenant = tokens.grant("0123456789abcdef").unwrap();
        assert!(tenant.covers("a") && tenant.covers("b") && !tenant.covers("c") && !tenant.covers("*"));
        assert!(tenant.has(Scope::Push) && tenant.has(Scope::Read) && !tenant.has(Scope::Sql));
        let all = tokens.grant("fedcba9876543210").unwrap();
        assert!(all.covers("anything") && all.has(Scope::Admin) && !all.has(Scope::Push));
        assert_eq!(tokens.grant("0123456789abcdeF"), None);
        assert_eq!(tokens.grant(""), None);
        assert!(!format!("{tokens:?}").contains("0123456789abcdef"), "tokens are never shown");
    }

    #[test]
    fn what_is_shared_follows_from_who_may_push() {
        let sharing = |text: &str| {
            let sharing = read(text).unwrap().sharing();
            (sharing.tokens, sharing.clusters)
        };
        assert_eq!(sharing("0123456789abcdef a push\nfedcba9876543210 * read"), (false, false));
        assert_eq!(sharing("0123456789abcdef * push"), (false, true));
        assert_eq!(sharing("0123456789abcdef a push\nfedcba9876543210 a push"), (true, false));
        assert_eq!(sharing("0123456789abcdef a push\nfedcba9876543210 b push"), (true, true));
    }

    #[test]
    fn lines_that_are_wrong_are_told_without_their_token() {
        for (text, why) in [
            ("0123456789abcdef a", "2 words"),
            ("0123456789abcdef a push,write", "none of push, read, sql and admin"),
            ("short a push", "less than 16 characters"),
            ("# nothing\n", "no token in it"),
        ] {
            let message = read(text).unwrap_err().to_string();
            assert!(message.contains(why) && !message.contains("0123456789abcdef"), "{message}");
        }
    }
}
