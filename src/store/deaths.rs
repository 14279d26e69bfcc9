//! Counts the attempts that died one after the other, most likely of the deployment that they worked on.
//!
//! When a process dies, all its attempts die with it, and an operator may kill it: one death
//! proves nothing. A deployment whose attempt died is planned alone, and that is recorded before;
//! an attempt that dies then has died of its deployment. An attempt that ended in any way, or had begun to
//! push, clears the count; one that was released, as at a restart, does not count.
//!
//! The count is in the summary, which nothing else writes before an attempt has ended.

use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::lease::{Claim, LeaseState};
use crate::store::query::query;

/// The summary of a deployment that a worker has just claimed, by the summary before.
macro_rules! deployment_taken {
    () => {
        "CASE WHEN state = 'pushing' THEN 'a worker is at it' \
         WHEN summary = 'planned alone: the last attempt died' THEN CASE WHEN worker IS NULL \
         THEN 'a worker is at it: the last attempt died' \
         ELSE 'a worker is at it: the last 2 attempts died' END \
         WHEN summary = 'planned alone: the last 2 attempts died' THEN CASE WHEN worker IS NULL \
         THEN 'a worker is at it: the last 2 attempts died' \
         ELSE 'a worker is at it: the last 3 attempts died' END \
         WHEN summary LIKE 'a worker is at it: the last % died' THEN summary \
         WHEN worker IS NULL THEN 'a worker is at it' \
         ELSE 'a worker is at it: the last attempt died' END"
    };
}
pub(super) use deployment_taken;

/// The same for a preview. It is given up more easily: the next commit brings another.
macro_rules! preview_taken {
    () => {
        "CASE WHEN worker IS NULL AND summary LIKE 'a worker is at it: the last % died' THEN summary \
         WHEN worker IS NULL THEN 'a worker is at it' \
         WHEN summary = 'a worker is at it: the last attempt died' \
         THEN 'a worker is at it: the last 2 attempts died' \
         WHEN summary = 'a worker is at it: the last 2 attempts died' \
         THEN 'a worker is at it: the last 3 attempts died' \
         WHEN summary = 'a worker is at it: the last 3 attempts died' THEN summary \
         ELSE 'a worker is at it: the last attempt died' END"
    };
}
pub(super) use preview_taken;

/// The most deaths in a row that are counted.
pub const MAX_DEATHS: u32 = 3;

/// Counts the attempts that died, by the summary of a claimed deployment or preview.
pub(super) fn count_deaths(summary: &str) -> u32 {
    match summary.strip_prefix("a worker is at it: the last ") {
        Some("attempt died") => 1,
        Some("2 attempts died") => 2,
        Some("3 attempts died") => MAX_DEATHS,
        _ => 0,
    }
}

impl Store {
    /// Records that a deployment whose attempt died is about to be planned, and no other such
    /// deployment by this process.
    pub async fn plan_alone(&self, claim: &Claim) -> Result<LeaseState, StoreError> {
        let summary = match claim.deaths {
            0 => return Ok(LeaseState::Held),
            1 => "planned alone: the last attempt died",
            _ => "planned alone: the last 2 attempts died",
        };
        let sql = "UPDATE deployments SET summary = $3 \
             WHERE id = $1 AND attempts = $2 AND worker IS NOT NULL";
        let plan = query(sql, (claim, summary));
        self.run(plan, "beginning to plan what died before").await.map(LeaseState::by_rows)
    }
}
