//! Events that never came: a sweep finds them, and everything ends as if they had.

use std::time::Duration;

use jiff::SignedDuration;
use the_deployer::controller::sweep::{SweepOutcome, SweepReport};
use the_deployer::model::deployment::State;

use crate::harness::deployer::{Deployer, on_both};
use crate::harness::github::{Ask, Fault, Repository, Webhooks};
use crate::scenarios::{WELL, app, took};

const TARGET: &str = "prod-cluster-1";
/// How often is swept, by default.
const EVERY: Duration = Duration::from_mins(5);
/// The deployment is older than what may be on its way, and both sweeps have come by once.
const HEALED: SignedDuration = SignedDuration::from_mins(8);

/// What the sweeps of one moment did.
async fn sweeps(deployer: &Deployer) -> Vec<SweepReport> {
    deployer.stepped().sweep().await.unwrap()
}

fn healed(reports: &[SweepReport]) -> u64 {
    reports.iter().map(|report| report.healed).sum()
}

/// An app that is live with v1, and the sweeps know it.
async fn swept_once(deployer: &Deployer) -> Repository<'_> {
    let shop = app(deployer, "shop");
    shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    sweeps(deployer).await;
    shop
}

/// As time goes by: a sweep every five minutes, and everything that comes of it, until one has
/// found something; how long that took.
async fn heals(deployer: &Deployer) -> SignedDuration {
    let begin = deployer.clock.now();
    for _ in 0..12 {
        deployer.clock.advance(EVERY);
        let found = healed(&sweeps(deployer).await);
        deployer.settle().await;
        if found > 0 {
            return deployer.clock.now().duration_since(begin);
        }
    }
    panic!("it is not found");
}

#[tokio::test]
async fn an_event_that_github_lost_is_found_with_its_repository() {
    on_both(async |deployer| {
        let shop = swept_once(deployer).await;
        deployer.github.webhooks(Webhooks::Unheard);
        let lost = shop.deploys(TARGET, "v2").await;
        took("a webhook lost", heals(deployer).await, HEALED);
        assert_eq!(deployer.github.told(lost), WELL);
        assert_eq!(deployer.manifests().commits(), 2);
        let asked = deployer.github.count("GET deployments");
        assert_eq!(healed(&sweeps(deployer).await), 0);
        assert!(deployer.github.count("GET deployments") <= asked + 1, "one look, no more");
    })
    .await;
}

#[tokio::test]
async fn what_was_lost_and_is_older_than_what_is_live_changes_nothing() {
    on_both(async |deployer| {
        let shop = swept_once(deployer).await;
        deployer.github.webhooks(Webhooks::Unheard);
        let lost = shop.deploys(TARGET, "v2").await;
        deployer.github.webhooks(Webhooks::Delivered);
        let newer = shop.deploys(TARGET, "v3").await;
        deployer.settle().await;
        let live = deployer.manifests().tip();
        took("an older one found late", heals(deployer).await, HEALED);
        assert_eq!(deployer.manifests().tip(), live);
        assert_eq!(deployer.github.told(newer), WELL);
        assert_eq!(deployer.deployment(lost).await.state, State::Superseded);
        assert_eq!(deployer.github.told(lost).last().unwrap(), "inactive");
    })
    .await;
}

#[tokio::test]
async fn an_event_that_comes_after_the_sweep_found_it_is_a_duplicate() {
    on_both(async |deployer| {
        let shop = swept_once(deployer).await;
        deployer.github.webhooks(Webhooks::Held);
        let late = shop.deploys(TARGET, "v2").await;
        heals(deployer).await;
        deployer.github.release(&[0]).await;
        deployer.settle().await;
        assert_eq!(deployer.deployments().await.len(), 2);
        assert_eq!(deployer.github.told(late), WELL);
        assert_eq!(deployer.manifests().commits(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_limit_in_the_middle_of_a_sweep_is_kept_and_the_rest_found_afterwards() {
    on_both(async |deployer| {
        let apps: Vec<_> = (1..=4).map(|n| format!("app-{n}")).collect();
        for name in &apps {
            app(deployer, name).deploys(TARGET, "v1").await;
        }
        deployer.settle().await;
        sweeps(deployer).await;
        deployer.github.webhooks(Webhooks::Unheard);
        let mut lost = Vec::new();
        for name in &apps {
            let repository = deployer.github.repository(&format!("example/{name}"));
            lost.push(repository.deploys(TARGET, "v2").await);
        }
        deployer.clock.advance(EVERY);
        deployer.github.fails(1, "GET repos/example/app-3/deployments", Fault::Wait(403, 600));
        let reports = sweeps(deployer).await;
        assert_eq!((healed(&reports), reports[0].outcome), (2, SweepOutcome::Limited));
        assert!(sweeps(deployer).await.is_empty(), "it leaves GitHub alone");
        let begin = deployer.clock.now();
        deployer.clock.advance(Duration::from_mins(10));
        assert_eq!(healed(&sweeps(deployer).await), 2);
        deployer.settle().await;
        let time = deployer.clock.now().duration_since(begin);
        took("a limit in a sweep", time, SignedDuration::from_mins(11));
        for id in lost {
            // With so much to tell, what was over before its turn came is left out.
            assert_eq!(deployer.github.told(id).last().unwrap(), "success");
        }
    })
    .await;
}

#[tokio::test]
async fn a_restart_in_the_middle_of_a_round_loses_nothing() {
    on_both(async |deployer| {
        app(deployer, "shop").deploys(TARGET, "v1").await;
        deployer.settle().await;
        sweeps(deployer).await;
        deployer.dies();
        deployer.github.webhooks(Webhooks::Lost);
        let lost = deployer.github.repository("example/shop").deploys(TARGET, "v2").await;
        deployer.clock.advance(Duration::from_mins(20));
        deployer.starts().await;
        assert_eq!(healed(&sweeps(deployer).await), 1, "at the start, at once");
        deployer.settle().await;
        assert_eq!(deployer.github.told(lost), WELL);
    })
    .await;
}

#[tokio::test]
async fn github_that_is_behind_its_own_event_is_waited_for() {
    on_both(async |deployer| {
        deployer.github.late(3);
        let id = app(deployer, "shop").deploys(TARGET, "v1").await;
        assert!(deployer.stepped().step().await.unwrap());
        let waiting = deployer.deployment(id).await;
        assert_eq!(waiting.state, State::Queued);
        assert!(waiting.summary.contains("waiting for GitHub to know"), "{}", waiting.summary);
        took("GitHub is behind", deployer.settle().await, SignedDuration::from_mins(1));
        assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    })
    .await;
}

#[tokio::test]
async fn a_commit_that_never_comes_fails_after_two_minutes_and_a_missing_file_in_seconds() {
    on_both(async |deployer| {
        let shop = app(deployer, "shop");
        deployer.github.late(1000);
        shop.commit(&crate::harness::events::waml("shop"));
        deployer.github.late(0);
        let id = shop.deploys(TARGET, "v1").await;
        // Two minutes for the deployment, and two for the commit status that nobody can take.
        took("no commit", deployer.settle().await, SignedDuration::from_mins(6));
        assert_eq!(deployer.github.told(id).last().unwrap(), "failure");
        let bare = deployer.github.repository("example/bare");
        let id = bare.deploys(TARGET, "v1").await;
        took("no file", deployer.settle().await, SignedDuration::from_secs(15));
        assert_eq!(deployer.github.told(id).last().unwrap(), "failure");
        assert!(deployer.deployment(id).await.summary.contains("has no file .weave.yaml"));
    })
    .await;
}

#[tokio::test]
async fn an_environment_that_is_no_target_is_shown_why_and_other_tools_are_left_alone() {
    on_both(async |deployer| {
        let shop = swept_once(deployer).await;
        let wrong = shop.deploys("Prod EU", "v2").await;
        let number = Ask { payload: serde_json::json!({"tag": 1.10}), ..Ask::new(TARGET, "") };
        let number = shop.asks(number).await;
        let preview = Ask { payload: serde_json::json!({}), ..Ask::new("Preview – shop", "") };
        let preview = shop.asks(preview).await;
        assert_eq!(deployer.github.answers()[1..], [400, 400, 200]);
        sweeps(deployer).await;
        sweeps(deployer).await;
        for (id, what) in [(wrong, "deployment.environment"), (number, "deployment.payload.tag")] {
            let statuses = deployer.github.statuses(id);
            assert_eq!(statuses.len(), 1, "{statuses:?}");
            assert_eq!(statuses[0].0, "error");
            assert!(statuses[0].1.starts_with(what), "{statuses:?}");
        }
        assert!(deployer.github.told(preview).is_empty());
        deployer.github.left_open(preview);
        assert_eq!(deployer.deployments().await.len(), 1);
    })
    .await;
}
