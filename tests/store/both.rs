//! No test of the store runs on one database only: the two must give the same answers.

use std::path::{Path, PathBuf};

/// Tests without a database of their own, or about what only one of them has; each with the reason.
const ONE_ONLY: &[(&str, &str)] = &[
    ("the_file_and_its_folder_are_made_and_private", "a file's permissions"),
    ("a_folder_that_cannot_be_made_is_named", "a file's folder"),
    ("a_file_that_is_no_database_is_refused", "a file"),
    ("a_damaged_database_names_the_ways_out", "a file"),
    ("a_password_appears_in_no_error", "URLs that lead nowhere"),
    ("a_url_of_nothing_we_know_says_what_to_write", "URLs that lead nowhere"),
];

/// What runs a test on both.
const ON_BOTH: [&str; 4] = ["run_on_both(", "run_on_empty(", "run_test(", "on_both("];

/// Where the database decides although it is not asked directly.
const LOOPS: [&str; 2] = ["crashes.rs", "stopped.rs"];

/// Where a database of one kind is made, and why that will do.
const MAKERS: &[(&str, &str)] = &[
    ("harness/database.rs", "the one that runs tests on both"),
    ("facts/gather.rs", "what is looked up, with the store as one of those who are asked"),
];

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found
}

/// The tests of a file, by name, each with its text up to the next one.
fn tests_of(text: &str) -> Vec<(String, String)> {
    // At the begin of a line: here, the word itself is looked for.
    let parts = text.split("\n#[tokio::test").skip(1);
    parts
        .map(|part| {
            let name = part.split_once("fn ").unwrap().1;
            (name[..name.find('(').unwrap()].to_owned(), part.to_owned())
        })
        .collect()
}

#[test]
fn every_test_of_the_store_runs_on_both_databases() {
    let (mut on_both, mut left) = (0, Vec::new());
    let is_loop = |path: &Path| LOOPS.iter().any(|name| path.ends_with(name));
    for folder in ["store", "controller"] {
        let files = sources(&tests().join(folder)).into_iter();
        for (path, text) in files.filter(|(path, _)| folder == "store" || is_loop(path)) {
            for (name, body) in tests_of(&text) {
                if ON_BOTH.iter().any(|word| body.contains(word)) {
                    on_both += 1;
                } else if !is_excused(&name) {
                    left.push(format!("{}: {name}", path.display()));
                }
            }
        }
    }
    assert!(left.is_empty(), "these run on one database, or on none:\n{}", left.join("\n"));
    assert!(on_both > 100, "only {on_both} were found: this test looks in the wrong place");
}

fn is_excused(name: &str) -> bool {
    ONE_ONLY.iter().any(|(excused, _)| *excused == name)
}

#[test]
fn a_database_of_one_kind_is_made_in_few_places() {
    let makes = |text: &str| text.contains("Database::sqlite()");
    let found = sources(&tests());
    for (path, text) in &found {
        let path = path.strip_prefix(tests()).unwrap().to_str().unwrap();
        let excused = MAKERS.iter().any(|(file, _)| *file == path) || path == "store/both.rs";
        assert!(excused || !makes(text), "{path}: use run_on_both");
    }
}
