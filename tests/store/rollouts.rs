//! The record of a rollout moves with its orders, or not at all; of each app a target has one open rollout.

use std::time::Duration;

use the_deployer::model::deployment::State;
use the_deployer::model::event::Recipient;
use the_deployer::model::event::{DeploymentRequest, RequestedRollout, RolloutTrigger};
use the_deployer::model::id::{AppKey, AppName, ImageTag, RepoName, RolloutId, TargetName};
use the_deployer::model::rollback::provisional_number;
use the_deployer::model::rollout_words::GateOutcome;
use the_deployer::store::{
    Accepted, Claim, Completion, FinalState, GateAnswers, LeaseState, PushTurn, Reply,
    RolloutChange, RolloutCommit, RolloutFilter, RolloutOrder, RolloutOrigin, RolloutProgress,
    RolloutRequestUpdate, RolloutStart, Store, StoredRollout,
};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, delivery, id, request};
use crate::harness::rollbacks::{app, entry, new};
use crate::store::{accept, claim, push, succeeded};

const LEASE: Duration = Duration::from_mins(2);

pub(super) fn rollout_id(n: i64) -> RolloutId {
    RolloutId::parse(format!("r-{}", id(n))).unwrap()
}

fn targets(names: &[&str]) -> Vec<TargetName> {
    names.iter().map(|name| TargetName::parse(*name).unwrap()).collect()
}

pub(super) fn progress(version: i64, state: &str, ended: Option<i64>) -> RolloutProgress {
    RolloutProgress {
        state: state.to_owned(),
        version,
        record: format!("{{\"version\":{version}}}"),
        waits: "[]".to_owned(),
        since: at(0),
        ended_at: ended.map(at),
        due_at: at(100),
    }
}

/// A rollout of `acme/web` to these targets.
pub(super) fn rollout(n: i64, names: &[&str]) -> StoredRollout {
    StoredRollout {
        id: rollout_id(n),
        undo_id: rollout_id(n + 500),
        repository: request("web", "prod", 1).release.repository,
        app: app(),
        name: None,
        tag: ImageTag::parse("v2").unwrap(),
        targets: targets(names),
        origin: RolloutOrigin {
            git_ref: "main".to_owned(),
            owner: "squad@example.com".to_owned(),
            automatic: false,
            recipient: Recipient::Actor,
            event: None,
        },
        creator: "ann".to_owned(),
        reason: "the fair".to_owned(),
        created_at: at(0),
        is_claimed: true,
        progress: progress(0, "created", None),
    }
}

pub(super) async fn create(
    store: &Store,
    rollout: &StoredRollout,
    may_queue: bool,
) -> RolloutStart {
    let n = store.rollouts(&RolloutFilter::default(), None, 500).await.unwrap().0.len();
    let number = 800 + i64::try_from(n).unwrap();
    let entry = entry(number, "rollout", "the fair");
    store.create_rollout(rollout, may_queue, &entry, &|_| None).await.unwrap()
}

/// A rollout of `acme/web` to these targets has begun.
pub(super) async fn begin(store: &Store, n: i64, names: &[&str]) -> StoredRollout {
    assert_eq!(create(store, &rollout(n, names), false).await, RolloutStart::Started);
    read(store, n).await
}

/// A deployment of it.
fn step(n: i64, target: &str) -> RolloutOrder {
    let request =
        DeploymentRequest { forge_id: provisional_number(&id(n)), ..request("web", target, n) };
    RolloutOrder::Deploy { id: id(n), request: Box::new(request) }
}

pub(super) async fn change(
    store: &Store,
    read: &StoredRollout,
    next: &RolloutProgress,
    orders: &[RolloutOrder],
) -> RolloutCommit {
    let change = RolloutChange {
        rollout: read,
        next,
        orders,
        entries: &[],
        events: &[],
        gate_answer: None,
        answer: None,
        lease_end: None,
    };
    store.change_rollout(change, at(10)).await.unwrap()
}

pub(super) async fn read(store: &Store, n: i64) -> StoredRollout {
    store.rollout(&rollout_id(n)).await.unwrap().unwrap()
}

#[tokio::test]
async fn it_is_read_as_it_was_stored_and_found_by_its_undo() {
    run_on_both(async |db| {
        let store = &db.store;
        let new = rollout(1, &["prod", "dev_1"]);
        assert_eq!(create(store, &new, false).await, RolloutStart::Started);
        assert_eq!(read(store, 1).await, new);
        assert_eq!(store.rollout(&rollout_id(501)).await.unwrap().unwrap().id, rollout_id(1));
        assert_eq!(store.rollout(&rollout_id(2)).await.unwrap(), None);
        let find = async |target: &str| {
            let target = Some(TargetName::parse(target).unwrap());
            let filter = RolloutFilter { target, ..RolloutFilter::default() };
            store.rollouts(&filter, None, 10).await.unwrap().0.len()
        };
        assert_eq!((find("dev_1").await, find("dev-1").await, find("pro").await), (1, 0, 0));
    })
    .await;
}

#[tokio::test]
async fn the_record_and_its_orders_are_stored_together() {
    run_on_both(async |db| {
        let store = &db.store;
        let before = begin(store, 1, &["prod", "dev"]).await;
        let orders = [step(20, "prod"), step(21, "dev")];
        let next = progress(1, "rolling_out", None);
        assert_eq!(change(store, &before, &next, &orders).await, RolloutCommit::Stored);
        let after = read(store, 1).await;
        assert_eq!((after.progress.version, after.progress.state.as_str()), (1, "rolling_out"));
        let made = store.rollout_deployments(&after).await.unwrap();
        let made: Vec<_> = made.iter().map(|one| (one.id.clone(), one.state)).collect();
        assert_eq!(made, [(id(20), State::Queued), (id(21), State::Queued)]);
    })
    .await;
}

#[tokio::test]
async fn whoever_lost_the_race_has_written_nothing() {
    run_on_both(async |db| {
        let store = &db.store;
        let before = begin(store, 1, &["prod", "dev"]).await;
        let next = progress(1, "rolling_out", None);
        assert_eq!(change(store, &before, &next, &[step(20, "prod")]).await, RolloutCommit::Stored);
        // Another replica has read the same.
        let other = progress(1, "rolling_out", None);
        assert_eq!(change(store, &before, &other, &[step(30, "dev")]).await, RolloutCommit::Lost);
        assert_eq!(store.deployment(&id(30)).await.unwrap(), None);
        // At the same moment.
        let current = read(store, 1).await;
        let (one, two) = (progress(2, "paused", None), progress(2, "undoing", None));
        let orders = ([step(40, "dev")], [step(41, "dev")]);
        let results = tokio::join!(
            change(store, &current, &one, &orders.0),
            change(store, &current, &two, &orders.1)
        );
        let stored = [&results.0, &results.1];
        assert_eq!(
            stored.iter().filter(|one| ***one == RolloutCommit::Stored).count(),
            1,
            "{stored:?}"
        );
        let all =
            [store.deployment(&id(40)).await.unwrap(), store.deployment(&id(41)).await.unwrap()];
        assert_eq!(all.iter().flatten().count(), 1, "{all:?}");
        assert_eq!(read(store, 1).await.progress.version, 2);
    })
    .await;
}

#[tokio::test]
async fn a_deployment_of_others_is_not_superseded() {
    run_on_both(async |db| {
        let store = &db.store;
        begin(store, 1, &["prod", "dev"]).await;
        accept(store, "web", 5).await;
        let before = read(store, 1).await;
        let next = progress(1, "rolling_out", None);
        let orders = [step(20, "dev"), step(21, "prod")];
        assert_eq!(
            change(store, &before, &next, &orders).await,
            RolloutCommit::Busy { target: targets(&["prod"]).remove(0), other: id(5) }
        );
        assert_eq!(read(store, 1).await.progress.version, 0);
        assert_eq!(store.deployment(&id(20)).await.unwrap(), None, "all or none");
        let mut other_app = request("web", "prod", 6);
        other_app.release.app = Some(AppName::parse("worker").unwrap());
        let accepted = store.accept(&delivery(6), &other_app, &id(6), at(6)).await.unwrap();
        assert_eq!(accepted, Accepted::New);
        // One that names no app may be of every one.
        let of_prod = |n| (TargetName::parse("prod").unwrap(), id(n));
        let beside = store.deployments_beside(&before, None).await.unwrap();
        assert_eq!(beside, [of_prod(5)]);
        let app = other_app.release.app.as_ref();
        assert_eq!(store.deployments_beside(&before, app).await.unwrap(), [of_prod(5), of_prod(6)]);
    })
    .await;
}

#[tokio::test]
async fn a_rollback_of_it_is_its_own_and_a_cancellation_may_be_repeated() {
    run_on_both(async |db| {
        let store = &db.store;
        begin(store, 1, &["prod"]).await;
        let next = progress(1, "rolling_out", None);
        assert_eq!(
            change(store, &read(store, 1).await, &next, &[step(20, "prod")]).await,
            RolloutCommit::Stored
        );
        let cancel = || RolloutOrder::Cancel {
            id: id(20),
            target: TargetName::parse("prod").unwrap(),
            by: ("the-deployer".to_owned(), "it is undone".to_owned()),
        };
        let next = progress(2, "undoing", None);
        assert_eq!(
            change(store, &read(store, 1).await, &next, &[cancel()]).await,
            RolloutCommit::Stored
        );
        assert_eq!(store.deployment(&id(20)).await.unwrap().unwrap().state, State::Cancelled);
        let mut rollback = new(30, 3);
        rollback.rollout = Some(rollout_id(501));
        let orders = [cancel(), RolloutOrder::RollBack(Box::new(rollback))];
        let next = progress(2, "undoing", None);
        assert_eq!(
            change(store, &read(store, 1).await, &next, &orders).await,
            RolloutCommit::Stored
        );
        let made = store.rollout_deployments(&read(store, 1).await).await.unwrap();
        assert_eq!(made.len(), 2);
        assert_eq!(made[1].rollout, Some(rollout_id(501)));
    })
    .await;
}

#[tokio::test]
async fn of_each_app_a_target_has_one_open_rollout() {
    run_on_both(async |db| {
        let store = &db.store;
        let first = rollout(1, &["prod", "dev"]);
        assert_eq!(create(store, &first, false).await, RolloutStart::Started);
        let second = rollout(2, &["dev", "test"]);
        assert_eq!(create(store, &second, false).await, RolloutStart::Overlaps(first.id.clone()));
        assert_eq!(store.rollout(&second.id).await.unwrap(), None);
        assert_eq!(create(store, &second, true).await, RolloutStart::Queued(first.id.clone()));
        assert!(!read(store, 2).await.is_claimed);
        // The free target of the refused one was not kept.
        let third = rollout(3, &["test"]);
        let overlap = create(store, &third, false).await;
        assert_eq!(overlap, RolloutStart::Overlaps(second.id.clone()), "it is queued for it");
        let queued = read(store, 2).await;
        assert_eq!(store.begin_queued_rollout(&queued).await.unwrap(), Some(first.id.clone()));
        let end = progress(1, "done", Some(20));
        assert_eq!(change(store, &read(store, 1).await, &end, &[]).await, RolloutCommit::Stored);
        assert_eq!(store.begin_queued_rollout(&queued).await.unwrap(), None);
        assert!(read(store, 2).await.is_claimed);
        // The first one is not opened again while the second has a target of it.
        let reopened = progress(2, "undoing", None);
        let commit = change(store, &read(store, 1).await, &reopened, &[]).await;
        assert_eq!(commit, RolloutCommit::Overlaps(second.id.clone()));
        let mut other = rollout(4, &["prod", "dev", "test"]);
        other.repository = RepoName::parse("acme/other").unwrap();
        assert_eq!(create(store, &other, false).await, RolloutStart::Started, "another app");
    })
    .await;
}

#[tokio::test]
async fn two_that_start_at_once_do_not_both_have_a_target() {
    run_on_both(async |db| {
        let store = &db.store;
        for n in 0..20_i64 {
            let names = [format!("t{n}"), format!("u{n}")];
            let one = rollout(10 + 2 * n, &[&names[0], &names[1]]);
            let two = rollout(11 + 2 * n, &[&names[1], &names[0]]);
            let (a, b) = (entry(600 + 2 * n, "rollout", "x"), entry(601 + 2 * n, "rollout", "x"));
            let starts = tokio::join!(
                store.create_rollout(&one, false, &a, &|_| None),
                store.create_rollout(&two, false, &b, &|_| None)
            );
            let starts = [starts.0.unwrap(), starts.1.unwrap()];
            let count = starts.iter().filter(|one| **one == RolloutStart::Started).count();
            assert_eq!(count, 1, "{starts:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_turn_is_one_replicas_and_a_wake_during_it_is_not_lost() {
    run_on_both(async |db| {
        let store = &db.store;
        begin(store, 1, &["prod"]).await;
        assert_eq!(store.claim_rollout(at(99), LEASE).await.unwrap(), None, "it is not due");
        let claim = store.claim_rollout(at(100), LEASE).await.unwrap().unwrap();
        assert_eq!(store.claim_rollout(at(101), LEASE).await.unwrap(), None, "one has it");
        store.rest_rollout(&claim, "[]", at(300)).await.unwrap();
        assert_eq!(read(store, 1).await.progress.due_at, at(300));
        let claim = store.claim_rollout(at(300), LEASE).await.unwrap().unwrap();
        // Its deployment ends meanwhile.
        let next = progress(1, "rolling_out", None);
        let order = [step(20, "prod")];
        let change = RolloutChange {
            rollout: &claim.rollout,
            next: &next,
            orders: &order,
            entries: &[],
            answer: None,
            events: &[],
            gate_answer: None,
            lease_end: Some(claim.lease_end),
        };
        assert_eq!(store.change_rollout(change, at(300)).await.unwrap(), RolloutCommit::Stored);
        let claim = store.claim_rollout(at(300), LEASE).await.unwrap().unwrap();
        let wakes = store.rollout_wakes();
        accept(store, "other", 21).await;
        let other = entry(701, "cancel", "x");
        let _cancelled = store.cancel(&id(21), &other, &Reply::without_key()).await.unwrap();
        assert!(!wakes.has_changed().unwrap(), "one that is of no rollout wakes nobody");
        let by = entry(700, "cancel", "x");
        let _cancelled = store.cancel(&id(20), &by, &Reply::without_key()).await.unwrap();
        assert!(wakes.has_changed().unwrap(), "the loop of this process is woken at once");
        store.rest_rollout(&claim, "[]", at(9000)).await.unwrap();
        assert_eq!(read(store, 1).await.progress.due_at, by.at, "it is due at once");
    })
    .await;
}

#[tokio::test]
async fn a_rollout_that_changes_during_a_turn_is_due_at_once() {
    run_on_both(async |db| {
        let store = &db.store;
        begin(store, 1, &["prod"]).await;
        // A person acts by what was read before the turn began.
        let before = read(store, 1).await;
        let claim = store.claim_rollout(at(100), LEASE).await.unwrap().unwrap();
        let next = RolloutProgress { due_at: at(110), ..progress(1, "paused", None) };
        assert_eq!(change(store, &before, &next, &[]).await, RolloutCommit::Stored);
        assert_eq!(read(store, 1).await.progress.due_at, at(110), "and not when the lease ends");
        store.rest_rollout(&claim, "[1]", at(9000)).await.unwrap();
        let after = read(store, 1).await.progress;
        assert_eq!((after.due_at, after.waits.as_str()), (at(110), "[]"));
        // Of two turns, the one that has lost frees the rollout that its lease holds.
        let lost = store.claim_rollout(at(110), LEASE).await.unwrap().unwrap();
        let stale = read(store, 1).await;
        let next = RolloutProgress { due_at: lost.lease_end, ..progress(2, "rolling_out", None) };
        assert_eq!(change(store, &stale, &next, &[]).await, RolloutCommit::Stored);
        store.rest_rollout(&lost, "[]", at(9000)).await.unwrap();
        assert_eq!(read(store, 1).await.progress.due_at, at(0), "it has its next turn now");
    })
    .await;
}

#[tokio::test]
async fn a_request_of_the_code_host_starts_one_rollout() {
    run_on_both(async |db| {
        let store = &db.store;
        let sent = request("web", "prod", 7);
        let trigger = RolloutTrigger {
            forge_id: 7,
            release: sent.release,
            git_ref: "main".to_owned(),
            rollout: RequestedRollout::Name("production".parse().unwrap()),
            actor: "octocat".to_owned(),
            description: String::new(),
            automatic: false,
            recipient: Recipient::Actor,
            identity: None,
        };
        assert!(store.accept_rollout_request(&trigger, at(1)).await.unwrap());
        assert!(!store.accept_rollout_request(&trigger, at(2)).await.unwrap(), "a redelivery");
        let claim = store.claim_rollout_request(at(3), LEASE).await.unwrap().unwrap();
        assert_eq!((&claim.trigger, &claim.rollout), (&trigger, &None));
        assert_eq!(store.claim_rollout_request(at(4), LEASE).await.unwrap(), None);
        let mut first = rollout(1, &["prod"]);
        first.origin.event = Some(7);
        assert_eq!(create(store, &first, false).await, RolloutStart::Started);
        let mut second = rollout(2, &["dev"]);
        second.origin.event = Some(7);
        assert_eq!(create(store, &second, false).await, RolloutStart::Repeated);
        assert_eq!(store.rollout(&second.id).await.unwrap(), None);
        let update =
            RolloutRequestUpdate { error: None, reported: None, failures: 0, due_at: Some(at(5)) };
        store.record_rollout_request(&claim, &update, at(4)).await.unwrap();
        let claim = store.claim_rollout_request(at(5), LEASE).await.unwrap().unwrap();
        assert_eq!(claim.rollout, Some(first.id));
        let told = Some("success".to_owned());
        let update =
            RolloutRequestUpdate { error: None, reported: told, failures: 0, due_at: None };
        store.record_rollout_request(&claim, &update, at(6)).await.unwrap();
        assert_eq!(store.claim_rollout_request(at(9000), LEASE).await.unwrap(), None, "it is done");
    })
    .await;
}

#[tokio::test]
async fn old_ones_are_deleted_and_the_deployments_of_open_ones_are_not() {
    run_on_both(async |db| {
        let store = &db.store;
        for (n, ended) in [(1, Some(20)), (2, None)] {
            let name = format!("t{n}");
            begin(store, n, &[&name]).await;
            // The newest deployment of a lane is kept in any case.
            for (version, order, ended) in [(1, 20 + n, None), (2, 30 + n, ended)] {
                let next = progress(version, "done", ended);
                assert_eq!(
                    change(store, &read(store, n).await, &next, &[step(order, &name)]).await,
                    RolloutCommit::Stored
                );
                let sql = "UPDATE deployments SET state = 'failed', finished_at = received_at \
                     WHERE finished_at IS NULL";
                db.execute(sql).await;
            }
        }
        db.execute("UPDATE outbox SET outcome = 'sent', done_at = at WHERE outcome IS NULL").await;
        let later = at(400 * 86_400);
        let prune = async || store.prune_deployments(later, None, 100).await.unwrap().deleted;
        assert_eq!(prune().await, 1, "only that of the one that has ended");
        assert_eq!(store.deployment(&id(21)).await.unwrap(), None);
        assert!(store.deployment(&id(22)).await.unwrap().is_some());
        assert_eq!(store.prune_rollouts(at(10), 100).await.unwrap(), 0, "not old enough");
        assert_eq!(store.prune_rollouts(at(30), 100).await.unwrap(), 1);
        assert_eq!(store.rollout(&rollout_id(1)).await.unwrap(), None);
        assert_eq!(read(store, 2).await.id, rollout_id(2));
        let end = progress(3, "done", Some(40));
        assert_eq!(change(store, &read(store, 2).await, &end, &[]).await, RolloutCommit::Stored);
        assert_eq!(prune().await, 1);
        assert_eq!(store.deployment(&id(22)).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn of_each_gate_the_newest_answers_are_kept_in_their_order_whatever_the_clock_says() {
    run_on_both(async |db| {
        let store = &db.store;
        begin(store, 1, &["prod"]).await;
        let hears = async |step: usize, second: i64, value: &str| {
            let before = read(store, 1).await;
            let next = progress(before.progress.version + 1, "rolling_out", None);
            let result = (GateOutcome::NotPassed, value.to_owned());
            let answer = GateAnswers::new(step, at(second), result);
            let change = RolloutChange {
                rollout: &before,
                next: &next,
                orders: &[],
                entries: &[],
                events: &[],
                gate_answer: Some(&answer),
                answer: None,
                lease_end: None,
            };
            assert_eq!(
                store.change_rollout(change, at(second)).await.unwrap(),
                RolloutCommit::Stored
            );
            // Whoever lost the race notes nothing.
            let change = RolloutChange {
                rollout: &before,
                next: &next,
                orders: &[],
                entries: &[],
                events: &[],
                gate_answer: Some(&answer),
                answer: None,
                lease_end: None,
            };
            assert_eq!(
                store.change_rollout(change, at(second)).await.unwrap(),
                RolloutCommit::Lost
            );
        };
        let answers = async || {
            let answers = store.gate_answers(&rollout_id(1)).await.unwrap();
            let line = |one: &GateAnswers| format!("{} {} x{}", one.step, one.value, one.asked);
            answers.iter().map(line).collect::<Vec<_>>()
        };
        hears(1, 10, "0.7").await;
        hears(1, 20, "0.7").await;
        // The clock was set back.
        hears(1, 5, "0.5").await;
        hears(3, 6, "0.5").await;
        hears(1, 7, "0.7").await;
        assert_eq!(answers().await, ["1 0.7 x2", "1 0.5 x1", "3 0.5 x1", "1 0.7 x1"]);
        for second in 0..200 {
            hears(1, 100 + second, &second.to_string()).await;
        }
        let kept = answers().await;
        assert_eq!((kept.len(), kept[0].as_str(), kept[1].as_str()), (201, "3 0.5 x1", "1 0 x1"));
        let before = read(store, 1).await;
        let next = progress(before.progress.version + 1, "done", Some(400));
        assert_eq!(change(store, &before, &next, &[]).await, RolloutCommit::Stored);
        assert_eq!(store.prune_rollouts(at(500), 10).await.unwrap(), 1);
        assert!(answers().await.is_empty(), "they go with their rollout");
    })
    .await;
}

#[tokio::test]
async fn transactions_that_end_deployments_of_several_rollouts_do_not_wait_for_each_other() {
    Box::pin(run_on_both(async |db| {
        let store = &db.store;
        begin(store, 1, &["prod", "dev"]).await;
        // The same targets, for another app of the repository.
        let slug = "shop-two".parse().unwrap();
        let other = StoredRollout { app: AppKey { slug, ..app() }, ..rollout(2, &["prod", "dev"]) };
        assert_eq!(create(store, &other, false).await, RolloutStart::Started);
        let orders = async |n: i64, target: &str, of: i64| {
            let before = read(store, of).await;
            let next = progress(before.progress.version + 1, "rolling_out", None);
            let stored = change(store, &before, &next, &[step(n, target)]).await;
            assert_eq!(stored, RolloutCommit::Stored);
        };
        let begins_to_push = async |n: i64| {
            let claimed = claim(store, n).await.unwrap();
            assert_eq!(claimed.deployment.id, id(n));
            assert_eq!(push(store, &claimed, n).await, PushTurn::Yes);
            claimed
        };
        let Completion { end: FinalState::Succeeded(pushed), .. } = succeeded() else { panic!() };
        let syncing = Completion { end: FinalState::Syncing(pushed), ..succeeded() };
        let ends = async |claimed: &Claim, n: i64| store.finish(claimed, &syncing, at(n)).await;
        for round in 0..8 {
            let n = 20 + 10 * round;
            // Each rollout has a deployment that waits for its cluster, and one that takes the place of the other's.
            for (n, target, of) in [(n, "prod", 1), (n + 1, "dev", 2)] {
                orders(n, target, of).await;
                let claimed = begins_to_push(n).await;
                assert_eq!(ends(&claimed, n).await.unwrap(), LeaseState::Held);
            }
            orders(n + 2, "prod", 2).await;
            let prod = begins_to_push(n + 2).await;
            orders(n + 3, "dev", 1).await;
            let dev = begins_to_push(n + 3).await;
            let (prod, dev) = tokio::join!(ends(&prod, n + 4), ends(&dev, n + 4));
            assert_eq!((prod.unwrap(), dev.unwrap()), (LeaseState::Held, LeaseState::Held));
            for of in [1, 2] {
                assert!(read(store, of).await.progress.due_at <= at(n + 4), "both are woken");
            }
        }
    }))
    .await;
}
