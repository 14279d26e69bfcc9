//! The record is lost, and made again of what the repository and GitHub know: then everything goes
//! on as if nothing had happened.

use std::time::Duration;

use the_deployer::app::rebuild::{RebuildError, RebuildOptions, RebuildReport, rebuild};
use the_deployer::model::deployment::State;

use crate::harness::deployer::{Deployer, on_both};
use crate::harness::events::waml;
use crate::harness::github::{Ask, Fault};
use crate::harness::process::client;
use crate::scenarios::{TARGET, app};

fn options() -> RebuildOptions {
    RebuildOptions { by: "jo".to_owned(), ..RebuildOptions::default() }
}

async fn rebuilt(
    deployer: &Deployer,
    options: &RebuildOptions,
) -> Result<RebuildReport, RebuildError> {
    rebuild(&deployer.settings(), options, &deployer.clock).await
}

#[tokio::test]
async fn a_rebuilt_record_has_githubs_numbers_and_goes_on_where_it_was() {
    on_both(async |deployer| {
        app(deployer, "cart");
        let shop = app(deployer, "shop");
        let first = shop.deploys(TARGET, "v1").await;
        deployer.settle().await;
        let same = shop.deploys(TARGET, "v1").await;
        deployer.settle().await;
        let shop = deployer.github.repository("example/shop");
        let second = shop.deploys(TARGET, "v2").await;
        deployer.settle().await;
        let cart = deployer.github.repository("example/cart").deploys(TARGET, "c1").await;
        deployer.settle().await;
        let url = format!(
            "http://{}/api/v1/apps/{TARGET}/devx/cart/rollback",
            deployer.stepped().address()
        );
        deployer.clock.advance(Duration::from_secs(1));
        let newer = deployer.github.repository("example/cart").deploys(TARGET, "c2").await;
        deployer.settle().await;
        deployer.clock.advance(Duration::from_secs(1));
        let reason = serde_json::json!({"reason": "it was slow"});
        let asked = client().post(url).json(&reason).send().await.unwrap();
        assert_eq!(asked.status(), 202);
        deployer.settle().await;
        let before = deployer.deployments().await;
        let back = before.iter().find(|one| one.rollback.is_some()).unwrap().clone();
        let back_number = back.request.number().expect("GitHub has it");
        deployer.dies();
        deployer.loses_its_record().await;

        let dry = rebuilt(deployer, &RebuildOptions { dry_run: true, ..options() }).await.unwrap();
        assert_eq!((dry.deployments, dry.numbered, dry.apps), (5, 5, 2), "{dry:?}");
        let report = rebuilt(deployer, &options()).await.unwrap();
        assert_eq!(report.added.deployments, 5, "{report:?}");
        assert!(report.notes.is_empty(), "{report:?}");
        let refused = rebuilt(deployer, &options()).await.unwrap_err();
        assert!(matches!(refused, RebuildError::NotEmpty(5)), "{refused}");
        let again = rebuilt(deployer, &RebuildOptions { merge: true, ..options() }).await.unwrap();
        assert_eq!(again.added.deployments, 0, "{again:?}");

        deployer.clock.advance(Duration::from_mins(5));
        deployer.starts().await;
        let now = deployer.deployments().await;
        let mut numbers: Vec<i64> = now.iter().map(|one| one.request.forge_id).collect();
        numbers.sort_unstable();
        let all = [first, second, cart, newer, back_number];
        assert_eq!(numbers, all, "what made no commit is forgotten: {same}");
        for one in &now {
            let was = before.iter().find(|was| was.id == one.id).unwrap();
            assert_eq!(one.request.release, was.request.release);
            if one.rollback.is_none() {
                assert_eq!(one.request.git_ref, was.request.git_ref);
            }
            assert_eq!((&one.pushed, &one.app), (&was.pushed, &was.app));
            assert_eq!(one.received_at, was.received_at);
            assert_eq!(one.rollback, was.rollback);
        }
        deployer.stepped().sweep().await.unwrap();
        deployer.settle().await;
        assert_eq!(deployer.deployments().await.len(), 5, "nothing is taken for lost");
        let shop = deployer.github.repository("example/shop");
        shop.commit(&waml("shop").replace("some-value", "another"));
        let third = shop.deploys(TARGET, "v3").await;
        deployer.settle().await;
        assert_eq!(deployer.deployment(third).await.state, State::Succeeded);
        assert_eq!(deployer.github.told(second).last().unwrap(), "inactive", "it was replaced");
        assert_eq!(deployer.github.told(back_number).last().unwrap(), "success");
        let cart = deployer.github.repository("example/cart");
        let robot = || Ask { actor: "robot[bot]".to_owned(), ..Ask::new(TARGET, "c3") };
        let held = cart.asks(robot()).await;
        deployer.settle().await;
        let held = deployer.deployment(held).await;
        assert_eq!(held.violations[0].rule, "hold", "{held:?}");
        let person = cart.deploys(TARGET, "c4").await;
        deployer.settle().await;
        assert_eq!(deployer.github.told(person).last().unwrap(), "success");
        assert_eq!(deployer.github.told(back_number).last().unwrap(), "inactive");
        assert_eq!(deployer.github.told(third).last().unwrap(), "success");
    })
    .await;
}

#[tokio::test]
async fn nothing_is_written_while_github_cannot_be_asked() {
    let mut deployer = Deployer::start().await;
    app(&deployer, "shop").deploys(TARGET, "v1").await;
    deployer.settle().await;
    deployer.dies();
    deployer.loses_its_record().await;
    deployer.github.fails(1, "GET deployments", Fault::BadCredentials);
    let refused = rebuilt(&deployer, &options()).await.unwrap_err();
    assert!(refused.to_string().contains("--offline"), "{refused}");
    let offline = RebuildOptions { offline: true, ..options() };
    let report = rebuilt(&deployer, &offline).await.unwrap();
    assert_eq!((report.added.deployments, report.numbered), (1, 0), "{report:?}");
    deployer.starts().await;
    let known = deployer.deployments().await;
    assert!(known[0].request.forge_id < 0, "a stand-in: {}", known[0].request.forge_id);
    deployer.settled().await;
}
