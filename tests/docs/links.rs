//! Every file, heading and function that a page names exists, and the index has every page.

use std::fs;
use std::path::{Path, PathBuf};

use super::root;

#[test]
fn every_file_that_a_page_names_exists() {
    let mut missing = Vec::new();
    for page in pages() {
        for (line, text) in (1..).zip(read(&page).lines()) {
            let linked = links(text).filter(|(path, _)| !path.is_empty());
            let linked = linked.map(|(path, _)| page.parent().unwrap().join(path));
            let named = code(text).map(|name| root().join(name));
            let gone = linked.chain(named).filter(|path| !path.exists());
            missing
                .extend(gone.map(|path| format!("{}:{line}: {}", page.display(), path.display())));
        }
    }
    assert!(missing.is_empty(), "no such file:\n  {}", missing.join("\n  "));
}

#[test]
fn every_heading_that_a_link_leads_to_exists() {
    let mut missing = Vec::new();
    for page in pages() {
        for (line, text) in (1..).zip(read(&page).lines()) {
            for (path, heading) in links(text) {
                let Some(heading) = heading else { continue };
                let target = match path {
                    "" => page.clone(),
                    path => page.parent().unwrap().join(path),
                };
                if !headings(&read(&target)).iter().any(|one| one == heading) {
                    missing.push(format!("{}:{line}: {path}#{heading}", page.display()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "no such heading:\n  {}", missing.join("\n  "));
}

#[test]
fn every_page_that_the_source_names_exists() {
    let mut missing = Vec::new();
    for folder in ["src", "templates", "deploy", "tests/docs", "tests/harness"] {
        for file in files_below(&root().join(folder)) {
            let text = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
            let gone = named_pages(&text).filter(|page| !root().join(page).exists());
            missing.extend(gone.map(|page| format!("{}: {page}", file.display())));
        }
    }
    assert!(missing.is_empty(), "no such page:\n  {}", missing.join("\n  "));
}

/// A page names functions and types of a file as `` `src/file.rs` (`one`, `another`) ``.
#[test]
fn every_function_that_a_page_names_is_in_its_file() {
    let (mut missing, mut checked) = (Vec::new(), 0);
    for page in pages() {
        for (file, item) in items(&read(&page)) {
            let source = fs::read_to_string(root().join(&file)).unwrap_or_default();
            checked += 1;
            if !defines(&source, &item) {
                missing.push(format!("{}: `{item}` in {file}", page.display()));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "the file has no such function or type:\n  {}",
        missing.join("\n  ")
    );
    assert!(checked > 50, "docs/life-of-a-request.md names functions: {checked}");
}

#[test]
fn the_index_has_every_page() {
    let index = read(&root().join("docs/README.md"));
    let listed: Vec<PathBuf> = index
        .lines()
        .flat_map(links)
        .filter_map(|(path, _)| root().join("docs").join(path).canonicalize().ok())
        .collect();
    let is_decision = |page: &Path| page.parent().unwrap().ends_with("decisions");
    let missing: Vec<_> = pages()
        .into_iter()
        .filter(|page| !is_decision(page) && *page != root().join("docs/README.md"))
        .filter(|page| *page != root().join("README.md"))
        .filter(|page| !listed.contains(&page.canonicalize().unwrap()))
        .collect();
    assert!(missing.is_empty(), "docs/README.md does not list {missing:?}");
}

/// Readers of a search's results see the title and the first sentence.
#[test]
fn every_page_begins_with_its_title_and_what_it_is_for() {
    let begins = |page: &Path| {
        let text = read(page);
        let mut lines = text.lines();
        let title = lines.next().is_some_and(|line| line.starts_with("# "));
        let mut rest = lines.skip_while(|line| line.is_empty());
        title
            && rest.next().is_some_and(|line| {
                line.starts_with(|c: char| c.is_alphanumeric() || c == '`' || c == '*')
            })
    };
    let wrong: Vec<_> = pages().into_iter().filter(|page| !begins(page)).collect();
    assert!(wrong.is_empty(), "begin with `# Title` and a sentence: {wrong:?}");
}

fn read(page: &Path) -> String {
    fs::read_to_string(page).unwrap()
}

fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for folder in [
        "",
        "docs",
        "docs/decisions",
        "deploy",
        "deploy/action",
        "deploy/examples/canary",
        "deploy/load",
    ] {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        let files = entries.map(|entry| entry.unwrap().path());
        pages.extend(files.filter(|file| file.extension().is_some_and(|ending| ending == "md")));
    }
    pages
}

/// Where relative links lead: a path, which may be empty, and a heading.
fn links(line: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let relative = targets.filter(|target| !target.is_empty() && !target.contains(':'));
    relative.map(|target| match target.split_once('#') {
        Some((path, heading)) => (path, Some(heading)),
        None => (target, None),
    })
}

/// Files of the source that are named in backticks.
fn code(line: &str) -> impl Iterator<Item = &str> {
    const FOLDERS: [&str; 7] =
        ["src/", "tests/", "docs/", "deploy/", "templates/", "migrations/", "ci/"];
    let spans = line.split('`').skip(1).step_by(2);
    spans.filter(|span| {
        FOLDERS.iter().any(|folder| span.starts_with(folder))
            && !span.contains(['*', '<', '{', ' ', '…'])
            && Path::new(span).components().count() > 1
    })
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// `docs/….md` in any text.
fn named_pages(text: &str) -> impl Iterator<Item = String> {
    text.split("docs/").skip(1).filter_map(|rest| {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '/');
        let name = rest.split(|c| !is_of_name(c)).next().filter(|name| !name.is_empty())?;
        rest[name.len()..].starts_with(".md").then(|| format!("docs/{name}.md"))
    })
}

/// The anchors of a page's headings, as GitHub makes them.
fn headings(text: &str) -> Vec<String> {
    let mut in_block = false;
    let mut all = Vec::new();
    for line in text.lines() {
        in_block ^= line.starts_with("```");
        if in_block || !line.starts_with('#') {
            continue;
        }
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        all.push(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
    }
    all
}

/// The functions and types that a page names, each with its file.
fn items(text: &str) -> Vec<(String, String)> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Text and code take turns between backticks.
    let parts: Vec<&str> = text.split('`').collect();
    let mut all = Vec::new();
    for (at, file) in parts.iter().enumerate().skip(1).step_by(2) {
        if !file.starts_with("src/") || parts.get(at + 1) != Some(&" (") {
            continue;
        }
        for pair in parts[at + 2..].chunks(2) {
            let [item, after] = pair else { break };
            all.push(((*file).to_owned(), (*item).to_owned()));
            if *after != ", " {
                break;
            }
        }
    }
    all
}

fn defines(source: &str, item: &str) -> bool {
    ["fn", "struct", "enum", "trait"].iter().any(|kind| {
        source
            .split(&format!("{kind} {item}"))
            .skip(1)
            .any(|rest| rest.starts_with(|next: char| !next.is_alphanumeric() && next != '_'))
    })
}
