//! What people were last told of a rollout: due with each change of its record, once, whoever sends it.

use std::time::Duration;

use jiff::Timestamp;
use the_deployer::model::id::{CommitSha, ImageTag, RolloutName};
use the_deployer::model::rollout_news::{RolloutNews, RolloutPhase};
use the_deployer::store::{
    InsightScope, LeaseState, RolloutCommit, RolloutReportClaim, RolloutSink, RolloutTold,
    StateOutcome, Store, StoredRollout,
};

use super::LEASE;
use super::rollouts::{change, create, progress, read, rollout, rollout_id};
use crate::harness::database::run_on_both;
use crate::harness::requests::at;

const SENT: StateOutcome = StateOutcome::Sent { check_at: None, doubted: false };
const SINKS: [RolloutSink; 2] = [RolloutSink::Commit, RolloutSink::Channel];

async fn begin(store: &Store, n: i64) {
    super::rollouts::begin(store, n, &[&format!("t{n}")]).await;
}

/// Its record changes.
async fn moves(store: &Store, n: i64) {
    let before = read(store, n).await;
    let next = progress(before.progress.version + 1, "rolling_out", None);
    assert_eq!(change(store, &before, &next, &[]).await, RolloutCommit::Stored);
}

async fn claim(store: &Store, sink: RolloutSink, seconds: i64) -> Option<RolloutReportClaim> {
    store.claim_rollout_report(sink, "worker", at(seconds), LEASE).await.unwrap()
}

async fn end(
    store: &Store,
    claim: &RolloutReportClaim,
    (outcome, content): (&StateOutcome, &str),
    seconds: i64,
) -> LeaseState {
    let told = RolloutTold { content: Some(content.to_owned()), ..claim.told.clone() };
    let record = (outcome, &told, false);
    store.record_rollout_report(claim, record, None, at(seconds)).await.unwrap()
}

/// Sends what is due; what was sent before.
async fn send(store: &Store, content: &str, seconds: i64) -> Option<Option<String>> {
    let claim = claim(store, RolloutSink::Commit, seconds).await?;
    assert_eq!(end(store, &claim, (&SENT, content), seconds).await, LeaseState::Held);
    Some(claim.told.content)
}

#[tokio::test]
async fn a_change_of_the_record_makes_both_reports_due_once() {
    run_on_both(async |db| {
        let store = &db.store;
        begin(store, 1).await;
        for sink in SINKS {
            let claim = claim(store, sink, 10).await.unwrap();
            assert_eq!((&claim.rollout, claim.unsure), (&rollout_id(1), false));
            assert_eq!(claim.told, RolloutTold::default());
            assert_eq!(end(store, &claim, (&SENT, "a"), 10).await, LeaseState::Held);
            assert_eq!(store.next_rollout_report(sink).await.unwrap(), None);
        }
        assert_eq!(store.rollout_reports_waiting().await.unwrap(), 0);
        moves(store, 1).await;
        assert_eq!(store.rollout_reports_waiting().await.unwrap(), 2);
        assert_eq!(send(store, "b", 11).await, Some(Some("a".to_owned())));
        assert_eq!(send(store, "c", 11).await, None);
    })
    .await;
}

#[tokio::test]
async fn a_change_while_a_report_is_sent_leaves_it_due() {
    run_on_both(async |db| {
        let store = &db.store;
        begin(store, 1).await;
        let first = claim(store, RolloutSink::Commit, 10).await.unwrap();
        assert_eq!(claim(store, RolloutSink::Commit, 10).await, None, "it is claimed");
        moves(store, 1).await;
        assert_eq!(claim(store, RolloutSink::Commit, 10).await, None, "it is still claimed");
        assert_eq!(end(store, &first, (&SENT, "a"), 11).await, LeaseState::Held);
        assert_eq!(send(store, "b", 11).await, Some(Some("a".to_owned())));
        assert_eq!(send(store, "c", 11).await, None);
    })
    .await;
}

#[tokio::test]
async fn another_takes_over_in_doubt_and_the_slow_one_records_nothing() {
    run_on_both(async |db| {
        let store = &db.store;
        begin(store, 1).await;
        let slow = claim(store, RolloutSink::Channel, 10).await.unwrap();
        let later = 11 + i64::try_from(LEASE.as_secs()).unwrap();
        let other = claim(store, RolloutSink::Channel, later).await.unwrap();
        assert!(other.unsure && other.failures == 1, "{other:?}");
        assert_eq!(end(store, &slow, (&SENT, "slow"), later).await, LeaseState::Lost);
        let retry = StateOutcome::Later {
            at: at(later + 60),
            unsure: true,
            failed: true,
            reason: "no answer".to_owned(),
        };
        assert_eq!(end(store, &other, (&retry, "other"), later).await, LeaseState::Held);
        assert_eq!(claim(store, RolloutSink::Channel, later + 59).await, None);
        let third = claim(store, RolloutSink::Channel, later + 60).await.unwrap();
        assert!(third.unsure && third.failures == 2, "{third:?}");
        assert_eq!(third.told.content.as_deref(), Some("other"));
    })
    .await;
}

#[tokio::test]
async fn a_process_that_starts_alone_takes_over_at_once() {
    run_on_both(async |db| {
        let store = &db.store;
        begin(store, 1).await;
        let _lost = claim(store, RolloutSink::Commit, 10).await.unwrap();
        store.end_leases(at(11)).await.unwrap();
        assert!(claim(store, RolloutSink::Commit, 11).await.unwrap().unsure);
    })
    .await;
}

#[tokio::test]
async fn more_to_send_is_due_at_once() {
    run_on_both(async |db| {
        let store = &db.store;
        begin(store, 1).await;
        let claim = claim(store, RolloutSink::Channel, 10).await.unwrap();
        let told =
            RolloutTold { reference: Some("C1 1.0 1.0 squad".to_owned()), ..claim.told.clone() };
        let record = (&SENT, &told, true);
        let state = store.record_rollout_report(&claim, record, None, at(10)).await.unwrap();
        assert_eq!(state, LeaseState::Held);
        let next = store.next_rollout_report(RolloutSink::Channel).await.unwrap();
        assert_eq!(next, Some(at(10)));
    })
    .await;
}

/// A rollout of that name and commit.
fn named(n: i64, commit: char) -> StoredRollout {
    let mut new = rollout(n, &[&format!("t{n}")]);
    new.name = RolloutName::parse("production").ok();
    new.progress.record = format!("{{\"commit\":\"{}\"}}", commit.to_string().repeat(40));
    new
}

#[tokio::test]
async fn a_commit_has_the_status_of_the_newest_rollout_of_a_name() {
    run_on_both(async |db| {
        let store = &db.store;
        for (n, commit) in [(1, 'a'), (2, 'b'), (3, 'a')] {
            let _start = create(store, &named(n, commit), false).await;
        }
        let newer = async |n: i64, commit: char| {
            let StoredRollout { id, app, repository, name, .. } = named(n, commit);
            let news = RolloutNews {
                id,
                name,
                app,
                repository,
                commit: CommitSha::parse(commit.to_string().repeat(40)).unwrap(),
                tag: ImageTag::parse("v2").unwrap(),
                starter: "ann".to_owned(),
                phase: RolloutPhase::UnderWay,
                since: at(0),
                index: 0,
                steps: 1,
                next_targets: Vec::new(),
                wait: None,
                targets: Vec::new(),
            };
            let nameless = RolloutNews { name: None, ..news.clone() };
            assert_eq!(store.newer_rollout_of_commit(&nameless).await.unwrap(), None);
            store.newer_rollout_of_commit(&news).await.unwrap()
        };
        assert_eq!(newer(1, 'a').await, Some(rollout_id(3)));
        assert_eq!((newer(2, 'b').await, newer(3, 'a').await), (None, None));
    })
    .await;
}

#[tokio::test]
async fn insights_count_the_rollouts_of_a_window() {
    run_on_both(async |db| {
        let store = &db.store;
        for n in [1, 2, 3] {
            begin(store, n).await;
        }
        let before = read(store, 1).await;
        let next = progress(1, "done", Some(90));
        assert_eq!(change(store, &before, &next, &[]).await, RolloutCommit::Stored);
        moves(store, 2).await;
        let open = store.open_rollouts().await.unwrap();
        assert_eq!(open.iter().map(|(_, count)| count).sum::<u64>(), 2, "{open:?}");
        let scope = |since: Timestamp| InsightScope {
            since,
            until: at(1000),
            target: None,
            app: None,
            places: None,
        };
        let all = store.rollout_outcomes(&scope(at(0)), 100).await.unwrap();
        assert_eq!(all.len(), 3);
        let done: Vec<_> = all.iter().filter(|one| one.state == "done").collect();
        assert_eq!((done.len(), done[0].ended_at), (1, Some(at(90))));
        assert!(store.rollout_outcomes(&scope(at(1)), 100).await.unwrap().is_empty());
        let of =
            |target: &str| InsightScope { target: Some(target.parse().unwrap()), ..scope(at(0)) };
        assert_eq!(store.rollout_outcomes(&of("t2"), 100).await.unwrap().len(), 1);
        assert!(store.rollout_outcomes(&of("t9"), 100).await.unwrap().is_empty());
        let nothing = InsightScope { places: Some(Vec::new()), ..scope(at(0)) };
        assert!(store.rollout_outcomes(&nothing, 100).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn calls_about_rollouts_count_in_the_hour_of_the_code_host() {
    run_on_both(async |db| {
        let store = &db.store;
        begin(store, 1).await;
        let claim = claim(store, RolloutSink::Commit, 10).await.unwrap();
        let repository = rollout(1, &["t1"]).repository;
        let record = (&SENT, &claim.told, false);
        let calls = Some((&repository, 2));
        let state = store.record_rollout_report(&claim, record, calls, at(10)).await.unwrap();
        assert_eq!(state, LeaseState::Held);
        let counted = store.forge_calls(at(20)).await.unwrap();
        let counts: Vec<_> =
            counted.iter().map(|call| (call.status.is_some(), call.count)).collect();
        assert_eq!(counts, [(false, 2)]);
        let hour = i64::try_from(Duration::from_hours(1).as_secs()).unwrap();
        assert!(store.forge_calls(at(11 + hour)).await.unwrap().is_empty());
    })
    .await;
}
