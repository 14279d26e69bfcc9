//! `--version`, and the build script that gives it the commit and the day.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{program, said};

use crate::harness::folder;

#[test]
fn both_programs_say_how_they_were_built() {
    let folder = folder::temporary();
    for name in ["bart", "the-deployer"] {
        let output = program(name, folder.path()).arg("--version").output().unwrap();
        let start = format!("{name} {} (", env!("CARGO_PKG_VERSION"));
        let text = said(&output);
        let build = text.strip_prefix(&start).and_then(|rest| rest.strip_suffix(")\n"));
        let build = build.unwrap_or_else(|| panic!("{text:?}"));
        assert!(build == "development build" || build.starts_with("commit "), "{text:?}");
    }
}

/// The build script as a program, in a folder.
fn build_script(folder: &Path) -> PathBuf {
    let program = folder.join("build-script");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs");
    let mut compiler = Command::new("rustc");
    compiler.args(["--edition", "2024", "-A", "warnings", "-o"]).arg(&program).arg(source);
    let output = compiler.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    program
}

/// What the script says in a folder with these variables beside those of cargo: the build, and what it depends on.
fn build_of(
    script: &Path,
    folder: &Path,
    variables: &[(&str, &str)],
) -> (String, Vec<(String, String)>) {
    let mut command = Command::new(script);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("CARGO_MANIFEST_DIR", folder)
        .env("PROFILE", "release");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let text = said(&output);
    let lines = text.lines().map(|line| line.strip_prefix("cargo:").unwrap());
    let mut said: Vec<(String, String)> = lines
        .map(|line| line.split_once('=').unwrap())
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let build = said.pop().unwrap();
    assert_eq!(build.0, "rustc-env");
    (build.1.strip_prefix("THE_DEPLOYER_BUILD=").unwrap().to_owned(), said)
}

#[test]
fn a_release_says_its_commit_and_day_and_the_same_commit_always_the_same() {
    let folder = folder::temporary();
    let script = build_script(folder.path());
    let outside = folder.path().join("archive");
    std::fs::create_dir(&outside).unwrap();
    let build = |folder: &Path, variables: &[(&str, &str)]| build_of(&script, folder, variables).0;

    let unknown = "commit unknown, unknown";
    assert_eq!(build(&outside, &[]), unknown);
    assert_eq!(build(&outside, &[("SOURCE_DATE_EPOCH", "no number")]), unknown);
    let given = "0123456789abcdef0123456789abcdef01234567";
    let by_variables: [(&str, &str); 2] =
        [("THE_DEPLOYER_COMMIT", given), ("SOURCE_DATE_EPOCH", "1709164800")];
    assert_eq!(build(&outside, &by_variables), "commit 0123456789ab, 2024-02-29");

    let checkout = folder.path().join("checkout");
    let repository = git2::Repository::init(&checkout).unwrap();
    let tree = repository.treebuilder(None).unwrap().write().unwrap();
    let tree = repository.find_tree(tree).unwrap();
    let time = git2::Time::new(1_795_823_999, 600);
    let person = git2::Signature::new("me", "me@example.com", &time).unwrap();
    let id = repository.commit(Some("HEAD"), &person, &person, "first", &tree, &[]).unwrap();
    let of_commit = format!("commit {}, 2026-11-27", id.to_string().split_at(12).0);
    assert_eq!(build(&checkout, &[]), of_commit);
    // A variable says more than the checkout, and the date of the one is not that of the other.
    assert_eq!(build(&checkout, &by_variables), "commit 0123456789ab, 2024-02-29");
    assert_eq!(build(&checkout, &[("THE_DEPLOYER_COMMIT", given)]), "commit 0123456789ab, unknown");
    // A folder inside somebody else's checkout is no checkout of this.
    let inside = checkout.join("vendored");
    std::fs::create_dir(&inside).unwrap();
    assert_eq!(build(&inside, &[]), unknown);
}

/// Cargo compiles everything anew when what a build script depends on has changed.
#[test]
fn only_a_release_is_built_again_after_a_commit() {
    let folder = folder::temporary();
    let script = build_script(folder.path());
    let checkout = folder.path().join("checkout");
    git2::Repository::init(&checkout).unwrap();
    let depends = |variables: &[(&str, &str)]| -> BTreeMap<String, Vec<String>> {
        let mut all = BTreeMap::<_, Vec<_>>::new();
        for (key, value) in build_of(&script, &checkout, variables).1 {
            let value = value.rsplit('/').next().unwrap().to_owned();
            all.entry(key).or_default().push(value);
        }
        all
    };
    let variables = ["THE_DEPLOYER_COMMIT", "SOURCE_DATE_EPOCH"].map(str::to_owned).to_vec();
    let files = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let development = depends(&[("PROFILE", "debug")]);
    assert_eq!(development["rerun-if-changed"], files(&["build.rs"]));
    assert_eq!(development["rerun-if-env-changed"], variables);
    assert_eq!(depends(&[])["rerun-if-changed"], files(&["build.rs", "HEAD"]));
    let (said, _) = build_of(&script, &checkout, &[("PROFILE", "debug")]);
    assert_eq!(said, "development build");
}
