//! The reports of the agents inside clusters: each goes to the loop that follows its cluster.

use tokio::sync::OwnedSemaphorePermit;

use crate::cluster::relay::report::{ClusterReport, ReportVerdict};
use crate::deployments::Deployments;
use crate::deployments::agent_inbox::{AgentInbox, InboxError};
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

    fn agent_inbox(&self, cluster: &TargetName) -> Result<&AgentInbox, InboxError> {
        match self.watches.get(cluster).map(|cluster| &cluster.link) {
            Some(ClusterLink::Agent(inbox)) => Ok(inbox),
            Some(ClusterLink::Connection(_)) | None => Err(InboxError::NoAgent),
        }
    }
}
