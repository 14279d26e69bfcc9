//! The reports of a cluster's agent, on their way from the route to the loop that follows the cluster; and questions
//! about its present objects, which that loop alone has.
//!
//! Each waits for its answer. The loop takes them while it holds the lease on the cluster; where it does not, another
//! replica does, and the sender is to go there. What was handed over to a loop that ends before it answers was not
//! taken.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::cluster::live::AppSnapshot;
use crate::cluster::relay::report::{ClusterReport, ReportVerdict};
use crate::model::app_instance::AppInstance;
use crate::support::sync::lock;

/// The reports of one cluster that are read or wait at the same time. An agent sends one after the other; a second one
/// is there while the first, which it has given up, has not ended.
const MAX_REPORTS: usize = 2;
/// The requests that wait for the loop.
const WAITING_REQUESTS: usize = 8;
/// The longest wait for the loop, which may wait for the database.
const ANSWER_DEADLINE: Duration = Duration::from_secs(6);

/// The way to the loop that follows a cluster with an agent.
pub struct AgentInbox {
    loop_sender: Mutex<Option<mpsc::Sender<InboxRequest>>>,
    reports: Arc<Semaphore>,
}

/// A request for the loop that follows a cluster.
pub enum InboxRequest {
    /// A report of the agent.
    Report(Box<ClusterReport>, oneshot::Sender<ReportVerdict>),
    /// A question about the present objects of an app; `None` while the cluster is not seen.
    AppState(AppInstance, oneshot::Sender<Option<AppSnapshot>>),
}

/// The reason why a request was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InboxError {
    /// No agent reports for such a cluster.
    #[error("no agent reports for that cluster")]
    NoAgent,
    /// Another replica follows the cluster.
    #[error("another replica of the service follows the cluster")]
    OtherReplica,
    /// Too many requests wait, or the database is slow.
    #[error("the service is busy with the cluster")]
    Busy,
}

impl Default for AgentInbox {
    fn default() -> Self {
        Self { loop_sender: Mutex::default(), reports: Arc::new(Semaphore::new(MAX_REPORTS)) }
    }
}

impl AgentInbox {
    /// Opens the inbox for the loop that holds the lease, until the receiver is dropped.
    pub fn open(&self) -> mpsc::Receiver<InboxRequest> {
        let (sender, receiver) = mpsc::channel(WAITING_REQUESTS);
        *lock(&self.loop_sender) = Some(sender);
        receiver
    }

    /// Takes a place for a report that is about to be read.
    ///
    /// # Errors
    /// [`InboxError::OtherReplica`] and [`InboxError::Busy`]
    pub(super) fn enter(&self) -> Result<OwnedSemaphorePermit, InboxError> {
        if self.sender().is_none() {
            return Err(InboxError::OtherReplica);
        }
        Arc::clone(&self.reports).try_acquire_owned().map_err(|_full| InboxError::Busy)
    }

    /// Hands a request to the loop, and waits for the answer.
    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> InboxRequest,
    ) -> Result<T, InboxError> {
        let sender = self.sender().ok_or(InboxError::OtherReplica)?;
        let (answer, answered) = oneshot::channel();
        sender.try_send(request(answer)).map_err(|error| match error {
            TrySendError::Full(_) => InboxError::Busy,
            TrySendError::Closed(_) => InboxError::OtherReplica,
        })?;
        match tokio::time::timeout(ANSWER_DEADLINE, answered).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_dropped)) => Err(InboxError::OtherReplica),
            Err(_elapsed) => Err(InboxError::Busy),
        }
    }

    /// Hands a report to the loop.
    ///
    /// # Errors
    /// [`InboxError`]: it was not taken, or that is not certain. It may be sent again.
    pub(super) async fn report(&self, report: ClusterReport) -> Result<ReportVerdict, InboxError> {
        self.ask(|answer| InboxRequest::Report(Box::new(report), answer)).await
    }

    fn sender(&self) -> Option<mpsc::Sender<InboxRequest>> {
        lock(&self.loop_sender).clone().filter(|sender| !sender.is_closed())
    }

    /// Asks for the present objects of an app.
    ///
    /// # Errors
    /// [`InboxError::OtherReplica`] and [`InboxError::Busy`]
    pub(super) async fn app_state(
        &self,
        instance: &AppInstance,
    ) -> Result<Option<AppSnapshot>, InboxError> {
        self.ask(|answer| InboxRequest::AppState(instance.clone(), answer)).await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::cluster::relay::report::ReportSession;

    fn report() -> ClusterReport {
        let session = ReportSession { agent: "a".to_owned(), generation: 1 };
        let (changes, sights) = (Vec::new(), None);
        ClusterReport { session, sequence: 1, changes, sights, is_last: false }
    }

    #[tokio::test]
    async fn who_does_not_follow_the_cluster_takes_no_report() {
        let inbox = AgentInbox::default();
        let ask = || inbox.report(report());
        assert_eq!(ask().await, Err(InboxError::OtherReplica), "it never did");
        let mut receiver = inbox.open();
        let following = async {
            let Some(InboxRequest::Report(_, answer)) = receiver.recv().await else { panic!() };
            answer.send(ReportVerdict::Accepted(1)).unwrap();
        };
        assert_eq!(tokio::join!(ask(), following).0, Ok(ReportVerdict::Accepted(1)));
        let dying = async {
            drop(receiver.recv().await);
            drop(receiver);
        };
        assert_eq!(tokio::join!(ask(), dying).0, Err(InboxError::OtherReplica), "unanswered");
        assert!(inbox.enter().is_err() && ask().await.is_err(), "it does not any more");
    }

    #[tokio::test]
    async fn a_third_report_is_to_come_again_and_so_is_one_that_finds_no_room() {
        let inbox = AgentInbox::default();
        let receiver = inbox.open();
        let places = (inbox.enter().unwrap(), inbox.enter().unwrap());
        assert_eq!(inbox.enter().unwrap_err(), InboxError::Busy);
        drop(places);
        assert!(inbox.enter().is_ok());
        let ask = || Box::pin(inbox.report(report()));
        let mut waiting: Vec<_> = (0..WAITING_REQUESTS).map(|_| ask()).collect();
        assert!(waiting.iter_mut().all(|one| one.now_or_never().is_none()));
        assert_eq!(ask().now_or_never(), Some(Err(InboxError::Busy)));
        drop(receiver);
    }
}
