//! Rules for Prometheus are checked by its own tool: their form, and what they do on series.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use the_deployer::templates::alerts;
use the_deployer::templates::promql;

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

/// The recorded objects of all cases.
fn recorded() -> Vec<PathBuf> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pipeline");
    let cases = fs::read_dir(cases).unwrap().map(|entry| entry.unwrap().path().join("expected"));
    let files = cases.filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let files = files.map(|entry| entry.unwrap().path());
    let is_rules = |path: &PathBuf| path.to_str().unwrap().contains("/prometheusrule");
    files.filter(is_rules).collect()
}

#[test]
fn every_rendered_expression_is_one_by_our_own_check() {
    let mut checked = 0;
    for file in recorded() {
        let text = fs::read_to_string(&file).unwrap();
        let object: serde_json::Value = serde_yaml::from_str(&text).unwrap();
        let groups = object["spec"]["groups"].as_array().unwrap();
        for rule in groups.iter().flat_map(|group| group["rules"].as_array().unwrap()) {
            let expr = rule["expr"].as_str().unwrap();
            assert_eq!(promql::check(expr), Ok(()), "{}: {expr}", file.display());
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked} expressions are too few to be all");
}

#[test]
fn every_default_alert_is_tested_on_series() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pipeline/rules");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let made_up: String = files.map(|file| fs::read_to_string(file).unwrap()).collect();
    for alert in alerts::ALERTS {
        let wanted = format!("- {{labels: '{{alertname=\"{}\"", alerts::in_prometheus(alert.name));
        let alone = wanted.replace("- {", "[{");
        assert!(made_up.contains(&wanted) || made_up.contains(&alone), "no test has {wanted}…");
    }
}
