//! Wakes what follows deployments that end: the rollouts that they are steps of, and the deployments of all apps of a
//! repository that they belong to.
//!
//! Rows are locked in one order: lanes, deployments, claims, rollouts. A transaction that ends deployments of several
//! rollouts meets them in any order, and has more deployments to lock after the first. So it only notes them
//! (`WriteTransaction::wake_followers_of`), and two statements before the commit lock what follows all of them, by their ids.
//! A deployment of all apps is locked after those of its apps, and nobody who has it wants one of these.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::model::id::DeployId;
use crate::store::connect::DatabaseBackend;
use crate::store::query::{Query, placeholders, query_of};

/// The number of [`wake_statements`].
pub(super) const STATEMENTS: usize = 2;

/// Returns the statements that make due what these deployments belong to. The time of a rollout is another one than
/// before in any case: by that a turn that is under way knows that it was woken.
/// A worker that has a deployment of all apps locks it before it looks at theirs: it has ended its turn when its row is
/// locked here, or looks after this commit.
pub(super) fn wake_statements(
    kind: DatabaseBackend,
    deployments: &BTreeSet<DeployId>,
    now: Timestamp,
) -> [Query; STATEMENTS] {
    let ids = placeholders(2, deployments.len());
    let lock = match kind {
        DatabaseBackend::Postgres => " FOR UPDATE",
        DatabaseBackend::Sqlite => "",
    };
    let of_all_apps = format!(
        "UPDATE deployments SET due_at = CASE WHEN worker IS NULL THEN $1 ELSE due_at END WHERE id IN \
         (SELECT p.id FROM deployments p WHERE p.finished_at IS NULL AND p.id IN \
         (SELECT d.parent FROM deployments d WHERE d.id IN ({ids}) AND d.parent IS NOT NULL) \
         ORDER BY p.id{lock})"
    );
    let of_rollouts = format!(
        "UPDATE rollouts SET due_at = CASE WHEN due_at = $1 THEN $1 - 1 ELSE $1 END WHERE id IN \
         (SELECT w.id FROM rollouts w WHERE w.ended_at IS NULL AND w.id IN \
         (SELECT r.id FROM deployments d JOIN rollouts r ON r.id = d.rollout WHERE d.id IN ({ids}) \
         UNION ALL SELECT r.id FROM deployments d JOIN rollouts r ON r.undo_id = d.rollout WHERE d.id IN ({ids})) \
         ORDER BY w.id{lock})"
    );
    let values = || (now, deployments.iter().collect::<Vec<_>>());
    [query_of(of_all_apps, values()), query_of(of_rollouts, values())]
}
