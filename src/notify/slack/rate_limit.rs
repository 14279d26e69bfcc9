//! The rate limits of Slack. Pure: times come in.
//!
//! Slack takes one message a second in each channel, with bursts that it calls short and does not number
//! (<https://docs.slack.dev/apis/web-api/rate-limits>), and says with 429 and `Retry-After` when that was too much.
//! Channels do not wait for each other.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::support::rate_limit::{Rate, RateLimiter};
use crate::support::retry::{LONGEST_RETRY_AFTER, RetryGate};
use crate::support::time::saturating_add;

/// One message a second in the long run, and three at once after a pause.
const CHANNEL: Rate = Rate { burst: 3, every: Duration::from_secs(1) };
/// The limit of channels: unused ones are removed.
const MAX: usize = 1000;

/// The rate limits of the channels, and of what else is written to.
#[derive(Debug, Default)]
pub(super) struct ChannelLimits(HashMap<String, RateLimiter>);

impl ChannelLimits {
    /// Takes the turn to write there now; otherwise says how long to wait for it.
    pub(super) fn try_acquire(&mut self, channel: &str, now: Timestamp) -> Result<(), Duration> {
        if self.0.len() >= MAX {
            self.0.retain(|_, limiter| !limiter.is_full(now));
        }
        let limiter = self.limiter(channel);
        limiter.refill_if_set_back(now);
        limiter.try_acquire(now)
    }

    /// Gives a turn back after a refused call.
    pub(super) fn release(&mut self, channel: &str) {
        if let Some(limiter) = self.0.get_mut(channel) {
            limiter.release(1);
        }
    }

    /// Blocks the channel for the wait that Slack asked for.
    pub(super) fn block(&mut self, channel: &str, now: Timestamp, wait: Duration) {
        self.limiter(channel).block_until(saturating_add(now, wait.min(LONGEST_RETRY_AFTER)));
    }

    fn limiter(&mut self, channel: &str) -> &mut RateLimiter {
        let longest = SignedDuration::try_from(LONGEST_RETRY_AFTER).unwrap_or_default();
        let new = || RateLimiter::with_debt(CHANNEL, longest);
        self.0.entry(channel.to_owned()).or_insert_with(new)
    }
}

/// The methods that are blocked for a while. Slack limits each method for the whole app and workspace; a short wait
/// after a message is its channel's alone.
#[derive(Debug, Default)]
pub(super) struct MethodBlocks(HashMap<&'static str, RetryGate>);

/// The wait that Slack asks for where only one channel was too fast.
const CHANNEL_WAIT: Duration = Duration::from_secs(2);

impl MethodBlocks {
    /// Returns for how long the method may not be called yet.
    pub(super) fn left(&self, method: &str, now: Timestamp) -> Option<Duration> {
        self.0.get(method)?.wait(now)
    }

    /// Blocks a method for the wait that Slack asked for; `posts` says that it writes into a channel.
    pub(super) fn block(
        &mut self,
        method: &'static str,
        posts: bool,
        now: Timestamp,
        wait: Duration,
    ) {
        if posts && wait <= CHANNEL_WAIT {
            return;
        }
        self.0.entry(method).or_default().close(wait, now);
    }
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
        let mut channels = ChannelLimits::default();
        channels.block("C1", ahead, Duration::from_mins(1));
        assert!(channels.try_acquire("C1", ahead).is_err());
        assert_eq!(channels.try_acquire("C1", now), Ok(()));
        let mut methods = MethodBlocks::default();
        methods.block("chat.postMessage", false, ahead, Duration::from_mins(1));
        assert!(methods.left("chat.postMessage", ahead).is_some());
        assert_eq!(methods.left("chat.postMessage", now), None);
        methods.block("chat.postMessage", false, now, Duration::from_mins(1));
        assert_eq!(methods.left("chat.postMessage", now), Some(Duration::from_mins(1)));
    }

    #[test]
    fn a_burst_goes_at_once_and_the_rest_once_a_second() {
        let mut channels = ChannelLimits::default();
        for _ in 0..3 {
            assert_eq!(channels.try_acquire("a", at(0)), Ok(()));
        }
        assert_eq!(channels.try_acquire("a", at(0)), Err(Duration::from_secs(1)));
        assert_eq!(channels.try_acquire("a", at(999)), Err(Duration::from_millis(1)));
        assert_eq!(channels.try_acquire("a", at(1000)), Ok(()));
        assert_eq!(channels.try_acquire("a", at(1000)), Err(Duration::from_secs(1)));
    }

    #[test]
    fn channels_do_not_wait_for_each_other() {
        let mut channels = ChannelLimits::default();
        channels.block("a", at(0), Duration::from_mins(1));
        assert_eq!(channels.try_acquire("a", at(0)), Err(Duration::from_mins(1)));
        assert_eq!(channels.try_acquire("b", at(0)), Ok(()));
        assert_eq!(channels.try_acquire("a", at(60_000)), Ok(()));
        assert_eq!(channels.try_acquire("a", at(60_000)), Err(Duration::from_secs(1)));
    }

    #[test]
    fn a_method_is_held_for_everybody_unless_one_channel_was_too_fast() {
        let mut methods = MethodBlocks::default();
        methods.block("post", true, at(0), Duration::from_secs(1));
        assert_eq!(methods.left("post", at(0)), None);
        methods.block("look", false, at(0), Duration::from_secs(1));
        assert_eq!(methods.left("look", at(0)), Some(Duration::from_secs(1)));
        methods.block("post", true, at(0), Duration::from_secs(30));
        methods.block("post", true, at(0), Duration::from_secs(20));
        assert_eq!(methods.left("post", at(10_000)), Some(Duration::from_secs(20)));
        assert_eq!((methods.left("post", at(30_000)), methods.left("other", at(0))), (None, None));
    }

    #[test]
    fn what_was_refused_does_not_count() {
        let mut channels = ChannelLimits::default();
        for _ in 0..10 {
            assert_eq!(channels.try_acquire("a", at(0)), Ok(()));
            channels.release("a");
        }
    }

    #[test]
    fn quiet_channels_are_forgotten() {
        let mut channels = ChannelLimits::default();
        for n in 0..2 * i64::try_from(MAX).unwrap() {
            assert_eq!(channels.try_acquire(&n.to_string(), at(n * 10)), Ok(()));
        }
        assert!(channels.0.len() <= MAX);
    }
}
