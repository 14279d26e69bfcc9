//! The reports of the agents inside clusters: each goes to the loop that follows its cluster. And the logs that callers
//! read through an agent, at the same replica.

use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use crate::cluster::relay::report::{ClusterReport, ReportVerdict};
use crate::cluster::relay::wanted_log::{LogPart, WantedLog};
use crate::deployments::Deployments;
use crate::deployments::agent_inbox::{AgentInbox, InboxError};
use crate::deployments::log_exchange::SlowReader;
use crate::deployments::watched_cluster::ClusterLink;
use crate::model::id::TargetName;

impl Deployments {
    /// Takes a place for a report of a cluster's agent, before it is read. The place is given back when it is dropped.
    ///
    /// # Errors
    /// [`InboxError`]
    pub(crate) fn enter_report(
        &self,
        cluster: &TargetName,
    ) -> Result<OwnedSemaphorePermit, InboxError> {
        self.agent_inbox(cluster)?.enter()
    }

    /// Hands a report to the loop that follows its cluster.
    ///
    /// # Errors
    /// [`InboxError`]: it was not taken, or that is not certain. It may be sent again.
    pub(crate) async fn deliver_report(
        &self,
        cluster: &TargetName,
        report: ClusterReport,
    ) -> Result<ReportVerdict, InboxError> {
        self.agent_inbox(cluster)?.report(report, self.clock.now()).await
    }

    /// Waits for logs that callers want to read through a cluster's agent, for so long at most.
    ///
    /// # Errors
    /// [`InboxError`]
    pub(crate) async fn wanted_logs(
        &self,
        cluster: &TargetName,
        longest: Duration,
    ) -> Result<Vec<WantedLog>, InboxError> {
        let inbox = self.agent_inbox(cluster)?;
        if !inbox.is_open() {
            return Err(InboxError::OtherReplica);
        }
        Ok(inbox.exchange.next_wanted(longest).await)
    }

    /// Takes a place for a part of a log, before it is read. The place is given back when it is dropped.
    ///
    /// # Errors
    /// [`InboxError`]
    pub(crate) fn enter_log(
        &self,
        cluster: &TargetName,
    ) -> Result<OwnedSemaphorePermit, InboxError> {
        self.agent_inbox(cluster)?.exchange.enter().ok_or(InboxError::Busy)
    }

    /// Takes a part of a log from a cluster's agent; returns false if nobody reads the log any more.
    ///
    /// # Errors
    /// [`InboxError`]; within, that its reader is slow.
    pub(crate) async fn deliver_log(
        &self,
        cluster: &TargetName,
        id: &str,
        part: LogPart,
    ) -> Result<Result<bool, SlowReader>, InboxError> {
        let inbox = self.agent_inbox(cluster)?;
        let is_read = inbox.exchange.receive(id, part).await;
        if is_read == Ok(false) && !inbox.is_open() {
            return Err(InboxError::OtherReplica);
        }
        Ok(is_read)
    }

    fn agent_inbox(&self, cluster: &TargetName) -> Result<&AgentInbox, InboxError> {
        match self.watches.get(cluster).map(|cluster| &cluster.link) {
            Some(ClusterLink::Agent(inbox)) => Ok(inbox),
            Some(ClusterLink::Connection(_)) | None => Err(InboxError::NoAgent),
        }
    }
}
