//! Tests that every WAML gives valid Kubernetes objects, or violations with their places, and the same each time; never
//! a panic.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value as Json, json};
use the_deployer::model::kubernetes::KubernetesVersion;
use the_deployer::model::platform::Platform;
use the_deployer::model::target::Clusters;
use the_deployer::model::violation::{Rejection, Severity, Violation};
use the_deployer::pipeline::render::RenderedManifests;

use super::generate::{Style, waml};
use super::versions::one_cluster;
use super::{planned_for, templates};

/// Rules that guard against mistakes of templates: with the built-in ones none of them may ever
/// have to speak, whatever the WAML says.
const OF_TEMPLATES: [&str; 2] = ["kubernetes", "rendered"];

fn names() -> Vec<String> {
    templates().iter().map(|template| template.id()).collect()
}

/// Plans so many generated WAMLs; how many of them were valid.
fn run(cases: u32, style: Style) -> u32 {
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 500, ..Config::default() };
    let valid = Cell::new(0);
    let outcome = TestRunner::new(config).run(&waml(names(), style), |document| {
        let text = document.to_string();
        let plan = || planned_for(text.as_bytes(), Some("t"), clusters(&text), templates());
        let (planned_once, again) = (plan(), plan());
        match (&planned_once, &again) {
            (Ok(first), Ok(second)) => {
                valid.set(valid.get() + 1);
                prop_assert_eq!(&first.files, &second.files);
                prop_assert_eq!(&first.digest, &second.digest);
                is_well_read(first)?;
                are_told(&first.warnings, Severity::Warning)?;
            }
            (Err(first), Err(second)) => {
                prop_assert_eq!(first, second);
                is_a_fair_rejection(first)?;
            }
            _ => prop_assert!(false, "once valid, once not: {text}"),
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    valid.get()
}

/// A cluster that offers one thing or the other, of one version of Kubernetes or the other, chosen by the WAML so that
/// it is tried again alike.
fn clusters(text: &str) -> Clusters {
    let version = KubernetesVersion::all_known().nth(text.len() % 13);
    one_cluster("t", version, platform(text))
}

fn platform(text: &str) -> Platform {
    let gcp = json!({"project": "acme-prod", "region": "europe-west3", "network": "main"});
    let offers = [
        json!({}),
        json!({
            "ingress": {"kind": "gateway"}, "network_policy": {"enabled": true},
            "secrets": {"delivery": "external-secrets"},
            "cloud": {"provider": "gcp", "gcp": gcp, "database": "cloudsql", "redis": "in-cluster"},
        }),
        json!({
            "ingress": {"kind": "kubernetes"}, "certificates": {"kind": "cached-certificate"},
            "secrets": {"delivery": "vault-secrets-operator"}, "monitoring": {"http": "istio"},
            "cloud": {"provider": "gcp", "gcp": gcp, "database": "cloudsql", "redis": "memorystore"},
        }),
        json!({
            "certificates": {"kind": "none"}, "secrets": {"delivery": "vault-agent"},
            "cloud": {"provider": "aws", "redis": "in-cluster"},
        }),
    ];
    let offer = offers.into_iter().cycle().nth(text.len() % 4).unwrap();
    serde_json::from_value(offer).unwrap()
}

/// Two readers of YAML that are not ours read the same, and it is one object.
fn is_well_read(rendered: &RenderedManifests) -> Result<(), TestCaseError> {
    prop_assert!(!rendered.files.is_empty());
    for file in &rendered.files {
        let text = std::str::from_utf8(&file.bytes).unwrap();
        let one: Json = serde_yaml::from_str(text)
            .map_err(|error| TestCaseError::fail(format!("{}: {error}\n{text}", file.name)))?;
        let other: Json = serde_saphyr::from_str(text)
            .map_err(|error| TestCaseError::fail(format!("{}: {error}\n{text}", file.name)))?;
        prop_assert_eq!(&one, &other, "{}", text);
        prop_assert!(one["kind"].is_string() && one["metadata"]["name"].is_string(), "{}", text);
    }
    Ok(())
}

fn is_a_fair_rejection(rejection: &Rejection) -> Result<(), TestCaseError> {
    prop_assert!(rejection.errors() > 0);
    are_told(&rejection.violations, Severity::Error)
}

fn are_told(violations: &[Violation], worst: Severity) -> Result<(), TestCaseError> {
    for violation in violations {
        prop_assert!(!violation.message.is_empty() && violation.help.is_some(), "{:?}", violation);
        prop_assert!(violation.severity >= worst, "{:?}", violation);
        prop_assert!(!OF_TEMPLATES.contains(&violation.rule.as_ref()), "{}", violation);
    }
    Ok(())
}

#[test]
fn a_sensible_waml_gives_valid_kubernetes_or_violations() {
    let valid = run(300, Style { odd: 0, keys: 30 });
    assert!(valid >= 20, "only {valid} of 300 were valid: the generator tries nothing");
}

#[test]
fn a_slightly_wrong_waml_gives_valid_kubernetes_or_violations() {
    run(100, Style { odd: 3, keys: 40 });
}

#[test]
fn a_wild_waml_gives_violations_and_no_panic() {
    run(100, Style { odd: 30, keys: 60 });
}
