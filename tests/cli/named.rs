//! Commands that messages and pages name are there, by these names.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The texts of a folder, of files that end so.
fn texts(folder: &Path, end: &str, all: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts(&path, end, all);
        } else if path.to_str().unwrap().ends_with(end) {
            *all += &fs::read_to_string(&path).unwrap();
        }
    }
}

/// The words behind the program's name, where a backtick is before it: `bart status`.
fn named(text: &str, program: &str) -> BTreeSet<String> {
    let begin = format!("`{program} ");
    let behind = text.split(&begin).skip(1);
    let word = |text: &str| {
        text.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap().to_owned()
    };
    behind.map(word).filter(|word| !word.is_empty() && !word.starts_with('-')).collect()
}

#[test]
fn every_command_that_is_named_is_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    texts(&root.join("src"), ".rs", &mut text);
    texts(&root.join("docs"), ".md", &mut text);
    for (program, path) in
        [("bart", env!("CARGO_BIN_EXE_bart")), ("the-deployer", env!("CARGO_BIN_EXE_the-deployer"))]
    {
        let words = named(&text, program);
        assert!(words.len() > 3, "{program}: {words:?}");
        for word in words {
            let output = Command::new(path).args(["help", &word]).output().unwrap();
            assert!(output.status.success(), "`{program} {word}` is named, and is no command");
        }
    }
}
