//! Who gets which message of a deployment that goes on in its cluster after the push.

use the_deployer::model::deployment::{ClusterPhase, ForgeState, State};
use the_deployer::model::notice::{Sink, Subscriptions};
use the_deployer::model::status::ForgeStatus;
use the_deployer::store::{ClusterChange, Completion, FinalState, LeaseState, PushTurn, Store};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, id};
use crate::store::{accept, claim, push, record_change, succeeded};

/// The deployment 1 is pushed, and waits for its cluster.
async fn pushed(store: &Store) {
    accept(store, "web", 1).await;
    let claimed = claim(store, 1).await.unwrap();
    assert_eq!(push(store, &claimed, 1).await, PushTurn::Yes);
    let Completion { end: FinalState::Succeeded(pushed), .. } = succeeded() else { panic!() };
    let completion = Completion {
        end: FinalState::Syncing(pushed),
        status: ForgeStatus::in_cluster(ClusterPhase::Syncing, "waiting for Argo CD"),
        ..succeeded()
    };
    assert_eq!(store.finish(&claimed, &completion, at(1)).await.unwrap(), LeaseState::Held);
}

/// A change of it in its cluster is recorded.
async fn changes(store: &Store, state: State, status: ForgeStatus, seconds: i64) {
    record_change(store, ClusterChange::end(id(1), state, status), seconds).await;
}

/// The messages to a sink: state, phase and sentence.
async fn told(store: &Store, sink: Sink) -> Vec<(ForgeState, Option<ClusterPhase>, String)> {
    let messages = store.messages(&id(1)).await.unwrap().into_iter();
    let of_sink = messages.filter(|message| message.sink == sink);
    of_sink
        .map(|one| (one.status.state, one.status.phase, one.status.description().to_owned()))
        .collect()
}

#[tokio::test]
async fn a_phase_is_enqueued_once_for_programs_and_each_change_of_it_for_the_code_host() {
    run_on_both(async |db| {
        let subscriptions = Subscriptions {
            commits: true,
            slack: true,
            events: vec!["dw".to_owned()],
            ..Subscriptions::default()
        };
        let store = db.store.clone().with_subscriptions(subscriptions);
        pushed(&store).await;
        let progressing = |sentence| ForgeStatus::in_cluster(ClusterPhase::Progressing, sentence);
        for (n, sentence) in
            ["1 of 2 updated", "no such image", "1 of 2 updated"].into_iter().enumerate()
        {
            let seconds = 2 + i64::try_from(n).unwrap();
            changes(&store, State::Progressing, progressing(sentence), seconds).await;
        }
        changes(&store, State::Syncing, ForgeStatus::in_cluster(ClusterPhase::Syncing, "again"), 5)
            .await;
        let end = ForgeStatus::new(ForgeState::Success, "it runs");
        changes(&store, State::Succeeded, end.clone(), 6).await;
        changes(&store, State::Succeeded, end, 7).await;

        let phases = |told: Vec<(ForgeState, Option<ClusterPhase>, String)>| {
            told.into_iter().map(|(state, phase, _)| (state, phase)).collect::<Vec<_>>()
        };
        let (syncing, in_rollout) = (Some(ClusterPhase::Syncing), Some(ClusterPhase::Progressing));
        let going = ForgeState::InProgress;
        assert_eq!(
            phases(told(&store, Sink::Events("dw".to_owned())).await),
            [
                (ForgeState::Queued, None),
                (going, None),
                (going, syncing),
                (going, in_rollout),
                (ForgeState::Success, None)
            ]
        );
        let commit = told(&store, Sink::Commit).await;
        assert_eq!(commit[2].2, "1 of 2 updated");
        assert_eq!(
            phases(commit),
            [
                (ForgeState::Queued, None),
                (going, syncing),
                (going, in_rollout),
                (going, in_rollout),
                (going, in_rollout),
                (going, syncing),
                (ForgeState::Success, None),
            ]
        );
        assert_eq!(told(&store, Sink::Forge).await.len(), 8, "as the commit, and its start");
        assert_eq!(phases(told(&store, Sink::Channel).await), [(ForgeState::Success, None)]);
    })
    .await;
}
