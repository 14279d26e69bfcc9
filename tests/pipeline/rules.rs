//! Rules for Prometheus are checked by its own tool: their form, and what they do on series.

use std::path::Path;
use std::process::{Command, Stdio};

/// Whether promtool can be run; CI demands it.
fn has_promtool() -> bool {
    let version = Command::new("promtool").arg("--version").stdout(Stdio::null()).status();
    let required = std::env::var("THE_DEPLOYER_TEST_REQUIRE_ALL").is_ok_and(|v| v == "1");
    assert!(version.is_ok() || !required, "promtool is not installed, and all tests are required");
    if version.is_err() {
        eprintln!("SKIPPED: rules are not checked, because promtool is not installed");
    }
    version.is_ok()
}

#[test]
fn every_rule_is_one_and_does_what_it_says() {
    if !has_promtool() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(root.join("ci/check-rules")).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
}
