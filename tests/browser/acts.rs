//! Each act from its page: what it says before, what it does, and who may not do it.

use std::time::Duration;

use serde_json::json;
use the_deployer::model::audit::{AuditRecord, AuthMethod, Search};

use super::{
    PEOPLE, SHOP, TARGET, deploys, for_people, for_people_of, for_people_of_enterprise, has_a_name,
    prepared, signs_in,
};
use crate::harness::browser::Page;
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::github::Webhooks;

/// The newest entry of the audit log.
async fn last_act(deployer: &Deployer) -> AuditRecord {
    let search = Search { limit: 1, ..Search::default() };
    let page = deployer.stepped().store().audit_records(&search).await.unwrap();
    page.entries.into_iter().next().expect("something was done")
}

/// Checks who did the newest act, and why.
async fn assert_act(deployer: &Deployer, act: &str, by: &str, reason: &str) {
    let entry = last_act(deployer).await;
    assert_eq!((&*entry.act, &*entry.by.name, &*entry.reason), (act, by, reason));
    assert_eq!(entry.by.via, AuthMethod::GitHub);
    assert_eq!(entry.by.from.as_deref(), Some("127.0.0.1"));
    // The next act is a newer one.
    deployer.clock.advance(Duration::from_secs(1));
}

/// Checks what an act's page says, gives a reason and presses the button.
async fn confirms(page: &Page, words: &[&str], reason: &str, button: &str) {
    let text = page.text("main").await;
    for word in words {
        assert!(text.contains(word), "{word} is missing in\n{text}");
    }
    page.assert_accessible().await;
    page.assert_fits().await;
    page.fill("#reason", reason).await;
    page.press(button).await;
}

#[tokio::test]
async fn a_person_rolls_back_holds_and_releases_with_and_without_scripts() {
    let Some(page) = Page::take("acts in a browser").await else { return };
    let (deployer, url) = for_people().await;
    let first = deploys(&deployer, "v1").await;
    let second = deploys(&deployer, "v2").await;
    signs_in(&page, &deployer, &url, "ada", SHOP).await;
    for words in ["Deploy", "Roll back", "Hold", "Lock"] {
        assert!(page.offers(words).await, "{words}");
    }
    for words in ["Release", "Unlock", "Cancel", "Plan"] {
        assert!(!page.offers(words).await, "{words}");
    }
    page.press("Roll back").await;
    for (scripts, query, live, to) in
        [(true, String::new(), "v2", "v1"), (false, format!("?to={second}"), "v1", "v2")]
    {
        page.scripts(scripts).await;
        page.resize(400, 800).await;
        page.open(&url, &format!("{SHOP}/rollback{query}")).await;
        page.screenshot("rollback-400").await;
        assert_eq!(page.text("h1").await, format!("Roll back devx/shop on {TARGET}"));
        let sentences = [format!("{to} ("), format!("replaces {live} (")];
        let words = [&*sentences[0], &*sentences[1], "Deployment shop"];
        confirms(&page, &words, "checkout fails", "Roll back").await;
        assert!(page.path().await.starts_with("/deployments/"), "{}", page.url().await);
        assert_act(&deployer, "rollback", "ada", "checkout fails").await;
        deployer.settle().await;
        deployer.clock.advance(Duration::from_secs(1));
        page.reload().await;
        assert!(page.text("main").await.contains("succeeded"));
    }
    // Another revision is chosen on the page, which shows first what that would change.
    page.open(&url, &format!("{SHOP}/rollback")).await;
    page.run("document.querySelector('#to').value = arguments[0]", json!([first])).await;
    page.press("Show what changes").await;
    assert!(page.text("main").await.contains(&format!("v1 ({first}) replaces v2")));
    // The rollback holds automation.
    page.open(&url, SHOP).await;
    page.press("Release").await;
    confirms(
        &page,
        &["ada has held it on prod-cluster-1 since", "checkout fails"],
        "over",
        "Release",
    )
    .await;
    assert_act(&deployer, "release", "ada", "over").await;
    page.open(&url, &format!("{SHOP}/hold")).await;
    confirms(&page, &["Deployments of programs are refused"], "the sale", "Hold").await;
    assert_act(&deployer, "hold", "ada", "the sale").await;
    assert_eq!(page.console().await, Vec::<String>::new());
    deployer.settled().await;
}

#[tokio::test]
async fn a_person_locks_an_app_and_removes_the_lock() {
    let Some(page) = Page::take("acts in a browser").await else { return };
    let (deployer, url) = for_people().await;
    deploys(&deployer, "v1").await;
    signs_in(&page, &deployer, &url, "ada", "/").await;
    let path = format!("/locks/new?target={TARGET}&app=devx%2Fshop");
    page.open(&url, &path).await;
    // The API wants a reason: a browser that is not asked for one gets to know.
    page.run("document.querySelector('#reason').required = false", json!([])).await;
    page.press("Lock").await;
    assert!(page.text("#refused").await.contains("say why: the reason is empty"));
    page.run("document.querySelector('#for').value = '4h'", json!([])).await;
    let words = ["Deployments of devx/shop on prod-cluster-1 are refused"];
    confirms(&page, &words, "<b>incident</b> 7", "Lock").await;
    assert_act(&deployer, "lock", "ada", "<b>incident</b> 7").await;
    let locks = deployer.stepped().store().locks(deployer.clock.now()).await.unwrap();
    let [(id, lock)] = &locks[..] else { panic!("{locks:?}") };
    assert_eq!(lock.until, Some(lock.since + Duration::from_hours(4)));
    page.open(&url, &format!("/locks/{id}/remove")).await;
    confirms(&page, &["ada has locked it since", "<b>incident</b> 7"], "mended", "Remove the lock")
        .await;
    assert_act(&deployer, "unlock", "ada", "mended").await;
    page.open(&url, &format!("/locks/{id}/remove")).await;
    assert!(page.text("main").await.contains("no such lock any more"));
    // A target is for administrators.
    page.open(&url, &format!("/locks/new?target={TARGET}")).await;
    assert!(page.text("main").await.contains("may not administer"));
    assert_eq!(page.count("form").await, 0);
    deployer.settled().await;
}

#[tokio::test]
async fn a_person_cancels_a_deployment_that_waits() {
    let Some(page) = Page::take("acts in a browser").await else { return };
    let (deployer, url) = for_people().await;
    let number = deployer.github.repository("example/shop").deploys(TARGET, "v1").await;
    let id = deployer.deployment(number).await.id.to_string();
    signs_in(&page, &deployer, &url, "ada", &format!("/deployments/{id}")).await;
    page.press("Cancel").await;
    confirms(&page, &["v1 is not deployed"], "the wrong tag", "Cancel the deployment").await;
    assert_eq!(page.path().await, format!("/deployments/{id}"));
    assert!(page.text("main").await.contains("cancelled"));
    assert_act(&deployer, "cancel", "ada", "the wrong tag").await;
    page.open(&url, &format!("/deployments/{id}/cancel")).await;
    assert!(page.text("main").await.contains("there is nothing to cancel"));
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn who_may_not_act_is_told_so_and_nothing_is_done() {
    let Some(page) = Page::take("acts in a browser").await else { return };
    let (deployer, url) = for_people().await;
    deploys(&deployer, "v1").await;
    deploys(&deployer, "v2").await;
    let waiting = deployer.github.repository("example/shop").deploys(TARGET, "v3").await;
    let waiting = deployer.deployment(waiting).await.id;
    signs_in(&page, &deployer, &url, "eve", SHOP).await;
    assert_eq!(page.count("nav.acts a").await, 0, "nothing is offered");
    for act in ["rollback", "deploy", "hold", "release"] {
        page.open(&url, &format!("{SHOP}/{act}")).await;
        assert!(page.text("main").await.contains("may not deploy"), "{act}");
        assert_eq!(page.count("form").await, 0, "{act}");
    }
    page.open(&url, &format!("/deployments/{waiting}?refresh=off")).await;
    assert_eq!(page.count("nav.acts a").await, 0, "nothing is offered");
    let lock = format!("/locks/new?target={TARGET}&app=devx%2Fshop");
    for path in [format!("/deployments/{waiting}/cancel"), lock] {
        page.open(&url, &path).await;
        assert!(page.text("main").await.contains("may not deploy"), "{path}");
        assert_eq!(page.count("form").await, 0, "{path}");
    }
    for path in ["/locks/new".to_owned(), format!("/locks/new?target={TARGET}")] {
        page.open(&url, &path).await;
        assert!(page.text("main").await.contains("may not administer"), "{path}");
        assert_eq!(page.count("form").await, 0, "{path}");
    }
    let search = Search { limit: 10, ..Search::default() };
    let acts = deployer.stepped().store().audit_records(&search).await.unwrap().entries;
    assert!(acts.is_empty(), "{acts:?}");
    deployer.settle().await;
    deployer.settled().await;
}

/// The WAML with a rollout to two targets, with a gate between them.
fn two_targets(policy: &str, gate: &str) -> String {
    let two = waml("shop").replace("deploy:\n", "deploy:\n  dev: {}\n");
    format!(
        "{two}rollouts:\n  production:\n    {policy}steps:\n    - targets: [dev]\n{gate}    \
         - targets: [prod-cluster-1]\n"
    )
}

/// The program starts the rollout of the shop's WAML; its id.
async fn starts_rollout(deployer: &Deployer, tag: &str) -> String {
    let body =
        json!({"repository": "example/shop", "ref": "main", "tag": tag, "name": "production"});
    let request = reqwest::Client::builder().no_proxy().build().unwrap();
    let request =
        request.post(format!("{}/api/v1/rollouts", deployer.url())).bearer_auth("t0ken-of-ci");
    let answer: serde_json::Value = request.json(&body).send().await.unwrap().json().await.unwrap();
    answer["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Lets the rollout go forward until it waits for a person.
async fn goes_forward(deployer: &Deployer) {
    for _ in 0..60 {
        deployer.works().await;
        deployer.clock.advance(Duration::from_secs(10));
    }
    deployer.works().await;
}

#[tokio::test]
async fn people_retry_a_rollout_that_failed_and_cancel_another_with_and_without_scripts() {
    let Some(page) = Page::take("acts in a browser").await else { return };
    let (mut deployer, url) = prepared(PEOPLE).await;
    // What nothing but a branch of its own brings to production.
    let clusters = format!(
        "clusters:\n- {{name: dev, environment: development, domain: dev.example.com}}\n\
         - {{name: {TARGET}, environment: development, domain: example.com, policies: {{branches: [stable]}}}}\n"
    );
    deployer.configure(|config| format!("{config}{clusters}"));
    let (deployer, url) = for_people_of((deployer, url)).await;
    let shop = deployer.github.repository("example/shop");
    shop.commit(&two_targets("on_failure: pause\n    ", ""));
    let id = starts_rollout(&deployer, "v1").await;
    signs_in(&page, &deployer, &url, "ada", "/").await;
    // Nothing has failed yet.
    page.open(&url, &format!("/rollouts/{id}/retry")).await;
    assert!(page.text("main").await.contains("This cannot be done to it now"));
    assert_eq!(page.count("form").await, 0);
    goes_forward(&deployer).await;
    page.open(&url, &format!("/rollouts/{id}")).await;
    page.wait_for_text(".summary .badge", "paused").await;
    assert_eq!(page.texts("nav.acts a").await, ["Retry", "Resume", "Undo", "Cancel"]);
    page.screenshot("rollout-failed").await;
    // A commit is there now: what failed is tried again.
    shop.commit_on("stable", &[("README.md", "stable")]);
    page.press("Retry").await;
    page.run("document.querySelector('#reason').required = false", json!([])).await;
    page.press("Retry").await;
    assert!(page.text("#refused").await.contains("say why: the reason is empty"));
    page.screenshot("retry").await;
    let words = [
        "1 of 2 targets are complete, 1 have failed",
        "tries the failed targets of this step again",
    ];
    confirms(&page, &words, "it is stable now", "Retry").await;
    assert_eq!(page.path().await, format!("/rollouts/{id}"));
    assert_act(&deployer, "rollout-retry", "ada", "it is stable now").await;
    goes_forward(&deployer).await;
    page.wait_for_text(".summary .badge", "done").await;
    assert!(page.text("main").await.contains("2 of 2"), "{}", page.text("main").await);
    assert_eq!(page.texts("nav.acts a").await, ["Undo"], "it is over");
    // Another waits for an approval, and is cancelled.
    shop.commit(&two_targets("", "    - approval: {}\n"));
    let id = starts_rollout(&deployer, "v2").await;
    goes_forward(&deployer).await;
    page.scripts(false).await;
    page.resize(400, 800).await;
    page.open(&url, &format!("/rollouts/{id}?refresh=off")).await;
    assert_eq!(page.texts("nav.acts a").await, ["Approve", "Pause", "Undo", "Cancel"]);
    page.press("Cancel").await;
    page.screenshot("cancel-400").await;
    let words = ["1 of 2 targets are complete", "every target keeps what it has"];
    confirms(&page, &words, "the wrong tag", "Cancel").await;
    assert_act(&deployer, "rollout-cancel", "ada", "the wrong tag").await;
    deployer.settle().await;
    page.open(&url, &format!("/rollouts/{id}?refresh=off")).await;
    assert_eq!(page.text(".summary .badge").await, "cancelled");
    assert!(page.text("main").await.contains("the wrong tag"));
    page.open(&url, "/apps/dev/devx/shop?refresh=off").await;
    assert!(page.text("main").await.contains("v2"), "it keeps what it has");
    // Who may not act is offered nothing, and gets no form.
    page.open(&url, "/account").await;
    page.press("Sign out").await;
    page.scripts(true).await;
    signs_in(&page, &deployer, &url, "eve", &format!("/rollouts/{id}")).await;
    assert_eq!(page.count("nav.acts a").await, 0);
    for act in ["retry", "cancel", "undo", "approve"] {
        page.open(&url, &format!("/rollouts/{id}/{act}")).await;
        assert!(page.text("main").await.contains("may not deploy"), "{act}");
        assert_eq!(page.count("form").await, 0, "{act}");
    }
    deployer.settled().await;
}

#[tokio::test]
async fn people_pause_resume_approve_and_undo_a_rollout() {
    let Some(page) = Page::take("acts in a browser").await else { return };
    let (deployer, url) = for_people().await;
    deployer
        .github
        .repository("example/shop")
        .commit(&two_targets("", "    - approval: {team: example/ops}\n"));
    deployer.github.joins("ada", "example/ops");
    let id = starts_rollout(&deployer, "v1").await;
    signs_in(&page, &deployer, &url, "ada", "/").await;
    let acts = async |act: &str, words: &[&str], button: &str| {
        page.open(&url, &format!("/rollouts/{id}/{act}")).await;
        confirms(&page, words, "as planned", button).await;
        assert_act(&deployer, &format!("rollout-{act}"), "ada", "as planned").await;
        deployer.works().await;
    };
    page.open(&url, &format!("/rollouts/{id}")).await;
    assert_eq!(page.texts("nav.acts a").await, ["Pause", "Cancel"]);
    acts("pause", &["stops it before its next target"], "Pause").await;
    page.open(&url, &format!("/rollouts/{id}/approve")).await;
    assert!(page.text("main").await.contains("This cannot be done to it now"));
    acts("resume", &["lets it go on"], "Resume").await;
    // Until the first target is complete; then the rollout waits for people, for as long as they like.
    for _ in 0..60 {
        deployer.works().await;
        deployer.clock.advance(Duration::from_secs(10));
    }
    acts("approve", &["lets it pass the gate", "example/ops"], "Approve").await;
    deployer.settle().await;
    acts("undo", &["2 of 2 targets are complete", "former revision back"], "Undo").await;
    deployer.settle().await;
    page.open(&url, &format!("/rollouts/{id}/nothing")).await;
    assert!(page.text("main").await.contains("no such act"));
    deployer.settled().await;
}

#[tokio::test]
async fn a_person_deploys_a_build_at_an_enterprise_server_with_and_without_scripts() {
    let Some(page) = Page::take("acts in a browser").await else { return };
    let (deployer, url) = Box::pin(for_people_of_enterprise()).await;
    deploys(&deployer, "v1").await;
    signs_in(&page, &deployer, &url, "ada", SHOP).await;
    page.press("Deploy").await;
    page.fill("#tag", "v2").await;
    page.fill("#ref", "main").await;
    // GitHub is asked for checks: first one that has not run, and with it the deployment is refused.
    page.run("document.querySelector('#checks').value = 'named'", json!([])).await;
    page.press("Show what changes").await;
    assert!(page.text("main").await.contains("Name the checks that must have succeeded"));
    assert_eq!(page.count("form.act").await, 0, "nothing to confirm");
    page.fill("#contexts", "build\nlint (ubuntu, 20)").await;
    page.press("Show what changes").await;
    page.screenshot("deploy-at-github").await;
    let words =
        ["unless these checks of main have succeeded: build, lint (ubuntu, 20). It does not wait"];
    confirms(&page, &words, "a good one", "Deploy").await;
    let refused = page.text("#refused").await;
    assert!(
        refused.contains("the required checks have not succeeded on main: build is pending"),
        "{refused}"
    );
    assert_eq!(page.attribute("#reason", "value").await.as_deref(), Some("a good one"));
    let console = page.console().await;
    assert!(console.iter().all(|line| line.contains("a status of 409")), "{console:?}");
    page.fill("#contexts", "").await;
    page.run("document.querySelector('#checks').value = 'none'", json!([])).await;
    page.press("Show what changes").await;
    let words = [
        "v2 is deployed to prod-cluster-1, where v1 is live",
        "created at GitHub in your name",
        "No check is required: main is deployed also where checks have failed or still run",
        "Deployment shop",
    ];
    confirms(&page, &words, "a better one", "Deploy").await;
    let path = page.path().await;
    assert!(path.starts_with("/deployments/"), "{path}");
    assert_act(&deployer, "deploy", "ada", "a better one").await;
    deployer.settle().await;
    page.reload().await;
    let text = page.text("main").await;
    assert!(text.contains("succeeded") && text.contains("ada"), "{text}");
    // Its event comes later: the page of the app tells of it, and leads to it.
    deployer.clock.advance(Duration::from_secs(1));
    deployer.github.webhooks(Webhooks::Held);
    page.scripts(false).await;
    page.resize(400, 800).await;
    page.open(&url, &format!("{SHOP}/deploy?tag=v3&ref=main")).await;
    confirms(&page, &["v3 is deployed to", "where v2 is live"], "an even better one", "Deploy")
        .await;
    let path = page.path().await;
    assert!(path.starts_with(&format!("{SHOP}?created=")), "{path}");
    assert!(page.text("#created").await.contains("Its event has not arrived here yet"));
    // Without scripts it loads itself again, which axe-core would have people ask for.
    page.open(&url, &format!("{path}&refresh=off")).await;
    page.assert_accessible().await;
    page.assert_fits().await;
    page.screenshot("created-at-github-400").await;
    assert_act(&deployer, "deploy", "ada", "an even better one").await;
    deployer.github.webhooks(Webhooks::Delivered);
    deployer.github.release(&[0]).await;
    let id = deployer.deployments().await.pop().unwrap().id.to_string();
    page.reload().await;
    page.press(&id).await;
    assert_eq!(page.path().await, format!("/deployments/{id}"));
    assert_eq!(page.console().await, Vec::<String>::new());
    deployer.settle().await;
    deployer.settled().await;
}

/// A service for this machine alone needs no sign-in, and its forms come from its own pages nevertheless.
#[tokio::test]
async fn a_build_is_deployed_where_the_code_host_is_local() {
    let Some(page) = Page::take("acts in a browser").await else { return };
    let mut deployer = Deployer::prepared_local().await;
    let url = has_a_name(&mut deployer);
    deployer.starts().await;
    let shop = deployer.service_repository("example/shop");
    shop.somebody_writes(".weave.yaml", &waml("shop"));
    let body = json!({"repository": "example/shop", "ref": "main", "tag": "v1", "target": TARGET});
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let post = client.post(format!("{}/api/v1/deployments", deployer.url())).json(&body);
    assert_eq!(post.send().await.unwrap().status(), 202);
    deployer.settle().await;
    deployer.clock.advance(Duration::from_secs(1));
    page.open(&url, &format!("{SHOP}/deploy?tag=v2&ref=main")).await;
    page.screenshot("deploy").await;
    let words = ["v2 is deployed to prod-cluster-1, where v1 is live", "Deployment"];
    confirms(&page, &words, "a better one", "Deploy").await;
    assert!(page.path().await.starts_with("/deployments/"), "{}", page.url().await);
    deployer.settle().await;
    page.reload().await;
    assert!(page.text("main").await.contains("succeeded"));
    let entry = last_act(&deployer).await;
    assert_eq!((&*entry.act, entry.by.via), ("deploy", AuthMethod::Loopback));
    deployer.settled().await;
}
