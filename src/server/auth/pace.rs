//! How often somebody may come: a bucket each that fills by itself. Pure; times come in.
//!
//! A bucket is kept as the moment when it will be full again (the generic cell rate algorithm), so
//! that one number is all there is of a caller, and one that is full need not be kept.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

/// Buckets that are not full. Beyond that, who is new shares one.
const MOST: usize = 10_000;
/// Whose bucket it is that is shared; no caller is called so.
const OTHERS: &str = "";
const MINUTE: i64 = 60_000_000;

/// Who may come so often in a minute, and as often at once.
#[derive(Debug)]
pub(super) struct Pace {
    per_minute: u32,
    /// When each bucket is full again, in microseconds since the epoch.
    full_at: BTreeMap<String, i64>,
}

impl Pace {
    pub(super) fn new(per_minute: u32) -> Self {
        Self { per_minute: per_minute.max(1), full_at: BTreeMap::new() }
    }

    /// Takes one of somebody's; else how long until there is one again.
    pub(super) fn take(&mut self, who: &str, now: Timestamp) -> Result<(), Duration> {
        self.left(who, now)?;
        let now = now.as_microsecond();
        let who = self.bucket(who, now);
        let full_at = self.full_at.entry(who).or_insert(now);
        *full_at = (*full_at).clamp(now, now + MINUTE) + MINUTE / i64::from(self.per_minute);
        Ok(())
    }

    /// Gives back one that was taken of somebody's.
    pub(super) fn give_back(&mut self, who: &str) {
        let who = if self.full_at.contains_key(who) { who } else { OTHERS };
        if let Some(full_at) = self.full_at.get_mut(who) {
            *full_at -= MINUTE / i64::from(self.per_minute);
        }
    }

    /// Whether there is one left of somebody's; else how long until there is.
    fn left(&self, who: &str, now: Timestamp) -> Result<(), Duration> {
        let now = now.as_microsecond();
        let known = self
            .full_at
            .get(who)
            .or_else(|| self.full_at.get(OTHERS).filter(|_| self.full_at.len() >= MOST));
        // One that is further ahead is of a clock that was set back.
        let used = known.map_or(0, |full_at| (full_at - now).clamp(0, MINUTE));
        let wait = used + MINUTE / i64::from(self.per_minute) - MINUTE;
        match u64::try_from(wait) {
            Ok(wait) if wait > 0 => Err(Duration::from_micros(wait)),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn bucket(&mut self, who: &str, now: i64) -> String {
        if self.full_at.len() >= MOST && !self.full_at.contains_key(who) {
            self.full_at.retain(|_, full_at| *full_at > now);
            if self.full_at.len() >= MOST {
                return OTHERS.to_owned();
            }
        }
        who.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_700_000_000_000 + millis).unwrap()
    }

    #[test]
    fn a_minutes_worth_at_once_and_then_one_by_one() {
        let mut pace = Pace::new(4);
        for _ in 0..4 {
            assert_eq!(pace.take("a", at(0)), Ok(()));
        }
        assert_eq!(pace.take("a", at(0)), Err(Duration::from_secs(15)));
        assert_eq!(pace.take("a", at(14_000)), Err(Duration::from_secs(1)));
        assert_eq!(pace.take("a", at(15_000)), Ok(()));
        assert_eq!(pace.take("a", at(15_000)), Err(Duration::from_secs(15)));
        assert_eq!(pace.take("b", at(15_000)), Ok(()), "others have their own");
        for _ in 0..4 {
            assert_eq!(pace.take("a", at(200_000)), Ok(()));
        }
        assert!(pace.take("a", at(200_000)).is_err(), "no more than a minute's worth is saved up");
    }

    #[test]
    fn any_number_a_minute_is_kept_whatever_it_is() {
        for per_minute in [1, 7, 30, 1200, 1_000_000] {
            let mut pace = Pace::new(per_minute);
            let taken = (0..per_minute).filter(|_| pace.take("a", at(0)).is_ok()).count();
            assert_eq!(taken, per_minute as usize);
            assert!(pace.take("a", at(0)).is_err(), "{per_minute}");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_locks_nobody_out_for_longer_than_a_minute() {
        let mut pace = Pace::new(1);
        assert_eq!(pace.take("a", at(3_600_000)), Ok(()));
        assert!(pace.left("a", at(0)).unwrap_err() <= Duration::from_mins(1));
    }

    #[test]
    fn what_is_given_back_can_be_taken_again_and_no_more() {
        let mut pace = Pace::new(2);
        assert!(pace.take("a", at(0)).is_ok() && pace.take("a", at(0)).is_ok());
        pace.give_back("a");
        assert_eq!(pace.take("a", at(0)), Ok(()));
        assert!(pace.take("a", at(0)).is_err());
        pace.give_back("nobody");
        for _ in 0..5 {
            pace.give_back("a");
        }
        let taken = (0..5).filter(|_| pace.take("a", at(0)).is_ok()).count();
        assert_eq!(taken, 2, "no more than a minute's worth");
    }

    #[test]
    fn however_many_come_no_more_than_so_many_are_kept() {
        let mut pace = Pace::new(1);
        for n in 0..MOST {
            pace.take(&n.to_string(), at(0)).unwrap();
        }
        assert_eq!(pace.take("one more", at(0)), Ok(()));
        assert!(pace.take("another", at(0)).is_err(), "they share a bucket");
        assert!(pace.full_at.len() <= MOST + 1);
        let later = at(0) + SignedDuration::from_mins(2);
        assert_eq!(pace.take("another", later), Ok(()));
        assert_eq!(pace.full_at.len(), 1, "full ones are let go");
    }
}
