//! Whether something that the service needs is ready, as it was a moment ago.
//!
//! Probes give no name, so that anybody may ask, and as often as they like; their questions must not
//! become as many requests to a code host, writes to a disk, or programs on this machine.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;

use crate::support::clock::Clock;

/// So long an answer of another machine serves again: no longer than probes rest, so that a repository
/// which comes back is seen at the next.
const FRESH: SignedDuration = SignedDuration::from_secs(5);

/// The same of a disk and of the database, which are near.
const FRESH_NEARBY: SignedDuration = SignedDuration::from_secs(1);

/// That it is, or what it waits for.
pub(crate) type Answer = Result<(), NotReady>;

/// Why something is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotReady {
    /// What it waits for; shown to anybody.
    pub(crate) waiting_for: String,
    /// What was found, for the log.
    pub(crate) cause: String,
}

impl NotReady {
    /// Both in the same words.
    pub(crate) fn said(words: impl Into<String>) -> Self {
        let words = words.into();
        Self { waiting_for: words.clone(), cause: words }
    }
}

/// The last answer about one thing. Clones share it.
#[derive(Clone)]
pub(crate) struct Readiness {
    fresh: SignedDuration,
    last: Arc<Mutex<Option<(Timestamp, Answer)>>>,
}

/// Of something on another machine.
impl Default for Readiness {
    fn default() -> Self {
        Self { fresh: FRESH, last: Arc::default() }
    }
}

impl Readiness {
    /// Of something that is near.
    pub(crate) fn nearby() -> Self {
        Self { fresh: FRESH_NEARBY, ..Self::default() }
    }

    /// The answer of a moment ago, or else a new one. One asks at a time, and hears it out although
    /// nobody may wait for it any more; all others wait for what it hears.
    pub(crate) async fn or(
        &self,
        name: &str,
        clock: Clock,
        ask: impl Future<Output = Answer> + Send + 'static,
    ) -> Answer {
        let mut last = Arc::clone(&self.last).lock_owned().await;
        // Not from the future either: the clock may have been set back.
        let is_fresh = |at: Timestamp| clock.now().duration_since(at).abs() < self.fresh;
        if let Some((at, answer)) = &*last
            && is_fresh(*at)
        {
            return answer.clone();
        }
        let name = name.to_owned();
        let asking = tokio::spawn(async move {
            let answer = ask.await;
            log(&name, last.as_ref().map(|(_, before)| before), &answer);
            *last = Some((clock.now(), answer.clone()));
            answer
        });
        asking.await.unwrap_or_else(|fault| Err(NotReady::said(fault.to_string())))
    }
}

/// Once for each change: probes ask again and again.
fn log(check: &str, before: Option<&Answer>, now: &Answer) {
    match now {
        _ if before == Some(now) => {}
        Err(NotReady { waiting_for, cause }) => {
            tracing::warn!(check, waiting_for, cause, "the service is not ready");
        }
        Ok(()) if before.is_some() => tracing::info!(check, "it is ready again"),
        Ok(()) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn who_asks_again_at_once_gets_the_same_answer() {
        let (clock, asked) = (Clock::manual(Timestamp::UNIX_EPOCH), Arc::new(AtomicU32::new(0)));
        let readiness = Readiness::default();
        let ask = async || {
            let asked = Arc::clone(&asked);
            let ask = async move {
                Err(NotReady::said(format!("no {}", asked.fetch_add(1, Ordering::SeqCst))))
            };
            readiness.or("it", clock.clone(), ask).await.unwrap_err().waiting_for
        };
        assert_eq!((ask().await, ask().await), ("no 0".to_owned(), "no 0".to_owned()));
        clock.advance(Duration::from_secs(4));
        assert_eq!(ask().await, "no 0");
        clock.advance(Duration::from_secs(1));
        assert_eq!(ask().await, "no 1");
    }

    #[tokio::test]
    async fn a_question_is_heard_out_although_who_asked_it_has_gone() {
        let clock = Clock::manual(Timestamp::UNIX_EPOCH);
        let (readiness, goes_on) = (Readiness::default(), Arc::new(Notify::new()));
        let slow = {
            let goes_on = Arc::clone(&goes_on);
            async move {
                goes_on.notified().await;
                Err(NotReady::said("slow"))
            }
        };
        let left =
            tokio::time::timeout(Duration::ZERO, readiness.or("it", clock.clone(), slow)).await;
        assert!(left.is_err());
        goes_on.notify_one();
        let second = readiness.or("it", clock, async { panic!("it is asked only once") }).await;
        assert_eq!(second, Err(NotReady::said("slow")));
    }
}
