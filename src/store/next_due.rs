//! The next due time, so that loops need not poll before it, and the correction of due times that
//! lie too far ahead because a clock was ahead and has been set back.

use std::time::Duration;

use jiff::Timestamp;

use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::query::query;
use crate::support::time::saturating_add;

const DOING: &str = "reading the next due time";
const BRINGING_DOWN: &str = "correcting times that lie too far ahead";

/// The longest delays of any work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongestDelays {
    /// The lease on a deployment, a preview or a message.
    pub lease: Duration,
    /// The delay between two attempts.
    pub retry: Duration,
    /// The time for which an act beside deploying has its app to itself.
    pub act: Duration,
}

/// The longest delays of the sweeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongestRests {
    /// The lease on a sweep.
    pub lease: Duration,
    /// The wait that the code host asked for.
    pub wait: Duration,
    /// The time between two sweeps.
    pub every: Duration,
}

/// A rule for one column: a time further ahead than `$1` becomes `$2`.
type Rule = (&'static str, (Timestamp, Timestamp));

/// Brings down the due times of a table whose rows are claimed: those of claimed rows, or of the others.
macro_rules! bring_down_due {
    ($table:literal, $claim:literal) => {
        concat!(
            "UPDATE ",
            $table,
            " SET due_at = $2 WHERE done_at IS NULL AND ",
            $claim,
            " AND due_at > $1"
        )
    };
}

impl Store {
    /// Returns the first time after this at which a waiting deployment or message can be claimed:
    /// the time of a retry, or the end of a lease.
    pub async fn next_due(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT '' AS id, MIN(due_at) AS due_at FROM (\
             SELECT due_at FROM deployments WHERE finished_at IS NULL AND fleet IS NULL \
             UNION ALL SELECT due_at FROM outbox WHERE outcome IS NULL \
             UNION ALL SELECT due_at FROM rollouts WHERE ended_at IS NULL AND state <> 'paused' \
             UNION ALL SELECT due_at FROM rollout_requests WHERE done_at IS NULL) waiting \
             WHERE due_at > $1";
        let row = query(sql, now).fetch_one(&self.readers, DOING).await?;
        row.maybe_time("due_at")
    }

    /// Corrects every time that lies further ahead than anything can wait; returns their number.
    ///
    /// Such a time was written while a clock was ahead: this machine's, or that of another replica.
    /// Work that waits for it is due now. A lease keeps its full length: its holder may be alive,
    /// and then extends it. Times may lie ahead by one lease more than anything waits, because
    /// the clocks of replicas differ.
    pub async fn bring_down_due_times(
        &self,
        longest: LongestDelays,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let LongestDelays { lease, retry, act } = longest;
        let retry_bounds = (saturating_add(now, retry.saturating_add(lease)), now);
        let lease_bounds =
            (saturating_add(now, lease.saturating_mul(2)), saturating_add(now, lease));
        // The table does not show whether a message is on its way or waits for its next attempt.
        let message_bounds = (retry_bounds.0, lease_bounds.1);
        let act_bounds = (saturating_add(now, act.saturating_add(lease)), saturating_add(now, act));
        self.bring_down(&[
            (
                "UPDATE deployments SET due_at = $2 \
                 WHERE finished_at IS NULL AND worker IS NULL AND due_at > $1",
                retry_bounds,
            ),
            (
                "UPDATE deployments SET due_at = $2 \
                 WHERE finished_at IS NULL AND worker IS NOT NULL AND due_at > $1",
                lease_bounds,
            ),
            ("UPDATE cluster_leases SET lease_end = $2 WHERE lease_end > $1", lease_bounds),
            (
                "UPDATE outbox SET due_at = $2 WHERE outcome IS NULL AND unsure = 0 AND due_at > $1",
                retry_bounds,
            ),
            (
                "UPDATE outbox SET due_at = $2 WHERE outcome IS NULL AND unsure = 1 AND due_at > $1",
                message_bounds,
            ),
            (
                "UPDATE outbox SET confirm_at = $2 \
                 WHERE confirm_at IS NOT NULL AND confirm_at > $1",
                retry_bounds,
            ),
            (bring_down_due!("previews", "worker IS NULL"), retry_bounds),
            (bring_down_due!("previews", "worker IS NOT NULL"), lease_bounds),
            (bring_down_due!("environment_workloads", "worker IS NULL"), retry_bounds),
            (bring_down_due!("environment_workloads", "worker IS NOT NULL"), lease_bounds),
            (bring_down_due!("environment_comments", "worker IS NULL"), retry_bounds),
            (bring_down_due!("environment_comments", "worker IS NOT NULL"), lease_bounds),
            (
                "UPDATE rollouts SET due_at = $2 WHERE ended_at IS NULL AND due_at > $1",
                retry_bounds,
            ),
            (
                "UPDATE acts SET due_at = $2 WHERE finished_at IS NULL AND due_at > $1",
                act_bounds,
            ),
        ])
        .await
    }

    /// Does the same for the sweeps.
    pub async fn bring_down_sweeps(
        &self,
        longest: LongestRests,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let LongestRests { lease, wait, every } = longest;
        let limit = |rest: Duration| saturating_add(now, rest.saturating_add(lease));
        self.bring_down(&[
            ("UPDATE sweeps SET due_at = $2 WHERE due_at > $1", (limit(every), now)),
            ("UPDATE sweeps SET not_before = $2 WHERE not_before > $1", (limit(wait), now)),
            (
                "UPDATE sweeps SET lease_end = $2 WHERE lease_end > $1",
                (limit(lease), saturating_add(now, lease)),
            ),
        ])
        .await
    }

    async fn bring_down(&self, rules: &[Rule]) -> Result<u64, StoreError> {
        let mut write = self.begin(BRINGING_DOWN).await?;
        let mut brought = 0;
        for (sql, (limit, new_time)) in rules {
            let count = query(*sql, (limit, new_time)).execute(write.sql(), BRINGING_DOWN).await?;
            brought += count;
        }
        if brought > 0 {
            write.commit().await?;
            tracing::warn!(
                brought,
                "due times lay too far ahead and were corrected, a clock was set back"
            );
        }
        Ok(brought)
    }
}
