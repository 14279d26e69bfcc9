//! The process dies at every step, and two replicas race: the rollout ends as it would have, and nothing is done twice.

use std::time::Duration;

use jiff::SignedDuration;
use the_deployer::app::stepped::SteppedApp;
use the_deployer::model::id::RolloutId;
use the_deployer::rollout::acts::RolloutAct;
use the_deployer::rollout::record::{FormerRevision, RolloutState};

use super::world::{Fleet, STRICT};
use crate::harness::deployer::Deployer;
use crate::harness::git_host::Behaviour;
use crate::harness::github::Fault;

/// The most lives that one rollout has in these tests.
const LIVES: usize = 200;

impl Fleet {
    /// The process dies, and another one goes on with what it left, once its leases are over.
    async fn dies_and_comes_back(&mut self) {
        self.deployer.dies();
        self.deployer.clock.advance(Duration::from_mins(3));
        self.deployer.starts().await;
    }

    /// Each step is the last one of a process: one turn of a rollout, one attempt, one look at the messages.
    async fn ends_over_crashes(&mut self, id: &RolloutId) {
        for life in 0..LIVES {
            if self.view(id).await.ended_at.is_some() {
                self.deployer.settle().await;
                return;
            }
            let app = self.app();
            match life % 3 {
                0 => drop(app.advance_rollout().await.unwrap()),
                1 => drop(app.step().await.unwrap()),
                _ => drop(app.run_once().await.unwrap()),
            }
            self.dies_and_comes_back().await;
        }
        panic!("it never ends: {:#?}", self.view(id).await);
    }
}

#[tokio::test]
async fn it_ends_whatever_step_a_process_dies_after() {
    for deployer in Deployer::prepared_on_both().await {
        let mut fleet = Fleet::start(deployer).await;
        fleet.runs("v1", &["a"]).await;
        let before = fleet.live("a");
        let id = fleet.rolls_out("v2", &["a", "b", STRICT]).await;
        fleet.ends_over_crashes(&id).await;
        assert_eq!(fleet.state(&id).await, RolloutState::Undone, "{:#?}", fleet.view(&id).await);
        assert_eq!(fleet.live("a"), before);
        assert_eq!(fleet.live("b"), None);
        fleet.did_nothing_twice(&id).await;
        assert_eq!(fleet.orders(&id).await.len(), 4, "{:?}", fleet.orders(&id).await);
        assert_eq!(fleet.removals(), 1);
        fleet.deployer.settled().await;
    }
}

#[tokio::test]
async fn it_ends_where_a_process_dies_while_it_asks_others() {
    for deployer in Deployer::prepared_on_both().await {
        let mut fleet = Fleet::start(deployer).await;
        fleet.runs("v1", &["a", "b"]).await;
        let before = fleet.lives(&["a", "b"]);
        let id = fleet.rolls_out("v2", &["a", "b", STRICT]).await;
        // In the middle of a turn, of an attempt, and of a message.
        for words in ["GET commits", "GET contents", "POST statuses", "POST deployments"] {
            fleet.deployer.github.fails(1, words, Fault::SilentBefore);
            let met = fleet.deployer.github.met(words);
            fleet.deployer.dies_when(met).await;
            fleet.deployer.clock.advance(Duration::from_mins(3));
            fleet.deployer.starts().await;
        }
        fleet.deployer.works_for(SignedDuration::from_mins(30)).await;
        assert_eq!(fleet.state(&id).await, RolloutState::Undone, "{:#?}", fleet.view(&id).await);
        assert_eq!(fleet.lives(&["a", "b"]), before);
        fleet.did_nothing_twice(&id).await;
        fleet.deployer.settled().await;
    }
}

#[tokio::test]
async fn a_removal_that_is_interrupted_is_begun_again_by_itself() {
    for mut deployer in Deployer::prepared_on_both().await {
        deployer.pushes_to_host().await;
        let fleet = Fleet::start(deployer).await;
        fleet.runs("v1", &["a"]).await;
        let before = fleet.live("a");
        let id = fleet.rolls_out("v2", &["a", "b", STRICT]).await;
        while fleet.targets(&id).await != "a undo_pending, b undoing, strict unchanged" {
            let app = fleet.app();
            let did = app.advance_rollout().await.unwrap() || app.step().await.unwrap();
            assert!(did, "{:#?}", fleet.view(&id).await);
        }
        // It can be read, so that the interrupted removal gets its end; it takes no push for some minutes.
        fleet.deployer.host().behave(Behaviour::CutDuringPush);
        let requests = fleet.deployer.host().requests().len();
        fleet.deployer.works_for(SignedDuration::from_mins(5)).await;
        let requests = fleet.deployer.host().requests().len() - requests;
        assert!((10..200).contains(&requests), "{requests} requests in five minutes");
        assert!(fleet.live("b").is_some());
        fleet.deployer.host().behave(Behaviour::Good);
        fleet.deployer.works_for(SignedDuration::from_mins(5)).await;
        assert_eq!(fleet.state(&id).await, RolloutState::Undone, "{:#?}", fleet.view(&id).await);
        assert_eq!((fleet.live("a"), fleet.live("b")), (before, None));
        assert_eq!(fleet.removals(), 1);
        fleet.deployer.settled().await;
    }
}

#[tokio::test]
async fn of_two_replicas_one_wins_each_step() {
    for mut deployer in Deployer::prepared_on_both().await {
        deployer.pushes_to_host().await;
        deployer.shares_database();
        let fleet = Fleet::start(deployer).await;
        fleet.runs("v1", &["a", "b"]).await;
        let before = fleet.lives(&["a", "b"]);
        let other = fleet.deployer.another().await;
        let id = fleet.rolls_out("v2", &["a", "b", "c", STRICT]).await;
        for _ in 0..LIVES {
            if fleet.view(&id).await.ended_at.is_some() {
                break;
            }
            let both = async |app: &SteppedApp| {
                app.advance_rollouts().await.unwrap();
                app.run_once().await.unwrap()
            };
            let (here, there) = tokio::join!(both(fleet.app()), both(&other));
            if here + there == 0 {
                fleet.deployer.clock.advance(Duration::from_secs(5));
            }
        }
        assert_eq!(fleet.state(&id).await, RolloutState::Undone, "{:#?}", fleet.view(&id).await);
        assert_eq!(fleet.lives(&["a", "b"]), before);
        assert_eq!(fleet.live("c"), None);
        fleet.did_nothing_twice(&id).await;
        let orders = fleet.orders(&id).await;
        assert_eq!(orders.len(), 6, "{orders:?}");
        drop(other);
        fleet.deployer.settle().await;
        fleet.deployer.settled().await;
    }
}

#[tokio::test]
async fn what_another_replica_has_removed_was_not_there_before() {
    for mut deployer in Deployer::prepared_on_both().await {
        deployer.pushes_to_host().await;
        deployer.shares_database();
        let fleet = Fleet::start(deployer).await;
        let other = fleet.deployer.another().await;
        let advance = async |app: &SteppedApp, id: &RolloutId| {
            for _ in 0..LIVES {
                if fleet.view(id).await.ended_at.is_some() {
                    break;
                }
                app.advance_rollouts().await.unwrap();
                if app.run_once().await.unwrap() == 0 {
                    fleet.deployer.clock.advance(Duration::from_secs(5));
                }
            }
            fleet.state(id).await
        };
        // The other one pushes the release, and this one takes it away again.
        let first = fleet.rolls_out("v1", &["c"]).await;
        assert_eq!(advance(&other, &first).await, RolloutState::Done);
        fleet.acts(&first, RolloutAct::Undo { reason: "not yet".to_owned() }).await.unwrap();
        assert_eq!(advance(fleet.app(), &first).await, RolloutState::Undone);
        assert_eq!(fleet.live("c"), None);
        // The other one has not seen that.
        let second = fleet.rolls_out("v2", &["c", STRICT]).await;
        let state = advance(&other, &second).await;
        let view = fleet.view(&second).await;
        assert_eq!(state, RolloutState::Undone, "{view:#?}");
        assert_eq!(view.record.targets[0].before, Some(FormerRevision::Absent));
        assert_eq!(fleet.live("c"), None);
        drop(other);
        fleet.deployer.settle().await;
        fleet.deployer.settled().await;
    }
}
