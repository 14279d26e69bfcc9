//! The marks of the deploy clock that a cluster shows: what Argo CD says of the commit, and when the first workload
//! carried the revision. Pure.

use jiff::Timestamp;

use crate::cluster::argocd::{ArgoApplication, SyncOperation};
use crate::cluster::expected::ExpectedRevision;
use crate::cluster::object::WatchedKind;
use crate::cluster::progress::{SyncProgress, sync_progress};
use crate::cluster::record::{ClockSource, ClockTime, ProgressRecord};
use crate::model::deploy_clock::{DeployMark, MarkClock, MarkTime};

/// Returns the marks of a deployment that its cluster shows now. Records of other deployments count for nothing.
pub(super) fn cluster_marks(
    expected: &ExpectedRevision,
    application: Option<&ArgoApplication>,
    records: &[&ProgressRecord],
    now: Timestamp,
) -> Vec<MarkTime> {
    // A push without a commit names an old one, which was synced long before.
    let application = application.filter(|_| expected.changed);
    let mut marks = application.map_or_else(Vec::new, |one| sync_marks(expected, one, now));
    let is_its = |record: &&ProgressRecord| {
        record.key.deploy_id.as_ref() == Some(&expected.deploy_id)
            && record.key.workload.kind != WatchedKind::Application
    };
    let started = records.iter().copied().filter(is_its).map(|record| record.started);
    let first = started.min_by_key(|time| time.at);
    marks.extend(first.map(|time| mark_of(DeployMark::RolloutBegan, time, now)));
    marks
}

/// Returns the mark of a step whose time somebody else's record has.
pub(super) fn mark_of(mark: DeployMark, time: ClockTime, now: Timestamp) -> MarkTime {
    match time.clock {
        ClockSource::Service => MarkTime::of_service(mark, time.at),
        ClockSource::Cluster => MarkTime::new(mark, time.at, MarkClock::Cluster, now),
    }
}

/// Reads Argo CD's times. What its status shows without a time is seen now.
fn sync_marks(
    expected: &ExpectedRevision,
    application: &ArgoApplication,
    now: Timestamp,
) -> Vec<MarkTime> {
    let holds = |revision: &str| expected.commits.iter().any(|commit| commit == revision);
    let operation = application.operation.as_ref().filter(|one| holds(&one.revision));
    // The operation of a later sync of the same commit has taken the place of the first.
    let first = application.history.iter().find(|sync| holds(&sync.revision));
    let is_compared = holds(&application.revision);
    let has_succeeded = operation.is_some_and(|one| &*one.phase == "Succeeded")
        || sync_progress(application, &expected.commits) == SyncProgress::Synced;

    let began = earliest([
        first.and_then(|sync| sync.started_at),
        operation.and_then(|operation| operation.started_at),
    ]);
    let compared = application.reconciled_at.filter(|_| is_compared);
    let seen = earliest([compared, began]);
    let synced = first.and_then(|sync| sync.finished_at).or_else(|| {
        let finished_at = |one: &SyncOperation| one.finished_at;
        operation.and_then(finished_at).or(compared).filter(|_| has_succeeded)
    });
    let at = |mark, time: Option<Timestamp>, is_there: bool| match time {
        Some(at) => Some(MarkTime::new(mark, at, MarkClock::Cluster, now)),
        None => is_there.then(|| MarkTime::of_service(mark, now)),
    };
    let has_begun = operation.is_some() || first.is_some();
    let is_seen = is_compared || has_begun;
    let marks = [
        at(DeployMark::CommitSeen, seen, is_seen),
        at(DeployMark::SyncBegan, began, has_begun),
        at(DeployMark::Synced, synced, has_succeeded || first.is_some()),
    ];
    marks.into_iter().flatten().collect()
}

fn earliest(times: [Option<Timestamp>; 2]) -> Option<Timestamp> {
    times.into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::cluster::object::ObjectKey;
    use crate::model::id::{AppKey, DeployId};
    use crate::model::revision::Digest;

    const NOW: &str = "2026-11-21T05:50:00.5Z";

    fn expected() -> ExpectedRevision {
        ExpectedRevision {
            app: AppKey { namespace: "devx".parse().unwrap(), slug: "web".parse().unwrap() },
            deploy_id: DeployId::parse("20261121-054812123-3f9a2c").unwrap(),
            digest: Digest("sha256:ab".to_owned()),
            workloads: Vec::new(),
            application: Some(ObjectKey::new(WatchedKind::Application, "argocd", "web")),
            commits: vec!["ours".to_owned(), "later".to_owned()],
            changed: true,
            awaiting: true,
            pushed_at: "2026-11-21T05:48:14Z".parse().unwrap(),
        }
    }

    fn time(seconds: u32) -> String {
        format!("2026-11-21T05:49:{seconds:02}Z")
    }

    /// Returns the marks that an Application with that status shows: each with its second, or `now`.
    fn marks(status: &Json) -> Vec<(DeployMark, String)> {
        marks_for(&expected(), status)
    }

    fn marks_for(expected: &ExpectedRevision, status: &Json) -> Vec<(DeployMark, String)> {
        let application =
            json!({"metadata": {"name": "web", "namespace": "argocd"}, "status": status});
        let application = ArgoApplication::read(&application).unwrap();
        let times = cluster_marks(expected, Some(&application), &[], NOW.parse().unwrap());
        let show = |time: MarkTime| match time.clock {
            MarkClock::Cluster => (time.mark, time.at.strftime("%S").to_string()),
            MarkClock::Service | MarkClock::CodeHost => (time.mark, "now".to_owned()),
        };
        times.into_iter().map(show).collect()
    }

    fn show(seen: &str, began: &str, synced: &str) -> Vec<(DeployMark, String)> {
        let marks = [
            (DeployMark::CommitSeen, seen),
            (DeployMark::SyncBegan, began),
            (DeployMark::Synced, synced),
        ];
        let there = marks.into_iter().filter(|(_, second)| !second.is_empty());
        there.map(|(mark, second)| (mark, second.to_owned())).collect()
    }

    fn operation(phase: &str, revision: &str, started: u32, finished: Option<u32>) -> Json {
        json!({
            "phase": phase, "syncResult": {"revision": revision}, "startedAt": time(started),
            "finishedAt": finished.map(time),
        })
    }

    #[test]
    fn the_status_of_an_application_moves_from_mark_to_mark() {
        let compared =
            |revision: &str, at| json!({"status": "OutOfSync", "revision": revision, "at": at});
        assert_eq!(marks(&json!({"sync": compared("before", 1), "reconciledAt": time(1)})), []);
        let seen = json!({"sync": compared("ours", 2), "reconciledAt": time(2)});
        assert_eq!(marks(&seen), show("02", "", ""));
        let running = json!({
            "sync": {"status": "OutOfSync", "revision": "ours"}, "reconciledAt": time(2),
            "operationState": operation("Running", "ours", 3, None),
        });
        assert_eq!(marks(&running), show("02", "03", ""));
        let synced = json!({
            "sync": {"status": "Synced", "revision": "ours"}, "reconciledAt": time(9),
            "operationState": operation("Succeeded", "ours", 3, Some(8)),
        });
        assert_eq!(marks(&synced), show("03", "03", "08"), "the comparison is of later");
    }

    #[test]
    fn the_first_sync_of_the_commit_counts_though_others_followed() {
        let status = json!({
            "sync": {"status": "Synced", "revision": "later"}, "reconciledAt": time(40),
            "operationState": operation("Running", "later", 30, None),
            "history": [
                {"revision": "before", "deployStartedAt": time(1), "deployedAt": time(2)},
                {"revision": "ours", "deployStartedAt": time(3), "deployedAt": time(8)},
                {"revision": "later", "deployStartedAt": time(20), "deployedAt": time(25)},
            ],
        });
        assert_eq!(marks(&status), show("03", "03", "08"));
    }

    #[test]
    fn what_was_compared_and_needed_no_sync_has_no_begin() {
        let status = json!({
            "sync": {"status": "Synced", "revision": "later"}, "reconciledAt": time(5),
            "operationState": operation("Succeeded", "before", 1, Some(2)),
        });
        assert_eq!(marks(&status), show("05", "", "05"));
    }

    #[test]
    fn a_failed_sync_is_not_synced_and_missing_times_are_the_time_of_the_look() {
        let failed = json!({
            "sync": {"status": "OutOfSync", "revision": "ours"}, "reconciledAt": "soon",
            "operationState": operation("Failed", "ours", 3, Some(8)),
        });
        assert_eq!(marks(&failed), show("03", "03", ""));
        let timeless = json!({
            "sync": {"status": "Synced", "revision": "ours"},
            "operationState": {"phase": "Succeeded", "syncResult": {"revision": "ours"}},
        });
        assert_eq!(marks(&timeless), show("now", "now", "now"));
    }

    #[test]
    fn a_push_without_a_commit_was_synced_before_and_has_no_sync() {
        let status = json!({
            "sync": {"status": "Synced", "revision": "ours"}, "reconciledAt": time(5),
            "history": [{"revision": "ours", "deployStartedAt": time(3), "deployedAt": time(4)}],
        });
        let unchanged = ExpectedRevision { changed: false, ..expected() };
        assert_eq!(marks_for(&unchanged, &status), []);
    }

    #[test]
    fn a_cluster_whose_clock_is_ahead_is_marked_so() {
        let status = json!({"sync": {"revision": "ours"}, "reconciledAt": "2026-11-22T05:50:00Z"});
        let application =
            json!({"metadata": {"name": "web", "namespace": "argocd"}, "status": status});
        let application = ArgoApplication::read(&application).unwrap();
        let times = cluster_marks(&expected(), Some(&application), &[], NOW.parse().unwrap());
        let ahead: Vec<u64> = times.iter().map(|time| time.ahead_millis).collect();
        assert_eq!(ahead, [24 * 3600 * 1000 - 500]);
    }
}
