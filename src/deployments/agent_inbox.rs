//! The reports of a cluster's agent, on their way from the route to the loop that follows the cluster; and questions
//! about its present objects, which that loop alone has.
//!
//! Each waits for its answer. The loop takes them while it holds the lease on the cluster; where it does not, another
//! replica does, and the sender is to go there. What was handed over to a loop that ends before it answers was not
//! taken.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::cluster::failure::{FailureCause, LogTail};
use crate::cluster::live::AppSnapshot;
use crate::cluster::relay::report::{ClusterReport, ReportVerdict, ReportedLog};
use crate::deployments::log_exchange::LogExchange;
use crate::model::app_instance::AppInstance;
use crate::support::cache::BoundedCache;
use crate::support::sync::lock;
use crate::support::time::saturating_add;

/// The reports of one cluster that are read or wait at the same time. An agent sends one after the other; a second one
/// is there while the first, which it has given up, has not ended.
const MAX_REPORTS: usize = 2;
/// The requests that wait for the loop.
const WAITING_REQUESTS: usize = 8;
/// The longest wait for the loop, which may wait for the database.
const ANSWER_DEADLINE: Duration = Duration::from_secs(6);

/// The most logs that are kept, of up to 32 KiB each.
const MAX_LOGS: usize = 64;
/// The time for which a log is kept: the failure that it belongs to is recorded within seconds, and the next release of a
/// `StatefulSet` has pods of the same names.
const LOG_TIME: Duration = Duration::from_mins(1);

/// The way to the loop that follows a cluster with an agent.
pub struct AgentInbox {
    loop_sender: Mutex<Option<mpsc::Sender<InboxRequest>>>,
    reports: Arc<Semaphore>,
    /// The logs of containers that fail. They do not go to the loop, which waits for one while it records.
    logs: Mutex<ReportedLogs>,
    /// Told of each report with logs.
    log_arrival: Notify,
    /// The logs that callers read.
    pub(super) exchange: Arc<LogExchange>,
}

/// The ends of logs that an agent has sent.
struct ReportedLogs {
    /// False while the agent sends none, so that no failure waits for its log.
    is_sent: bool,
    /// By namespace, pod and container.
    tails: BoundedCache<LogKey, LogTail>,
}

type LogKey = (String, String, Option<String>);

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
        let logs = ReportedLogs { is_sent: false, tails: BoundedCache::new(MAX_LOGS) };
        Self {
            loop_sender: Mutex::default(),
            reports: Arc::new(Semaphore::new(MAX_REPORTS)),
            logs: Mutex::new(logs),
            log_arrival: Notify::new(),
            exchange: Arc::default(),
        }
    }
}

impl AgentInbox {
    /// Opens the inbox for the loop that holds the lease, until the receiver is dropped.
    pub fn open(&self) -> mpsc::Receiver<InboxRequest> {
        let (sender, receiver) = mpsc::channel(WAITING_REQUESTS);
        *lock(&self.loop_sender) = Some(sender);
        self.exchange.open();
        receiver
    }

    /// Takes a place for a report that is about to be read.
    ///
    /// # Errors
    /// [`InboxError::OtherReplica`] and [`InboxError::Busy`]
    pub(super) fn enter(&self) -> Result<OwnedSemaphorePermit, InboxError> {
        if !self.is_open() {
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

    /// Keeps the logs of a report, and hands the rest to the loop.
    ///
    /// # Errors
    /// [`InboxError`]: it was not taken, or that is not certain. It may be sent again.
    pub(super) async fn report(
        &self,
        mut report: ClusterReport,
        now: Timestamp,
    ) -> Result<ReportVerdict, InboxError> {
        self.keep_logs(report.logs.take(), now);
        self.ask(|answer| InboxRequest::Report(Box::new(report), answer)).await
    }

    fn keep_logs(&self, reported: Option<Vec<ReportedLog>>, now: Timestamp) {
        let mut logs = lock(&self.logs);
        logs.is_sent = reported.is_some();
        for ReportedLog { namespace, pod, container, tail } in reported.into_iter().flatten() {
            logs.tails.put((namespace, pod, container), tail, saturating_add(now, LOG_TIME));
        }
        drop(logs);
        self.log_arrival.notify_waiters();
    }

    /// Waits for the end of the log of the container that is the cause of a failure, for so long at most; none where the
    /// agent sends none, or not in time.
    pub(crate) async fn log_of(
        &self,
        namespace: &str,
        cause: &FailureCause,
        longest: Duration,
        now: Timestamp,
    ) -> LogTail {
        let Some(pod) = &cause.pod else { return LogTail::default() };
        let key = (namespace.to_owned(), pod.clone(), cause.container.clone());
        let arrival = async {
            loop {
                // Made before the look: what arrives after it wakes.
                let next = self.log_arrival.notified();
                let (tail, is_sent) = {
                    let mut logs = lock(&self.logs);
                    (logs.tails.get(&key, now), logs.is_sent)
                };
                match tail {
                    Some(tail) => return tail,
                    None if !is_sent => return LogTail::default(),
                    None => next.await,
                }
            }
        };
        tokio::time::timeout(longest, arrival).await.unwrap_or_default()
    }

    /// Checks that the agent is to come to this replica: the loop here follows the cluster.
    pub(super) fn is_open(&self) -> bool {
        self.sender().is_some()
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
    use crate::cluster::failure::CauseKind;
    use crate::cluster::relay::report::ReportSession;

    fn report() -> ClusterReport {
        let session = ReportSession { agent: "a".to_owned(), generation: 1 };
        let (changes, sights) = (Vec::new(), None);
        ClusterReport { session, sequence: 1, changes, sights, logs: None, is_last: false }
    }

    #[tokio::test]
    async fn who_does_not_follow_the_cluster_takes_no_report() {
        let inbox = AgentInbox::default();
        let ask = || inbox.report(report(), Timestamp::UNIX_EPOCH);
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
    async fn a_failure_waits_for_the_log_that_its_agent_sends_and_for_no_other() {
        let inbox = AgentInbox::default();
        let cause = FailureCause {
            pod: Some("web-1".to_owned()),
            container: Some("web".to_owned()),
            ..FailureCause::new(CauseKind::CrashLoop, "")
        };
        let now = Timestamp::UNIX_EPOCH;
        let read = || inbox.log_of("devx", &cause, Duration::from_hours(1), now);
        assert_eq!(read().now_or_never(), Some(LogTail::default()), "no agent sends logs");
        inbox.keep_logs(Some(Vec::new()), now);
        assert_eq!(read().now_or_never(), None, "it may come");
        let brief = inbox.log_of("devx", &cause, Duration::from_millis(1), now);
        assert_eq!(brief.await, LogTail::default(), "the failure is told without it");
        let log = |pod: &str, text: &str| ReportedLog {
            namespace: "devx".to_owned(),
            pod: pod.to_owned(),
            container: Some("web".to_owned()),
            tail: LogTail::of_lines(text, 20),
        };
        let send = async {
            inbox.keep_logs(Some(vec![log("web-2", "other")]), now);
            tokio::task::yield_now().await;
            inbox.keep_logs(Some(vec![log("web-1", "no such table")]), now);
        };
        assert_eq!(tokio::join!(read(), send).0.lines(), ["no such table"]);
        assert_eq!(read().now_or_never().unwrap().lines(), ["no such table"], "it is there");
        inbox.keep_logs(None, now);
        let later = saturating_add(now, LOG_TIME);
        let gone = inbox.log_of("devx", &cause, Duration::from_hours(1), later).now_or_never();
        assert_eq!(gone, Some(LogTail::default()), "an older agent took its place");
    }

    #[tokio::test]
    async fn a_third_report_is_to_come_again_and_so_is_one_that_finds_no_room() {
        let inbox = AgentInbox::default();
        let receiver = inbox.open();
        let places = (inbox.enter().unwrap(), inbox.enter().unwrap());
        assert_eq!(inbox.enter().unwrap_err(), InboxError::Busy);
        drop(places);
        assert!(inbox.enter().is_ok());
        let ask = || Box::pin(inbox.report(report(), Timestamp::UNIX_EPOCH));
        let mut waiting: Vec<_> = (0..WAITING_REQUESTS).map(|_| ask()).collect();
        assert!(waiting.iter_mut().all(|one| one.now_or_never().is_none()));
        assert_eq!(ask().now_or_never(), Some(Err(InboxError::Busy)));
        drop(receiver);
    }
}
