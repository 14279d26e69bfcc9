//! `config check` tries the key that commits are to be signed with.

use super::{program, said};
use crate::harness::folder;
use crate::harness::is_missing;

const KEYS: [(&str, &str); 3] = [
    ("ssh", include_str!("../../src/git/signing/tests/open")),
    ("openpgp", include_str!("../../src/git/signing/tests/open.asc")),
    ("expired", include_str!("../../src/git/signing/tests/expired.asc")),
];

/// The exit code of `config check` with a key, and what it says.
fn checked(format: &str, key: &str, arguments: &[&str]) -> (i32, String) {
    let folder = folder(format, key);
    let mut check = program("the-deployer", folder.path());
    let output = check.args(["config", "check", "-c", "c.yaml"]).args(arguments).output().unwrap();
    assert!(!folder.path().join(".the-deployer").exists(), "nothing is made");
    (output.status.code().unwrap(), said(&output))
}

/// A folder with the keys, and a configuration that signs with one of them.
fn folder(format: &str, key: &str) -> tempfile::TempDir {
    let folder = folder::temporary();
    for (name, text) in KEYS {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let signing = format!("{{format: {format}, key: {{file: {key}}}}}");
    let text =
        format!("manifests: {{repositories: [{{name: m, url: m.git, signing: {signing}}}]}}\n");
    std::fs::write(folder.path().join("c.yaml"), text).unwrap();
    folder
}

#[test]
fn a_key_that_signs_is_good() {
    if is_missing("gpg", "tests of signatures") {
        return;
    }
    for format in ["ssh", "openpgp"] {
        let (code, text) = checked(format, format, &[]);
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("can be used"), "{text}");
    }
}

#[test]
fn a_key_that_has_expired_is_found_by_trying_it() {
    if is_missing("gpg", "tests of signatures") {
        return;
    }
    let (code, text) = checked("openpgp", "expired", &[]);
    assert_eq!(code, 1, "{text}");
    for part in
        ["manifests.repositories[0].signing", "neither expired nor revoked", "docs/signing.md"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    let (code, text) = checked("openpgp", "expired", &["--output", "json"]);
    assert!(code == 1 && text.contains("\"valid\": false"), "{text}");
}

#[test]
fn a_key_of_the_other_format_is_told_with_its_line() {
    let (code, text) = checked("ssh", "openpgp", &[]);
    assert_eq!(code, 1);
    assert!(text.contains("c.yaml:1:") && text.contains("write `format: openpgp`"), "{text}");
}

#[test]
fn a_key_is_tried_where_there_is_no_folder_for_temporary_files_too() {
    if is_missing("gpg", "tests of signatures") {
        return;
    }
    let folder = folder("openpgp", "openpgp");
    let mut check = program("the-deployer", folder.path());
    check.env("TMPDIR", folder.path().join("openpgp"));
    let output = check.args(["config", "check", "-c", "c.yaml"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let left = std::fs::read_dir(folder.path().join(".the-deployer/gnupg")).unwrap().count();
    assert_eq!(left, 0, "nothing of the key is left");
}
