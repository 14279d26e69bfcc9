//! A lease by two clocks: the holder checks it right before each effect.
//!
//! A process may stand still at any instruction and for any time, and continues as if nothing had happened. The wall
//! clock shows that the machine slept, the monotonic one that the wall clock was set back; a lease that has ended by
//! one of them has ended. Pure: moments are arguments.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// A moment on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock, which others see, too; it may be set forward and back.
    pub wall: Timestamp,
    /// The time since some beginning; it never goes back, and may stand still while the machine sleeps.
    pub monotonic: Duration,
}

impl Moment {
    /// Returns the moment that much later, on both clocks.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        let signed = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
        Self {
            wall: self.wall.checked_add(signed).unwrap_or(Timestamp::MAX),
            monotonic: self.monotonic.saturating_add(by),
        }
    }

    /// Returns the time since that moment, by the clock that shows less; zero if it is not past.
    fn since(self, before: Self) -> Duration {
        let wall = self.wall.duration_since(before.wall);
        let wall = Duration::try_from(wall).unwrap_or(Duration::ZERO);
        wall.min(self.monotonic.saturating_sub(before.monotonic))
    }
}

/// The end of a lease, which its holder may extend. Clones share it.
#[derive(Debug, Clone)]
#[must_use = "a lease that is not checked lets its holder act too late"]
pub struct Lease(Option<Arc<Mutex<Moment>>>);

impl Lease {
    /// Makes a lease that was requested at that moment, for that long. It ends a quarter earlier for its holder: work
    /// in progress must have ended when others may take over, and their clocks differ.
    pub fn requested_at(at: Moment, length: Duration) -> Self {
        Self(Some(Arc::new(Mutex::new(end(at, length)))))
    }

    /// Makes a lease without an end, for a holder without competitors.
    pub fn without_end() -> Self {
        Self(None)
    }

    /// Extends the lease: it was renewed at that moment, for that long.
    pub fn extend(&self, at: Moment, length: Duration) {
        if let Some(ends) = &self.0 {
            *ends.lock().unwrap_or_else(PoisonError::into_inner) = end(at, length);
        }
    }

    /// Returns the time that is left.
    pub fn left(&self, now: Moment) -> Duration {
        let Some(ends) = &self.0 else { return Duration::MAX };
        let ends = *ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.since(now)
    }

    /// Returns the result of the work while the lease lasts, which is checked each time before the work continues;
    /// `None` if the work was abandoned.
    pub fn run_while_held<T>(
        &self,
        now: impl Fn() -> Moment,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = Option<T>> {
        let mut work = Box::pin(work);
        poll_fn(move |context| {
            if self.is_over(now()) {
                return Poll::Ready(None);
            }
            work.as_mut().poll(context).map(Some)
        })
    }

    /// Returns whether the lease has ended.
    pub fn is_over(&self, now: Moment) -> bool {
        self.left(now).is_zero()
    }
}

fn end(at: Moment, length: Duration) -> Moment {
    at.after(length * 3 / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(40);

    /// So many seconds after the start by each clock.
    fn at(wall: i64, monotonic: u64) -> Moment {
        let wall = Timestamp::from_second(1_000_000 + wall).unwrap();
        Moment { wall, monotonic: Duration::from_secs(7 + monotonic) }
    }

    #[test]
    fn nothing_is_begun_in_the_last_quarter() {
        let lease = Lease::requested_at(at(0, 0), LENGTH);
        assert_eq!(lease.left(at(0, 0)), Duration::from_secs(30));
        assert_eq!(lease.left(at(29, 29)), Duration::from_secs(1));
        assert!(!lease.is_over(at(29, 29)) && lease.is_over(at(30, 30)));
    }

    #[test]
    fn what_is_over_by_one_clock_is_over() {
        let lease = Lease::requested_at(at(0, 0), LENGTH);
        assert!(lease.is_over(at(600, 1)), "the machine slept, and one clock with it");
        assert!(lease.is_over(at(-3600, 31)), "the wall clock was put back");
        assert_eq!(lease.left(at(-3600, 1)), Duration::from_secs(29));
    }

    #[test]
    fn an_extension_counts_from_when_it_was_asked_for() {
        let lease = Lease::requested_at(at(0, 0), LENGTH);
        let held_by_another = lease.clone();
        lease.extend(at(10, 10), LENGTH);
        assert_eq!(held_by_another.left(at(35, 35)), Duration::from_secs(5));
        lease.extend(at(-3590, 20), LENGTH);
        assert!(!lease.is_over(at(-3570, 40)), "it goes by the clock as it is now");
    }

    #[tokio::test]
    async fn who_stood_still_in_the_middle_of_its_work_does_not_go_on() {
        let clock = std::cell::Cell::new(at(0, 0));
        let lease = Lease::requested_at(at(0, 0), LENGTH);
        let work = |pause: u64| {
            let clock = &clock;
            async move {
                clock.set(clock.get().after(Duration::from_secs(pause)));
                tokio::task::yield_now().await;
                clock.get()
            }
        };
        assert!(lease.run_while_held(|| clock.get(), work(29)).await.is_some());
        assert!(lease.run_while_held(|| clock.get(), work(1)).await.is_none());
    }

    #[test]
    fn one_without_an_end_is_never_over() {
        assert!(!Lease::without_end().is_over(at(i64::from(u32::MAX), u64::MAX / 2)));
    }
}
