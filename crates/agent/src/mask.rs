//! Secrets on command lines: whoever records what runs on a host records those too, unless they are masked before anything is stored
//! or sent. What a value is called tells whether it is one: `--api-key=x`, `--token x`, `OPENAI_API_KEY=x`, `user:x@host`.

use gpuwhy_model::{Batch, Process};
use std::borrow::Cow;

const MASKED: &str = "***";
/// What the last part of a name of a secret is, as in `hf_token` and `apiKey`.
const ENDINGS: [&str; 7] = ["key", "token", "secret", "password", "passwd", "passphrase", "pwd"];
/// What a part of such a name begins with.
const BEGINNINGS: [&str; 4] = ["credential", "secrets", "passwords", "authorization"];

/// What may stand before the value of a header.
const SCHEMES: [&str; 3] = ["Bearer ", "Basic ", "Token "];

/// The processes of a batch as they are stored: their words apart by spaces, and without secrets where `mask` is set.
pub(crate) fn processes(batch: &mut Batch, mask: bool) {
    for process in &mut batch.processes {
        of_process(process, mask);
    }
}

fn of_process(process: &mut Process, mask: bool) {
    let words: Vec<&str> = process.cmdline.split('\0').collect();
    process.cmdline = if mask { words_masked(&words).join(" ") } else { words.join(" ") };
    let Some(container) = process.container.as_mut().filter(|_| mask) else { return };
    if let Some(image) = &mut container.image {
        *image = text_masked(image).into_owned();
    }
    for (name, value) in &mut container.labels {
        *value = if is_secret(name) { MASKED.into() } else { text_masked(value).into_owned() };
    }
}

/// The words of a command line without its secrets.
pub fn words_masked<S: AsRef<str>>(words: &[S]) -> Vec<String> {
    let mut follows = false;
    let mut masked = Vec::with_capacity(words.len());
    for word in words.iter().map(AsRef::as_ref) {
        // What looks like another option is none's value.
        let is_value = std::mem::take(&mut follows) && !is_option(word);
        follows = !is_value && names_next(word);
        masked.push(if is_value { MASKED.into() } else { text_masked(word).into_owned() });
    }
    masked
}

fn is_option(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c == '-' || c.is_alphabetic()))
}

/// Whether the word after this one is a secret: `--token`, `Bearer`.
fn names_next(word: &str) -> bool {
    let option = word.starts_with('-') && !word.contains(['=', ' ']) && is_secret(word);
    option || word.eq_ignore_ascii_case("bearer")
}

/// A word without secrets; it may be a whole script, a header or an address.
fn text_masked(text: &str) -> Cow<'_, str> {
    if !text.contains(['=', ':', ' ', '@']) {
        return text.into();
    }
    let text = pairs_masked(text);
    let (mut masked, mut rest, mut follows) = (String::with_capacity(text.len()), text.as_str(), false);
    while !rest.is_empty() {
        let begin = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
        masked.push_str(&rest[..begin]);
        rest = &rest[begin..];
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let word = &rest[..end];
        if std::mem::take(&mut follows) && !is_option(word) {
            rest = &rest[value_length(rest)..];
            masked.push_str(MASKED);
        } else {
            follows = names_next(word);
            masked.push_str(&address_masked(word));
            rest = &rest[end..];
        }
    }
    masked.into()
}

/// `NAME=x`, `{"name": "x"}`, `?a=1&name=x`, `Name: Bearer x`: each value up to where it can end.
fn pairs_masked(text: &str) -> String {
    let (mut masked, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(['=', ':']) {
        let (name, behind) = (&rest[..at], &rest[at + 1..]);
        // Of a header and of JSON there may be a space before the value, and a scheme.
        let mut skipped =
            if rest[at..].starts_with(':') { behind.len() - behind.trim_start().len() } else { 0 };
        let scheme = SCHEMES.iter().find(|scheme| {
            behind[skipped..].get(..scheme.len()).is_some_and(|word| word.eq_ignore_ascii_case(scheme))
        });
        skipped += scheme.map_or(0, |scheme| scheme.len());
        let value = &behind[skipped..];
        masked.push_str(&rest[..=at]);
        rest = behind;
        // `scheme://` is no name and value.
        if value.is_empty() || behind.starts_with("//") || !is_secret(name_at_end(name)) {
            continue;
        }
        masked.push_str(&behind[..skipped]);
        masked.push_str(MASKED);
        rest = &value[value_length(value)..];
    }
    masked.push_str(rest);
    masked
}

/// How long the value is that the text begins with: up to its closing quote, or to what cannot be in it.
fn value_length(text: &str) -> usize {
    match text.starts_with(['"', '\'']) {
        true => text[1..].find(&text[..1]).map_or(text.len(), |at| at + 2),
        false => text
            .find(|c: char| c.is_whitespace() || matches!(c, '&' | ',' | ';' | '"' | '\'' | '}'))
            .unwrap_or(text.len()),
    }
}

/// `scheme://user:x@host`, also where the user is the secret.
fn address_masked(word: &str) -> Cow<'_, str> {
    let mut masked = String::new();
    let mut rest = word;
    while let Some(at) = rest.find("://") {
        let (scheme, behind) = rest.split_at(at + 3);
        masked.push_str(scheme);
        let end = behind.find(['/', '?', '#', '"', '\'', ',']).unwrap_or(behind.len());
        let (authority, path) = behind.split_at(end);
        match authority.rsplit_once('@') {
            Some((user, host)) => {
                let user = user.split_once(':').map_or(String::new(), |(user, _)| format!("{user}:"));
                masked.push_str(&format!("{user}{MASKED}@{host}"));
            }
            None => masked.push_str(authority),
        }
        rest = path;
    }
    masked.push_str(rest);
    masked.into()
}

/// The identifier that the text ends with.
fn name_at_end(text: &str) -> &str {
    let text = text.trim_end_matches(['"', '\'']);
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.rfind(|c| !is_part(c)).map_or(text, |at| text[at..].trim_start_matches(|c| !is_part(c)))
}

fn is_secret(name: &str) -> bool {
    name.split(|c: char| !c.is_alphanumeric()).any(|part| {
        let part = part.to_lowercase();
        ENDINGS.iter().any(|ending| part.ends_with(ending))
            || BEGINNINGS.iter().any(|beginning| part.starts_with(beginning))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::Container;

    fn line(words: &[&str]) -> String {
        words_masked(words).join(" ")
    }

    #[test]
    fn values_of_secrets_are_masked_wherever_they_stand() {
        for (words, masked) in [
            (&["train", "--api-key=abc"][..], "train --api-key=***"),
            (&["train", "--token", "abc", "--lr", "0.1"], "train --token *** --lr 0.1"),
            (&["train", "--token", "a phrase of words"], "train --token ***"),
            (&["train", "-password", "abc"], "train -password ***"),
            (
                &["env", "OPENAI_API_KEY=abc", "HF_TOKEN=def", "python"],
                "env OPENAI_API_KEY=*** HF_TOKEN=*** python",
            ),
            (&["x", "--hf-token=a=b=c"], "x --hf-token=***"),
            (&["x", "--awsSecretAccessKey", "abc"], "x --awsSecretAccessKey ***"),
            (&["x", "--db-passwd", "abc"], "x --db-passwd ***"),
            (&["x", "--credentials-file", "/x"], "x --credentials-file ***"),
            (&["git", "clone", "https://me:abc@host/r.git"], "git clone https://me:***@host/r.git"),
            (&["git", "clone", "https://ghp_abc@host/r"], "git clone https://***@host/r"),
            (&["x", "--url=redis://:abc@host:6379/0"], "x --url=redis://:***@host:6379/0"),
            (&["x", "postgres://me:a:b@c@host/db?sslmode=on"], "x postgres://me:***@host/db?sslmode=on"),
            (&["curl", "https://host/?a=1&token=abc&b=2"], "curl https://host/?a=1&token=***&b=2"),
            (&["curl", "-H", "Authorization: Bearer abc"], "curl -H Authorization: Bearer ***"),
            (&["curl", "-H", "X-Api-Key: abc"], "curl -H X-Api-Key: ***"),
            (&["curl", "-H", "X-Api-Key:abc"], "curl -H X-Api-Key:***"),
            (&["x", "{\"api_key\":\"abc\",\"n\":1}"], "x {\"api_key\":***,\"n\":1}"),
            (&["x", "{\"password\": \"a, b\"}"], "x {\"password\": ***}"),
            (
                &["bash", "-c", "export WANDB_API_KEY=abc; train --secret def --lr 0.1"],
                "bash -c export WANDB_API_KEY=***; train --secret *** --lr 0.1",
            ),
            (
                &["bash", "-c", "TOKEN='a b' train --key \"c d\" --lr 1"],
                "bash -c TOKEN=*** train --key *** --lr 1",
            ),
        ] {
            assert_eq!(line(words), masked);
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for words in [
            &["python", "train.py", "--max-tokens", "100", "--tokenizer=gpt2", "--lr", "0.1"][..],
            &["x", "--use-token", "--lr", "0.1"],
            &["torchrun", "--rdzv-endpoint=host:29500", "--nproc-per-node", "8"],
            &["x", "http://host:8000/v1?model=a", "a=b", "s3://bucket/path", "user@host"],
            &["bash", "-c", "for i in 1 2; do  echo \"$i\"; done"],
            &[""],
        ] {
            assert_eq!(line(words), words.join(" "));
        }
    }

    #[test]
    fn processes_and_containers_are_masked_unless_that_is_not_wanted() {
        let labels = [("app", "web"), ("registry-password", "abc"), ("args", "--token=abc")];
        let container = Container {
            image: Some("https://me:abc@registry/x".into()),
            labels: labels.map(|(name, value)| (name.into(), value.into())).into(),
            ..Container::default()
        };
        let process = Process {
            cmdline: ["train", "--token", "a b", "--lr", "0.1"].join("\0"),
            container: Some(container),
            ..Process::default()
        };
        let mut batch = Batch { processes: vec![process.clone()], ..Batch::default() };
        processes(&mut batch, true);
        assert_eq!(batch.processes[0].cmdline, "train --token *** --lr 0.1");
        let container = batch.processes[0].container.as_ref().unwrap();
        assert_eq!(container.image.as_deref(), Some("https://me:***@registry/x"));
        let values: Vec<&str> = container.labels.values().map(String::as_str).collect();
        assert_eq!(values, ["web", "--token=***", "***"]);
        let mut batch = Batch { processes: vec![process.clone()], ..Batch::default() };
        processes(&mut batch, false);
        assert_eq!(batch.processes[0].cmdline, "train --token a b --lr 0.1");
        assert_eq!(batch.processes[0].container, process.container);
    }
}
