//! What workloads of others may cause, and what not: annotations are text that anybody with rights in a cluster writes.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use the_deployer::model::deployment::State;

use crate::harness::deployer::Deployer;
use crate::harness::github::Fault;
use crate::progress::cluster::Watched;
use crate::progress::environments::{
    ALL, NONE, ON, brings, brings_with, opens, rests, told, until, until_told,
};

#[tokio::test]
async fn annotations_that_are_not_meant_to_be_do_nothing() {
    let settings = ", progress: {previews: {repositories: ['example/w*']}}";
    Watched::on_both_with(settings, async |world| {
        let (web, number, sha) = opens(world).await;
        let other = world.deployer.github.repository("example/secret");
        let foreign = world.deployer.github.repository("evil/web");
        let absent = "0".repeat(40);
        let long = "a".repeat(1_000_000);
        let hostile = [
            json!({"the-deployer.dev/repository": "example/secret", "the-deployer.dev/commit": other.tip("main")}),
            json!({"the-deployer.dev/repository": "evil/web", "the-deployer.dev/commit": foreign.tip("main")}),
            json!({"the-deployer.dev/repository": "example/web", "the-deployer.dev/commit": absent}),
            json!({"the-deployer.dev/repository": "example/web", "the-deployer.dev/commit": long}),
            json!({"the-deployer.dev/repository": long, "the-deployer.dev/commit": sha}),
            json!({"the-deployer.dev/repository": "example/../web", "the-deployer.dev/commit": sha}),
            json!({
                "the-deployer.dev/repository": "example/web", "the-deployer.dev/commit": sha,
                "the-deployer.dev/pull-request": "1/../../2",
            }),
        ];
        let hostile_count = hostile.len();
        for (n, annotations) in hostile.into_iter().enumerate() {
            brings_with(world, &format!("hostile-{n}"), 1, ALL, |one| *one = annotations);
        }
        // What is meant to be is told beside them.
        brings(world, "web", &sha, 1, ALL);
        until_told(world, &web, &sha, "web", "success").await;
        rests(world).await;
        for n in 0..hostile_count {
            assert!(told(&web, &sha, &format!("hostile-{n}")).is_empty(), "hostile-{n}");
        }
        assert!(other.commit_statuses(&other.tip("main")).is_empty());
        assert!(foreign.commit_statuses(&foreign.tip("main")).is_empty());
        let tries = world.deployer.github.count(&format!("statuses/{absent}"));
        assert!((1..=10).contains(&tries), "{tries}");
        assert_eq!(web.comments(number).len(), 1);
        // A later state of the commit that is not there asks for nothing any more.
        rests(world).await;
        assert_eq!(world.deployer.github.count(&format!("statuses/{absent}")), tries);
    })
    .await;
}

#[tokio::test]
async fn a_repository_that_the_app_is_not_installed_on_gets_nothing() {
    let mut deployer = Deployer::prepared().await;
    deployer.acts_as_app();
    let world = Watched::start(deployer, ON).await;
    let (web, number, sha) = opens(&world).await;
    let far = world.deployer.github.repository("far/web");
    world.deployer.github.uninstalled("far");
    let tip = far.tip("main");
    brings_with(&world, "far", 1, ALL, |one| {
        *one = json!({"the-deployer.dev/repository": "far/web", "the-deployer.dev/commit": tip});
    });
    brings(&world, "web", &sha, 1, ALL);
    until_told(&world, &web, &sha, "web", "success").await;
    rests(&world).await;
    assert!(far.commit_statuses(&tip).is_empty());
    // An App's own comment is found again by the App, whatever others paste into theirs.
    let (id, author, body) = web.comments(number).pop().unwrap();
    assert_eq!(author, "the-deployer[bot]");
    web.is_commented(number, "octocat", &body);
    let next = web.updates_pull_request(number, &[("page.html", "two")]).await;
    brings(&world, "web", &next, 2, ALL);
    until_told(&world, &web, &next, "web", "success").await;
    rests(&world).await;
    let comments = web.comments(number);
    assert_eq!(comments.len(), 2, "{comments:?}");
    assert!(comments[0].0 == id && comments[0].2.contains(&next[..8]));
    assert_eq!(comments[1].2, body, "what a person wrote stays");
    world.ends().await;
}

#[tokio::test]
async fn a_comment_is_found_again_by_its_mark_and_not_in_what_others_wrote() {
    let mut world = Watched::start(Deployer::prepared().await, ON).await;
    let (web, number, sha) = opens(&world).await;
    brings(&world, "web", &sha, 1, ALL);
    until_told(&world, &web, &sha, "web", "success").await;
    rests(&world).await;
    let (id, _, body) = web.comments(number).pop().unwrap();
    web.is_commented(number, "octocat", &body);
    let next = web.updates_pull_request(number, &[("page.html", "two")]).await;
    world.stop.cancel();
    world.server.watched(0).await;
    world.deployer.dies();
    world.deployer.loses_its_record().await;
    world.deployer.starts().await;
    world.follow();
    brings(&world, "web", &next, 2, NONE);
    let web = world.deployer.github.repository("example/web");
    until_told(&world, &web, &next, "web", "pending").await;
    brings(&world, "web", &next, 2, ALL);
    until_told(&world, &web, &next, "web", "success").await;
    rests(&world).await;
    let comments = web.comments(number);
    assert_eq!(comments.len(), 2, "{comments:?}");
    assert!(comments[0].0 == id && comments[0].2.contains(&next[..8]), "{comments:?}");
    assert_eq!(comments[1].2, body, "what a person wrote stays");
    world.ends().await;
}

#[tokio::test]
async fn a_comment_that_a_person_deletes_comes_back_with_the_next_commit() {
    Watched::on_both_with(ON, async |world| {
        let (web, number, sha) = opens(world).await;
        brings(world, "web", &sha, 1, ALL);
        until_told(world, &web, &sha, "web", "success").await;
        rests(world).await;
        web.loses_comments(number);
        // The same commit is rolled out again.
        brings(world, "web", &sha, 2, NONE);
        until_told(world, &web, &sha, "web", "pending").await;
        world.deployer.clock.advance(Duration::from_secs(9));
        brings(world, "web", &sha, 2, ALL);
        until_told(world, &web, &sha, "web", "success").await;
        rests(world).await;
        assert!(web.comments(number).is_empty(), "{:?}", web.comments(number));
        let next = web.updates_pull_request(number, &[("page.html", "two")]).await;
        brings(world, "web", &next, 3, ALL);
        until_told(world, &web, &next, "web", "success").await;
        rests(world).await;
        assert_eq!(web.comments(number).len(), 1);
    })
    .await;
}

#[tokio::test]
async fn pull_requests_from_forks_closed_ones_and_those_of_others() {
    Watched::on_both_with(ON, async |world| {
        let (web, number, sha) = opens(world).await;
        web.comes_from_fork(number, "somebody");
        brings(world, "web", &sha, 1, ALL);
        until_told(world, &web, &sha, "web", "success").await;
        rests(world).await;
        assert_eq!(web.comments(number).len(), 1, "whoever may deploy it may say so");
        // The commit is none of that pull request's, which has another branch.
        let other = web.opens_pull_request("other", &[("other.html", "one")]).await;
        let closed = web.opens_pull_request("closed", &[("closed.html", "one")]).await;
        web.closes_pull_request(closed).await;
        let tip = web.tip("closed");
        let names = [("api", &sha, other), ("old", &tip, closed), ("none", &sha, 4711)];
        for (name, sha, number) in names {
            brings_with(world, name, 1, ALL, |annotations| {
                annotations["the-deployer.dev/commit"] = json!(sha);
                annotations["the-deployer.dev/pull-request"] = json!(number.to_string());
            });
            until_told(world, &web, sha, name, "success").await;
        }
        rests(world).await;
        assert!(web.comments(other).is_empty() && web.comments(closed).is_empty());
        assert_eq!(web.comments(number).len(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_hour_without_github_is_told_as_it_stands_then() {
    Watched::on_both_with(ON, async |world| {
        let (web, number, sha) = opens(world).await;
        let next = web.updates_pull_request(number, &[("page.html", "two")]).await;
        world.deployer.github.down_for(Duration::from_hours(1));
        let waits = async |count: u64| {
            for _ in 0..500 {
                if world.deployer.stepped().store().environments_waiting().await.unwrap() >= count {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            panic!("nothing waits");
        };
        brings(world, "web", &sha, 1, NONE);
        waits(1).await;
        world.deployer.works().await;
        brings(world, "web", &next, 2, ALL);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        waits(2).await;
        world.deployer.works_for(SignedDuration::from_mins(70)).await;
        rests(world).await;
        assert_eq!(told(&web, &next, "web"), ["success"]);
        // Its first state may have arrived before: so it gets its end, and no state that waits.
        let former = told(&web, &sha, "web");
        assert!(former.is_empty() || former == ["error"], "{former:?}");
        assert_eq!(web.comments(number).len(), 1);
    })
    .await;
}

#[tokio::test]
async fn thousands_of_workloads_name_one_commit_and_deployments_go_on() {
    Watched::on_both_with(ON, async |world| {
        let (web, number, sha) = opens(world).await;
        for n in 0..300 {
            brings(world, &format!("flood-{n}"), &sha, 1, ALL);
        }
        until(world, "the flood", || !web.commit_statuses(&sha).is_empty()).await;
        let shop = world.app("shop");
        let id = world.push(&shop, "v1").await;
        world.sync(id, "shop", 1).await;
        world.bring(id, "shop", 1, ALL).await;
        world.reaches(id, State::Succeeded).await;
        rests(world).await;
        let states = world.deployer.github.told(id);
        assert_eq!(states.last().unwrap(), "success", "{states:?}");
        // Its messages did not wait for the flood.
        let seen = world.deployer.github.seen();
        let last = |words: &str| seen.iter().rposition(|one| one.line.contains(words)).unwrap();
        assert!(last(&format!("deployments/{id}/statuses")) < last(&format!("statuses/{sha}")));
        let contexts: std::collections::BTreeSet<String> =
            web.commit_statuses(&sha).into_iter().map(|(context, ..)| context).collect();
        assert_eq!(contexts.len(), 50);
        assert_eq!(web.comments(number).len(), 1);
        assert!(world.deployer.github.busiest_hour() < 300);
    })
    .await;
}

#[tokio::test]
async fn what_github_applies_late_hides_no_end_and_makes_no_second_comment() {
    Watched::on_both_with(ON, async |world| {
        let (web, number, sha) = opens(world).await;
        world.deployer.github.fails(1, "POST statuses", Fault::DoneLate(30));
        world.deployer.github.fails(1, "POST comments", Fault::DoneLate(30));
        brings(world, "web", &sha, 1, NONE);
        let met = world.deployer.github.met("POST statuses");
        until(world, "the first status", || world.deployer.github.count("statuses") > 0).await;
        met.await;
        brings(world, "web", &sha, 1, ALL);
        rests(world).await;
        assert_eq!(told(&web, &sha, "web").last().unwrap(), "success");
        assert_eq!(web.comments(number).len(), 1);
    })
    .await;
}
