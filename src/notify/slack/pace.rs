//! How fast Slack may be written to. Pure: times come in.
//!
//! Slack takes one message a second in each channel, with bursts that it calls short and does not
//! number (<https://docs.slack.dev/apis/web-api/rate-limits>), and says with 429 and `Retry-After` when
//! that was too much. Channels do not wait for each other.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

/// Between two messages, in the long run.
const BETWEEN_MILLIS: i64 = 1000;
/// How many may go at once after a pause.
const BURST: i64 = 3;
/// Slack asks for no longer. What lies further ahead is of a clock that was set back.
const LONGEST: Duration = Duration::from_hours(2);
/// Channels that nobody wrote to lately are forgotten from here on.
const MOST: usize = 1000;

/// What is known of each channel, or method.
#[derive(Debug, Default)]
pub(super) struct Paces(HashMap<String, Pace>);

/// When the next one would be due if they came at the pace exactly, in milliseconds since the epoch.
#[derive(Debug, Clone, Copy)]
struct Pace(i64);

impl Paces {
    /// Takes the turn to write there now; otherwise says how long to wait for it.
    pub(super) fn admit(&mut self, what: &str, now: Timestamp) -> Result<(), Duration> {
        let now = now.as_millisecond();
        if self.0.len() >= MOST {
            self.0.retain(|_, pace| pace.0 > now);
        }
        let pace = self.0.entry(what.to_owned()).or_insert(Pace(now));
        if pace.0.saturating_sub(now) > millis(LONGEST) + BURST * BETWEEN_MILLIS {
            pace.0 = now;
        }
        let ahead = pace.0.saturating_sub(now).saturating_sub((BURST - 1) * BETWEEN_MILLIS);
        match u64::try_from(ahead) {
            Ok(millis) if millis > 0 => Err(Duration::from_millis(millis)),
            _ => {
                pace.0 = pace.0.max(now).saturating_add(BETWEEN_MILLIS);
                Ok(())
            }
        }
    }

    /// What the turn was taken for was refused: it does not count.
    pub(super) fn give_back(&mut self, what: &str) {
        if let Some(pace) = self.0.get_mut(what) {
            pace.0 = pace.0.saturating_sub(BETWEEN_MILLIS);
        }
    }

    /// Nothing is written there for so long: Slack has asked for it.
    pub(super) fn hold(&mut self, what: &str, now: Timestamp, wait: Duration) {
        let until = now.as_millisecond().saturating_add(millis(wait.min(LONGEST)));
        let due = Pace(until.saturating_add((BURST - 1) * BETWEEN_MILLIS));
        let pace = self.0.entry(what.to_owned()).or_insert(due);
        pace.0 = pace.0.max(due.0);
    }
}

/// The methods that nobody may call for a while. Slack limits each method for the whole app and
/// workspace; a short wait after a message is its channel's alone.
#[derive(Debug, Default)]
pub(super) struct Holds(HashMap<&'static str, Timestamp>);

/// What Slack asks for where only one channel was too fast.
const OF_A_CHANNEL: Duration = Duration::from_secs(2);

impl Holds {
    /// How long nobody may call it yet.
    pub(super) fn left(&self, method: &str, now: Timestamp) -> Option<Duration> {
        let left = self.0.get(method)?.duration_since(now);
        let left = Duration::try_from(left).ok();
        left.filter(|left| !left.is_zero() && *left <= LONGEST)
    }

    /// Slack asked for so long; `posts` tells that the method writes into a channel.
    pub(super) fn hold(
        &mut self,
        method: &'static str,
        posts: bool,
        now: Timestamp,
        wait: Duration,
    ) {
        if posts && wait <= OF_A_CHANNEL {
            return;
        }
        let until = now.checked_add(wait.min(LONGEST)).unwrap_or(Timestamp::MAX);
        let before = self.left(method, now).and_then(|left| now.checked_add(left).ok());
        self.0.insert(method, before.map_or(until, |before| before.max(until)));
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[test]
    fn a_clock_that_is_set_back_holds_nobody_up() {
        let (ahead, now) = (at(1_000_000_000), at(0));
        let mut paces = Paces::default();
        paces.hold("C1", ahead, Duration::from_mins(1));
        assert!(paces.admit("C1", ahead).is_err());
        assert_eq!(paces.admit("C1", now), Ok(()));
        let mut holds = Holds::default();
        holds.hold("chat.postMessage", false, ahead, Duration::from_mins(1));
        assert!(holds.left("chat.postMessage", ahead).is_some());
        assert_eq!(holds.left("chat.postMessage", now), None);
        holds.hold("chat.postMessage", false, now, Duration::from_mins(1));
        assert_eq!(holds.left("chat.postMessage", now), Some(Duration::from_mins(1)));
    }

    #[test]
    fn a_burst_goes_at_once_and_the_rest_once_a_second() {
        let mut paces = Paces::default();
        for _ in 0..3 {
            assert_eq!(paces.admit("a", at(0)), Ok(()));
        }
        assert_eq!(paces.admit("a", at(0)), Err(Duration::from_secs(1)));
        assert_eq!(paces.admit("a", at(999)), Err(Duration::from_millis(1)));
        assert_eq!(paces.admit("a", at(1000)), Ok(()));
        assert_eq!(paces.admit("a", at(1000)), Err(Duration::from_secs(1)));
    }

    #[test]
    fn channels_do_not_wait_for_each_other() {
        let mut paces = Paces::default();
        paces.hold("a", at(0), Duration::from_mins(1));
        assert_eq!(paces.admit("a", at(0)), Err(Duration::from_mins(1)));
        assert_eq!(paces.admit("b", at(0)), Ok(()));
        assert_eq!(paces.admit("a", at(60_000)), Ok(()));
        assert_eq!(paces.admit("a", at(60_000)), Err(Duration::from_secs(1)));
    }

    #[test]
    fn a_method_is_held_for_everybody_unless_one_channel_was_too_fast() {
        let mut holds = Holds::default();
        holds.hold("post", true, at(0), Duration::from_secs(1));
        assert_eq!(holds.left("post", at(0)), None);
        holds.hold("look", false, at(0), Duration::from_secs(1));
        assert_eq!(holds.left("look", at(0)), Some(Duration::from_secs(1)));
        holds.hold("post", true, at(0), Duration::from_secs(30));
        holds.hold("post", true, at(0), Duration::from_secs(20));
        assert_eq!(holds.left("post", at(10_000)), Some(Duration::from_secs(20)));
        assert_eq!((holds.left("post", at(30_000)), holds.left("other", at(0))), (None, None));
    }

    #[test]
    fn what_was_refused_does_not_count() {
        let mut paces = Paces::default();
        for _ in 0..10 {
            assert_eq!(paces.admit("a", at(0)), Ok(()));
            paces.give_back("a");
        }
    }

    #[test]
    fn quiet_channels_are_forgotten() {
        let mut paces = Paces::default();
        for n in 0..2 * i64::try_from(MOST).unwrap() {
            assert_eq!(paces.admit(&n.to_string(), at(n * 10)), Ok(()));
        }
        assert!(paces.0.len() <= MOST);
    }
}
