//! The landing page shows what the program says today.

use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The block that shows a command's output, from its `$` to the end of the block.
fn block<'a>(page: &'a str, command: &str) -> Option<&'a str> {
    let from = page.find(&format!("$ {command}\n"))?;
    page[from..].split("```").next()
}

/// `docs/screens.md` is compared with the program; with GPUWHY_WRITE_DOCS=1 this page follows it.
#[test]
fn the_picture_of_the_readme_is_a_screen_of_the_docs() {
    let command = "gpuwhy explain loader-cpu.db";
    let path = repository().join("README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let screens = std::fs::read_to_string(repository().join("docs/screens.md")).unwrap();
    let shown = block(&readme, command).expect("the README shows it");
    let screen = block(&screens, command).expect("the page of screens has it");
    if std::env::var_os("GPUWHY_WRITE_DOCS").is_some() {
        std::fs::write(&path, readme.replace(shown, screen)).unwrap();
        return;
    }
    assert_eq!(shown, screen, "GPUWHY_WRITE_DOCS=1 cargo test -p gpuwhy --test e2e readme writes it anew");
}

/// A page that a link leads to is there, and so is its heading.
#[test]
fn links_of_the_documentation_lead_somewhere() {
    let folders = ["docs", "docs/decisions"].map(|folder| repository().join(folder));
    let docs = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap().flatten());
    let pages =
        docs.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    let top = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "ARCHITECTURE.md"]
        .map(|name| repository().join(name));
    let mut wrong = Vec::new();
    let mut links = 0;
    for page in pages.chain(top) {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.contains(' ') {
                continue;
            }
            links += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            if !target.exists() {
                wrong.push(format!("{}: {link}", page.display()));
            } else if !heading.is_empty()
                && !headings(&std::fs::read_to_string(&target).unwrap()).contains(&heading.into())
            {
                wrong.push(format!("{}: {link}: no such heading", page.display()));
            }
        }
    }
    assert!(links > 100, "only {links} links were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// As forges name them: lower case, hyphens for spaces, without punctuation.
fn headings(page: &str) -> Vec<String> {
    let name = |title: &str| -> String {
        let kept = title.to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    page.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| name(line.trim_start_matches('#').trim()))
        .collect()
}
