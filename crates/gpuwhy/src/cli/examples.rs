//! The examples of `--help`, and so of the man pages: each line can be pasted as it stands.

use super::Cli;
use clap::{Command, CommandFactory, Parser};

/// The lines of the examples, those that go on put together.
fn examples(command: &Command) -> Vec<String> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let below = help.lines().skip_while(|line| !matches!(*line, "Example:" | "Examples:")).skip(1);
    let mut whole: Vec<String> = Vec::new();
    for line in below {
        match whole.last_mut().filter(|line| line.ends_with('\\')) {
            Some(open) => {
                open.pop();
                open.push_str(line);
            }
            None => whole.push(line.strip_prefix("  ").expect("examples are indented").into()),
        }
    }
    whole
}

/// Words as a shell reads them, as far as the first command goes: without its comment, its pipe and where its output goes.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut quote, mut is_word) = (None, false);
    for c in line.chars() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (_, Some(open)) if c == open => quote = None,
            (' ', None) => is_word = false,
            ('|' | '&' | ';' | '>', None) => break,
            ('#', None) if !is_word => break,
            _ => {
                if !is_word {
                    words.push(String::new());
                }
                is_word = true;
                words.last_mut().expect("there is one").push(c);
            }
        }
    }
    words
}

/// Why a shell could not run this line as it stands.
fn fault(line: &str) -> Option<String> {
    let mut words = words(line);
    let at = words.iter().position(|word| word == "gpuwhy")?;
    let is_before = |word: &String| word == "sudo" || word.contains('=');
    if words.first().is_none_or(|word| word != "ssh") && !words[..at].iter().all(is_before) {
        return Some("it is not ours".into());
    }
    words.drain(..at);
    // A file alone is explained.
    if words.get(1).is_some_and(|word| word.ends_with(".db")) {
        words.insert(1, "explain".into());
    }
    Cli::try_parse_from(words).err().map(|error| error.to_string())
}

#[test]
fn every_example_of_the_help_parses_once_its_comment_is_cut() {
    let program = Cli::command();
    let commands = program.get_subcommands().filter(|command| !command.is_hide_set());
    let mut tried = 0;
    for command in std::iter::once(&program).chain(commands) {
        let lines = examples(command);
        assert!(!lines.is_empty() || command.get_name() == "version", "{} has none", command.get_name());
        for line in lines {
            assert_eq!(fault(&line), None, "{line}");
            assert!(words(&line).iter().any(|word| word == "gpuwhy"), "{line}");
            tried += 1;
        }
    }
    assert!(tried >= 60, "{tried} examples");
}

#[test]
fn prose_that_a_shell_would_take_for_arguments_is_a_fault() {
    for wrong in [
        "gpuwhy check          is this host ready?",
        "gpuwhy explain a.db   why did the GPU stall?",
        "gpuwhy top            the live screen",
        "ssh -L 1:a:1 node gpuwhy dashboard   a remote node, through ssh",
    ] {
        assert!(fault(wrong).is_some(), "{wrong}");
    }
    for right in [
        "gpuwhy check          # is this host ready?",
        "A=b gpuwhy trace --otlp http://h:4318",
        "sudo gpuwhy query \"SELECT a FROM b WHERE c > 1\" > d",
    ] {
        assert_eq!(fault(right), None, "{right}");
    }
}
