//! `bart import-edit`: what somebody edited in the manifest repository becomes a change of the WAML that gives the same.

use std::process::Stdio;

use super::place_with;
use crate::harness::developer::Developer;
use crate::harness::events::waml;
use crate::harness::git::{Bare, git};
use crate::harness::process::{Home, Process};

const LATEST: &str = "manifests/prod-cluster-1/devx/shop/latest";
const IMPORT: [&str; 2] = ["import-edit", "prod-cluster-1"];

/// An app that is deployed, and its developer.
async fn deployed() -> (Home, Process, Developer) {
    let (home, process, developer) = place_with(Home::embedded(), &waml("shop")).await;
    let server = [("BART_SERVER", process.address())];
    let deploy = ["deploy", "1.0", "prod-cluster-1"];
    developer.runs(&server, &deploy).await.ended(0, &["succeeded"]);
    (home, process, developer)
}

/// Somebody replaces a text in a file of the app's `latest`.
fn edits(bare: &Bare, file: &str, from: &str, to: &str) {
    let path = format!("{LATEST}/{file}");
    let text = bare.files()[&path].clone();
    assert!(text.contains(from), "{from}: {text}");
    bare.somebody_writes(&path, &text.replacen(from, to, 1));
}

fn here(developer: &Developer) -> String {
    std::fs::read_to_string(developer.work().join(".weave.yaml")).unwrap()
}

#[tokio::test]
async fn an_edit_becomes_keys_and_patches_and_then_a_plan_changes_nothing() {
    let (home, process, developer) = deployed().await;
    let server = [("BART_SERVER", process.address())];
    let run = async |arguments: &[&str]| developer.runs(&server, arguments).await;
    run(&IMPORT).await.ended(1, &["nothing of devx/shop on prod-cluster-1 was edited by hand"]);

    let bare = home.manifests();
    edits(&bare, "horizontalpodautoscaler.yaml", "maxReplicas: 10", "maxReplicas: 14");
    edits(&bare, "deployment.yaml", "spec:\n", "spec:\n  minReadySeconds: 7\n");
    let before = here(&developer);
    let said = run(&IMPORT).await;
    said.ended(
        0,
        &[
            "by Somebody",
            "HorizontalPodAutoscaler shop, by `autoscaling.horizontal.maxReplicas`",
            "    spec.maxReplicas: 10 → 14\n",
            "imported Deployment shop, by `patches`\n    spec.minReadySeconds: null → 7\n",
            "--- a/.weave.yaml\n+++ b/.weave.yaml\n",
        ],
    );
    assert_eq!(here(&developer), before, "only shown");
    // The difference alone is on standard output, so that git applies it.
    let mut apply = git(&developer.work());
    apply.args(["apply", "--check", "-"]).stdin(Stdio::piped());
    let mut child = apply.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), said.out.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{}", said.out);

    run(&[&IMPORT[..], &["--write"]].concat()).await.ended(0, &["written"]);
    let text = here(&developer);
    assert!(text.contains("maxReplicas: 14") && text.contains("minReadySeconds: 7"), "{text}");
    run(&["plan", "--live", "prod-cluster-1"]).await.ended(0, &["nothing would change"]);
    developer.commits(&text);
    developer.pushes();
    let deploy = ["deploy", "1.0", "prod-cluster-1"];
    run(&deploy).await.ended(0, &["succeeded"]);
    assert!(bare.files()[&format!("{LATEST}/deployment.yaml")].contains("minReadySeconds: 7"));
}

#[tokio::test]
async fn an_edit_that_was_replaced_is_imported_from_its_commit() {
    let (home, process, developer) = deployed().await;
    let server = [("BART_SERVER", process.address())];
    let bare = home.manifests();
    edits(&bare, "horizontalpodautoscaler.yaml", "maxReplicas: 10", "maxReplicas: 14");
    let other = waml("shop").replace("name: shop\n", "name: Shop\n");
    let other = if other == waml("shop") { format!("{other}# more\n") } else { other };
    developer.commits(&other);
    developer.pushes();
    let deploy = ["deploy", "1.1", "prod-cluster-1"];
    developer.runs(&server, &deploy).await.ended(0, &["succeeded"]);
    let file = format!("{LATEST}/horizontalpodautoscaler.yaml");
    assert!(bare.files()[&file].contains("maxReplicas: 10"), "it was replaced");
    let said = developer.runs(&server, &[&IMPORT[..], &["--output", "json"]].concat()).await;
    let data = said.ended(0, &[]).json();
    let all = process.deployments().await;
    let newest = all[1]["id"].clone();
    assert_eq!(data["replaced_by"], newest, "{data}");
    assert_eq!(data["imported"][0]["setting"], "autoscaling.horizontal.maxReplicas");
    assert!(data["diff"].as_str().unwrap().contains("maxReplicas: 14"), "{data}");
    let notes = data["notes"].to_string();
    assert!(notes.contains("has replaced the edit"), "{notes}");
    assert!(notes.contains("the WAML is not the one that was deployed"), "{notes}");
    // By its name, and one that replaced nothing.
    let id = newest.as_str().unwrap();
    let by_name = [&IMPORT[..], &["--deployment", id]].concat();
    developer.runs(&server, &by_name).await.ended(0, &["maxReplicas: 14"]);
    let first = all[0]["id"].as_str().unwrap().to_owned();
    let of_first = [&IMPORT[..], &["--deployment", &first]].concat();
    developer.runs(&server, &of_first).await.ended(1, &["replaced no edit of devx/shop"]);
}

#[tokio::test]
async fn what_cannot_be_said_is_listed_and_a_broken_waml_changes_nothing() {
    let (home, process, developer) = deployed().await;
    let server = [("BART_SERVER", process.address())];
    let run = async |arguments: &[&str]| developer.runs(&server, arguments).await;
    let bare = home.manifests();
    edits(&bare, "deployment.yaml", ":1.0", ":2.0-hotfix");
    bare.somebody_writes(
        &format!("{LATEST}/extra.yaml"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra, namespace: devx}\n",
    );
    let before = here(&developer);
    let said = run(&[&IMPORT[..], &["--write"]].concat()).await;
    said.ended(
        1,
        &[
            "the image is that of the release",
            "left ConfigMap extra: an object that was added",
            "no change of the WAML gives any of the edit",
        ],
    );
    assert_eq!(here(&developer), before);

    edits(&bare, "horizontalpodautoscaler.yaml", "maxReplicas: 10", "maxReplicas: 14");
    let said = run(&IMPORT).await;
    said.ended(1, &["maxReplicas: 14", "the change gives a part of the edit"]);

    developer.commits(&before.replace("number: 8000", "number: 80000"));
    run(&[&IMPORT[..], &["--write"]].concat()).await.ended(1, &["error[", "80000"]);
    developer.commits("not: [a waml");
    run(&IMPORT).await.ended(1, &["cannot be read"]);
    developer.commits(&before.replace("namespace: devx", "namespace: other"));
    run(&IMPORT).await.ended(1, &["nothing of other/shop on prod-cluster-1 was edited"]);
    developer.commits(&before);
    bare.somebody_writes(&format!("{LATEST}/service.yaml"), "a: [b\n");
    run(&IMPORT).await.ended(1, &["service.yaml is not one object of YAML"]);
    run(&["import-edit", "prod-cluster-1", "--write", "--pull-request"]).await.ended(2, &[]);
}
