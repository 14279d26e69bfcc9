//! How often attempts died one after the other, most likely of what they were at.
//!
//! When a process dies, everything that it is at dies with it, and an operator may kill it: one death
//! proves nothing. A deployment whose attempt died is planned alone, and that is written down before;
//! who dies then has died of it. An attempt that ended in any way, or had begun to push, clears it; one
//! that was given back, as at a restart, does not count.
//!
//! It stands in the summary, which nothing else writes before an attempt has ended.

use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::lease::{Claim, Held};
use crate::store::query::query;

/// The summary of a deployment that a worker has just taken, by what stood there before.
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

/// The same of a preview. It is given up more easily: the next commit brings another.
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

/// So many are told apart.
pub const MOST_DEATHS: u32 = 3;

/// Counts the attempts that died, by the summary of what a worker has taken.
pub(super) fn count_deaths(summary: &str) -> u32 {
    match summary.strip_prefix("a worker is at it: the last ") {
        Some("attempt died") => 1,
        Some("2 attempts died") => 2,
        Some("3 attempts died") => MOST_DEATHS,
        _ => 0,
    }
}

impl Store {
    /// Writes down that a deployment whose attempt died is about to be planned, and nothing else of the
    /// kind by this process.
    pub async fn plan_alone(&self, claim: &Claim) -> Result<Held, StoreError> {
        let summary = match claim.deaths {
            0 => return Ok(Held::Yes),
            1 => "planned alone: the last attempt died",
            _ => "planned alone: the last 2 attempts died",
        };
        let sql = "UPDATE deployments SET summary = $3 \
             WHERE id = $1 AND attempts = $2 AND worker IS NOT NULL";
        let plan = query(sql, (claim, summary));
        self.run(plan, "beginning to plan what died before").await.map(Held::by_rows)
    }
}
