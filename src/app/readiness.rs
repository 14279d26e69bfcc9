//! Whether a repository is ready, as it was a moment ago.
//!
//! Probes give no name, so that anybody may ask, and as often as they like; their questions must not
//! become as many requests to a code host, or programs on this machine.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;

use crate::clock::Clock;

/// So long an answer serves again: no longer than probes rest, so that a repository which comes back
/// is seen at the next.
const FRESH: SignedDuration = SignedDuration::from_secs(5);

/// That it is, or what it waits for.
pub(crate) type Answer = Result<(), String>;

/// The last answer about one repository. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Readiness(Arc<Mutex<Option<(Timestamp, Answer)>>>);

impl Readiness {
    /// The answer of a moment ago, or else a new one. One asks at a time, and hears it out although
    /// nobody may wait for it any more; all others wait for what it hears.
    pub(crate) async fn or(
        &self,
        clock: Clock,
        ask: impl Future<Output = Answer> + Send + 'static,
    ) -> Answer {
        let mut last = Arc::clone(&self.0).lock_owned().await;
        if let Some((at, answer)) = &*last
            && is_fresh(*at, clock.now())
        {
            return answer.clone();
        }
        let asking = tokio::spawn(async move {
            let answer = ask.await;
            *last = Some((clock.now(), answer.clone()));
            answer
        });
        asking.await.unwrap_or_else(|fault| Err(fault.to_string()))
    }
}

/// Not from the future either: somebody may have set the clock back.
fn is_fresh(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at).abs() < FRESH
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
            let ask = async move { Err(format!("no {}", asked.fetch_add(1, Ordering::SeqCst))) };
            readiness.or(clock.clone(), ask).await.unwrap_err()
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
                Err("slow".to_owned())
            }
        };
        let left = tokio::time::timeout(Duration::ZERO, readiness.or(clock.clone(), slow)).await;
        assert!(left.is_err());
        goes_on.notify_one();
        let second = readiness.or(clock, async { panic!("it is asked only once") }).await;
        assert_eq!(second, Err("slow".to_owned()));
    }
}
