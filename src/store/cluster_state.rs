//! The state of a pushed deployment in its cluster, and how it changes.

use jiff::Timestamp;

use crate::model::canary::CanaryStatus;
use crate::model::deployment::State;
use crate::model::id::DeployId;
use crate::model::status::ForgeStatus;
use crate::model::waiting::WaitingOn;
use crate::store::error::StoreError;
use crate::store::query::query;
use crate::store::row::{Row, overview_columns, to_json};
use crate::store::write::WriteTransaction;

/// A change of a deployment in its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterChange {
    /// The deployment.
    pub deployment: DeployId,
    /// `Syncing` or `Progressing`, or its end: `Succeeded`, `Failed` or `Superseded`.
    pub state: State,
    /// One sentence for people.
    pub summary: String,
    /// The condition that it waits for; `None` for an end.
    pub waiting: Option<WaitingOn>,
    /// The last lines of the failed container's log; empty where there are none.
    pub log_tail: Vec<String>,
    /// The canaries that are being analysed.
    pub canaries: Vec<CanaryStatus>,
    /// True if it failed because Flagger took its canary back.
    pub is_canary_failure: bool,
    /// The message to send about the change; `None` where no receiver needs one.
    pub status: Option<ForgeStatus>,
}

impl ClusterChange {
    /// Makes the end of a deployment, of which people are told in the words of its record.
    pub fn end(deployment: DeployId, state: State, status: ForgeStatus) -> Self {
        Self {
            deployment,
            state,
            summary: status.description().to_owned(),
            waiting: None,
            log_tail: Vec::new(),
            canaries: Vec::new(),
            is_canary_failure: false,
            status: Some(status),
        }
    }

    /// Returns the same, and what becomes of it: a clause for people, which no long cause cuts off.
    pub(super) fn with_note(&self, note: &str) -> Self {
        // The code host shows one short line: which workload it was is on the page, and the reason counts.
        let cause = self.summary.split_once(" failed: ").map_or(&*self.summary, |(_, cause)| cause);
        let is_long =
            self.summary.chars().count() + note.chars().count() + 2 > ForgeStatus::LONGEST;
        let sentence = if is_long { cause } else { &self.summary };
        let status =
            self.status.as_ref().map(|one| ForgeStatus::with_note(one.state, sentence, note));
        Self { summary: format!("{}; {note}", self.summary), status, ..self.clone() }
    }
}

/// Selects the deployments that wait for their cluster.
macro_rules! waiting {
    () => {
        "cluster_state IN ('syncing', 'progressing')"
    };
}

pub(super) use waiting;

/// Records a change, and returns the deployment's row; `None` where it has ended meanwhile.
pub(super) async fn set_cluster_state(
    write: &mut WriteTransaction,
    change: &ClusterChange,
    now: Timestamp,
) -> Result<Option<Row>, StoreError> {
    let ClusterChange { deployment, state, summary, waiting, log_tail, .. } = change;
    let sql = concat!(
        "UPDATE deployments SET cluster_state = $2, cluster_at = CASE WHEN cluster_state = $2 \
         THEN cluster_at ELSE $3 END, summary = $4, waiting = $5, \
         log_tail = COALESCE($6, log_tail) WHERE id = $1 AND ",
        waiting!(),
        " RETURNING ",
        overview_columns!()
    );
    let log = (!log_tail.is_empty()).then(|| to_json(log_tail));
    let waiting = waiting.as_ref().map(to_json);
    let values = (deployment, state.as_str(), now, (summary, waiting, log));
    query(sql, values).first(write.sql(), "recording the progress in a cluster").await
}
