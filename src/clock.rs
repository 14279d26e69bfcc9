//! The only file that asks what time it is, and the only one that draws random digits for ids.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::model::id::DeployId;
use crate::model::lock::LockId;
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

/// Both in milliseconds: since the epoch, and since the clock was made.
#[derive(Debug, Default)]
struct Manual {
    wall: AtomicI64,
    monotonic: AtomicI64,
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self::default()
    }

    /// A clock that stands still until [`Clock::advance`] moves it; clones share it.
    pub fn manual(start: Timestamp) -> Self {
        let wall = AtomicI64::new(start.as_millisecond());
        let source = Source::Manual(Arc::new(Manual { wall, ..Manual::default() }));
        Self { source, ..Self::default() }
    }

    /// The time now, to the millisecond: what is stored is what was read.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn now(&self) -> Timestamp {
        let millis = match &self.source {
            Source::System => Timestamp::now().as_millisecond(),
            Source::Manual(manual) => manual.wall.load(Ordering::SeqCst),
        };
        Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Moves a manual clock forward; the system's clock goes by itself.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(manual) = &self.source {
            let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
            manual.wall.fetch_add(by, Ordering::SeqCst);
            manual.monotonic.fetch_add(by, Ordering::SeqCst);
        }
    }

    /// The moment now, on the wall clock and on one that is never put back.
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

    /// A new deploy id at this clock's time. Those of one millisecond are in the order in which they
    /// were drawn.
    pub fn deploy_id(&self) -> DeployId {
        let now = self.now();
        let [.., a, b, c] = *uuid::Uuid::now_v7().as_bytes();
        let random = self.in_order(now.as_millisecond(), u32::from_be_bytes([0, a, b, c]));
        let id = format!("{}-{random:06x}", now.strftime("%Y%m%d-%H%M%S%3f"));
        DeployId::parse(id).expect("the pattern is a deploy id's")
    }

    /// The digits, or the next ones where others of that millisecond were greater.
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

/// A new name for a lock.
pub fn lock_id() -> LockId {
    let [.., a, b, c, d] = *uuid::Uuid::now_v7().as_bytes();
    LockId::parse(format!("{a:02x}{b:02x}{c:02x}{d:02x}")).expect("eight hexadecimal digits")
}

/// Sixteen hexadecimal digits that nobody can guess: the random half of a UUID (RFC 9562, 5.7).
pub fn random_digits() -> String {
    let (_, random) = uuid::Uuid::now_v7().as_u64_pair();
    format!("{random:016x}")
}

/// Measures one duration.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Microseconds since the start.
    pub fn micros(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deploy_ids_carry_the_clocks_time_and_sort_by_it() {
        let clock = Clock::manual("2026-11-21T05:48:12.123Z".parse().unwrap());
        let first = clock.deploy_id();
        clock.advance(Duration::from_millis(1));
        let second = clock.deploy_id();
        assert!(first.as_str().starts_with("20261121-054812123-"), "{first}");
        assert!(first < second);
    }

    #[test]
    fn random_digits_are_sixteen_and_others_each_time() {
        let all: std::collections::BTreeSet<_> = (0..100).map(|_| random_digits()).collect();
        assert!(all.len() == 100 && all.iter().all(|digits| digits.len() == 16), "{all:?}");
    }

    #[test]
    fn deploy_ids_of_one_millisecond_are_in_order() {
        let clock = Clock::manual("2026-11-21T05:48:12.123Z".parse().unwrap());
        let ids: Vec<_> = (0..100).map(|_| clock.clone().deploy_id()).collect();
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    }
}
