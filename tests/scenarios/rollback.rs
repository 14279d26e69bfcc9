//! GitHub shows what is live: a rollback is a deployment there too, once, whatever happens meanwhile.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value as Json, json};
use the_deployer::model::deployment::{Deployment, State};

use super::{TARGET, WELL, app, took};
use crate::harness::deployer::{Deployer, on_both};
use crate::harness::github::{Ask, Fault};
use crate::harness::process::client;

async fn roll_back(deployer: &Deployer, reason: &str) -> Json {
    let address = deployer.stepped().address();
    let url = format!("http://{address}/api/v1/apps/{TARGET}/devx/shop/rollback");
    let answer = client().post(url).json(&json!({"reason": reason})).send().await.unwrap();
    assert_eq!(answer.status(), 202, "{}", answer.text().await.unwrap());
    answer.json().await.unwrap()
}

/// The newest record, which is of a rollback.
async fn rollback(deployer: &Deployer) -> Deployment {
    let newest = deployer.deployments().await.pop().unwrap();
    assert!(newest.rollback.is_some(), "{newest:?}");
    newest
}

#[tokio::test]
async fn it_is_a_deployment_there_and_what_was_rolled_back_from_is_inactive() {
    on_both(async |deployer| {
        let shop = app(deployer, "shop");
        let (first, second) = (shop.deploys(TARGET, "v1").await, {
            deployer.settle().await;
            shop.deploys(TARGET, "v2").await
        });
        deployer.settle().await;
        let said = roll_back(deployer, "checkout fails").await;
        assert_eq!(said["deployment"]["forge_id"], Json::Null, "GitHub is told in its own time");
        deployer.settle().await;
        let back = rollback(deployer).await;
        let number = back.request.number().expect("GitHub has it");
        assert!(number > second && number > first);
        assert_eq!(deployer.github.told(number), WELL);
        let last = deployer.github.statuses(number).pop().unwrap();
        assert_eq!(last.1, "rolled back to v1: checkout fails");
        assert!(last.2.ends_with(back.id.as_str()), "{last:?}");
        assert_eq!(deployer.github.told(second).last().unwrap(), "inactive");
        let says = deployer.github.statuses(second).pop().unwrap().1;
        assert!(says.contains("rolled back to v1"), "{says}");
        assert_eq!(deployer.deployments().await.len(), 3, "its own event is not for us");
    })
    .await;
}

#[tokio::test]
async fn while_github_is_down_it_is_done_at_once_and_told_later() {
    let deployer = Deployer::start().await;
    let shop = app(&deployer, "shop");
    shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    shop.deploys(TARGET, "v2").await;
    deployer.settle().await;
    deployer.github.down_for(Duration::from_mins(10));
    roll_back(&deployer, "checkout fails").await;
    deployer.works().await;
    let back = rollback(&deployer).await;
    assert_eq!((back.state, back.request.number()), (State::Succeeded, None));
    assert_eq!(deployer.manifests().trailer("Rollback-Id"), [back.id.as_str()]);
    let time = deployer.settle().await;
    took("a rollback while GitHub is down ten minutes", time, SignedDuration::from_mins(16));
    let number = rollback(&deployer).await.request.number().unwrap();
    assert_eq!(deployer.github.told(number), ["success"], "what is over is left out");
    deployer.settled().await;
}

#[tokio::test]
async fn an_answer_that_is_lost_makes_no_second_deployment_there() {
    let deployer = Deployer::start().await;
    let shop = app(&deployer, "shop");
    shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    shop.deploys(TARGET, "v2").await;
    deployer.settle().await;
    let made = || {
        let seen = deployer.github.seen().into_iter();
        seen.filter(|one| one.line == "POST repos/example/shop/deployments").count()
    };
    let before = made();
    deployer.github.fails(1, "POST repos/example/shop/deployments", Fault::CutAfter);
    roll_back(&deployer, "checkout fails").await;
    deployer.settle().await;
    assert_eq!(made() - before, 1, "it was looked for and found");
    let number = rollback(&deployer).await.request.number().unwrap();
    assert_eq!(deployer.github.told(number), WELL);
    deployer.settled().await;
}

#[tokio::test]
async fn a_workflow_meets_the_hold_and_github_shows_why() {
    let deployer = Deployer::start().await;
    let shop = app(&deployer, "shop");
    shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    shop.deploys(TARGET, "v2").await;
    deployer.settle().await;
    roll_back(&deployer, "checkout fails").await;
    deployer.settle().await;
    let bot = Ask { actor: "github-actions[bot]".to_owned(), ..Ask::new(TARGET, "v3") };
    let held = shop.asks(bot).await;
    deployer.settle().await;
    let last = deployer.github.statuses(held).pop().unwrap();
    assert_eq!(last.0, "failure");
    assert!(last.1.contains("back from v2 to v1"), "{last:?}");
    let person = shop.deploys(TARGET, "v4").await;
    deployer.settle().await;
    assert_eq!(deployer.github.told(person), WELL, "a person's deployment ends the hold");
    let again =
        shop.asks(Ask { actor: "github-actions[bot]".to_owned(), ..Ask::new(TARGET, "v5") });
    let again = again.await;
    deployer.settle().await;
    assert_eq!(deployer.github.told(again), WELL);
    deployer.settled().await;
}

/// Whoever deployed the revision did not call the target a production one; the configuration does.
#[tokio::test]
async fn on_a_production_target_it_is_a_production_deployment() {
    let mut deployer = Deployer::prepared().await;
    deployer.configure(|config| {
        format!(
            "{config}clusters:\n- {{name: {TARGET}, environment: production, domain: a.example.com, \
             policies: {{unknown: warn}}}}\n"
        )
    });
    deployer.starts().await;
    let shop = app(&deployer, "shop");
    for tag in ["v1", "v2"] {
        shop.deploys(TARGET, tag).await;
        deployer.settle().await;
    }
    roll_back(&deployer, "checkout fails").await;
    deployer.settle().await;
    let number = rollback(&deployer).await.request.number().unwrap();
    assert!(deployer.github.is_production(number));
    deployer.settled().await;
}
