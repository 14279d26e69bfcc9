//! Tests deployments with nothing but bart, where the service keeps the repositories itself.

use serde_json::json;

use super::place_with;
use crate::harness::developer::{Developer, Said};
use crate::harness::events::waml;
use crate::harness::git_host::GitHost;
use crate::harness::process::{Held, Home, Process};

/// A service with the repository of `shop`, and its developer.
async fn place() -> (Home, Process, Developer) {
    place_with(Home::embedded(), &waml("shop")).await
}

#[tokio::test]
async fn a_tag_is_deployed_to_several_targets_and_followed_to_the_end() {
    let (home, process, developer) = place().await;
    let two = waml("shop").replace("deploy:\n", "deploy:\n  dev: {}\n");
    developer.commits(&two);
    developer.pushes();
    let server = [("BART_SERVER", process.address())];
    let said = developer.runs(&server, &["deploy", "1.0", "prod-cluster-1", "dev"]).await;
    said.ended(0, &["prod-cluster-1: succeeded in ", "dev: succeeded in "]);
    assert_eq!(said.out, "", "there is no result for programs");
    let files = home.manifests().files();
    for target in ["prod-cluster-1", "dev"] {
        let prefix = format!("manifests/{target}/devx/shop/latest/");
        assert!(files.keys().any(|path| path.starts_with(&prefix)), "{target}: {files:?}");
    }
    let deployed = process.deployments().await;
    let by: Vec<_> = deployed.iter().map(|one| (&one["tag"], &one["actor"])).collect();
    assert_eq!(by, vec![(&json!("1.0"), &json!("unknown, on this machine")); 2]);
}

#[tokio::test]
async fn programs_get_the_whole_record() {
    let (_home, process, developer) = place().await;
    let server = [("BART_SERVER", process.address())];
    let deploy = ["deploy", "1.0", "prod-cluster-1", "--output", "json"];
    let said = developer.runs(&server, &deploy).await;
    let one = said.ended(0, &[]).json()["deployments"][0].clone();
    assert_eq!((&one["target"], &one["state"]), (&json!("prod-cluster-1"), &json!("succeeded")));
    assert!(one["deployment"]["stages"].as_array().unwrap().len() > 5, "{one}");
    let said =
        developer.runs(&server, &["deploy", "1.1", "prod-cluster-1", "--no-wait", "-o", "yaml"]);
    let said = said.await;
    let yaml: serde_json::Value = serde_yaml::from_str(&said.ended(0, &[]).out).unwrap();
    let id = yaml["deployments"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(process.ended(&id).await["state"], "succeeded", "it goes on by itself");
}

#[tokio::test]
async fn rows_for_analysis_and_insights_have_the_deploy_clock() {
    let (_home, process, developer) = place().await;
    let server = [("BART_SERVER", process.address())];
    for tag in ["1.0", "1.1"] {
        let said = developer.runs(&server, &["deploy", tag, "prod-cluster-1"]).await;
        said.ended(0, &["succeeded"]);
    }
    let csv = developer.runs(&server, &["history", "--format", "csv"]).await;
    let csv: Vec<String> = csv.ended(0, &[]).out.lines().map(str::to_owned).collect();
    assert_eq!(csv.len(), 3, "{csv:#?}");
    assert!(
        csv[0].starts_with("id,state,app,target,") && csv[0].contains(",mark_pushed,clock_pushed,")
    );
    assert!(csv[0].ends_with(",total_millis,total_skew_millis"), "{}", csv[0]);
    assert!(csv[1].contains(",succeeded,devx/shop,prod-cluster-1,") && csv[1].contains(",1.1,"));
    let one = developer.runs(&server, &["history", "--format", "jsonl", "--limit", "1"]).await;
    let one: serde_json::Value = serde_json::from_str(&one.ended(0, &[]).out).unwrap();
    assert_eq!(
        (&one["tag"], &one["intervals"][0]["interval"]),
        (&json!("1.1"), &json!("deployer"))
    );
    let both = developer.runs(&server, &["history", "--format", "csv", "-o", "json"]).await;
    both.ended(2, &["cannot be used with"]);
    let many = developer.runs(&server, &["history", "--limit", "201"]).await;
    many.ended(2, &["--limit is at most 200", "--format csv"]);
    let insights = developer.runs(&server, &["insights", "--window", "1h", "-o", "json"]).await;
    let insights = insights.ended(0, &[]).json();
    assert_eq!((&insights["dora"]["successes"], &insights["deployments"]), (&json!(2), &json!(2)));
    let text = developer.runs(&server, &["insights", "--app", "devx/shop"]).await;
    let text = text.ended(0, &[]).out.clone();
    assert!(
        text.contains("deployments of devx/shop in the last 6h\n2 received: 2 succeeded"),
        "{text}"
    );
    assert!(text.contains("deployer time") && text.contains("change failure rate"), "{text}");
    developer.runs(&server, &["insights", "--window", "91d"]).await.ended(2, &["at most 90d"]);
}

#[tokio::test]
async fn what_validate_refuses_is_refused_before_anything_is_created() {
    let (_home, process, developer) = place().await;
    let server = [("BART_SERVER", process.address())];
    let said = developer.runs(&server, &["deploy", "1.0", "prod-cluster-1", "moon"]).await;
    said.ended(1, &["error[target]", "moon", "nothing was deployed"]);
    developer.commits(&waml("shop").replace("namespace:", "namespaze:"));
    let said = developer.runs(&server, &["deploy", "1.0", "prod-cluster-1"]).await;
    said.ended(1, &["did you mean `namespace`?", "nothing was deployed"]);
    assert_eq!(process.deployments().await.len(), 0);
}

#[tokio::test]
async fn a_commit_that_is_not_pushed_is_told_and_not_deployed() {
    let (_home, process, developer) = place().await;
    developer.commits(&(waml("shop") + "# not pushed\n"));
    let server = [("BART_SERVER", process.address())];
    let said = developer.runs(&server, &["deploy", "1.0", "prod-cluster-1"]).await;
    said.ended(
        1,
        &["was not pushed yet", "has no branch, tag or commit", "push it, then deploy again"],
    );
    assert_eq!(process.deployments().await.len(), 0);
    let said = developer.runs(&server, &["deploy", "1.0", "prod-cluster-1", "--ref", "main"]).await;
    said.ended(0, &["succeeded"]);
}

#[tokio::test]
async fn a_template_that_only_the_service_has_is_no_reason_to_refuse() {
    let (_home, process, developer) = place().await;
    let ours = waml("shop").replace("template: backend-default ", "template: ours ");
    assert_ne!(ours, waml("shop"));
    developer.commits(&ours);
    developer.pushes();
    let server = [("BART_SERVER", process.address())];
    let said = developer.runs(&server, &["deploy", "1.0", "prod-cluster-1"]).await;
    said.ended(1, &["prod-cluster-1: failed in", "error[template]", "backend-default"]);
    assert_eq!(process.deployments().await.len(), 1, "the service had the last word");
}

#[tokio::test]
async fn ctrl_c_says_how_to_go_on_and_the_deployment_does() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let (_home, process, developer) = place_with(home, &waml("shop")).await;
    let held = Held::first_push(&bare, "pre-receive");
    let server = [("BART_SERVER", process.address())];
    let child = developer.bart(&server, &["deploy", "2.0", "prod-cluster-1"]).spawn().unwrap();
    held.reached().await;
    let killed =
        std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    let said = Said::until_the_end_of(child).await;
    said.ended(130, &["the deployment to prod-cluster-1 continues", "bart logs 2"]);
    held.let_go();
    let id = process.deployments().await.pop().unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(process.ended(&id).await["state"], "succeeded");
}

#[tokio::test]
async fn who_waits_too_long_is_told_that_it_goes_on() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let (_home, process, developer) = place_with(home, &waml("shop")).await;
    let server = [("BART_SERVER", process.address())];
    let held = Held::first_push(&bare, "pre-receive");
    let deploy = ["deploy", "2.0", "prod-cluster-1", "--timeout", "1s", "-o", "json"];
    let said = developer.runs(&server, &deploy).await;
    assert_eq!(said.json()["deployments"][0]["target"], "prod-cluster-1", "programs get it too");
    said.ended(2, &["not all deployments ended within 1s; they continue", "--follow"]);
    held.let_go();
    let id = process.deployments().await.pop().unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(process.ended(&id).await["state"], "succeeded");
}

#[tokio::test]
async fn another_repository_is_never_taken_for_the_one_that_is_here() {
    let (_home, process, developer) = place().await;
    let server = [("BART_SERVER", process.address())];
    let hold = ["hold", "prod-cluster-1", "--reason", "r", "--repository", "acme/cart"];
    let unknown = ["nothing was deployed from the repository acme/cart", "--app"];
    developer.runs(&server, &hold).await.ended(1, &unknown);
    for command in [&["deploy", "1.0"][..], &["plan", "1.0"]] {
        let all = [command, &["prod-cluster-1", "--app", "devx/cart"]].concat();
        developer.runs(&server, &all).await.ended(2, &["--app"]);
    }
    assert_eq!(process.deployments().await.len(), 0);
}

#[tokio::test]
async fn a_service_that_is_not_there_is_said_so_before_anything_else() {
    let (_home, process, developer) = place().await;
    let address = process.address().to_owned();
    process.kill();
    let said = developer.runs(&[("BART_SERVER", &address)], &["deploy", "1.0", "prod-cluster-1"]);
    said.await.ended(2, &["cannot reach", "BART_SERVER"]);
}
