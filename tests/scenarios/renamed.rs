//! Repositories that get another name, another owner, or the name that another one had.

use the_deployer::model::deployment::State;
use the_deployer::store::Owned;

use crate::harness::deployer::{Deployer, on_both};
use crate::scenarios::{TARGET, app};

async fn owner(deployer: &Deployer) -> String {
    let all = deployer.hands().store().owners(None).await.unwrap();
    let [Owned { repository, .. }] = all.as_slice() else { panic!("{all:?}") };
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
