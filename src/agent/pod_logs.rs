//! Logs that callers of the service read through the agent: it asks which are wanted, reads them, and sends them in
//! parts for as long as somebody reads. Secrets are masked before a line leaves the cluster.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::agent::client::{ReportClient, ServiceTrouble};
use crate::api::agent_logs::MAX_PART_LINES;
use crate::cluster::connection::client::ClusterConnection;
use crate::cluster::live::find_pod;
use crate::cluster::logs::{self, LogLines, PodLogError};
use crate::cluster::relay::wanted_log::{LogEnd, LogPart, WantedLog};
use crate::support::retry::backoff;

/// The most logs that are read at the same time.
const MAX_LOGS: usize = 32;
/// The largest part, in bytes.
const PART_BYTES: usize = 48 * 1024;
/// The time for which further lines are waited for before they are sent together.
const GATHER: Duration = Duration::from_millis(50);
/// The time without lines after which a part says that the log is still read, and learns whether somebody reads.
const WORD: Duration = Duration::from_secs(5);
/// The longest time without a new line in a log that is followed.
const IDLE: Duration = Duration::from_hours(1);
/// The deadline of the cluster's answers.
const DEADLINE: Duration = Duration::from_secs(5);
/// The time for which a part is sent again while the service does not take it.
const PERSISTENCE: Duration = Duration::from_secs(15);
/// The first pause after a question that was not answered, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Serves logs until `stop`.
pub(super) async fn serve_logs(
    connection: Arc<ClusterConnection>,
    client: ReportClient,
    stop: CancellationToken,
) {
    let mut reading = JoinSet::new();
    let (mut failures, mut last_trouble) = (0, None);
    loop {
        let asking = client.wanted_logs();
        let answer = tokio::select! {
            () = stop.cancelled() => return,
            answer = asking => answer,
        };
        while reading.try_join_next().is_some() {}
        match answer {
            Ok(requests) => {
                (failures, last_trouble) = (0, None);
                for log in requests {
                    let (connection, client) = (Arc::clone(&connection), client.clone());
                    let is_full = reading.len() >= MAX_LOGS;
                    reading.spawn(async move {
                        if is_full {
                            let why = format!("the agent reads {MAX_LOGS} logs already");
                            send_end(&client, &log.id, 0, LogEnd::Failed(why)).await;
                        } else {
                            read_log(&connection, &client, log).await;
                        }
                    });
                }
            }
            Err(trouble) => {
                // Other replicas are tried one after the other.
                let is_misdirected = matches!(trouble, ServiceTrouble::Misdirected(_));
                let longest = if is_misdirected { PAUSES.0 * 10 } else { PAUSES.1 };
                let pause = backoff(PAUSES.0, longest, failures);
                failures = failures.saturating_add(1);
                let trouble = trouble.into_reason();
                // Behind a load balancer another replica answers now and again.
                if failures > 8 && last_trouble.as_ref() != Some(&trouble) {
                    tracing::warn!(reason = trouble, "service not asked for wanted logs");
                    last_trouble = Some(trouble);
                }
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
            }
        }
    }
}

/// Reads a log and sends it.
async fn read_log(connection: &ClusterConnection, client: &ReportClient, wanted: WantedLog) {
    let id = wanted.id.clone();
    match open(connection, &wanted).await {
        Ok(lines) => send_log(client, &id, lines).await,
        Err(end) => send_end(client, &id, 0, end).await,
    }
}

/// Opens a log, if its pod belongs to the app: the service can ask for those of apps that it deployed, and for no others.
async fn open(connection: &ClusterConnection, wanted: &WantedLog) -> Result<LogLines, LogEnd> {
    let WantedLog { id: _, namespace, slug, pod, container, range } = wanted;
    let row = find_pod(connection, namespace, slug, pod, DEADLINE).await;
    if row.map_err(|error| LogEnd::Failed(error.to_string()))?.is_none() {
        return Err(LogEnd::NotFound("the app has no pod of that name".to_owned()));
    }
    let idle = if range.follow { IDLE } else { DEADLINE };
    let opening = logs::open(connection, namespace, pod, Some(container), *range, idle);
    match tokio::time::timeout(DEADLINE, opening).await {
        Ok(lines) => lines.map_err(|error| end_of(&error)),
        Err(_elapsed) => Err(LogEnd::Failed("the cluster does not answer in time".to_owned())),
    }
}

fn end_of(error: &PodLogError) -> LogEnd {
    match error {
        PodLogError::NotFound(_) | PodLogError::NoLog(_) => LogEnd::NotFound(error.to_string()),
        PodLogError::Forbidden(_) | PodLogError::Unavailable(_) | PodLogError::Idle(_) => {
            LogEnd::Failed(error.to_string())
        }
    }
}

/// Sends the lines of a log until its end, or until nobody reads it.
async fn send_log(client: &ReportClient, id: &str, mut lines: LogLines) {
    let mut part = LogPart { number: 0, lines: Vec::new(), end: None };
    loop {
        // The first part says that the log is open.
        if part.number > 0 {
            gather(&mut lines, &mut part).await;
        }
        let (number, is_last) = (part.number, part.end.is_some());
        if !send_part(client, id, part).await || is_last {
            return;
        }
        part = LogPart { number: number + 1, lines: Vec::new(), end: None };
    }
}

/// Waits for a line, and takes those that come with it.
async fn gather(lines: &mut LogLines, part: &mut LogPart) {
    let mut bytes = 0;
    let mut until = Instant::now() + WORD;
    while part.lines.len() < MAX_PART_LINES && bytes < PART_BYTES {
        // Lines that are there already are taken without a look at the clock.
        let line = match lines.next().now_or_never() {
            Some(line) => line,
            None => match tokio::time::timeout_at(until, lines.next()).await {
                Ok(line) => line,
                Err(_elapsed) => return,
            },
        };
        match line {
            Some(Ok(line)) => {
                if part.lines.is_empty() {
                    until = Instant::now() + GATHER;
                }
                bytes += line.len();
                part.lines.push(line);
            }
            Some(Err(error)) => {
                part.end = Some(end_of(&error));
                return;
            }
            None => {
                part.end = Some(LogEnd::Complete);
                return;
            }
        }
    }
}

async fn send_end(client: &ReportClient, id: &str, number: u64, end: LogEnd) {
    send_part(client, id, LogPart { number, lines: Vec::new(), end: Some(end) }).await;
}

/// Sends a part until the service has it; returns false if nobody reads the log any more, or the service does not take it.
async fn send_part(client: &ReportClient, id: &str, part: LogPart) -> bool {
    let mut start = Instant::now();
    let mut failures = 0;
    loop {
        match client.send_log_part(id, &part).await {
            Ok(is_wanted) => return is_wanted,
            // The service is there and asks for a pause: whoever reads is slow.
            Err(ServiceTrouble::Failed(_, Some(pause))) => {
                start = Instant::now();
                tokio::time::sleep(pause.min(WORD)).await;
            }
            Err(ServiceTrouble::Misdirected(_) | ServiceTrouble::Failed(..))
                if start.elapsed() < PERSISTENCE =>
            {
                tokio::time::sleep(backoff(PAUSES.0, Duration::from_secs(1), failures)).await;
                failures = failures.saturating_add(1);
            }
            Err(_) => return false,
        }
    }
}
