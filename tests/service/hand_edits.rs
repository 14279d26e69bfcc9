//! Tests manual edits of the manifest repository, as people see them in the end.

use crate::harness::events::{Event, waml};
use crate::harness::process::Home;

const FILE: &str = "manifests/prod-cluster-1/devx/shop/latest/deployment.yaml";

fn home(policies: &str) -> Home {
    Home::configured(&format!(
        "clusters:\n- name: prod-cluster-1\n  environment: production\n  domain: example.com\n{policies}"
    ))
}

/// Deploys, lets somebody edit, and deploys again: the second deployment's record, and its page.
async fn edited_between(policies: &str) -> (Home, serde_json::Value, String) {
    let home = home(policies);
    let process = home.start().await;
    let commit = home.commit("example/shop", &waml("shop"));
    let first = Event::new(1, "shop", &commit).accepted(&process).await;
    assert_eq!(process.ended(&first).await["state"], "succeeded", "{}", process.log());
    let bare = home.manifests();
    let edited = bare.files()[FILE].replace("apiVersion:", "# by hand\napiVersion:");
    bare.somebody_writes(FILE, &edited);
    let second = Event::new(2, "shop", &commit).accepted(&process).await;
    let one = process.ended(&second).await;
    let (status, page) = process.get(&format!("/deployments/{second}")).await;
    assert_eq!(status, 200);
    drop(process);
    (home, one, page)
}

#[tokio::test]
async fn an_edit_is_replaced_and_the_log_shows_it() {
    let (home, one, page) = edited_between("").await;
    assert_eq!(one["state"], "succeeded", "{one}");
    let edit = &one["hand_edit"];
    assert_eq!(edit["replaced"], true, "{one}");
    assert_eq!(edit["files"], serde_json::json!([{"name": "deployment.yaml", "how": "changed"}]));
    assert!(edit["diff"].as_str().unwrap().contains("\n+# by hand\n"), "{edit}");
    assert_eq!(edit["commit"]["author"], "Somebody");
    assert!(page.contains("Edited by hand</h2>") && page.contains("+# by hand"), "{page}");
    let bare = home.manifests();
    assert!(!bare.files()[FILE].contains("by hand"));
    assert_eq!(bare.trailer("Replaced-Edit").len(), 1);
}

#[tokio::test]
async fn an_edit_stops_deployments_where_the_cluster_says_so() {
    let (home, one, page) = edited_between("  policies: {hand_edits: stop}\n").await;
    assert_eq!(one["state"], "failed", "{one}");
    assert_eq!(one["statuses"].as_array().unwrap().last().unwrap()["state"], "error");
    let summary = one["summary"].as_str().unwrap();
    for part in ["deployment.yaml (changed)", "by Somebody", "then deploy again"] {
        assert!(summary.contains(part), "{part} in {summary}");
    }
    assert_eq!(one["hand_edit"]["replaced"], false, "{one}");
    assert!(page.contains("nothing was replaced") && page.contains("+# by hand"), "{page}");
    let bare = home.manifests();
    assert!(bare.files()[FILE].contains("by hand"));

    // Reverted as a person would, it is deployed.
    let text = bare.files()[FILE].replace("# by hand\n", "");
    bare.somebody_writes(FILE, &text);
    let process = home.start().await;
    let commit = home.commit_file("example/shop", "more", "a commit");
    let third = Event::new(3, "shop", &commit).accepted(&process).await;
    let one = process.ended(&third).await;
    assert_eq!((&one["state"], &one["hand_edit"]), (&"succeeded".into(), &serde_json::Value::Null));
}
