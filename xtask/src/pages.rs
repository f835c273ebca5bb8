//! The README and the pages under `docs/`: their Rust blocks run as doc tests, and their links lead somewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use crate::workspace::Workspace;

/// Looks at every page, and names every block that no test runs and every link that leads nowhere.
pub(crate) fn check(workspace: &Workspace) -> Result<(), String> {
    let included = included(workspace)?;
    let mut pages = workspace.files("docs", ".md")?;
    for name in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/README.md", "examples/README.md"] {
        let path = workspace.root.join(name);
        if path.is_file() {
            pages.push(path);
        }
    }
    let mut wrong = Vec::new();
    let mut blocks = 0;
    let contents = workspace.root.join("docs/README.md");
    let mut listed = BTreeSet::new();
    for page in &pages {
        let text = workspace.text(page)?;
        let shown = workspace.shown(page);
        let found = rust_blocks(&text);
        blocks += found.len();
        for block in &found {
            if let Some(mark) = &block.unproved {
                wrong.push(format!("{shown}:{}: a Rust block marked `{mark}` proves nothing", block.line));
            }
        }
        let canonical = fs::canonicalize(page).map_err(|error| format!("{shown}: {error}"))?;
        if !found.is_empty() && !included.contains(&canonical) {
            wrong.push(format!(
                "{shown} has Rust blocks, but no #[doc = include_str!(…)] makes them doc tests"
            ));
        }
        for (line, link) in local_links(&text) {
            let (path, anchor) = link.split_once('#').unwrap_or((link.as_str(), ""));
            let target =
                if path.is_empty() { page.clone() } else { page.parent().unwrap_or(page).join(path) };
            let Ok(target) = fs::canonicalize(target) else {
                wrong.push(format!("{shown}:{line}: `{link}` leads nowhere"));
                continue;
            };
            let is_page = target.extension().is_some_and(|ending| ending == "md");
            if is_page && !anchor.is_empty() && !anchors(&workspace.text(&target)?).contains(anchor) {
                wrong.push(format!("{shown}:{line}: `{link}` names no heading of that page"));
            }
            if *page == contents {
                listed.insert(target);
            }
        }
    }
    for page in workspace.files("docs", ".md")?.iter().filter(|page| **page != contents) {
        if !fs::canonicalize(page).is_ok_and(|page| listed.contains(&page)) {
            wrong.push(format!("docs/README.md does not list {}", workspace.shown(page)));
        }
    }
    if wrong.is_empty() {
        println!("{} pages with {blocks} Rust blocks, all of them doc tests", pages.len());
        Ok(())
    } else {
        Err(wrong.join("; "))
    }
}

/// Every Markdown file that a source file of a crate includes.
fn included(workspace: &Workspace) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for source in workspace.files("crates", ".rs")? {
        let text = workspace.text(&source)?;
        for rest in text.split("include_str!(\"").skip(1) {
            let Some((path, _)) = rest.split_once('"') else { continue };
            if path.ends_with(".md")
                && let Ok(page) = fs::canonicalize(source.parent().unwrap_or(&source).join(path))
            {
                found.push(page);
            }
        }
    }
    Ok(found)
}

#[derive(Debug, PartialEq, Eq)]
struct Block {
    line: usize,
    /// The mark that keeps rustdoc from compiling it.
    unproved: Option<String>,
}

/// The blocks that rustdoc would take for Rust: those that say so, and those that say nothing.
fn rust_blocks(text: &str) -> Vec<Block> {
    const MARKS: [&str; 6] = ["rust", "no_run", "should_panic", "compile_fail", "ignore", "edition2024"];
    let mut found = Vec::new();
    let mut fence: Option<String> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if let Some(open) = &fence {
            if line.trim_end() == open {
                fence = None;
            }
            continue;
        }
        let ticks: String = line.chars().take_while(|c| *c == '`').collect();
        if ticks.len() < 3 {
            continue;
        }
        let info = line[ticks.len()..].trim();
        let mut marks = info.split([',', ' ']).filter(|mark| !mark.is_empty());
        if marks.clone().all(|mark| MARKS.contains(&mark)) {
            let unproved = marks.find(|mark| *mark == "ignore").map(String::from);
            found.push(Block { line: index + 1, unproved });
        }
        fence = Some(ticks);
    }
    found
}

/// The lines outside fenced blocks, counted from one.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence).then_some((index + 1, line))
    })
}

/// The targets of links that stay in the repository, and where they are.
fn local_links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, text) in prose(text) {
        for rest in text.split("](").skip(1) {
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            if !target.is_empty()
                && !target.contains("://")
                && !target.starts_with("mailto:")
                && Path::new(target).is_relative()
            {
                found.push((line, target.to_string()));
            }
        }
    }
    found
}

/// What links to a page's headings may name after the `#`, as GitHub makes it.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let anchor: String = title
            .trim()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .flat_map(char::to_lowercase)
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let times = seen.entry(anchor.clone()).or_default();
        found.insert(if *times == 0 { anchor } else { format!("{anchor}-{times}") });
        *times += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_rustdoc_would_skip_are_told_from_those_it_runs() {
        let text = "```rust\na\n```\n\n```\nb\n```\n```text\nc\n```\n```rust,ignore\nd\n```\n````sh\n```rust\n````\n";
        let found = rust_blocks(text);
        assert_eq!(found.iter().map(|block| block.line).collect::<Vec<_>>(), [1, 5, 11]);
        assert_eq!(found[2].unproved.as_deref(), Some("ignore"));
        assert!(found[..2].iter().all(|block| block.unproved.is_none()));
    }

    #[test]
    fn only_links_that_stay_in_the_repository_are_followed() {
        let text =
            "[a](docs/a.md#part) [b](https://b) [c](#here)\n```\n[d](none.md)\n```\n![e](e.png \"title\")";
        let found = local_links(text);
        let found: Vec<_> = found.iter().map(|(line, link)| (*line, link.as_str())).collect();
        assert_eq!(found, [(1, "docs/a.md#part"), (1, "#here"), (5, "e.png")]);
    }

    #[test]
    fn headings_are_known_by_the_anchors_that_github_gives_them() {
        let text =
            "# How much, at once?\n## `cx.key()` and more\n## Keys\n```sh\n# no heading\n```\n### Keys\n#tag";
        let found = anchors(text);
        let found: Vec<_> = found.iter().map(String::as_str).collect();
        assert_eq!(found, ["cxkey-and-more", "how-much-at-once", "keys", "keys-1"]);
    }
}
