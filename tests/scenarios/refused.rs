//! Tests that a final refusal of GitHub is reported, and the request not repeated again and again.

use jiff::SignedDuration;
use the_deployer::model::deployment::State;
use the_deployer::model::notice::Sink;

use crate::harness::deployer::Deployer;
use crate::harness::github::Fault;
use crate::scenarios::{TARGET, app};

/// Why messages of a deployment were put aside.
async fn parked(deployer: &Deployer, forge_id: i64) -> Vec<String> {
    let id = deployer.deployment(forge_id).await.id;
    let all = deployer.stepped().store().messages(&id).await.unwrap();
    all.into_iter().filter_map(|told| told.parked).collect()
}

/// A proxy wants a login: its page is no WAML, and no answer.
#[tokio::test]
async fn a_web_page_is_never_taken_for_a_waml() {
    let deployer = Deployer::start().await;
    let shop = app(&deployer, "shop");
    deployer.github.fails(3, "GET contents", Fault::WebPage);
    deployer.github.fails(1, "POST deployments statuses", Fault::WebPage);
    let id = shop.deploys(TARGET, "v1").await;
    deployer.stepped().step().await.unwrap();
    let record = deployer.deployment(id).await;
    assert!(record.summary.contains("a web page came in place of an answer"), "{}", record.summary);
    deployer.settle().await;
    assert_eq!(deployer.deployment(id).await.state, State::Succeeded);
    assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    deployer.settled().await;
}

#[tokio::test]
async fn an_archived_repository_is_named_and_told_nothing_more() {
    let deployer = Deployer::start().await;
    let shop = app(&deployer, "shop");
    shop.archived();
    let id = shop.deploys(TARGET, "v1").await;
    let time = deployer.settle().await;
    assert!(time < SignedDuration::from_mins(2), "it goes on asking: {time:#}");
    assert_eq!(deployer.deployment(id).await.state, State::Succeeded, "it can be read");
    let reasons = parked(&deployer, id).await;
    assert!(!reasons.is_empty());
    for reason in reasons {
        assert!(reason.contains("repository example/shop is archived"), "{reason}");
    }
    assert!(deployer.github.count("POST") <= 5, "each is asked once");
    deployer.github.left_open(id);
    deployer.github.settled();
}

#[tokio::test]
async fn what_github_never_takes_is_not_sent_again() {
    let deployer = Deployer::start().await;
    let shop = app(&deployer, "shop");
    deployer.github.fails(1, "POST deployments statuses", Fault::Unprocessable);
    let id = shop.deploys(TARGET, "v1").await;
    let time = deployer.settle().await;
    assert!(time < SignedDuration::from_mins(2), "{time:#}");
    let [reason] = parked(&deployer, id).await.try_into().unwrap();
    assert!(reason.contains("(422): Validation Failed"), "{reason}");
    assert_eq!(deployer.github.told(id).last().unwrap(), "success", "the next has its turn");
    deployer.github.settled();
}

/// A token has ended, or the App's key was deleted: one message asks now and then, the others wait for it.
#[tokio::test]
async fn a_token_that_has_ended_is_said_and_not_tried_by_every_message() {
    for (deployer, why) in [
        (Deployer::start().await, "the token is wrong, expired or revoked"),
        (Deployer::start_as_app().await, "it does not take the App's signature"),
    ] {
        let mut ids = Vec::new();
        for number in 0..20 {
            ids.push(app(&deployer, &format!("app-{number}")).deploys(TARGET, "v1").await);
        }
        while deployer.stepped().step().await.unwrap() {}
        // An App has asked for a token of each repository to read it.
        let before = deployer.github.count("POST");
        deployer.github.revokes_tokens();
        deployer.github.deletes_keys();
        deployer.works_for(SignedDuration::from_hours(1)).await;
        let asked = deployer.github.count("POST") - before;
        assert!(asked <= 15, "{asked} requests in an hour, each of them in vain");
        let late = app(&deployer, "late").deploys(TARGET, "v1").await;
        deployer.works().await;
        let record = deployer.deployment(late).await;
        assert!(record.summary.contains(why), "{}", record.summary);
        let messages = deployer.stepped().store().messages(&record.id).await.unwrap();
        assert!(messages.iter().any(|told| told.sink == Sink::Forge && told.sent_at.is_none()));
        for id in ids.into_iter().chain([late]) {
            deployer.github.left_open(id);
        }
        deployer.github.settled();
    }
}
