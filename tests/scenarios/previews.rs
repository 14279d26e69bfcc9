//! Pull requests are shown what they would change, and nothing is deployed.

use std::time::Duration;

use serde_json::Value as Json;

use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::github::{Fault, Repository, Webhooks};
use crate::scenarios::{TARGET, app};

const FILE: &str = ".weave.yaml";

/// The WAML of `shop` with one thing said otherwise.
fn changed(from: &str, to: &str) -> String {
    let waml = waml("shop");
    assert!(waml.contains(from), "{from}");
    waml.replace(from, to)
}

fn more_replicas() -> String {
    changed("minReplicas: 3", "minReplicas: 4")
}

/// An app that is deployed, with the deployer as an App.
async fn deployed(deployer: &Deployer) -> Repository<'_> {
    let shop = app(deployer, "shop");
    shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    shop
}

/// Nothing waits, nothing is deployed that was not before, and GitHub has nothing to punish.
async fn ends(deployer: &Deployer, deployments: usize) {
    deployer.settle().await;
    assert_eq!(deployer.stepped().store().previews_waiting().await.unwrap(), 0);
    assert_eq!(deployer.deployments().await.len(), deployments, "a preview deploys nothing");
    deployer.settled().await;
}

/// The one check run of a commit.
fn check(repository: &Repository<'_>, sha: &str) -> Json {
    let runs = repository.check_runs(sha);
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(runs[0]["name"], "the-deployer/preview");
    runs[0].clone()
}

fn text<'j>(check: &'j Json, field: &str) -> &'j str {
    check["output"][field].as_str().unwrap_or_else(|| panic!("no {field} in {check}"))
}

#[tokio::test]
async fn a_pull_request_shows_what_it_would_change_against_what_is_live() {
    let deployer = Deployer::start_as_app().await;
    let shop = deployed(&deployer).await;
    let number = shop.opens_pull_request("more", &[(FILE, &more_replicas())]).await;
    deployer.settle().await;
    let check = check(&shop, &shop.tip("more"));
    assert_eq!((&check["status"], &check["conclusion"]), (&"completed".into(), &"success".into()));
    assert_eq!(check["external_id"], format!("preview-{number}-{}", shop.tip("more")));
    assert_eq!(text(&check, "title"), "1 target changes");
    let details = text(&check, "text");
    assert!(details.contains("-  minReplicas: 3\n+  minReplicas: 4\n"), "{details}");
    assert!(
        details.contains("HorizontalPodAutoscaler <code>shop</code>: changed, +1 −1"),
        "{details}"
    );
    assert!(!details.contains("image:"), "the live tag makes no difference: {details}");
    ends(&deployer, 1).await;
}

#[tokio::test]
async fn of_heads_that_follow_one_another_quickly_the_newest_is_shown() {
    let deployer = Deployer::start_as_app().await;
    let shop = deployed(&deployer).await;
    let number = shop.opens_pull_request("more", &[(FILE, &more_replicas())]).await;
    let second = shop.updates_pull_request(number, &[("a", "1")]).await;
    let third = shop.updates_pull_request(number, &[("a", "2")]).await;
    deployer.settle().await;
    assert_eq!(shop.check_runs(&second), Vec::<Json>::new());
    assert_eq!(text(&check(&shop, &third), "title"), "1 target changes");
    assert_eq!(deployer.github.count("POST check-runs"), 1);
    ends(&deployer, 1).await;
}

#[tokio::test]
async fn events_in_the_wrong_order_leave_the_newest_head() {
    let deployer = Deployer::start_as_app().await;
    let shop = deployed(&deployer).await;
    deployer.github.webhooks(Webhooks::Held);
    let number = shop.opens_pull_request("more", &[(FILE, &more_replicas())]).await;
    deployer.clock.advance(Duration::from_secs(1));
    let newest = shop.updates_pull_request(number, &[("a", "1")]).await;
    deployer.github.release(&[1, 0]).await;
    deployer.settle().await;
    assert_eq!(text(&check(&shop, &newest), "title"), "1 target changes");
    assert_eq!(deployer.github.count("POST check-runs"), 1);
    ends(&deployer, 1).await;
}

#[tokio::test]
async fn what_does_not_touch_the_waml_is_left_alone_until_something_was_shown() {
    let deployer = Deployer::start_as_app().await;
    let shop = deployed(&deployer).await;
    let other = shop.opens_pull_request("readme", &[("README.md", "hello")]).await;
    deployer.settle().await;
    assert_eq!(shop.check_runs(&shop.tip("readme")), Vec::<Json>::new());
    shop.updates_pull_request(other, &[(FILE, &more_replicas())]).await;
    deployer.settle().await;
    check(&shop, &shop.tip("readme"));
    let back = shop.updates_pull_request(other, &[(FILE, &waml("shop"))]).await;
    deployer.settle().await;
    let check = check(&shop, &back);
    assert_eq!(
        (text(&check, "title"), &check["conclusion"]),
        ("nothing to preview", &"neutral".into())
    );
    shop.closes_pull_request(other).await;
    ends(&deployer, 1).await;
}

#[tokio::test]
async fn a_fork_is_shown_nothing() {
    let deployer = Deployer::start_as_app().await;
    let shop = deployed(&deployer).await;
    deployer.github.webhooks(Webhooks::Lost);
    let number = shop.opens_pull_request("theirs", &[(FILE, &more_replicas())]).await;
    deployer.github.webhooks(Webhooks::Delivered);
    shop.comes_from_fork(number, "mallory");
    shop.tells_of_pull_request(number, "reopened").await;
    deployer.settle().await;
    assert_eq!(shop.check_runs(&shop.tip("theirs")), Vec::<Json>::new());
    assert_eq!(deployer.github.count("GET pulls"), 0, "nobody even looked");
    ends(&deployer, 1).await;
}

#[tokio::test]
async fn violations_are_at_their_lines_and_a_new_head_mends_them() {
    let deployer = Deployer::start_as_app().await;
    let shop = deployed(&deployer).await;
    let broken = changed("number: 8000", "number: 80000");
    let line = broken.lines().position(|line| line.contains("80000")).unwrap() + 1;
    let number = shop.opens_pull_request("broken", &[(FILE, &broken)]).await;
    deployer.settle().await;
    let first = check(&shop, &shop.tip("broken"));
    assert_eq!(first["conclusion"], "failure");
    assert_eq!(text(&first, "title"), "1 violation");
    let note = &first["annotations"][0];
    assert_eq!((&note["path"], &note["start_line"]), (&FILE.into(), &line.into()));
    assert_eq!(note["annotation_level"], "failure");
    let mended = shop.updates_pull_request(number, &[(FILE, &more_replicas())]).await;
    deployer.settle().await;
    assert_eq!(check(&shop, &mended)["conclusion"], "success");
    ends(&deployer, 1).await;
}

#[tokio::test]
async fn a_huge_difference_is_cut_to_what_github_takes() {
    let deployer = Deployer::start_as_app().await;
    let shop = deployed(&deployer).await;
    let env: String = (0..900)
        .map(|n| format!("\n    - {{name: V{n}, value: \"{}\"}}", "x".repeat(150)))
        .collect();
    let huge =
        changed("    env: [{name: MY_ENV_NAME, value: some-value}]", &format!("    env:{env}"));
    shop.opens_pull_request("huge", &[(FILE, &huge)]).await;
    deployer.settle().await;
    let check = check(&shop, &shop.tip("huge"));
    let details = text(&check, "text");
    assert!(details.len() <= 65_535 && details.contains(" lines more @@"), "{}", details.len());
    ends(&deployer, 1).await;
}

#[tokio::test]
async fn another_repositorys_app_is_shown_to_nobody() {
    let deployer = Deployer::start_as_app().await;
    let _shop = deployed(&deployer).await;
    let other = app(&deployer, "other");
    other.opens_pull_request("curious", &[(FILE, &more_replicas())]).await;
    deployer.settle().await;
    let check = check(&other, &other.tip("curious"));
    let said = check["output"].to_string();
    assert!(said.contains("belongs to another repository"), "{said}");
    for of_the_shop in ["example/shop", "minReplicas", "v1"] {
        assert!(!said.contains(of_the_shop), "{of_the_shop}: {said}");
    }
    ends(&deployer, 1).await;
}

#[tokio::test]
async fn targets_that_come_and_go_are_told() {
    let deployer = Deployer::start_as_app().await;
    let shop = deployed(&deployer).await;
    let moved = changed("  prod-cluster-1:", "  prod-cluster-2:");
    shop.opens_pull_request("moved", &[(FILE, &moved)]).await;
    deployer.settle().await;
    let check = check(&shop, &shop.tip("moved"));
    assert_eq!(text(&check, "title"), "1 target is new");
    let summary = text(&check, "summary");
    assert!(
        summary.contains("- `bart remove prod-cluster-1 devx/shop --reason TEXT`"),
        "{summary}"
    );
    ends(&deployer, 1).await;
}

#[tokio::test]
async fn a_deployment_that_goes_through_brings_open_previews_up_to_date() {
    let deployer = Deployer::start_as_app().await;
    let shop = deployed(&deployer).await;
    shop.opens_pull_request("more", &[(FILE, &more_replicas())]).await;
    deployer.settle().await;
    let before = check(&shop, &shop.tip("more"));
    assert_eq!(text(&before, "title"), "1 target changes");
    // The same comes to main by another way.
    deployer.clock.advance(Duration::from_mins(1));
    shop.commit(&more_replicas());
    shop.deploys(TARGET, "v2").await;
    deployer.settle().await;
    let after = check(&shop, &shop.tip("more"));
    assert_eq!((text(&after, "title"), &after["id"]), ("nothing changes", &before["id"]));
    ends(&deployer, 2).await;
}

#[tokio::test]
async fn github_fails_in_the_middle_and_there_is_one_check_run() {
    for fault in [Fault::BadGateway, Fault::CutBefore, Fault::CutAfter, Fault::Wait(403, 60)] {
        let deployer = Deployer::start_as_app().await;
        let shop = deployed(&deployer).await;
        deployer.github.fails(1, "GET contents", Fault::BadGateway);
        deployer.github.fails(1, "POST check-runs", fault);
        shop.opens_pull_request("more", &[(FILE, &more_replicas())]).await;
        deployer.settle().await;
        let check = check(&shop, &shop.tip("more"));
        assert_eq!(text(&check, "title"), "1 target changes", "{fault:?}");
        ends(&deployer, 1).await;
    }
}

#[tokio::test]
async fn without_the_permission_it_is_given_up_at_once() {
    let deployer = Deployer::start_as_app().await;
    let shop = deployed(&deployer).await;
    deployer.github.forbids("example", "checks");
    // The token that is in use was given out before.
    deployer.clock.advance(Duration::from_mins(61));
    let number = shop.opens_pull_request("more", &[(FILE, &more_replicas())]).await;
    deployer.settle().await;
    let repository = "example/shop".parse().unwrap();
    let summary = deployer.stepped().store().preview_summary(&repository, number).await.unwrap();
    assert!(summary.as_deref().is_some_and(|summary| summary.contains("checks")), "{summary:?}");
    assert!(deployer.github.count("check-runs") <= 1, "no storm");
    ends(&deployer, 1).await;
}

#[tokio::test]
async fn a_process_that_is_killed_before_it_knows_leaves_one_check_run() {
    for fault in [Fault::SilentBefore, Fault::SilentAfter] {
        let mut deployer = Deployer::start_as_app().await;
        let sha = {
            let shop = deployed(&deployer).await;
            shop.opens_pull_request("more", &[(FILE, &more_replicas())]).await;
            shop.tip("more")
        };
        deployer.github.fails(1, "POST check-runs", fault);
        let met = deployer.github.met("POST check-runs");
        deployer.dies_when(met).await;
        deployer.starts().await;
        deployer.settle().await;
        let shop = deployer.github.repository("example/shop");
        assert_eq!(text(&check(&shop, &sha), "title"), "1 target changes", "{fault:?}");
        ends(&deployer, 1).await;
    }
}

/// Nothing has changed since: GitHub has reset the check run, and waits for it to be completed.
#[tokio::test]
async fn a_rerun_plans_again_also_where_the_same_comes_of_it() {
    let deployer = Deployer::start_as_app().await;
    let shop = deployed(&deployer).await;
    shop.opens_pull_request("more", &[(FILE, &more_replicas())]).await;
    deployer.settle().await;
    let head = shop.tip("more");
    let before = check(&shop, &head);
    shop.reruns_checks(&head).await;
    deployer.settle().await;
    let after = check(&shop, &head);
    assert_eq!((&after["status"], &after["conclusion"]), (&"completed".into(), &"success".into()));
    assert_eq!(text(&after, "title"), text(&before, "title"));
    ends(&deployer, 1).await;
}
