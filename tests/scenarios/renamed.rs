//! Repositories that get another name, another owner, or the name that another one had.

use std::time::Duration;

use the_deployer::app::rebuild::{RebuildOptions, rebuild};
use the_deployer::model::deployment::State;
use the_deployer::store::OwnerRecord;

use crate::harness::deployer::{Deployer, on_both};
use crate::harness::github::{Repository, Webhooks};
use crate::scenarios::{TARGET, app};

async fn owner(deployer: &Deployer) -> String {
    let all = deployer.stepped().store().owners(None).await.unwrap();
    let [OwnerRecord { repository, .. }] = all.as_slice() else { panic!("{all:?}") };
    repository.to_string()
}

#[tokio::test]
async fn a_renamed_repository_keeps_its_app() {
    on_both(async |deployer| {
        let shop = app(deployer, "shop");
        let first = shop.deploys(TARGET, "v1").await;
        deployer.settle().await;
        shop.renamed_to("example/web-shop");
        let second = shop.deploys(TARGET, "v2").await;
        deployer.settle().await;
        let record = deployer.deployment(second).await;
        assert_eq!(record.state, State::Succeeded, "{}", record.summary);
        assert_eq!(owner(deployer).await, "example/web-shop");
        assert_eq!(deployer.github.told(first).last().unwrap(), "inactive", "it was replaced");
        assert_eq!(deployer.github.told(second).last().unwrap(), "success");
    })
    .await;
}

/// Whoever takes a name that became free has nothing of what the one before them had.
#[tokio::test]
async fn a_new_repository_with_an_old_name_gets_nothing() {
    on_both(async |deployer| {
        let shop = app(deployer, "shop");
        shop.deploys(TARGET, "v1").await;
        deployer.settle().await;
        shop.renamed_to("example/web-shop");
        let stranger = app(deployer, "shop");
        let taken = stranger.deploys(TARGET, "v2").await;
        deployer.settle().await;
        let record = deployer.deployment(taken).await;
        assert_eq!(record.state, State::Failed, "{}", record.summary);
        assert!(record.summary.contains("[owner]"), "{}", record.summary);
        let third = shop.deploys(TARGET, "v3").await;
        deployer.settle().await;
        let record = deployer.deployment(third).await;
        assert_eq!(record.state, State::Succeeded, "{}", record.summary);
        assert_eq!(owner(deployer).await, "example/web-shop");
    })
    .await;
}

#[tokio::test]
async fn a_transferred_repository_needs_a_person() {
    on_both(async |deployer| {
        let shop = app(deployer, "shop");
        shop.deploys(TARGET, "v1").await;
        deployer.settle().await;
        shop.renamed_to("elsewhere/shop");
        for tag in ["v2", "v3"] {
            let moved = shop.deploys(TARGET, tag).await;
            deployer.settle().await;
            let record = deployer.deployment(moved).await;
            assert_eq!(record.state, State::Failed, "{}", record.summary);
            let said = &record.violations[0];
            assert!(said.message.contains("belongs to -example/shop.former-"), "{said:?}");
            assert!(said.help.as_ref().unwrap().contains("owners move devx/shop"), "{said:?}");
        }
        let owner = owner(deployer).await;
        assert!(owner.starts_with("-example/shop.former-"), "nobody has that name: {owner}");
    })
    .await;
}

/// Nor does the name that became free lead to the app.
#[tokio::test]
async fn a_new_repository_with_the_name_of_a_transferred_one_gets_nothing() {
    on_both(async |deployer| {
        let shop = app(deployer, "shop");
        shop.deploys(TARGET, "v1").await;
        deployer.settle().await;
        shop.renamed_to("elsewhere/shop");
        shop.deploys(TARGET, "v2").await;
        deployer.settle().await;
        let stranger = app(deployer, "shop");
        let taken = stranger.deploys(TARGET, "v3").await;
        deployer.settle().await;
        let record = deployer.deployment(taken).await;
        assert_eq!(record.state, State::Failed, "{}", record.summary);
        assert!(record.summary.contains("[owner]"), "{}", record.summary);
    })
    .await;
}

/// A pull request is an event with the new name, too; it may come before the next deployment.
#[tokio::test]
async fn a_preview_after_a_rename_is_of_the_repositorys_own_app() {
    let deployer = Deployer::start_as_app().await;
    let shop = app(&deployer, "shop");
    shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    shop.renamed_to("example/web-shop");
    let changed = crate::harness::events::waml("shop").replace("minReplicas: 3", "minReplicas: 4");
    shop.opens_pull_request("more", &[(".weave.yaml", &changed)]).await;
    deployer.settle().await;
    let runs = shop.check_runs(&shop.tip("more"));
    assert_eq!(runs[0]["output"]["title"], "1 target changes", "{runs:?}");
    assert_eq!(owner(&deployer).await, "example/web-shop");
    deployer.settled().await;
}

/// An app that is live, with its first sweep, and from then on no webhook comes.
async fn without_webhooks(deployer: &Deployer) -> Repository<'_> {
    let shop = app(deployer, "shop");
    shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    deployer.stepped().sweep().await.unwrap();
    deployer.github.webhooks(Webhooks::Unheard);
    shop
}

/// Time goes by until a sweep has found what no webhook told.
async fn sweeps_find(deployer: &Deployer, forge_id: i64) -> State {
    for _ in 0..4 {
        deployer.clock.advance(Duration::from_mins(5));
        deployer.stepped().sweep().await.unwrap();
        deployer.settle().await;
        let all = deployer.deployments().await;
        if let Some(one) = all.iter().find(|one| one.request.forge_id == forge_id) {
            return one.state;
        }
    }
    panic!("it is not found");
}

#[tokio::test]
async fn a_rename_that_only_the_sweep_sees_keeps_the_app() {
    on_both(async |deployer| {
        let shop = without_webhooks(deployer).await;
        shop.renamed_to("example/web-shop");
        let second = shop.deploys(TARGET, "v2").await;
        assert_eq!(sweeps_find(deployer, second).await, State::Succeeded);
        assert_eq!(owner(deployer).await, "example/web-shop");
        assert_eq!(deployer.github.told(second).last().unwrap(), "success");
    })
    .await;
}

#[tokio::test]
async fn a_new_repository_with_an_old_name_gets_nothing_from_the_sweep_either() {
    on_both(async |deployer| {
        let shop = without_webhooks(deployer).await;
        shop.renamed_to("example/web-shop");
        let stranger = app(deployer, "shop");
        let taken = stranger.deploys(TARGET, "v2").await;
        assert_eq!(sweeps_find(deployer, taken).await, State::Failed);
        let record = deployer.deployment(taken).await;
        assert!(record.summary.contains("[owner]"), "{}", record.summary);
        // Without an App nobody lists the new name: the first webhook that comes says it.
        deployer.github.webhooks(Webhooks::Delivered);
        let third = shop.deploys(TARGET, "v3").await;
        deployer.settle().await;
        assert_eq!(deployer.deployment(third).await.state, State::Succeeded);
        assert_eq!(owner(deployer).await, "example/web-shop");
    })
    .await;
}

#[tokio::test]
async fn a_transfer_that_only_the_sweep_sees_needs_a_person() {
    on_both(async |deployer| {
        let shop = without_webhooks(deployer).await;
        shop.renamed_to("elsewhere/shop");
        let moved = shop.deploys(TARGET, "v2").await;
        assert_eq!(sweeps_find(deployer, moved).await, State::Failed);
        let record = deployer.deployment(moved).await;
        assert!(record.violations[0].message.contains("belongs to -example/shop.former-"));
    })
    .await;
}

/// The commits say GitHub's number, so that a lost record loses no owner.
#[tokio::test]
async fn a_rename_after_a_lost_record_keeps_the_app() {
    for is_taken in [false, true] {
        let mut deployer = Deployer::start().await;
        app(&deployer, "shop").deploys(TARGET, "v1").await;
        deployer.settle().await;
        deployer.dies();
        deployer.loses_its_record().await;
        let options =
            RebuildOptions { by: "jo".to_owned(), offline: true, ..RebuildOptions::default() };
        rebuild(&deployer.settings(), &options, &deployer.clock).await.unwrap();
        deployer.clock.advance(Duration::from_mins(5));
        deployer.starts().await;
        let shop = deployer.github.repository("example/shop");
        shop.renamed_to("example/web-shop");
        if is_taken {
            let stranger = app(&deployer, "shop");
            let taken = stranger.deploys(TARGET, "v2").await;
            deployer.settle().await;
            let record = deployer.deployment(taken).await;
            assert_eq!(record.state, State::Failed, "{}", record.summary);
        }
        let renamed = shop.deploys(TARGET, "v3").await;
        deployer.settle().await;
        let record = deployer.deployment(renamed).await;
        assert_eq!(record.state, State::Succeeded, "{}", record.summary);
        assert_eq!(owner(&deployer).await, "example/web-shop");
        deployer.settled().await;
    }
}

/// The commits say that another repository took the name, and not what the first one is called now.
#[tokio::test]
async fn a_name_that_was_taken_before_the_record_was_lost_gives_its_new_repository_nothing() {
    let mut deployer = Deployer::start().await;
    app(&deployer, "other").deploys(TARGET, "v1").await;
    app(&deployer, "shop").deploys(TARGET, "v1").await;
    deployer.settle().await;
    deployer.github.repository("example/shop").renamed_to("example/web-shop");
    let stranger = deployer.github.repository("example/shop");
    stranger.commit(&crate::harness::events::waml("cart"));
    deployer.clock.advance(Duration::from_mins(1));
    let cart = stranger.deploys(TARGET, "v1").await;
    deployer.settle().await;
    let record = deployer.deployment(cart).await;
    assert_eq!(record.state, State::Succeeded, "{}", record.summary);
    deployer.dies();
    deployer.loses_its_record().await;
    let options = RebuildOptions { by: "jo".to_owned(), ..RebuildOptions::default() };
    let report = rebuild(&deployer.settings(), &options, &deployer.clock).await.unwrap();
    let told = report.notes.iter().find(|note| note.starts_with("devx/shop on"));
    assert!(told.is_some_and(|note| note.contains("-example/shop.former-")), "{report:?}");
    deployer.clock.advance(Duration::from_mins(5));
    deployer.starts().await;
    let shop = deployer.github.repository("example/web-shop");
    let third = shop.deploys(TARGET, "v3").await;
    deployer.settle().await;
    let record = deployer.deployment(third).await;
    assert_eq!(record.state, State::Succeeded, "{}", record.summary);
    deployer.settled().await;
}

/// An event that comes late, of a name that another repository has by now: GitHub is never asked for a name
/// that we made.
#[tokio::test]
async fn a_late_event_between_two_names_ends_with_a_clear_message() {
    on_both(async |deployer| {
        let shop = app(deployer, "shop");
        deployer.github.webhooks(Webhooks::Held);
        let late = shop.deploys(TARGET, "v1").await;
        deployer.clock.advance(Duration::from_mins(1));
        shop.renamed_to("example/web-shop");
        deployer.github.webhooks(Webhooks::Delivered);
        let other = app(deployer, "shop");
        other.deploys(TARGET, "v2").await;
        deployer.settle().await;
        deployer.github.release(&[0]).await;
        deployer.works().await;
        let all = deployer.deployments().await;
        let record = all.iter().find(|one| one.request.forge_id == late).unwrap();
        assert_eq!(record.state, State::Failed, "{}", record.summary);
        assert!(record.summary.contains("was renamed"), "{}", record.summary);
        // Its next event says its present name: then GitHub is told of the late one, too.
        shop.deploys(TARGET, "v3").await;
        deployer.clock.advance(Duration::from_mins(11));
        deployer.settle().await;
        assert_eq!(deployer.github.told(late).last().unwrap(), "failure");
        let seen = deployer.github.seen();
        assert!(seen.iter().all(|one| !one.line.contains("former-")), "{seen:?}");
    })
    .await;
}

/// A clone from before a rename plans by the former name, one from after it by a name that no event has told
/// yet: both are the owner's. A new repository of the former name is not.
#[tokio::test]
async fn a_plan_knows_the_owner_by_a_former_and_by_a_new_name() {
    on_both(async |deployer| {
        let plan = async |repository: &str| {
            let url = format!("http://{}/api/v1/plan", deployer.stepped().address());
            let body = serde_json::json!({
                "repository": repository, "target": TARGET, "tag": "v9",
                "waml": crate::harness::events::waml("shop"),
            });
            let client = crate::harness::process::client();
            let answer = client.post(url).json(&body).send().await.unwrap();
            answer.json::<serde_json::Value>().await.unwrap()
        };
        let shop = app(deployer, "shop");
        shop.deploys(TARGET, "v1").await;
        deployer.settle().await;
        shop.renamed_to("example/web-shop");
        let early = plan("example/web-shop").await;
        assert_eq!(early["outcome"], "changes", "before any event says it: {early}");
        shop.deploys(TARGET, "v2").await;
        deployer.settle().await;
        let former = plan("example/shop").await;
        assert_eq!(former["outcome"], "changes", "{former}");
        let note = former["notes"][0].as_str().unwrap();
        assert!(note.contains("was renamed to example/web-shop"), "{note}");
        app(deployer, "shop");
        let stranger = plan("example/shop").await;
        assert_eq!(stranger["outcome"], "refused", "{stranger}");
    })
    .await;
}

/// Its name went to another one before an event told its new one: the record has a name for it that we made.
#[tokio::test]
async fn a_plan_knows_the_owner_whose_name_was_taken() {
    on_both(async |deployer| {
        let shop = app(deployer, "shop");
        shop.deploys(TARGET, "v1").await;
        deployer.settle().await;
        shop.renamed_to("example/web-shop");
        let stranger = app(deployer, "shop");
        stranger.deploys(TARGET, "v2").await;
        deployer.settle().await;
        assert!(owner(deployer).await.starts_with("-example/shop.former-"));
        let url = format!("http://{}/api/v1/plan", deployer.stepped().address());
        let body = serde_json::json!({
            "repository": "example/web-shop", "target": TARGET, "tag": "v9", "ref": "main",
        });
        let client = crate::harness::process::client();
        let answer = client.post(url).json(&body).send().await.unwrap();
        let plan = answer.json::<serde_json::Value>().await.unwrap();
        assert_eq!(plan["outcome"], "changes", "{plan}");
        let seen = deployer.github.seen();
        assert!(seen.iter().all(|one| !one.line.contains("former-")), "{seen:?}");
    })
    .await;
}
