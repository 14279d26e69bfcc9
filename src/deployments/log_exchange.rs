//! Logs that callers read through the agent of a cluster, which asks for them: the connection goes from the cluster to the
//! service and never the other way.
//!
//! ```text
//! caller ─▶ begin ─▶ next_wanted ─▶ agent ─▶ receive ─▶ RelayedLog ─▶ caller
//! ```
//!
//! A log whose reader has gone is not wanted any more, which the agent learns by its next part. All of it is in memory:
//! when the service ends, so do its readers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

use crate::cluster::logs::MAX_LINE_CHARS;
use crate::cluster::relay::wanted_log::{LogEnd, LogPart, WantedLog};
use crate::support::clock::random_digits;
use crate::support::log_text::remove_controls;
use crate::support::secret_mask::mask_secrets;
use crate::support::sync::lock;
use crate::support::text::truncate_chars;

/// The most logs of a cluster that are read at the same time.
const MAX_OPEN: usize = 32;
/// The parts of a log that wait for its reader, of up to 256 KiB each.
const MAX_PARTS: usize = 4;

/// The times of an exchange.
#[derive(Debug, Clone, Copy)]
struct ExchangeTimes {
    /// The longest wait of a part for its reader.
    room: Duration,
    /// The time without a part after which a log is given up: the agent says every five seconds that it still reads.
    silence: Duration,
    /// The time after an agent's last question for which it counts as one that sends logs.
    attention: Duration,
}

impl Default for ExchangeTimes {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { room: seconds(5), silence: seconds(20), attention: seconds(15) }
    }
}

/// The logs of a cluster that callers read through its agent.
pub(crate) struct LogExchange {
    times: ExchangeTimes,
    state: Mutex<ExchangeState>,
    arrival: Notify,
    /// The parts that are read at the same time.
    places: Arc<Semaphore>,
}

impl Default for LogExchange {
    fn default() -> Self {
        Self {
            times: ExchangeTimes::default(),
            state: Mutex::default(),
            arrival: Notify::new(),
            places: Arc::new(Semaphore::new(MAX_OPEN)),
        }
    }
}

#[derive(Default)]
struct ExchangeState {
    open: BTreeMap<String, OpenLog>,
    /// The logs of which the agent does not know yet.
    unasked: VecDeque<WantedLog>,
    /// The time of the agent's last question.
    asked_at: Option<Instant>,
    /// The time since which the agent is to come to this replica.
    opened_at: Option<Instant>,
}

struct OpenLog {
    /// The number of the part that comes next.
    next: u64,
    parts: mpsc::Sender<LogPart>,
}

/// The reason why a log cannot be read through the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExchangeError {
    /// The agent does not ask for logs.
    #[error("its agent sends no logs: start it with `--pod-logs`")]
    NotSent,
    /// The agent has had no time to come to this replica.
    #[error("its agent has not asked this replica for logs yet; try again in a moment")]
    NotYet,
    /// Too many logs are read.
    #[error("{MAX_OPEN} of its logs are read through its agent already; end one of them")]
    Full,
}

/// A part has no room: its reader is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlowReader;

impl LogExchange {
    /// Asks the agent for a log, which gets an id.
    pub(super) fn begin(
        self: &Arc<Self>,
        name_log: impl FnOnce(String) -> WantedLog,
    ) -> Result<RelayedLog, ExchangeError> {
        let id = random_digits();
        let (parts, incoming) = mpsc::channel(MAX_PARTS);
        let mut state = lock(&self.state);
        let is_recent =
            |at: Option<Instant>| at.is_some_and(|at| at.elapsed() < self.times.attention);
        if !is_recent(state.asked_at) {
            let is_new = is_recent(state.opened_at);
            return Err(if is_new { ExchangeError::NotYet } else { ExchangeError::NotSent });
        }
        if state.open.len() >= MAX_OPEN {
            return Err(ExchangeError::Full);
        }
        state.open.insert(id.clone(), OpenLog { next: 0, parts });
        state.unasked.push_back(name_log(id.clone()));
        drop(state);
        self.arrival.notify_waiters();
        Ok(RelayedLog {
            id,
            exchange: Arc::clone(self),
            parts: incoming,
            lines: VecDeque::new(),
            end: None,
            is_over: false,
        })
    }

    /// Notes that the agent is to come to this replica from now on.
    pub(super) fn open(&self) {
        lock(&self.state).opened_at = Some(Instant::now());
    }

    /// Takes a place for a part that is about to be read; `None` if too many are.
    pub(super) fn enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Waits for logs that callers want and that the agent has not been told of, for so long at most.
    pub(crate) async fn next_wanted(&self, longest: Duration) -> Vec<WantedLog> {
        let arrival = async {
            loop {
                // Made before the look: what arrives after it wakes.
                let next = self.arrival.notified();
                let logs: Vec<_> = {
                    let mut state = lock(&self.state);
                    state.asked_at = Some(Instant::now());
                    state.unasked.drain(..).collect()
                };
                if !logs.is_empty() {
                    return logs;
                }
                next.await;
            }
        };
        tokio::time::timeout(longest, arrival).await.unwrap_or_default()
    }

    /// Takes a part of a log, once; returns false if nobody reads the log any more.
    pub(crate) async fn receive(&self, id: &str, part: LogPart) -> Result<bool, SlowReader> {
        let Some((next, parts)) = self.find(id) else { return Ok(false) };
        if part.number != next {
            // One that was taken comes again; one that is ahead of its turn is of an agent that lost its place.
            return Ok(part.number < next);
        }
        let place = tokio::time::timeout(self.times.room, parts.reserve()).await;
        let Ok(place) = place.map_err(|_elapsed| SlowReader)? else { return Ok(false) };
        let mut state = lock(&self.state);
        let Some(open) = state.open.get_mut(id) else { return Ok(false) };
        // The same part may have come twice at the same time.
        if open.next == part.number {
            open.next += 1;
            place.send(part);
        }
        Ok(true)
    }

    fn find(&self, id: &str) -> Option<(u64, mpsc::Sender<LogPart>)> {
        let state = lock(&self.state);
        state.open.get(id).map(|open| (open.next, open.parts.clone()))
    }

    fn close(&self, id: &str) {
        let mut state = lock(&self.state);
        state.open.remove(id);
        state.unasked.retain(|log| log.id != id);
    }
}

/// The lines of a log that an agent reads. It is not wanted any more when this is dropped.
pub(crate) struct RelayedLog {
    id: String,
    exchange: Arc<LogExchange>,
    parts: mpsc::Receiver<LogPart>,
    lines: VecDeque<String>,
    end: Option<LogEnd>,
    is_over: bool,
}

impl RelayedLog {
    /// Waits for the agent to open the log, for so long at most; returns false if it does not.
    ///
    /// # Errors
    /// The end of a log that cannot be opened.
    pub(super) async fn open(&mut self, longest: Duration) -> Result<bool, LogEnd> {
        let Ok(Some(part)) = tokio::time::timeout(longest, self.parts.recv()).await else {
            return Ok(false);
        };
        match part.end {
            Some(end @ (LogEnd::NotFound(_) | LogEnd::Failed(_))) if part.lines.is_empty() => {
                Err(end)
            }
            _ => {
                self.take(part);
                Ok(true)
            }
        }
    }

    /// Waits for the next line; `None` after the last one, and after an error. A caller that stops to wait loses none.
    pub(super) async fn next(&mut self) -> Option<Result<String, String>> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(Ok(line));
            }
            match self.end.take() {
                Some(LogEnd::Complete) => self.is_over = true,
                Some(LogEnd::NotFound(why) | LogEnd::Failed(why)) => {
                    self.is_over = true;
                    return Some(Err(why));
                }
                None => {}
            }
            if self.is_over {
                return None;
            }
            let silence = self.exchange.times.silence;
            let Ok(Some(part)) = tokio::time::timeout(silence, self.parts.recv()).await else {
                self.is_over = true;
                let why = "the cluster's agent sends nothing any more; ask again";
                return Some(Err(why.to_owned()));
            };
            self.take(part);
        }
    }

    /// Takes a part, bounded and without secrets of one line, whatever the agent has left in it. Private keys are masked by
    /// the agent: of one whose lines are stars already, nothing tells where it ends.
    fn take(&mut self, part: LogPart) {
        let LogPart { number: _, lines, end } = part;
        let clean = |line: &String| {
            truncate_chars(&mask_secrets(&remove_controls(line)), MAX_LINE_CHARS).into_owned()
        };
        self.lines.extend(lines.iter().map(clean));
        self.end = end;
    }
}

impl Drop for RelayedLog {
    fn drop(&mut self) {
        self.exchange.close(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::logs::LogRange;
    use crate::support::log_text::LogMask;

    fn wanted(id: String) -> WantedLog {
        let text = |text: &str| text.to_owned();
        let range = LogRange { lines: 10, previous: false, follow: true };
        let (namespace, slug) = (text("devx"), text("shop"));
        WantedLog { id, namespace, slug, pod: text("shop-1"), container: text("shop"), range }
    }

    fn part(number: u64, lines: &[&str], end: Option<LogEnd>) -> LogPart {
        LogPart { number, lines: lines.iter().map(|line| (*line).to_owned()).collect(), end }
    }

    const MOMENT: Duration = Duration::from_millis(1);

    /// The exchange of an agent that asks for logs.
    async fn attended(times: ExchangeTimes) -> Arc<LogExchange> {
        let exchange = Arc::new(LogExchange { times, ..LogExchange::default() });
        assert!(exchange.next_wanted(MOMENT).await.is_empty());
        exchange
    }

    #[tokio::test]
    async fn each_part_is_read_once_whatever_is_sent_again() {
        let exchange = attended(ExchangeTimes::default()).await;
        let asking = exchange.next_wanted(Duration::from_secs(8));
        let (wanted_logs, log) = tokio::join!(asking, async { exchange.begin(wanted) });
        let (mut log, id) = (log.unwrap(), wanted_logs[0].id.clone());
        assert!(exchange.next_wanted(MOMENT).await.is_empty(), "it is told once");
        let token = "token=ghp_aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zaB3dE5";
        for (one, is_wanted) in [
            (part(0, &[], None), true),
            (part(1, &["one", token], None), true),
            (part(1, &["one", token], None), true),
            (part(0, &[], None), true),
            (part(3, &["lost its place"], None), false),
            (part(2, &["\u{1b}[31mtwo"], Some(LogEnd::Complete)), true),
        ] {
            assert_eq!(exchange.receive(&id, one.clone()).await, Ok(is_wanted), "{one:?}");
        }
        assert_eq!(log.open(MOMENT).await, Ok(true));
        let mut lines = Vec::new();
        while let Some(line) = log.next().await {
            lines.push(line.unwrap());
        }
        assert_eq!((lines.len(), &*lines[0], &*lines[2]), (3, "one", "two"));
        assert!(!lines[1].contains("ghp_a"), "{lines:?}");
        drop(log);
        assert_eq!(exchange.receive(&id, part(3, &[], None)).await, Ok(false));
    }

    #[tokio::test]
    async fn what_follows_a_key_that_the_agent_has_masked_is_read() {
        let exchange = attended(ExchangeTimes::default()).await;
        let mut log = exchange.begin(wanted).ok().unwrap();
        let id = exchange.next_wanted(MOMENT).await[0].id.clone();
        let mut agent = LogMask::default();
        let key = [
            "-----BEGIN RSA PRIVATE KEY-----",
            "MIIEowIBAAKCAQEA",
            "-----END RSA PRIVATE KEY-----",
        ];
        let lines: Vec<_> =
            key.iter().chain(&["hello"; 9]).map(|line| agent.mask_line(line)).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        exchange.receive(&id, part(0, &lines, Some(LogEnd::Complete))).await.unwrap();
        let mut shown = Vec::new();
        while let Some(line) = log.next().await {
            shown.push(line.unwrap());
        }
        assert_eq!(shown.iter().filter(|line| *line == "hello").count(), 9, "{shown:?}");
        assert!(!shown.concat().contains("MIIE"), "{shown:?}");
    }

    #[tokio::test]
    async fn a_reader_that_has_gone_is_told_to_no_agent_and_one_that_is_slow_holds_the_agent_back()
    {
        let exchange = attended(ExchangeTimes::default()).await;
        drop(exchange.begin(wanted).ok().unwrap());
        assert!(exchange.next_wanted(MOMENT).await.is_empty());
        let mut log = exchange.begin(wanted).ok().unwrap();
        let id = exchange.next_wanted(MOMENT).await[0].id.clone();
        for number in 0..4 {
            assert_eq!(exchange.receive(&id, part(number, &["x"], None)).await, Ok(true));
        }
        assert_eq!(exchange.receive(&id, part(4, &["x"], None)).await, Err(SlowReader));
        assert_eq!(log.next().await, Some(Ok("x".to_owned())));
        assert_eq!(exchange.receive(&id, part(4, &["y"], None)).await, Ok(true));
        for line in ["x", "x", "x", "y"] {
            assert_eq!(log.next().await, Some(Ok(line.to_owned())));
        }
        let silence = log.next().await.unwrap().unwrap_err();
        assert_eq!(silence, "the cluster's agent sends nothing any more; ask again");
        assert_eq!(log.next().await, None);
    }

    #[tokio::test]
    async fn an_agent_that_does_not_ask_is_asked_for_nothing_and_no_more_than_some() {
        let exchange = Arc::new(LogExchange::default());
        assert_eq!(exchange.begin(wanted).err(), Some(ExchangeError::NotSent));
        exchange.open();
        assert_eq!(exchange.begin(wanted).err(), Some(ExchangeError::NotYet));
        assert!(exchange.next_wanted(MOMENT).await.is_empty());
        let logs: Vec<_> = (0..32).map(|_| exchange.begin(wanted).ok().unwrap()).collect();
        assert_eq!(exchange.begin(wanted).err(), Some(ExchangeError::Full));
        let places: Vec<_> = (0..32).map(|_| exchange.enter().unwrap()).collect();
        assert!(exchange.enter().is_none(), "so many parts are read at once");
        drop((logs, places));
        assert!(exchange.enter().is_some());
        let mut log = exchange.begin(wanted).ok().unwrap();
        assert_eq!(log.open(MOMENT).await, Ok(false), "the agent does not come");
        let id = exchange.next_wanted(MOMENT).await[0].id.clone();
        let missing = LogEnd::NotFound("gone".to_owned());
        assert_eq!(exchange.receive(&id, part(0, &[], Some(missing.clone()))).await, Ok(true));
        assert_eq!(log.open(MOMENT).await, Err(missing));
        exchange.open();
        let brief = ExchangeTimes { attention: Duration::ZERO, ..ExchangeTimes::default() };
        let exchange = attended(brief).await;
        assert_eq!(exchange.begin(wanted).err(), Some(ExchangeError::NotSent), "it has stopped");
    }
}
