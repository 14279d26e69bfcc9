//! Files beside the WAML: their objects are deployed with the commit that has them, rolled back, previewed and planned.

use serde_json::json;

use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::github::Repository;
use crate::scenarios::TARGET;

const FILE: &str = "k8s/dashboard.yaml";
const PUSHED: &str = "manifests/prod-cluster-1/devx/shop/latest/configmap.yaml";

fn dashboard(title: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: shop-dashboard}}\ndata: {{title: {title}}}\n"
    )
}

fn waml_with_file() -> String {
    let text = waml("shop");
    assert!(text.contains("  prod-cluster-1:\n"), "{text}");
    text.replace("  prod-cluster-1:\n", &format!("  prod-cluster-1:\n    manifests: [{FILE}]\n"))
}

async fn deployed<'d>(deployer: &'d Deployer, files: &[(&str, &str)]) -> Repository<'d> {
    let shop = deployer.github.repository("example/shop");
    shop.commit_on("main", files);
    shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    shop
}

#[tokio::test]
async fn a_file_is_deployed_with_its_commit_and_previewed_without_the_waml() {
    let deployer = Deployer::start_as_app().await;
    let (waml, first) = (waml_with_file(), dashboard("one"));
    let shop = deployed(&deployer, &[(".weave.yaml", &waml), (FILE, &first)]).await;
    let live = || deployer.manifests().files()[PUSHED].clone();
    assert!(live().contains("title: one") && live().contains("managed-by: the-deployer"));
    // A pull request that touches only the file changes what is deployed.
    shop.opens_pull_request("title", &[(FILE, &dashboard("two"))]).await;
    shop.opens_pull_request("other", &[("k8s/other.yaml", "a: b\n")]).await;
    let wrong = dashboard("two").replace("ConfigMap", "Secret");
    shop.opens_pull_request("wrong", &[(FILE, &wrong)]).await;
    deployer.settle().await;
    let runs = shop.check_runs(&shop.tip("title"));
    let details = runs[0]["output"]["text"].as_str().unwrap();
    assert!(details.contains("-  title: one\n+  title: two\n"), "{details}");
    assert!(shop.check_runs(&shop.tip("other")).is_empty(), "no WAML names it");
    let note = &shop.check_runs(&shop.tip("wrong"))[0]["annotations"][0];
    assert_eq!((&note["path"], &note["start_line"]), (&json!(FILE), &json!(2)), "{note}");
    // The next deployment has the file of its own commit.
    shop.commit_on("main", &[(FILE, &dashboard("three"))]);
    shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    assert!(live().contains("title: three"), "{}", live());
    deployer.settled().await;
}

#[tokio::test]
async fn a_preview_reads_the_files_of_each_target_however_many_all_have() {
    let deployer = Deployer::start_as_app().await;
    let target = |target: usize| {
        let paths: Vec<String> = (0..9).map(|n| format!("a/{target:02}-{n}.yaml")).collect();
        format!("  other-{target:02}: {{manifests: [{}]}}\n", paths.join(", "))
    };
    let others: String = (0..24).map(target).collect();
    let (waml, first) = (format!("{}{others}", waml_with_file()), dashboard("one"));
    let shop = deployed(&deployer, &[(".weave.yaml", &waml), (FILE, &first)]).await;
    // In the order of paths, the file is the 217th.
    shop.opens_pull_request("title", &[(FILE, &dashboard("two"))]).await;
    deployer.settle().await;
    let run = &shop.check_runs(&shop.tip("title"))[0];
    let details = run["output"]["text"].as_str().unwrap();
    assert!(details.contains("-  title: one\n+  title: two\n"), "{details}");
    deployer.settled().await;
}

#[tokio::test]
async fn a_file_that_is_not_in_the_commit_refuses_the_deployment_at_its_place() {
    let deployer = Deployer::start_as_app().await;
    let shop = deployed(&deployer, &[(".weave.yaml", &waml_with_file())]).await;
    let deployment = deployer.deployments().await.pop().unwrap();
    let violation = &deployment.violations[0];
    assert_eq!(violation.rule, "manifests");
    assert_eq!(violation.position.as_ref().map(|place| &*place.file), Some(".weave.yaml"));
    assert!(violation.message.contains("has no file k8s/dashboard.yaml at"), "{violation}");
    let other = "apiVersion: v1\nkind: Secret\nmetadata: {name: shop-extra}\n";
    shop.commit_on("main", &[(FILE, other)]);
    shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    let deployment = deployer.deployments().await.pop().unwrap();
    let violation = &deployment.violations[0];
    let place = violation.position.as_ref().map(ToString::to_string);
    assert_eq!((&*violation.rule, place.as_deref()), ("manifests", Some("k8s/dashboard.yaml:2:7")));
    assert!(!deployer.manifests().files().contains_key(PUSHED));
    deployer.settled().await;
}

#[tokio::test]
async fn a_plan_takes_the_files_from_the_request_or_from_the_commit() {
    let deployer = Deployer::start_as_app().await;
    let (waml, first) = (waml_with_file(), dashboard("one"));
    let shop = deployed(&deployer, &[(".weave.yaml", &waml), (FILE, &first)]).await;
    let plan = async |body: serde_json::Value| {
        let url = format!("{}/api/v1/plan", deployer.url());
        let answer = reqwest::Client::new().post(url).json(&body).send().await.unwrap();
        answer.json::<serde_json::Value>().await.unwrap()
    };
    let base = json!({"repository": "example/shop", "target": TARGET, "commit": shop.tip("main")});
    assert_eq!(plan(base.clone()).await["outcome"], "unchanged");
    let mut edited = base.clone();
    edited["waml"] = waml.into();
    let refused = plan(edited.clone()).await;
    assert_eq!(refused["outcome"], "refused");
    assert_eq!(refused["violations"][0]["rule"], "manifests", "{refused}");
    edited["manifests"] = json!({FILE: dashboard("two")});
    let changed = plan(edited.clone()).await;
    let field = &changed["changes"][0]["fields"][0];
    assert_eq!(
        (&field["path"], &field["after"]),
        (&json!("data.title"), &json!("two")),
        "{changed}"
    );
    // As much as is deployed can be planned, and is more as JSON than it is on disk.
    let line = "# \"quoted\" text that a person wrote\n";
    let full = |title: &str, bytes: usize| {
        let text = dashboard(title);
        let comment = line.repeat((bytes - text.len()) / line.len());
        format!("{text}{comment}")
    };
    let paths: Vec<String> = (0..4).map(|n| format!("k8s/{n}.yaml")).collect();
    let text = edited["waml"].as_str().unwrap().replace(FILE, &paths.join(", "));
    edited["waml"] = text.into();
    edited["manifests"] = json!({});
    for (n, path) in paths.iter().enumerate() {
        let name = format!("name: shop-{n}");
        let file = full("two", 256 * 1024).replace("name: shop-dashboard", &name);
        edited["manifests"][path] = file.into();
    }
    assert!(edited.to_string().len() > 1024 * 1024);
    let planned = plan(edited).await;
    assert_eq!(planned["outcome"], "changes", "{planned}");
    deployer.settled().await;
}

#[tokio::test]
async fn an_edit_is_imported_by_a_waml_with_large_files() {
    let deployer = Deployer::start_as_app().await;
    let (waml, first) = (waml_with_file(), dashboard("one"));
    let large = format!("{first}{}", "# a comment\n".repeat(20_000));
    deployed(&deployer, &[(".weave.yaml", &waml), (FILE, &large)]).await;
    let path = "manifests/prod-cluster-1/devx/shop/latest/service.yaml";
    let service = deployer.manifests().files()[path].clone();
    let edited = service.replacen("spec:\n", "spec:\n  sessionAffinity: ClientIP\n", 1);
    deployer.manifests().somebody_writes(path, &edited);
    let url = format!("{}/api/v1/apps/{TARGET}/devx/shop/import-edit", deployer.url());
    let body = json!({"waml": waml, "manifests": {FILE: large}});
    let answer = reqwest::Client::new().post(url).json(&body).send().await.unwrap();
    let status = answer.status();
    let answer = answer.json::<serde_json::Value>().await.unwrap();
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["imported"][0]["field"], "spec.sessionAffinity", "{answer}");
    deployer.settled().await;
}
