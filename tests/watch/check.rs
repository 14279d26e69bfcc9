//! `config check` asks each cluster whether the service may watch it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

use serde::Deserialize as _;
use serde_json::Value as Json;
use the_deployer::cluster::object::WatchedKind;

use crate::cli::{program, said};
use crate::harness::api_server::{ApiServer, TOKEN, Verb};
use crate::harness::folder;

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
    let folder = folder::temporary();
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
    let folder = folder::temporary();
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

/// The roles that operators are given are what watches need, with logs, and nothing else.
#[test]
fn the_roles_of_the_manifests_allow_what_is_watched_with_logs_and_no_more() {
    let service = include_str!("../../deploy/kubernetes/watch/rbac.yaml");
    let agent = include_str!("../../deploy/kubernetes/agent/rbac.yaml");
    for text in [service, agent] {
        let documents: Vec<Json> = serde_yaml::Deserializer::from_str(text)
            .map(|document| Json::deserialize(document).unwrap())
            .collect();
        let role = documents.iter().find(|one| one["kind"] == "ClusterRole").unwrap();
        let mut allowed = BTreeSet::new();
        let mut logs = 0;
        for rule in role["rules"].as_array().unwrap() {
            if rule["resources"] == serde_json::json!(["pods/log"]) {
                assert_eq!(rule["verbs"], serde_json::json!(["get"]), "{rule}");
                logs += 1;
                continue;
            }
            if rule["resources"] == serde_json::json!(["events"]) {
                assert_eq!(rule["verbs"], serde_json::json!(["list"]), "{rule}");
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
        assert_eq!(logs, 1, "{text}");
        let of_kind = |kind: WatchedKind| (kind.group().to_owned(), kind.plural().to_owned());
        assert_eq!(allowed, WatchedKind::ALL.map(of_kind).into());
    }
}

/// The Deployment of the agent starts it with arguments that it takes, as its `ServiceAccount`, and with its Secret.
#[test]
fn the_deployment_of_the_agent_is_of_a_piece() {
    let parse = |text: &str| serde_yaml::from_str::<Json>(text).unwrap();
    let deployment = parse(include_str!("../../deploy/kubernetes/agent/deployment.yaml"));
    let namespace = parse(include_str!("../../deploy/kubernetes/agent/00-namespace.yaml"));
    let rbac = include_str!("../../deploy/kubernetes/agent/rbac.yaml");
    let account = parse(rbac.split("---").next().unwrap());
    assert_eq!(deployment["metadata"]["namespace"], namespace["metadata"]["name"]);
    assert_eq!(account["metadata"]["namespace"], namespace["metadata"]["name"]);
    let spec = &deployment["spec"]["template"]["spec"];
    assert_eq!(spec["serviceAccountName"], account["metadata"]["name"]);
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert_eq!(deployment["spec"]["strategy"]["type"], "Recreate");
    let container = &spec["containers"][0];
    let arguments: Vec<&str> =
        container["args"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    let mount = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
    assert!(arguments.contains(&format!("--token-file={mount}/token").as_str()), "{arguments:?}");
    // Beside the token that is not there, and the cluster that this is not, nothing is wrong with them.
    let folder = folder::temporary();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, "{}").unwrap();
    let mut command = program("the-deployer", folder.path());
    let output = command.args(&arguments).arg("--kubeconfig").arg(&kubeconfig).output().unwrap();
    let text = said(&output);
    assert!(text.contains(&format!("{mount}/token cannot be read")), "{text}");
}
