//! The door to a family of sinks: closed while the other side wants us to wait or does not answer,
//! and behind it the rate limit. Pure; the time is handed in.

use std::time::Duration;

use jiff::Timestamp;

use crate::support::rate_limit::{Rate, RateLimiter};
use crate::support::retry::{RetryGate, backoff};
use crate::support::time::saturating_add;

/// How the other side sounded when one message was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// It answered, yes or no.
    Answer,
    /// It wants nothing more for so long.
    Wait(Duration),
    /// It did not answer, or not in its right mind.
    Silence,
}

/// The first silence may be one lost packet.
const FIRST_SILENCE: Duration = Duration::from_secs(1);
/// An outage that has ended is found out within this.
const LONGEST_SILENCE: Duration = Duration::from_mins(1);

/// Who may go through, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Door {
    limiter: RateLimiter,
    gate: RetryGate,
    /// How many silences there were since the last answer.
    silences: u32,
    /// The other side has answered since the door was closed. Until then one goes at a time: what
    /// happens to the first would happen to all.
    proven: bool,
}

impl Door {
    /// An open door that nobody has gone through yet.
    pub(super) fn new(rate: Rate) -> Self {
        // A whole burst may be spent in advance: some take more calls than the one that was counted.
        let limiter = RateLimiter::with_debt(rate, rate.time_for(rate.burst.max(1)));
        Self { limiter, gate: RetryGate::default(), silences: 0, proven: false }
    }

    /// Lets at most so many in; how many that are.
    pub(super) fn admit(&mut self, most: u32, now: Timestamp) -> u32 {
        if self.is_closed(now) {
            return 0;
        }
        let most = if self.proven { most } else { most.min(1) };
        let admitted = self.limiter.available(now).min(most);
        self.limiter.spend(admitted, now);
        admitted
    }

    /// So many of those that were let in had nothing to say, or came too late.
    pub(super) fn turned_back(&mut self, n: u32) {
        self.limiter.release(n);
    }

    /// One of those that were let in takes so many calls more than one: others wait the longer.
    pub(super) fn spends_more(&mut self, n: u32, now: Timestamp) {
        self.limiter.spend(n, now);
    }

    /// Whether nothing may be tried.
    pub(super) fn is_closed(&self, now: Timestamp) -> bool {
        self.closed_until(now).is_some()
    }

    /// Until when it is closed, if it is.
    pub(super) fn closed_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.gate.closed_until(now)
    }

    /// When somebody may go through: now, or later.
    pub(super) fn next(&self, now: Timestamp) -> Timestamp {
        saturating_add(now, self.limiter.wait(now)).max(self.closed_until(now).unwrap_or(now))
    }

    /// What one that went through has heard; whether the door was closed by it.
    pub(super) fn heard(&mut self, heard: Heard, now: Timestamp) -> bool {
        match heard {
            // Of several on their way only the first to hear nothing counts.
            Heard::Answer | Heard::Silence if self.is_closed(now) => false,
            Heard::Answer => {
                (self.gate, self.silences, self.proven) = (RetryGate::default(), 0, true);
                false
            }
            Heard::Silence => {
                let wait = backoff(FIRST_SILENCE, LONGEST_SILENCE, self.silences);
                self.silences = self.silences.saturating_add(1);
                self.close(wait, now)
            }
            Heard::Wait(wish) => self.close(wish, now),
        }
    }

    fn close(&mut self, wait: Duration, now: Timestamp) -> bool {
        self.proven = false;
        self.gate.close(wait, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn proven() -> Door {
        let mut door = Door::new(Rate { burst: 20, every: Duration::from_secs(1) });
        assert_eq!(door.admit(8, at(0)), 1, "the first goes alone");
        assert!(!door.heard(Heard::Answer, at(0)));
        door
    }

    fn wait(seconds: u64) -> Heard {
        Heard::Wait(Duration::from_secs(seconds))
    }

    #[test]
    fn an_answer_opens_the_door_for_a_burst() {
        let mut door = proven();
        assert_eq!(door.admit(50, at(0)), 19);
        assert_eq!((door.admit(50, at(0)), door.next(at(0))), (0, at(1)));
        door.turned_back(5);
        assert_eq!(door.admit(50, at(0)), 5, "whoever had nothing to say took no place");
    }

    #[test]
    fn the_other_sides_wish_closes_it_to_the_second() {
        let mut door = proven();
        assert!(door.heard(wait(60), at(10)));
        assert_eq!((door.admit(8, at(69)), door.next(at(69))), (0, at(70)));
        assert_eq!(door.closed_until(at(69)), Some(at(70)));
        assert_eq!(door.admit(8, at(70)), 1, "then one goes and looks");
        door.heard(Heard::Answer, at(70));
        assert_eq!(door.admit(8, at(71)), 8);
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_it_open() {
        let mut door = proven();
        assert!(door.heard(wait(60), at(1_000_000)));
        assert!(door.is_closed(at(1_000_000)) && !door.is_closed(at(10)));
        assert_eq!((door.closed_until(at(10)), door.next(at(10))), (None, at(10)));
        assert!(door.heard(wait(60), at(10)), "it is closed by the new time");
        assert_eq!(door.closed_until(at(10)), Some(at(70)));
        let mut door = proven();
        assert!(door.admit(20, at(1_000_000)) > 0);
        assert!(door.next(at(10)) <= at(30), "nor does its limiter remember the future");
    }

    #[test]
    fn a_shorter_wish_and_a_late_answer_do_not_open_it() {
        let mut door = proven();
        assert!(door.heard(wait(60), at(0)));
        assert!(!door.heard(wait(5), at(0)));
        assert!(!door.heard(Heard::Answer, at(1)), "it was on its way before");
        assert_eq!(door.closed_until(at(59)), Some(at(60)));
        assert!(door.heard(wait(3600 * 24 * 365), at(60)));
        assert_eq!(door.next(at(60)), at(60 + 2 * 3600), "nobody closes it for years");
    }

    #[test]
    fn silence_closes_it_for_longer_and_longer_up_to_a_minute() {
        let mut door = proven();
        let mut now = 0;
        let mut pauses = vec![];
        for _ in 0..8 {
            assert!(door.heard(Heard::Silence, at(now)));
            assert!(!door.heard(Heard::Silence, at(now)), "those beside it say nothing new");
            let next = door.next(at(now)).as_second();
            pauses.push(next - now);
            now = next;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        door.heard(Heard::Answer, at(now));
        door.heard(Heard::Silence, at(now));
        assert_eq!(door.next(at(now)).as_second() - now, 1, "an answer makes up for all of it");
    }
}
