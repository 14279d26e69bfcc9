//! The API server of these tests is one to `kubectl`, too: what it tells the service is what real servers tell.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::harness::api_server::{ApiServer, deployment, kubeconfig, pod};
use crate::harness::folder;
use crate::harness::is_missing;

fn kubectl(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("kubectl");
    command
        .args(arguments)
        .env("HOME", folder)
        .env("KUBECONFIG", folder.join("kubeconfig"))
        .stdin(Stdio::null());
    command
}

async fn run(folder: &Path, arguments: &[&str]) -> String {
    let mut command = kubectl(folder, arguments);
    let output: Output =
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_lists_gets_reads_logs_and_watches() {
    if is_missing("kubectl", "the API server of the tests as kubectl sees it") {
        return;
    }
    let server = ApiServer::start().await;
    server.install_custom_resources();
    let folder = folder::temporary();
    let folder = folder.path();
    // It sends a token over https only.
    server.edit(|world| world.tokens.clear());
    kubeconfig(folder, &server.url(), "{}");
    for name in ["a", "b", "c"] {
        server.apply(deployment("devx", name));
    }
    let mut with_container = pod("devx", "a-1");
    with_container["spec"] = json!({"containers": [{"name": "main", "image": "i"}]});
    server.apply(with_container);
    let key = |container: &str| ("devx".to_owned(), "a-1".to_owned(), container.to_owned());
    server.edit(|world| world.logs.insert(key("main"), "hello\n".to_owned()));
    let names = run(folder, &["get", "deploy", "-n", "devx", "-o", "name", "--chunk-size=2"]).await;
    assert_eq!(names.lines().count(), 3, "{names}");
    let selected =
        ["get", "deployments.apps", "-A", "-l", "app.kubernetes.io/name=b", "-o", "name"];
    assert_eq!(run(folder, &selected).await.trim(), "deployment.apps/b");
    let one = run(folder, &["get", "deploy", "a", "-n", "devx", "-o", "json"]).await;
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert_eq!(one["spec"]["replicas"], 1);
    assert_eq!(run(folder, &["logs", "-n", "devx", "a-1", "-c", "main"]).await, "hello\n");

    let watch = [
        "get",
        "deploy",
        "-n",
        "devx",
        "-w",
        "-o",
        "json",
        "--output-watch-events",
        "--request-timeout=3",
    ];
    let mut command = kubectl(folder, &watch);
    let watching = tokio::task::spawn_blocking(move || command.output().unwrap());
    server.watched(1).await;
    let mut scaled = deployment("devx", "b");
    scaled["spec"] = json!({"replicas": 5});
    server.apply(scaled);
    server.delete("Deployment", "devx", "c");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let output = watching.await.unwrap();
    let events =
        serde_json::Deserializer::from_slice(&output.stdout).into_iter::<serde_json::Value>();
    let told: Vec<(String, String)> = events
        .map_while(Result::ok)
        .map(|event| (event["type"].clone(), event["object"]["metadata"]["name"].clone()))
        .map(|(kind, name)| (kind.as_str().unwrap().to_owned(), name.as_str().unwrap().to_owned()))
        .collect();
    let expected =
        [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c"), ("MODIFIED", "b"), ("DELETED", "c")];
    let expected: Vec<_> = expected.map(|(kind, name)| (kind.to_owned(), name.to_owned())).into();
    assert_eq!(told, expected, "{}", String::from_utf8_lossy(&output.stderr));
}
