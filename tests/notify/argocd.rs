//! A cluster's Argo CD hears of what is pushed for it: the whole service, an Argo CD that reads
//! events as Argo CD does, and the clock moved by hand.

mod clusters; // several of them

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use crate::harness::argocd::{ArgoCd, Came, SECRET};
use crate::harness::deployer::Deployer;
use crate::harness::events::{Event, waml};
use crate::harness::git::Bare;
use crate::harness::git_host::{GitHost, TOKEN};
use crate::harness::process::{Home, killed_in_time};

const TARGET: &str = "prod-cluster-1";
const SINK: &str = "argocd/prod-cluster-1";

fn cluster(name: &str, argocd: &ArgoCd) -> String {
    format!(
        "- name: {name}\n  environment: development\n  domain: {name}.example.com\n  \
         argocd: {{webhook: {{url: \"{}\", secret: {{env: ARGOCD}}}}}}\n",
        argocd.url()
    )
}

/// The service with one cluster, whose Argo CD wants to hear.
async fn told() -> (Deployer, ArgoCd) {
    let (mut deployer, argocd) = prepared().await;
    deployer.starts().await;
    (deployer, argocd)
}

async fn prepared() -> (Deployer, ArgoCd) {
    let mut deployer = Deployer::prepared().await;
    let argocd = ArgoCd::start().await;
    let clusters = format!("clusters:\n{}", cluster(TARGET, &argocd));
    deployer.configure(|config| format!("{config}{clusters}"));
    deployer.variable("ARGOCD", SECRET);
    (deployer, argocd)
}

/// Somebody asks for a deployment of an app; nothing is worked off yet.
async fn asks(deployer: &Deployer, app: &str, tag: &str) -> i64 {
    asks_for(deployer, app, TARGET, tag).await
}

async fn asks_for(deployer: &Deployer, app: &str, target: &str, tag: &str) -> i64 {
    let repository = deployer.github.repository(&format!("example/{app}"));
    repository.commit(&(waml(app) + "  prod-2: {}\n"));
    // Ids of one moment are in no order.
    deployer.clock.advance(Duration::from_secs(1));
    repository.deploys(target, tag).await
}

async fn deploys(deployer: &Deployer, app: &str, tag: &str) {
    asks(deployer, app, tag).await;
    deployer.settle().await;
}

async fn removes(deployer: &Deployer, app: &str) {
    deployer.clock.advance(Duration::from_secs(1));
    let address = deployer.stepped().address();
    let url = format!("http://{address}/api/v1/apps/{TARGET}/devx/{app}/remove");
    let ask = json!({"reason": "moved away", "with_data": true});
    let answer = reqwest::Client::new().post(url).json(&ask).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
}

/// What became of the messages for Argo CD of the newest deployment.
async fn message(deployer: &Deployer) -> the_deployer::store::Notification {
    let newest = deployer.deployments().await.pop().unwrap();
    let all = deployer.stepped().store().messages(&newest.id).await.unwrap();
    let mut all = all.into_iter().filter(|told| told.sink.to_string() == SINK);
    let one = all.next().expect("a message for Argo CD");
    assert!(all.next().is_none(), "one message a deployment");
    one
}

async fn settled(deployer: &Deployer, argocd: &ArgoCd) {
    deployer.settled().await;
    argocd.settled();
}

/// What git itself says that a commit changed: each path, and how.
fn changed(bare: &Bare, commit: &str) -> Vec<String> {
    let arguments = ["diff-tree", "-r", "--root", "--no-commit-id", "--name-status", commit];
    let listing = bare.run(&arguments);
    let turned = |line: &str| {
        let (how, path) = line.split_once('\t').unwrap();
        format!("{path} {how}")
    };
    let mut all: Vec<String> = listing.lines().map(turned).collect();
    all.sort();
    all
}

/// That an event tells of a commit exactly as git does.
fn assert_exact(came: &Came, bare: &Bare) {
    let push = &came.push;
    assert_eq!(push.paths(), changed(bare, &push.after));
    let parents = bare.run(&["log", "-1", "--format=%P", &push.after]);
    match parents.trim() {
        "" => assert_eq!(push.before, "0".repeat(40)),
        parent => assert_eq!(push.before, parent),
    }
}

fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

#[tokio::test]
async fn a_push_refreshes_its_app_and_no_other_and_the_others_keep_what_they_have() {
    let (deployer, argocd) = told().await;
    deploys(&deployer, "shop", "v1").await;
    deploys(&deployer, "cart", "v1").await;
    let bare = deployer.manifests();
    let first = argocd.came();
    assert_eq!(first.len(), 2);
    argocd.syncs(&bare);
    deploys(&deployer, "shop", "v2").await;
    let came = argocd.came().pop().unwrap();
    assert_eq!(came.push.after, bare.tip());
    let (parent, cart) = ("apps-prod-cluster-1", "prod-cluster-1.devx.cart");
    assert_eq!(came.refreshed, names(["prod-cluster-1.devx.shop"]));
    assert_eq!(came.carried_over, names([parent, cart]), "are not rendered anew");
    deploys(&deployer, "third", "v1").await;
    let came = argocd.came().pop().unwrap();
    assert_eq!(came.refreshed, names([parent]), "has an Application more");
    for came in argocd.came() {
        assert_exact(&came, &bare);
        assert_eq!(came.push.r#ref, "refs/heads/main");
        assert_eq!(came.push.repository.clone_url, bare.0.display().to_string());
        assert_eq!(
            came.push.repository.html_url,
            came.push.repository.clone_url.replace(".git", "")
        );
    }
    let told = message(&deployer).await;
    assert_eq!(told.status.description(), format!("commit {}", bare.tip()));
    assert!(told.sent_at.is_some());
    settled(&deployer, &argocd).await;
}

#[tokio::test]
async fn a_deployment_that_changes_nothing_is_not_told() {
    let (deployer, argocd) = told().await;
    deploys(&deployer, "shop", "v1").await;
    deploys(&deployer, "shop", "v1").await;
    assert_eq!((deployer.deployments().await.len(), argocd.requests()), (2, 1));
    let cart = deployer.github.repository("example/cart");
    cart.commit(&waml("cart").replace("schema:", "schmea:"));
    cart.deploys(TARGET, "v1").await;
    deployer.settle().await;
    assert_eq!(argocd.requests(), 1, "nor is one that is refused");
    settled(&deployer, &argocd).await;
}

#[tokio::test]
async fn a_removal_is_told_with_every_path_that_is_gone() {
    let (deployer, argocd) = told().await;
    deploys(&deployer, "shop", "v1").await;
    deploys(&deployer, "cart", "v1").await;
    argocd.syncs(&deployer.manifests());
    removes(&deployer, "shop").await;
    deployer.settle().await;
    let came = argocd.came().pop().unwrap();
    assert_exact(&came, &deployer.manifests());
    assert!(came.push.paths().iter().all(|path| path.ends_with(" D")), "{:?}", came.push);
    assert_eq!(came.refreshed, names(["apps-prod-cluster-1", "prod-cluster-1.devx.shop"]));
    settled(&deployer, &argocd).await;
}

#[tokio::test]
async fn after_an_hour_without_argo_cd_it_hears_of_every_push_oldest_first() {
    let (deployer, argocd) = told().await;
    argocd.down(true);
    let mut asked = vec![];
    for n in 1..=12 {
        asked.push(asks(&deployer, &format!("app{n}"), "v1").await);
        deployer.works().await;
    }
    for _ in 0..60 {
        deployer.clock.advance(Duration::from_mins(1));
        deployer.works().await;
    }
    let told = asked.iter().filter_map(|asked| deployer.github.told(*asked).pop());
    assert_eq!(told.collect::<Vec<_>>(), ["success"; 12], "nobody waits for it");
    argocd.down(false);
    deployer.settle().await;
    let bare = deployer.manifests();
    let came = argocd.came();
    let told: BTreeSet<_> = came.iter().map(|came| came.push.after.clone()).collect();
    let made = bare.run(&["rev-list", "--reverse", "main"]);
    assert_eq!(told, made.lines().map(str::to_owned).collect());
    assert_eq!(came.len(), 12, "each once");
    for came in &came {
        assert_exact(came, &bare);
    }
    settled(&deployer, &argocd).await;
}

#[tokio::test]
async fn what_waits_for_a_busy_argo_cd_goes_in_the_order_of_the_pushes() {
    let (deployer, argocd) = told().await;
    argocd.will([503, 503]);
    for n in 1..=12 {
        asks(&deployer, &format!("app{n}"), "v1").await;
    }
    deployer.settle().await;
    let made = deployer.manifests().run(&["rev-list", "--reverse", "main"]);
    let told: Vec<_> = argocd.came().into_iter().map(|came| came.push.after).collect();
    assert_eq!(told, made.lines().collect::<Vec<_>>());
    settled(&deployer, &argocd).await;
}

#[tokio::test]
async fn while_the_secrets_differ_messages_wait_and_say_where_to_look() {
    let (deployer, argocd) = told().await;
    argocd.secret("another");
    let asked = asks(&deployer, "shop", "v1").await;
    deployer.works().await;
    assert_eq!(argocd.refused(), ["HMAC verification failed"]);
    assert_eq!(message(&deployer).await.sent_at, None);
    assert_eq!(deployer.github.told(asked).last().unwrap(), "success");
    argocd.secret(SECRET);
    deployer.settle().await;
    assert!(message(&deployer).await.sent_at.is_some());
    assert_eq!(argocd.came().len(), 1);
    settled(&deployer, &argocd).await;
}

#[tokio::test]
async fn an_event_that_is_too_large_for_a_proxy_is_put_aside_and_people_see_it() {
    let (deployer, argocd) = told().await;
    argocd.will([413]);
    deploys(&deployer, "shop", "v1").await;
    let reason = "Argo CD of prod-cluster-1 does not take this event: it answered 413";
    assert_eq!(message(&deployer).await.parked.as_deref(), Some(reason));
    assert_eq!(deployer.stepped().store().depth().await.unwrap().parked, 1);
    deploys(&deployer, "shop", "v2").await;
    assert_eq!(argocd.came().len(), 1, "the next has its turn");
    deployer.github.settled();
    argocd.settled();
}

#[tokio::test]
async fn a_wrong_path_is_not_taken_for_an_argo_cd_that_heard() {
    for path in ["/api/hook", "/"] {
        let (mut deployer, argocd) = prepared().await;
        deployer.configure(|config| config.replace("/api/webhook", path));
        deployer.starts().await;
        asks(&deployer, "shop", "v1").await;
        deployer.works().await;
        let (requests, sent) = (argocd.requests(), message(&deployer).await.sent_at);
        assert_eq!((requests, sent), (1, None), "{path}");
        deployer.github.settled();
    }
}

/// The service with its manifests on that host.
async fn behind(host: &GitHost) -> (Deployer, ArgoCd, Bare) {
    let bare = host.create("m.git");
    let (mut deployer, argocd) = prepared().await;
    let url = host.url("m.git");
    deployer.configure(|config| {
        format!(
            "{config}manifests:\n  repositories:\n  - {{name: main, url: \"{url}\", token: {{env: TOKEN}}}}\n"
        )
    });
    deployer.variable("TOKEN", TOKEN);
    deployer.starts().await;
    (deployer, argocd, bare)
}

async fn restarts_with_the_other_clone(deployer: &mut Deployer) {
    deployer.dies();
    deployer.changes_clones();
    deployer.starts().await;
}

/// Two processes, each with a clone of its own: one pushes, and the other sends the event.
#[tokio::test]
async fn what_another_process_has_pushed_is_told_exactly() {
    let host = GitHost::start().await;
    let (mut deployer, argocd, bare) = behind(&host).await;
    deploys(&deployer, "shop", "v1").await;
    restarts_with_the_other_clone(&mut deployer).await;
    deploys(&deployer, "cart", "v1").await;
    restarts_with_the_other_clone(&mut deployer).await;
    argocd.down(true);
    asks(&deployer, "shop", "v2").await;
    deployer.works().await;
    assert_eq!((bare.commits(), argocd.came().len()), (3, 2));
    restarts_with_the_other_clone(&mut deployer).await;
    argocd.down(false);
    deployer.settle().await;
    let came = argocd.came().pop().unwrap();
    assert_eq!(came.push.after, bare.tip());
    assert_exact(&came, &bare);
    argocd.down(true);
    removes(&deployer, "cart").await;
    deployer.works().await;
    assert_eq!((bare.commits(), argocd.came().len()), (4, 3));
    restarts_with_the_other_clone(&mut deployer).await;
    argocd.down(false);
    deployer.settle().await;
    let came = argocd.came().pop().unwrap();
    assert_eq!(came.push.after, bare.tip());
    assert_exact(&came, &bare);
    deployer.github.settled();
    argocd.settled();
}

/// The clone is lost while messages wait: the commit is not here any more, and the record is.
#[tokio::test]
async fn a_commit_that_is_not_here_any_more_is_told_by_its_record() {
    let host = GitHost::start().await;
    let (mut deployer, argocd, bare) = behind(&host).await;
    deploys(&deployer, "shop", "v1").await;
    argocd.syncs(&bare);
    let came = argocd.came().pop().unwrap();
    assert_exact(&came, &bare);
    argocd.down(true);
    asks(&deployer, "shop", "v2").await;
    deployer.works().await;
    bare.somebody_writes("theirs.md", "theirs");
    deployer.dies();
    deployer.forgets_clones();
    deployer.starts().await;
    argocd.down(false);
    deployer.settle().await;
    let came = argocd.came().pop().unwrap();
    assert_eq!(came.push.after, bare.run(&["rev-parse", "main~1"]).trim());
    assert_eq!(came.push.before, "", "others keep nothing that may not be so");
    let paths = came.push.paths();
    assert!(paths.contains(&"apps/prod-cluster-1/devx.shop.yaml M".to_owned()), "{paths:?}");
    assert!(came.refreshed.contains("prod-cluster-1.devx.shop"), "{came:?}");
    assert_eq!(deployer.stepped().store().depth().await.unwrap().unsent, 0);
    deployer.github.settled();
    argocd.settled();
}

/// The process dies between the push and its record, and somebody pushes before the next one looks.
#[tokio::test]
async fn after_a_crash_the_push_is_told_although_the_record_names_a_later_commit() {
    killed_in_time(dies_before_its_record).await;
}

/// False when the push was recorded before the process was dead; then it is told exactly.
async fn dies_before_its_record() -> bool {
    let argocd = ArgoCd::start().await;
    let clusters = cluster(TARGET, &argocd).replace("{env: ARGOCD}", "{file: argocd-secret}");
    let home = Home::configured(&format!("clusters:\n{clusters}"));
    std::fs::write(home.path("argocd-secret"), SECRET).unwrap();
    let process = home.start_doomed("\"push took").await;
    // However late it dies: it has not told.
    argocd.down(true);
    let event = Event::of_app(&home, 1, "shop");
    event.asked(&process).await;
    process.dead().await;
    let bare = home.manifests();
    assert_eq!(bare.commits(), 1);
    let pushed = changed(&bare, "main");
    bare.somebody_writes("theirs.md", "theirs");
    argocd.down(false);
    let process = home.start().await;
    let ours = process.deployments().await[0]["id"].as_str().unwrap().to_owned();
    process.ended(&ours).await;
    process.until("the event", async || argocd.came().pop()).await;
    let [came] = &argocd.came()[..] else { panic!("once: {:?}", argocd.came()) };
    assert_eq!(came.push.paths(), pushed);
    let is_exact = came.push.before == "0".repeat(40);
    assert!(is_exact || came.push.before.is_empty(), "{}", came.push.before);
    process.kill();
    argocd.settled();
    !is_exact
}
