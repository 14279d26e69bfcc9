//! The only file that reads the time, and the only one that draws random digits for ids.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::support::lease::Moment;

/// A source of the time: the system's, or one that a test moves by hand.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    source: Source,
    /// The millisecond and the random digits of the newest deploy id; clones share it.
    newest: Arc<Mutex<(i64, u32)>>,
}

#[derive(Debug, Clone, Default)]
enum Source {
    #[default]
    System,
    Manual(Arc<Manual>),
}

/// The two times, in milliseconds: since the epoch, and since the clock was made.
#[derive(Debug, Default)]
struct Manual {
    wall: AtomicI64,
    monotonic: AtomicI64,
}

impl Clock {
    /// Returns the machine's clock.
    pub fn system() -> Self {
        Self::default()
    }

    /// Makes a clock that stands still until [`Clock::advance`] moves it; clones share it.
    pub fn manual(start: Timestamp) -> Self {
        let wall = AtomicI64::new(start.as_millisecond());
        let source = Source::Manual(Arc::new(Manual { wall, ..Manual::default() }));
        Self { source, ..Self::default() }
    }

    /// Reads the time, to the millisecond, so that a stored time equals the one that was read.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn now(&self) -> Timestamp {
        let millis = match &self.source {
            Source::System => Timestamp::now().as_millisecond(),
            Source::Manual(manual) => manual.wall.load(Ordering::SeqCst),
        };
        Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Moves a manual clock forward; does nothing to the system's clock.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(manual) = &self.source {
            let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
            manual.wall.fetch_add(by, Ordering::SeqCst);
            manual.monotonic.fetch_add(by, Ordering::SeqCst);
        }
    }

    /// Reads the moment, on the wall clock and on the monotonic one.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn moment(&self) -> Moment {
        static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);
        let monotonic = match &self.source {
            Source::System => BEGINNING.elapsed(),
            Source::Manual(manual) => {
                let millis = manual.monotonic.load(Ordering::SeqCst);
                Duration::from_millis(millis.unsigned_abs())
            }
        };
        Moment { wall: self.now(), monotonic }
    }

    /// Starts a stopwatch, for durations of stages.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn stopwatch(&self) -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// Draws the time now, and 24 random bits. Draws of one millisecond are in the order in which
    /// they were drawn.
    pub fn draw(&self) -> IdSeed {
        let at = self.now();
        let [.., a, b, c] = *uuid::Uuid::now_v7().as_bytes();
        let random = self.in_order(at.as_millisecond(), u32::from_be_bytes([0, a, b, c]));
        IdSeed { at, random }
    }

    /// Returns the digits, or larger ones if the last draw of that millisecond had larger ones.
    fn in_order(&self, millis: i64, random: u32) -> u32 {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let random = match *newest {
            (before, digits) if before == millis => random.max((digits + 1) & 0x00ff_ffff),
            _ => random,
        };
        *newest = (millis, random);
        random
    }
}

/// Draws sixteen hexadecimal digits that nobody can guess: the random half of a UUID (RFC 9562,
/// 5.7).
pub fn random_digits() -> String {
    let (_, random) = uuid::Uuid::now_v7().as_u64_pair();
    format!("{random:016x}")
}

/// The time and the digits of a new id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdSeed {
    /// The time of the draw.
    pub at: Timestamp,
    /// 24 random bits.
    pub random: u32,
}

/// A stopwatch for one duration.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Counts the microseconds since the start.
    pub fn micros(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_digits_are_sixteen_and_others_each_time() {
        let draws: std::collections::BTreeSet<_> = (0..100).map(|_| random_digits()).collect();
        assert!(draws.len() == 100 && draws.iter().all(|digits| digits.len() == 16), "{draws:?}");
    }

    #[test]
    fn draws_of_one_millisecond_are_in_order() {
        let clock = Clock::manual("2026-11-21T05:48:12.123Z".parse().unwrap());
        let draws: Vec<_> = (0..100).map(|_| clock.clone().draw().random).collect();
        assert!(draws.is_sorted_by(|a, b| a < b), "{draws:?}");
    }
}
