//! Preview environments: reports in the transaction of the cluster's watch, and the claims of those who send them.

use std::time::Duration;

use the_deployer::model::environment::{
    EnvironmentChange, EnvironmentCommit, EnvironmentReport, EnvironmentState, WorkloadName,
};
use the_deployer::model::id::{CommitSha, RepoName, TargetName};
use the_deployer::store::{
    ClusterFindings, ClusterLease, EnvironmentStatusClaim, LeaseState, ShownComment, StateOutcome,
    Store, WorkloadRecord,
};

use super::LEASE;
use crate::harness::database::run_on_both;
use crate::harness::requests::at;

const WAITING: EnvironmentState = EnvironmentState::Waiting;
const READY: EnvironmentState = EnvironmentState::Ready;
const SENT: StateOutcome = StateOutcome::Sent { check_at: None, doubted: false };

fn cluster() -> TargetName {
    TargetName::parse("dev").unwrap()
}

fn web() -> RepoName {
    RepoName::parse("acme/web").unwrap()
}

fn name(text: &str) -> WorkloadName {
    WorkloadName {
        kind: "Deployment".to_owned(),
        namespace: "pr-1".to_owned(),
        name: text.to_owned(),
    }
}

fn sha(commit: char) -> CommitSha {
    CommitSha::parse(commit.to_string().repeat(40)).unwrap()
}

fn report(workload: &str, commit: char, state: EnvironmentState) -> EnvironmentReport {
    EnvironmentReport {
        workload: name(workload),
        commit: EnvironmentCommit {
            repository: web(),
            commit: sha(commit),
            pull_request: Some(1),
            link: None,
        },
        state,
        sentence: state.as_str().to_owned(),
        causes: 0,
        announced: true,
    }
}

/// A cluster whose watch this process has.
struct Watch<'a> {
    store: &'a Store,
    lease: ClusterLease,
}

impl<'a> Watch<'a> {
    async fn begin(store: &'a Store) -> Self {
        let lease = store.lease_cluster(&cluster(), "one", at(0), Duration::from_hours(1)).await;
        Self { store, lease: lease.unwrap().unwrap() }
    }

    async fn record(&self, changes: &[EnvironmentChange], seconds: i64) {
        let recorded = self
            .store
            .record_cluster_progress(
                &self.lease,
                ClusterFindings { environments: changes, ..ClusterFindings::default() },
                at(seconds),
            )
            .await;
        assert_eq!(recorded.unwrap(), LeaseState::Held);
    }

    async fn report(&self, report: EnvironmentReport, seconds: i64) {
        self.record(&[EnvironmentChange::Report(Box::new(report))], seconds).await;
    }

    async fn claim(&self, seconds: i64) -> Option<EnvironmentStatusClaim> {
        self.store.claim_environment_status("worker", at(seconds), LEASE).await.unwrap()
    }

    async fn end(
        &self,
        claim: &EnvironmentStatusClaim,
        outcome: &StateOutcome,
        seconds: i64,
    ) -> LeaseState {
        let now = at(seconds);
        self.store.record_environment_status(claim, outcome, 1, now).await.unwrap()
    }

    /// Sends what is due; its news.
    async fn send(&self, seconds: i64) -> Option<String> {
        let claim = self.claim(seconds).await?;
        assert_eq!(self.end(&claim, &SENT, seconds).await, LeaseState::Held);
        claim.news
    }
}

#[tokio::test]
async fn the_same_news_is_due_once_and_what_was_overtaken_never() {
    run_on_both(async |db| {
        let watch = Watch::begin(&db.store).await;
        watch.report(report("web", 'a', WAITING), 1).await;
        assert_eq!(watch.send(1).await.as_deref(), Some("waiting"));
        watch.report(report("web", 'a', WAITING), 2).await;
        assert_eq!(watch.claim(2).await, None, "its pods alone have changed");
        let cause = EnvironmentReport { causes: 1, ..report("web", 'a', WAITING) };
        watch.report(cause, 3).await;
        assert_eq!(watch.send(3).await.as_deref(), Some("waiting:1"));
        watch.report(report("web", 'a', READY), 5).await;
        watch.report(report("web", 'a', READY), 6).await;
        let claim = watch.claim(6).await.unwrap();
        let times = (claim.workload.began_at, claim.workload.ended_at);
        assert_eq!(times, (at(1).as_millisecond(), Some(at(5).as_millisecond())));
        assert_eq!(
            (claim.told.as_deref(), claim.news.as_deref()),
            (Some("waiting:1"), Some("ready"))
        );
        let _state = watch.end(&claim, &SENT, 6).await;
        assert_eq!(watch.claim(7).await, None);
        // A new rollout of the same commit that is over before anybody could be told of it.
        watch.report(report("web", 'a', WAITING), 8).await;
        watch.report(report("web", 'a', READY), 9).await;
        let claim = watch.claim(9).await.unwrap();
        assert_eq!(
            (&claim.told, &claim.news),
            (&Some("ready".to_owned()), &Some("ready".to_owned()))
        );
        let _state = watch.end(&claim, &StateOutcome::Nothing("sent before".to_owned()), 9).await;
    })
    .await;
}

#[tokio::test]
async fn a_workload_that_names_another_commit_again_and_again_leaves_no_queue() {
    run_on_both(async |db| {
        let watch = Watch::begin(&db.store).await;
        for second in 1..60 {
            let commit = if second % 2 == 0 { 'a' } else { 'b' };
            watch.report(report("flips", commit, READY), second).await;
        }
        watch.report(report("web", 'c', READY), 60).await;
        let mut told = Vec::new();
        while let Some(claim) = watch.claim(60).await {
            told.push(claim.workload.commit.commit.clone());
            assert_eq!(watch.end(&claim, &SENT, 60).await, LeaseState::Held);
        }
        assert_eq!(told, [sha('b'), sha('c')]);
    })
    .await;
}

#[tokio::test]
async fn a_report_while_a_status_is_sent_leaves_the_row_open_and_a_slow_sender_changes_nothing() {
    run_on_both(async |db| {
        let watch = Watch::begin(&db.store).await;
        watch.report(report("web", 'a', WAITING), 1).await;
        let first = watch.claim(1).await.unwrap();
        assert!(!first.unsure);
        watch.report(report("web", 'a', READY), 2).await;
        assert_eq!(watch.claim(2).await, None, "the first call must not be overtaken");
        assert_eq!(watch.end(&first, &SENT, 3).await, LeaseState::Held);
        let second = watch.claim(3).await.unwrap();
        assert_eq!(
            (second.told.as_deref(), second.news.as_deref()),
            (Some("waiting"), Some("ready"))
        );
        // Its lease ends: another one looks first.
        let after = 4 + i64::try_from(LEASE.as_secs()).unwrap();
        let third = watch.claim(after).await.unwrap();
        assert!(third.unsure && third.failures == 1);
        assert_eq!(watch.end(&second, &SENT, after).await, LeaseState::Lost);
        assert_eq!(watch.end(&third, &SENT, after).await, LeaseState::Held);
        assert_eq!(watch.claim(after).await, None);
    })
    .await;
}

#[tokio::test]
async fn another_commit_a_deletion_and_other_annotations_end_what_waits() {
    run_on_both(async |db| {
        let watch = Watch::begin(&db.store).await;
        let record = |workload: &str| WorkloadRecord {
            workload: name(workload).to_string(),
            uid: "u".to_owned(),
            sequence: 1,
            deployment: None,
            record: "{}".to_owned(),
        };
        let records = [record("web"), record("api")];
        let recording = watch
            .store
            .record_cluster_progress(
                &watch.lease,
                ClusterFindings { workloads: &records, ..ClusterFindings::default() },
                at(0),
            )
            .await;
        assert_eq!(recording.unwrap(), LeaseState::Held);
        watch.report(report("web", 'a', WAITING), 1).await;
        assert_eq!(watch.send(1).await.as_deref(), Some("waiting"));
        watch.report(report("web", 'b', WAITING), 2).await;
        let claim = watch.claim(2).await.unwrap();
        assert_eq!(claim.workload.state, EnvironmentState::Superseded);
        assert_eq!(claim.workload.sentence, "superseded by bbbbbbbb before it was ready");
        let _state = watch.end(&claim, &SENT, 2).await;
        assert_eq!(watch.send(2).await.as_deref(), Some("waiting"));
        watch.record(&[EnvironmentChange::Deleted(name("web"))], 3).await;
        assert_eq!(watch.send(3).await.as_deref(), Some("removed"));
        assert_eq!(watch.store.workload_records(&cluster()).await.unwrap().len(), 1);
        watch.report(report("api", 'b', WAITING), 4).await;
        watch.record(&[EnvironmentChange::Withdrawn(name("api"))], 5).await;
        assert_eq!(watch.send(5).await.as_deref(), Some("removed"));
        assert_eq!(watch.store.workload_records(&cluster()).await.unwrap().len(), 1);
        assert!(watch.store.environment_of(&web(), 1).await.unwrap().is_empty());
        // One that is gone and there again in one look.
        let again = report("api", 'b', READY);
        let changes =
            [EnvironmentChange::Deleted(name("api")), EnvironmentChange::Report(Box::new(again))];
        watch.record(&changes, 6).await;
        assert_eq!(watch.send(6).await.as_deref(), Some("ready"));
        // What ran stays what it was.
        watch.record(&[EnvironmentChange::Deleted(name("api"))], 7).await;
        assert_eq!(watch.claim(7).await, None);
    })
    .await;
}

#[tokio::test]
async fn what_the_forge_refuses_is_never_due_again_and_what_is_silent_never() {
    run_on_both(async |db| {
        let watch = Watch::begin(&db.store).await;
        watch.report(report("web", 'a', WAITING), 1).await;
        let claim = watch.claim(1).await.unwrap();
        let _state = watch.end(&claim, &StateOutcome::Refused("no commit".to_owned()), 1).await;
        watch.report(report("web", 'a', READY), 2).await;
        assert_eq!(watch.claim(2).await, None);
        let silent = EnvironmentReport { announced: false, ..report("api", 'b', READY) };
        watch.report(silent, 3).await;
        assert_eq!(watch.claim(3).await, None);
        let workloads = watch.store.environment_of(&web(), 1).await.unwrap();
        let announced: Vec<bool> = workloads.iter().map(|one| one.announced).collect();
        assert_eq!(announced, [false, true]);
    })
    .await;
}

#[tokio::test]
async fn one_commit_has_fifty_workloads_at_most() {
    run_on_both(async |db| {
        let watch = Watch::begin(&db.store).await;
        let flood: Vec<EnvironmentChange> = (0..250)
            .map(|n| EnvironmentChange::Report(Box::new(report(&format!("web-{n}"), 'a', WAITING))))
            .collect();
        watch.record(&flood, 1).await;
        watch.record(&flood, 2).await;
        assert_eq!(watch.store.environment_of(&web(), 1).await.unwrap().len(), 50);
        assert_eq!(watch.store.environments_waiting().await.unwrap(), 50);
        watch.report(report("web", 'b', WAITING), 3).await;
        assert_eq!(watch.store.environments_waiting().await.unwrap(), 51);
    })
    .await;
}

#[tokio::test]
async fn a_comment_is_due_when_something_has_ended_and_remembers_what_it_says() {
    run_on_both(async |db| {
        let watch = Watch::begin(&db.store).await;
        let claim = async |seconds| {
            db.store.claim_environment_comment("worker", at(seconds), LEASE).await.unwrap()
        };
        watch.report(report("web", 'a', WAITING), 1).await;
        assert_eq!(claim(100).await, None);
        watch.report(report("web", 'a', READY), 2).await;
        assert_eq!(claim(6).await, None, "others may become ready, too");
        assert_eq!(watch.send(6).await.as_deref(), Some("ready"));
        assert_eq!(db.store.next_environment().await.unwrap(), Some(at(7)));
        let first = claim(7).await.unwrap();
        assert_eq!((&first.shown, first.failures), (&ShownComment::default(), 0));
        let shown = ShownComment {
            comment: Some(9),
            commit: Some(sha('a')),
            digest: Some("d".to_owned()),
            dismissed: None,
        };
        // Something ends meanwhile.
        watch.report(report("api", 'a', READY), 8).await;
        let store = &db.store;
        let record = async |claim, shown: &ShownComment, seconds| {
            store.record_environment_comment(claim, &SENT, shown, 1, at(seconds)).await.unwrap()
        };
        assert_eq!(record(&first, &shown, 9).await, LeaseState::Held);
        let second = claim(9).await.unwrap();
        assert_eq!(second.shown, shown);
        assert_eq!(record(&first, &shown, 9).await, LeaseState::Lost);
        assert_eq!(record(&second, &shown, 9).await, LeaseState::Held);
        assert_eq!(claim(1000).await, None);
        // Whoever lost the claim has made the call nevertheless.
        assert_eq!(store.environment_calls(at(10)).await.unwrap(), [(web(), 4)]);
        assert!(store.environment_calls(at(3700)).await.unwrap().is_empty());
        assert_eq!(
            store.forge_calls(at(10)).await.unwrap().iter().map(|one| one.count).sum::<usize>(),
            4
        );
    })
    .await;
}

#[tokio::test]
async fn a_cluster_that_nobody_watches_ends_what_waits_and_what_is_old_is_deleted() {
    run_on_both(async |db| {
        let watch = Watch::begin(&db.store).await;
        watch.report(report("web", 'a', WAITING), 1).await;
        watch.send(1).await;
        let end = async |watched: &[&TargetName], seconds| {
            let before = at(seconds - 600);
            db.store.end_unwatched_environments(watched, before, at(seconds)).await.unwrap()
        };
        assert_eq!(end(&[], 700).await, 0, "its lease lasts");
        assert_eq!(end(&[&cluster()], 9000).await, 0, "this process watches it");
        assert_eq!(end(&[], 9000).await, 1);
        assert_eq!(watch.send(9000).await.as_deref(), Some("removed"));
        assert_eq!(end(&[], 9001).await, 0);
        // Whatever is sent a month later deletes it.
        let target = cluster();
        let lease = db.store.lease_cluster(&target, "two", at(9000), Duration::from_hours(9999));
        let watch = Watch { store: &db.store, lease: lease.await.unwrap().unwrap() };
        let month = 9000 + 31 * 24 * 3600;
        watch.report(report("web", 'a', WAITING), 9001).await;
        watch.record(&[EnvironmentChange::Deleted(name("web"))], 9002).await;
        watch.send(9002).await;
        watch.report(report("web", 'b', WAITING), month).await;
        watch.send(month).await;
        assert_eq!(db.url().count("environment_workloads").await, 1);
    })
    .await;
}
