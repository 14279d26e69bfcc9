//! What insights ask: sums over all deployments of a window.

use the_deployer::model::deploy_clock::{DeployInterval, Lapse};
use the_deployer::model::deployment::{ForgeState, State};
use the_deployer::model::id::{AppKey, Namespace, RepoName, Slug, TargetName};
use the_deployer::model::status::ForgeStatus;
use the_deployer::store::{
    ChangeFailure, ClusterChange, Completion, DeploymentKind, DeploymentPlace, FinalState,
    Findings, InsightScope, LeaseState, OutcomeCount, PushTurn, Store,
};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, id};
use crate::store::{LEASE, accept, claim, record_change, succeeded};

fn prod() -> TargetName {
    TargetName::parse("prod").unwrap()
}

fn web() -> AppKey {
    AppKey { namespace: Namespace::parse("shop").unwrap(), slug: Slug::parse("web").unwrap() }
}

fn place(repository: &str, app: Option<AppKey>) -> DeploymentPlace {
    let repository = RepoName::parse(format!("acme/{repository}")).unwrap();
    DeploymentPlace { target: prod(), repository, app }
}

fn everything() -> InsightScope {
    InsightScope { since: at(0), until: at(1000), target: None, app: None, places: None }
}

/// Deployment `n` of the lane is received at second `n`, and pushed ten seconds later.
async fn push(store: &Store, lane: &str, n: i64, is_watched: bool) {
    accept(store, lane, n).await;
    let claimed = claim(store, n).await.unwrap();
    let findings = Findings { app: Some(web()), ..Findings::default() };
    assert_eq!(store.begin_push(&claimed, &findings, at(n + 5)).await.unwrap(), PushTurn::Yes);
    let FinalState::Succeeded(pushed) = succeeded().end else { panic!("it has not succeeded") };
    let end = if is_watched { FinalState::Syncing(pushed) } else { FinalState::Succeeded(pushed) };
    let ending = Completion { end, findings, ..succeeded() };
    assert_eq!(store.finish(&claimed, &ending, at(n + 10)).await.unwrap(), LeaseState::Held);
}

/// Deployment `n` fails in its cluster.
async fn fail(store: &Store, n: i64, seconds: i64) {
    let status = ForgeStatus::new(ForgeState::Failure, "it crashes");
    record_change(store, ClusterChange::end(id(n), State::Failed, status), seconds).await;
}

/// One succeeded, one failed in its cluster, one repaired it, and one waits.
async fn four(store: &Store) {
    push(store, "web", 100, false).await;
    push(store, "web", 200, true).await;
    fail(store, 200, 300).await;
    push(store, "web", 400, false).await;
    accept(store, "cart", 500).await;
}

#[tokio::test]
async fn deployments_are_counted_by_outcome_and_their_lengths_come_together() {
    run_on_both(async |db| {
        let store = &db.store;
        four(store).await;
        let scope = everything();
        let mut changes = store.outcome_counts(DeploymentKind::Change, &scope).await.unwrap();
        changes.sort_by_key(|one| one.state);
        let outcome = |state, count| OutcomeCount { state, is_pushed: true, count };
        assert_eq!(changes, [outcome(State::Succeeded, 2), outcome(State::Failed, 1)]);
        let waiting = store.outcome_counts(DeploymentKind::Unfinished, &scope).await.unwrap();
        assert_eq!(waiting, [OutcomeCount { state: State::Queued, is_pushed: false, count: 1 }]);
        let packed = store.packed_lapses(DeploymentKind::Change, &scope).await.unwrap();
        let lengths: Vec<_> = packed
            .iter()
            .map(|lapses| {
                lapses.iter().find(|(one, _)| *one == DeployInterval::Deployer).unwrap().1
            })
            .collect();
        assert_eq!((packed.count, lengths), (3, vec![Lapse::Millis(10_000); 3]));
        let leads = packed.iter().filter_map(|lapses| lapses.lead_time).count();
        assert_eq!(leads, 2, "one has not succeeded");
        let start =
            async |count| store.slice_start(DeploymentKind::Change, &scope, count).await.unwrap();
        assert_eq!(
            [start(1).await, start(2).await, start(4).await],
            [Some(at(400)), Some(at(200)), None]
        );
        let none = InsightScope { since: at(401), until: at(500), ..everything() };
        let packed = store.packed_lapses(DeploymentKind::Change, &none).await.unwrap();
        assert_eq!((packed.count, packed.iter().count()), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn deployments_that_a_former_version_pushed_are_measured() {
    run_on_both(async |db| {
        let store = &db.store;
        four(store).await;
        let packed =
            async || store.packed_lapses(DeploymentKind::Change, &everything()).await.unwrap();
        let recorded = packed().await;
        assert_eq!(store.measure_lapses(10).await.unwrap(), 0, "this version measures them itself");
        db.execute("UPDATE deployments SET lapses = NULL").await;
        assert_eq!((packed().await.count, packed().await.iter().count()), (3, 0));
        // Of the four one waits.
        let batches = [2, 2, 2].map(|limit| store.measure_lapses(limit));
        let mut counts = Vec::new();
        for batch in batches {
            counts.push(batch.await.unwrap());
        }
        assert_eq!(counts, [2, 1, 0]);
        assert_eq!(packed().await, recorded);
    })
    .await;
}

#[tokio::test]
async fn only_what_the_scope_names_is_counted() {
    run_on_both(async |db| {
        let store = &db.store;
        four(store).await;
        let mut places = store.deployment_places(&everything(), 9).await.unwrap();
        places.sort();
        assert_eq!(places, [place("cart", None), place("web", Some(web()))]);
        assert_eq!(store.deployment_places(&everything(), 1).await.unwrap().len(), 1);
        let count = async |scope: InsightScope| {
            let mut counts = Vec::new();
            for kind in [DeploymentKind::Change, DeploymentKind::Unfinished] {
                let outcomes = store.outcome_counts(kind, &scope).await.unwrap();
                counts.push(outcomes.iter().map(|one| one.count).sum::<u64>());
            }
            let packed = store.packed_lapses(DeploymentKind::Change, &scope).await.unwrap();
            assert_eq!(packed.count, counts[0], "{scope:?}");
            (counts[0], counts[1])
        };
        let of =
            |places: Vec<DeploymentPlace>| InsightScope { places: Some(places), ..everything() };
        assert_eq!(count(of(vec![place("cart", None)])).await, (0, 1));
        assert_eq!(count(of(vec![place("web", Some(web()))])).await, (3, 0));
        assert_eq!(count(of(places)).await, (3, 1));
        let dev = TargetName::parse("dev").unwrap();
        assert_eq!(count(InsightScope { target: Some(dev), ..everything() }).await, (0, 0));
        assert_eq!(count(InsightScope { target: Some(prod()), ..everything() }).await, (3, 1));
        assert_eq!(count(InsightScope { app: Some(web()), ..everything() }).await, (3, 0));
    })
    .await;
}

#[tokio::test]
async fn a_change_fails_in_its_cluster_or_is_rolled_back_and_the_next_success_restores() {
    run_on_both(async |db| {
        let store = &db.store;
        four(store).await;
        let failures = async || store.failed_changes(&everything(), 9).await.unwrap();
        let failed = ChangeFailure { ended_at: at(300), restored_at: Some(at(410)) };
        assert_eq!(failures().await, [failed]);
        // The third one was a rollback from the first.
        let rollback = format!(
            r#"{{"to": "{}", "from": "{}", "away": null, "tree": "x", "reason": "slow", "hold": false}}"#,
            id(50), id(100)
        );
        db.execute(&format!("UPDATE deployments SET rollback = '{rollback}' WHERE id = '{}'", id(400)))
            .await;
        let mut both = failures().await;
        both.sort_by_key(|failure| failure.ended_at);
        assert_eq!(both, [ChangeFailure { ended_at: at(110), restored_at: Some(at(410)) }, failed]);
        let rollbacks = store.packed_lapses(DeploymentKind::Rollback, &everything()).await.unwrap();
        assert_eq!(rollbacks.count, 1);
        // The change that was rolled back is older than the window.
        let late = InsightScope { since: at(150), ..everything() };
        assert_eq!(store.failed_changes(&late, 9).await.unwrap(), [failed]);
        db.execute(&format!("UPDATE deployments SET state = 'failed' WHERE id = '{}'", id(400))).await;
        let open = ChangeFailure { restored_at: None, ..failed };
        assert_eq!(failures().await, [open], "nothing has succeeded since");
        assert!(claim(store, 600).await.is_some(), "{LEASE:?}");
    })
    .await;
}

#[tokio::test]
async fn lengths_and_outcomes_are_read_from_indexes_of_narrow_columns() {
    run_on_both(async |db| {
        for target in ["", " AND target || '' = 'prod'"] {
            let sql = format!(
                "SELECT 'lapses' AS id, COUNT(*) AS n, string_agg(lapses, ' ') AS lapses \
                 FROM deployments WHERE finished_at IS NOT NULL AND rollback IS NULL AND fleet IS NULL \
                 AND received_at >= 1 AND received_at < 9{target}"
            );
            if let Some(plan) = db.sqlite_plan(&sql).await {
                assert!(plan.contains("USING COVERING INDEX deployments_changes"), "{plan}");
            }
        }
        for (columns, rest) in [
            ("state AS id, state, cluster_state, COUNT(*) AS n", "GROUP BY state, cluster_state"),
            ("'slice' AS id, received_at", "ORDER BY received_at DESC LIMIT 1 OFFSET 9"),
        ] {
            let sql = format!(
                "SELECT {columns} FROM deployments WHERE finished_at IS NOT NULL AND rollback IS NULL AND fleet IS NULL \
                 AND received_at >= 1 AND received_at < 9 {rest}"
            );
            if let Some(plan) = db.sqlite_plan(&sql).await {
                let index = "USING COVERING INDEX deployments_changes";
                assert!(plan.contains(index), "{plan}");
            }
        }
        let failures = "SELECT id, target, namespace, slug, cluster_at, finished_at, \
             (SELECT COALESCE(s.cluster_at, s.finished_at) FROM deployments s \
             WHERE s.target = f.target AND s.namespace = f.namespace AND s.slug = f.slug AND s.id > f.id \
             AND COALESCE(s.cluster_state, s.state) = 'succeeded' ORDER BY s.id LIMIT 1) FROM deployments f \
             WHERE rollback IS NULL AND fleet IS NULL AND state = 'succeeded' AND cluster_state = 'failed' \
             AND received_at >= 1 AND received_at < 9 ORDER BY received_at DESC LIMIT 9";
        if let Some(plan) = db.sqlite_plan(failures).await {
            for index in ["deployments_cluster_failures", "deployments_successes"] {
                assert!(plan.contains(&format!("USING COVERING INDEX {index}")), "{plan}");
            }
        }
    })
    .await;
}
