//! Preview environments: workloads of others name a commit, which gets statuses, and a pull request, which gets one
//! comment when all of them are ready.

use std::time::Duration;

use serde_json::json;
use the_deployer::cluster::object::WatchedKind;

use crate::harness::deployer::Deployer;
use crate::harness::github::{Fault, Repository};
use crate::progress::cluster::{Pods, TARGET, Watched, replica_set, unpullable_pod, workload};

/// The time at which Kubernetes made the objects.
const CREATED: &str = "2026-11-21T10:00:00Z";
pub(crate) const ON: &str = ", progress: {previews: true}";
pub(crate) const NONE: Pods = Pods { updated: 1, available: 0 };
pub(crate) const ALL: Pods = Pods { updated: 2, available: 2 };
const LINK: &str = "https://pr-1.preview.example.com";

/// A repository with a pull request, whose head is the commit; and the cluster is watched.
pub(crate) async fn opens(world: &Watched) -> (Repository<'_>, i64, String) {
    // What is complete at the first look is not told.
    world.server.watched(WatchedKind::ALL.len()).await;
    let web = world.deployer.github.repository("example/web");
    let number = web.opens_pull_request("change", &[("page.html", "one")]).await;
    let sha = web.tip("change");
    (web, number, sha)
}

/// Somebody's tool brings a workload that names a commit, and its pods so far.
pub(crate) fn brings(world: &Watched, name: &str, sha: &str, generation: u32, pods: Pods) {
    brings_with(world, name, generation, pods, |annotations| {
        annotations["the-deployer.dev/commit"] = json!(sha);
    });
}

pub(crate) fn brings_with(
    world: &Watched,
    name: &str,
    generation: u32,
    pods: Pods,
    change: impl FnOnce(&mut serde_json::Value),
) {
    world.server.apply(replica_set(name, generation, 2, CREATED));
    for former in 1..generation {
        world.server.apply(replica_set(name, former, 0, CREATED));
    }
    let mut object = workload(name, "none", generation, Some(pods), CREATED);
    object["metadata"]["labels"] = json!({});
    object["metadata"]["annotations"] = json!({
        "the-deployer.dev/repository": "example/web", "the-deployer.dev/pull-request": "1",
        "the-deployer.dev/link": LINK,
        "deployment.kubernetes.io/revision": generation.to_string(),
    });
    change(&mut object["metadata"]["annotations"]);
    world.server.apply(object);
}

/// The states that a commit was told about a workload, oldest first.
pub(crate) fn told(web: &Repository<'_>, sha: &str, name: &str) -> Vec<String> {
    let context = format!("the-deployer/preview/{TARGET}/devx/deployment/{name}");
    let of_it = web.commit_statuses(sha).into_iter().filter(|(one, ..)| *one == context);
    of_it.map(|(_, state, _)| state).collect()
}

/// Works until that holds.
pub(crate) async fn until(world: &Watched, what: &str, holds: impl Fn() -> bool) {
    for _ in 0..1500 {
        world.deployer.works().await;
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what} never comes");
}

/// Works until the last state that a commit was told about a workload is that one.
pub(crate) async fn until_told(
    world: &Watched,
    web: &Repository<'_>,
    sha: &str,
    name: &str,
    state: &str,
) {
    let is_told = || told(web, sha, name).last().is_some_and(|last| last == state);
    until(world, &format!("{state} of {name}"), is_told).await;
}

/// Gives what was recorded the time to be recorded, and does all that is due.
pub(crate) async fn rests(world: &Watched) {
    tokio::time::sleep(Duration::from_millis(1500)).await;
    world.deployer.settle().await;
}

/// The workload's image cannot be pulled, until it is given up.
async fn fails(world: &Watched, web: &Repository<'_>, name: &str, sha: &str, generation: u32) {
    brings(world, name, sha, generation, NONE);
    world.server.apply(unpullable_pod(name, generation));
    let is_named = || {
        let last = web.commit_statuses(sha).pop();
        last.is_some_and(|(_, state, text)| state == "pending" && text.contains("image"))
    };
    until(world, "the cause", is_named).await;
    let mut object = workload(name, "none", generation, Some(NONE), CREATED);
    object["metadata"]["labels"] = json!({});
    object["metadata"]["annotations"] = json!({
        "the-deployer.dev/repository": "example/web", "the-deployer.dev/pull-request": "1",
        "the-deployer.dev/commit": sha, "deployment.kubernetes.io/revision": generation.to_string(),
    });
    object["status"]["conditions"] = json!([
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"},
    ]);
    world.server.apply(object);
    for _ in 0..60 {
        world.deployer.works().await;
        if told(web, sha, name).last().unwrap() == "failure" {
            break;
        }
        world.deployer.clock.advance(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    until_told(world, web, sha, name, "failure").await;
}

/// The process is killed and starts again.
async fn restarts(world: &mut Watched) {
    world.stop.cancel();
    world.server.watched(0).await;
    world.deployer.dies();
    world.deployer.starts().await;
    world.follow();
    world.server.watched(WatchedKind::ALL.len()).await;
}

#[tokio::test]
async fn a_commit_is_told_the_start_and_the_end_and_the_pull_request_gets_a_comment() {
    Watched::on_both_with(ON, async |world| {
        let (web, number, sha) = opens(world).await;
        brings(world, "web", &sha, 1, NONE);
        until_told(world, &web, &sha, "web", "pending").await;
        let (_, _, description) = web.commit_statuses(&sha).pop().unwrap();
        assert!(description.starts_with("1 of 2 updated, 0 available"), "{description}");
        assert!(web.comments(number).is_empty());
        world.deployer.clock.advance(Duration::from_secs(42));
        brings(world, "web", &sha, 1, ALL);
        until_told(world, &web, &sha, "web", "success").await;
        rests(world).await;
        assert_eq!(told(&web, &sha, "web"), ["pending", "success"]);
        let (_, _, description) = web.commit_statuses(&sha).pop().unwrap();
        assert!(description.starts_with("2 of 2 available, after 4"), "{description}");
        let comments = web.comments(number);
        let [(_, author, body)] = &comments[..] else { panic!("{comments:?}") };
        assert_eq!(author, "deployer-bot");
        assert!(body.contains(&format!("<{LINK}>")) && body.contains(&sha[..8]), "{body}");
        assert!(body.contains("`Deployment web`") && body.contains("2 of 2 available"), "{body}");
    })
    .await;
}

#[tokio::test]
async fn a_commit_that_is_none_of_the_pull_requests_does_not_silence_the_others() {
    Watched::on_both_with(ON, async |world| {
        let (web, number, sha) = opens(world).await;
        brings(world, "web", &sha, 1, ALL);
        world.deployer.clock.advance(Duration::from_secs(1));
        // It names the pull request, and a commit of the branch that the pull request is for.
        brings(world, "stray", &web.tip("main"), 1, ALL);
        until_told(world, &web, &sha, "web", "success").await;
        rests(world).await;
        let comments = web.comments(number);
        assert_eq!(comments.len(), 1, "{comments:?}");
        assert!(format!("{comments:?}").contains(&sha[..7]), "{comments:?}");
    })
    .await;
}

#[tokio::test]
async fn a_commit_of_others_that_is_never_ready_or_fails_does_not_hold_the_comment_back() {
    Watched::on_both_with(", progress: {previews: true, patience: 5s}", async |world| {
        let (web, number, sha) = opens(world).await;
        brings(world, "web", &sha, 1, NONE);
        until_told(world, &web, &sha, "web", "pending").await;
        world.deployer.clock.advance(Duration::from_secs(1));
        let foreign = web.tip("main");
        brings(world, "stray", &foreign, 1, NONE);
        until_told(world, &web, &foreign, "stray", "pending").await;
        brings(world, "web", &sha, 1, ALL);
        until_told(world, &web, &sha, "web", "success").await;
        rests(world).await;
        let first = web.comments(number);
        let [(_, _, body)] = first.as_slice() else { panic!("{first:?}") };
        assert!(body.contains(&sha[..8]) && !body.contains("stray"), "{body}");
        // That it fails is a matter of its own commit alone.
        fails(world, &web, "stray", &foreign, 1).await;
        rests(world).await;
        assert_eq!(web.comments(number), first);
    })
    .await;
}

#[tokio::test]
async fn a_workload_that_keeps_an_older_commit_of_the_pull_request_counts_not_at_all() {
    Watched::on_both_with(ON, async |world| {
        let (web, number, older) = opens(world).await;
        let head = web.updates_pull_request(number, &[("page.html", "two")]).await;
        brings(world, "web", &head, 1, NONE);
        until_told(world, &web, &head, "web", "pending").await;
        // The tool brings what has not changed with the commit that changed it last, and after the rest.
        world.deployer.clock.advance(Duration::from_secs(1));
        brings(world, "api", &older, 1, NONE);
        until_told(world, &web, &older, "api", "pending").await;
        brings(world, "web", &head, 1, ALL);
        until_told(world, &web, &head, "web", "success").await;
        rests(world).await;
        let first = web.comments(number);
        let [(_, _, body)] = first.as_slice() else { panic!("{first:?}") };
        assert!(body.contains(&head[..8]) && !body.contains("`Deployment api`"), "{body}");
        brings(world, "api", &older, 1, ALL);
        until_told(world, &web, &older, "api", "success").await;
        rests(world).await;
        assert_eq!(web.comments(number), first, "it is about the head");
        // No workload carries the next head: the comment is about the commits that are there.
        web.updates_pull_request(number, &[("README.md", "docs")]).await;
        let next = web.opens_pull_request("docs", &[("docs.html", "one")]).await;
        let built = web.tip("docs");
        web.updates_pull_request(next, &[("README.md", "docs")]).await;
        brings_with(world, "docs", 1, ALL, |annotations| {
            annotations["the-deployer.dev/commit"] = json!(built);
            annotations["the-deployer.dev/pull-request"] = json!(next.to_string());
        });
        until_told(world, &web, &built, "docs", "success").await;
        rests(world).await;
        let comments = web.comments(next);
        assert_eq!(comments.len(), 1, "{comments:?}");
        assert!(comments[0].2.contains(&built[..8]), "{comments:?}");
    })
    .await;
}

#[tokio::test]
async fn several_workloads_of_a_pull_request_get_one_comment_which_the_next_commit_changes() {
    Watched::on_both_with(ON, async |world| {
        let (web, number, sha) = opens(world).await;
        brings(world, "web", &sha, 1, NONE);
        brings(world, "api", &sha, 1, NONE);
        until_told(world, &web, &sha, "api", "pending").await;
        brings(world, "web", &sha, 1, ALL);
        until_told(world, &web, &sha, "web", "success").await;
        rests(world).await;
        assert!(web.comments(number).is_empty(), "the other one is not ready");
        brings(world, "api", &sha, 1, ALL);
        until_told(world, &web, &sha, "api", "success").await;
        rests(world).await;
        let first = web.comments(number);
        assert_eq!(first.len(), 1, "{first:?}");
        assert!(first[0].2.contains("`Deployment web`") && first[0].2.contains("`Deployment api`"));

        let next = web.updates_pull_request(number, &[("page.html", "two")]).await;
        brings(world, "web", &next, 2, NONE);
        brings(world, "api", &next, 2, NONE);
        until_told(world, &web, &next, "web", "pending").await;
        until_told(world, &web, &next, "api", "pending").await;
        rests(world).await;
        assert_eq!(web.comments(number), first, "it stays while the next commit is brought");
        brings(world, "web", &next, 2, ALL);
        brings(world, "api", &next, 2, ALL);
        until_told(world, &web, &next, "web", "success").await;
        until_told(world, &web, &next, "api", "success").await;
        rests(world).await;
        let second = web.comments(number);
        assert_eq!(second.len(), 1, "{second:?}");
        assert_eq!(second[0].0, first[0].0, "the same comment");
        assert!(second[0].2.contains(&next[..8]) && !second[0].2.contains(&sha[..8]));
        assert_eq!(told(&web, &sha, "web"), ["pending", "success"], "it ran");
    })
    .await;
}

#[tokio::test]
async fn a_failure_is_told_with_its_cause_and_makes_no_comment_but_changes_one() {
    let settings = ", progress: {previews: true, patience: 5s}";
    Watched::on_both_with(settings, async |world| {
        let (web, number, sha) = opens(world).await;
        fails(world, &web, "web", &sha, 1).await;
        rests(world).await;
        assert!(web.comments(number).is_empty(), "{:?}", web.comments(number));
        let (_, _, cause) = web.commit_statuses(&sha).pop().unwrap();
        assert!(cause.contains("image"), "{cause}");

        let good = web.updates_pull_request(number, &[("page.html", "two")]).await;
        brings(world, "web", &good, 2, ALL);
        until_told(world, &web, &good, "web", "success").await;
        rests(world).await;
        let ready = web.comments(number);
        assert_eq!(ready.len(), 1, "{ready:?}");

        let bad = web.updates_pull_request(number, &[("page.html", "three")]).await;
        fails(world, &web, "web", &bad, 3).await;
        rests(world).await;
        let failed = web.comments(number);
        assert_eq!((failed.len(), failed[0].0), (1, ready[0].0));
        let body = &failed[0].2;
        assert!(body.contains("has failed") && body.contains("`Deployment web`"), "{body}");
        assert!(body.contains("image"), "{body}");
    })
    .await;
}

#[tokio::test]
async fn a_commit_that_comes_in_the_middle_ends_the_one_before() {
    Watched::on_both_with(ON, async |world| {
        let (web, number, sha) = opens(world).await;
        brings(world, "web", &sha, 1, NONE);
        until_told(world, &web, &sha, "web", "pending").await;
        let next = web.updates_pull_request(number, &[("page.html", "two")]).await;
        brings(world, "web", &next, 2, NONE);
        until_told(world, &web, &sha, "web", "error").await;
        let (_, _, text) = web.commit_statuses(&sha).pop().unwrap();
        assert_eq!(text, format!("superseded by {} before it was ready", &next[..8]));
        brings(world, "web", &next, 2, ALL);
        until_told(world, &web, &next, "web", "success").await;
        rests(world).await;
        assert_eq!(told(&web, &sha, "web"), ["pending", "error"]);
        assert_eq!(web.comments(number).len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_restart_at_each_point_and_a_list_of_everything_tell_nothing_again() {
    Watched::on_both_with(ON, async |world| {
        let number = opens(world).await.1;
        let sha = world.deployer.github.repository("example/web").tip("change");
        for (pods, state) in [(NONE, "pending"), (ALL, "success")] {
            {
                let web = world.deployer.github.repository("example/web");
                brings(world, "web", &sha, 1, pods);
                until_told(world, &web, &sha, "web", state).await;
            }
            restarts(world).await;
            rests(world).await;
            // The history is gone: everything is listed again.
            world.server.compact();
            world.server.cut_watches();
            world.server.watched(WatchedKind::ALL.len()).await;
            rests(world).await;
        }
        let web = world.deployer.github.repository("example/web");
        assert_eq!(told(&web, &sha, "web"), ["pending", "success"]);
        assert_eq!(web.comments(number).len(), 1);
        restarts(world).await;
        rests(world).await;
        let web = world.deployer.github.repository("example/web");
        assert_eq!((web.commit_statuses(&sha).len(), web.comments(number).len()), (2, 1));
    })
    .await;
}

#[tokio::test]
async fn an_end_that_a_process_misses_is_told_by_the_next_one() {
    Watched::on_both_with(ON, async |world| {
        let (web, number, sha) = opens(world).await;
        brings(world, "web", &sha, 1, NONE);
        until_told(world, &web, &sha, "web", "pending").await;
        world.stop.cancel();
        world.server.watched(0).await;
        world.deployer.dies();
        brings(world, "web", &sha, 1, ALL);
        world.deployer.starts().await;
        world.follow();
        let web = world.deployer.github.repository("example/web");
        until_told(world, &web, &sha, "web", "success").await;
        rests(world).await;
        assert_eq!(told(&web, &sha, "web"), ["pending", "success"]);
        assert_eq!(web.comments(number).len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_process_that_dies_while_it_tells_leaves_one_status_and_one_comment() {
    for point in ["statuses", "comments"] {
        Watched::on_both_with(ON, async |world| {
            let (web, number, sha) = opens(world).await;
            brings(world, "web", &sha, 1, ALL);
            if point == "comments" {
                until_told(world, &web, &sha, "web", "success").await;
                world.deployer.clock.advance(Duration::from_secs(6));
            }
            tokio::time::sleep(Duration::from_millis(1500)).await;
            let words = format!("POST {point}");
            world.deployer.github.fails(1, &words, Fault::SilentAfter);
            let met = world.deployer.github.met(&words);
            world.stop.cancel();
            world.server.watched(0).await;
            world.deployer.dies_when(met).await;
            world.deployer.starts().await;
            world.follow();
            rests(world).await;
            let web = world.deployer.github.repository("example/web");
            assert_eq!(told(&web, &sha, "web").iter().filter(|one| *one == "success").count(), 1);
            assert_eq!(web.comments(number).len(), 1, "{point}");
        })
        .await;
    }
}

#[tokio::test]
async fn two_replicas_tell_everything_once() {
    for mut deployer in Deployer::prepared_on_both().await {
        deployer.shares_database();
        let world = Watched::start(deployer, ON).await;
        let another = world.deployer.another().await;
        another.follow_clusters(
            the_deployer::cluster::watch::schedule::WatchLimits::default(),
            &world.stop,
        );
        let (web, number, sha) = opens(&world).await;
        let works = async |what: &str, holds: &dyn Fn() -> bool| {
            for _ in 0..1500 {
                let (one, other) =
                    tokio::join!(world.deployer.stepped().run_once(), another.run_once());
                one.unwrap();
                other.unwrap();
                if holds() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            panic!("{what} never comes");
        };
        brings(&world, "web", &sha, 1, NONE);
        Box::pin(works("pending", &|| told(&web, &sha, "web") == ["pending"])).await;
        brings(&world, "web", &sha, 1, ALL);
        Box::pin(works("success", &|| told(&web, &sha, "web") == ["pending", "success"])).await;
        world.deployer.clock.advance(Duration::from_secs(6));
        Box::pin(works("the comment", &|| web.comments(number).len() == 1)).await;
        for _ in 0..20 {
            Box::pin(works("nothing", &|| true)).await;
        }
        assert_eq!((web.commit_statuses(&sha).len(), web.comments(number).len()), (2, 1));
        world.ends().await;
    }
}

#[tokio::test]
async fn a_workload_that_is_deleted_leaves_no_status_that_waits_and_no_comment() {
    Watched::on_both_with(ON, async |world| {
        let (web, number, sha) = opens(world).await;
        brings(world, "web", &sha, 1, NONE);
        brings(world, "api", &sha, 1, ALL);
        until_told(world, &web, &sha, "web", "pending").await;
        until_told(world, &web, &sha, "api", "success").await;
        world.server.delete("Deployment", "devx", "web");
        until_told(world, &web, &sha, "web", "error").await;
        world.server.delete("Deployment", "devx", "api");
        rests(world).await;
        assert_eq!(told(&web, &sha, "api"), ["success"], "it ran");
        assert!(web.comments(number).is_empty());
        let cluster = TARGET.parse().unwrap();
        let records = world.deployer.stepped().store().workload_records(&cluster).await.unwrap();
        assert!(records.is_empty(), "{records:?}");
        // One that carries other annotations is another one, and one that carries none is nobody's.
        brings(world, "web", &sha, 1, NONE);
        until_told(world, &web, &sha, "web", "pending").await;
        brings_with(world, "web", 1, NONE, |annotations| *annotations = json!({}));
        until_told(world, &web, &sha, "web", "error").await;
    })
    .await;
}

#[tokio::test]
async fn a_cluster_that_is_no_longer_watched_leaves_no_status_that_waits() {
    Watched::on_both_with(ON, async |world| {
        let (web, _, sha) = opens(world).await;
        brings(world, "web", &sha, 1, NONE);
        until_told(world, &web, &sha, "web", "pending").await;
        world.stop.cancel();
        world.server.watched(0).await;
        world.configure_without_connection();
        world.deployer.dies();
        world.deployer.starts().await;
        world.deployer.works().await;
        world.deployer.clock.advance(Duration::from_mins(11));
        let web = world.deployer.github.repository("example/web");
        until_told(world, &web, &sha, "web", "error").await;
    })
    .await;
}
