//! `config check` asks each cluster whether the service may watch it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

use serde::Deserialize as _;
use serde_json::Value as Json;
use the_deployer::cluster::object::WatchedKind;

use crate::cli::{program, said};
use crate::harness::api_server::{ApiServer, TOKEN, Verb};

async fn check(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = program("the-deployer", folder);
    command
        .args(["config", "check", "--config", "config.yaml"])
        .args(arguments)
        .env("TOKEN", TOKEN);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn configure(folder: &Path, kubernetes: &str) {
    let text = format!(
        "clusters:\n- {{name: prod-1, environment: production, domain: p.example.com, kubernetes: {kubernetes}}}\n"
    );
    std::fs::write(folder.join("config.yaml"), text).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_permission_is_named() {
    let server = ApiServer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    configure(folder, &format!("{{server: '{}', token: {{env: TOKEN}}}}", server.url()));
    let output = check(folder, &[]).await;
    assert!(output.status.success(), "{}", said(&output));
    server.install_custom_resources();
    let denied = [("list", "pods"), ("watch", "pods"), ("watch", "applications")];
    server.edit(|world| world.forbidden = denied.into());
    let output = check(folder, &[]).await;
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for expected in [
        "the cluster prod-1 does not let the service `list` and `watch` pods",
        "the cluster prod-1 does not let the service `watch` applications.argoproj.io",
        "docs/clusters.md",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    assert!(!text.contains("deployments") && !text.contains(TOKEN), "{text}");
    assert!(server.requests().iter().all(|one| one.verb != Verb::List), "nothing is listed");
    let output = check(folder, &["--offline"]).await;
    assert!(output.status.success(), "{}", said(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_cannot_be_reached_is_told_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = ApiServer::start().await;
    server.edit(|world| world.tokens = ["another".to_owned()].into());
    for (address, expected) in [
        (server.url(), "the server does not know our credentials (401)"),
        ("http://127.0.0.1:1".to_owned(), "onnection refused"),
    ] {
        configure(folder, &format!("{{server: '{address}', token: {{env: TOKEN}}}}"));
        let output = check(folder, &[]).await;
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let start = "the cluster prod-1 cannot be watched: ";
        assert!(text.contains(start) && text.contains(expected) && !text.contains(TOKEN), "{text}");
    }
}

/// The role that operators are given is what watches and logs need, and nothing else.
#[test]
fn the_role_of_the_manifests_allows_what_is_watched_with_its_logs_and_no_more() {
    let text = include_str!("../../deploy/kubernetes/watch/rbac.yaml");
    let documents: Vec<Json> = serde_yaml::Deserializer::from_str(text)
        .map(|document| Json::deserialize(document).unwrap())
        .collect();
    let role = documents.iter().find(|one| one["kind"] == "ClusterRole").unwrap();
    let mut allowed = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        if rule["resources"] == serde_json::json!(["pods/log"]) {
            assert_eq!(rule["verbs"], serde_json::json!(["get"]), "{rule}");
            continue;
        }
        assert_eq!(rule["verbs"], serde_json::json!(["list", "watch"]), "{rule}");
        for group in rule["apiGroups"].as_array().unwrap() {
            for resource in rule["resources"].as_array().unwrap() {
                let text = |value: &Json| value.as_str().unwrap().to_owned();
                allowed.insert((text(group), text(resource)));
            }
        }
    }
    let of_kind = |kind: WatchedKind| (kind.group().to_owned(), kind.plural().to_owned());
    assert_eq!(allowed, WatchedKind::ALL.map(of_kind).into());
}
