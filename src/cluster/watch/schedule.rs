//! What a watch does after each list and each watch: list or watch, and when. Pure; chance comes in as a number.
//!
//! | what happened | what comes next |
//! |---|---|
//! | a list is complete | a watch from its version |
//! | a watch ended, or was cut, after some time or some events | a watch from the last version |
//! | watches end at once and without an event, five times | a list, for the truth |
//! | 410; nothing for longer than a watch may take | a list |
//! | 401, 403, 429, 5xx, no connection | the same again, after a pause that grows |
//! | 404 | a list in some minutes: the kind is not installed |
//! | it is time | a list: API servers have lost deletions from their caches |
//!
//! The pause is as at first only after a watch that lasted or told something. A list that succeeds is no proof: some
//! servers answer lists and refuse every watch.

use std::time::Duration;

use crate::cluster::watch::protocol::WatchProblem;
use crate::support::retry::backoff;

/// How often, how long and how much a watch asks.
#[derive(Debug, Clone, Copy)]
pub struct WatchLimits {
    /// The pause after a first failure; each is twice as long as the one before.
    pub first_pause: Duration,
    /// No pause after a failure is longer: a cluster that is back is seen so soon.
    pub longest_pause: Duration,
    /// Watches begin no closer to each other, whatever ends them.
    pub least_gap: Duration,
    /// How long a watch lasts that nothing disturbs. Load balancers drop a connection that is idle for four minutes.
    pub watch: Duration,
    /// How much later than that the server may end it before it counts as silent.
    pub grace: Duration,
    /// How long one page of a list may take.
    pub page: Duration,
    /// How many objects a page has.
    pub page_items: u32,
    /// Everything is listed again after so long, or up to twice as long.
    pub relist: Duration,
    /// A kind that is not installed is looked for again after so long, or up to twice as long.
    pub probe: Duration,
}

impl Default for WatchLimits {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(30),
            least_gap: Duration::from_secs(1),
            watch: Duration::from_secs(200),
            grace: Duration::from_secs(15),
            page: Duration::from_mins(1),
            page_items: 50,
            relist: Duration::from_mins(30),
            probe: Duration::from_mins(5),
        }
    }
}

/// A watch that ends sooner and without an event ended at once.
const SHORT: Duration = Duration::from_secs(1);

/// After so many that ended at once there is a list.
const SHORT_WATCHES: u32 = 5;

/// Of 24 bits.
const CHANCES: u32 = 1 << 24;

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// List everything.
    List,
    /// Watch from the last version.
    Watch,
}

/// What to do, and after which pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WatchStep {
    pub(super) start: Start,
    pub(super) pause: Duration,
}

/// How a watch ended.
#[derive(Debug)]
pub(super) struct WatchEnd {
    /// Its messages, bookmarks too.
    pub(super) messages: u64,
    pub(super) lasted: Duration,
    pub(super) cause: WatchEndCause,
}

/// What ended a watch.
#[derive(Debug)]
pub(super) enum WatchEndCause {
    /// The server, or a broken connection.
    Closed,
    /// It is time for a list.
    Due,
    /// It was refused, or told something that ends it.
    Problem(WatchProblem),
}

/// What is remembered between steps.
#[derive(Debug)]
pub(super) struct Schedule {
    limits: WatchLimits,
    /// Since the last watch that lasted or told something.
    failures: u32,
    /// Watches that ended at once, one after another.
    short: u32,
    /// How many objects the next page has.
    page_items: u32,
}

impl Schedule {
    pub(super) fn new(limits: WatchLimits) -> Self {
        Self { limits, failures: 0, short: 0, page_items: limits.page_items.max(1) }
    }

    pub(super) fn page_items(&self) -> u32 {
        self.page_items
    }

    /// When everything is to be listed again.
    pub(super) fn relist_after(&self, chance: u32) -> Duration {
        spread(self.limits.relist, chance)
    }

    pub(super) fn after_list(&mut self, problem: Option<&WatchProblem>, chance: u32) -> WatchStep {
        match problem {
            None => WatchStep { start: Start::Watch, pause: Duration::ZERO },
            Some(WatchProblem::TooLarge) if self.page_items > 1 => {
                self.page_items = (self.page_items / 2).max(1);
                WatchStep { start: Start::List, pause: Duration::ZERO }
            }
            Some(problem) => self.after_problem(problem, Start::List, chance),
        }
    }

    pub(super) fn after_watch(&mut self, end: &WatchEnd, chance: u32) -> WatchStep {
        let WatchEnd { messages, lasted, cause } = end;
        let was_of_use = *messages > 0 || *lasted >= SHORT;
        if was_of_use {
            (self.failures, self.short) = (0, 0);
        }
        match cause {
            WatchEndCause::Due => WatchStep { start: Start::List, pause: Duration::ZERO },
            WatchEndCause::Closed if was_of_use => {
                let pause = self.limits.least_gap.saturating_sub(*lasted);
                WatchStep { start: Start::Watch, pause }
            }
            WatchEndCause::Closed => {
                self.short = self.short.saturating_add(1);
                let start = if self.short.is_multiple_of(SHORT_WATCHES) {
                    Start::List
                } else {
                    Start::Watch
                };
                let pause = self.pause(self.short - 1, chance).max(self.limits.least_gap);
                WatchStep { start, pause }
            }
            WatchEndCause::Problem(problem) => self.after_problem(problem, Start::Watch, chance),
        }
    }

    fn after_problem(&mut self, problem: &WatchProblem, same: Start, chance: u32) -> WatchStep {
        let failures = self.failures;
        self.failures = failures.saturating_add(1);
        let pause = self.pause(failures, chance);
        match problem {
            WatchProblem::Absent => {
                WatchStep { start: Start::List, pause: spread(self.limits.probe, chance) }
            }
            WatchProblem::Expired | WatchProblem::Silent if failures == 0 => {
                WatchStep { start: Start::List, pause: Duration::ZERO }
            }
            // The same object would come again.
            WatchProblem::Expired | WatchProblem::Silent | WatchProblem::TooLarge => {
                WatchStep { start: Start::List, pause }
            }
            WatchProblem::Throttled(after, _) => {
                let wanted = after.unwrap_or_default().min(self.limits.longest_pause * 4);
                WatchStep { start: same, pause: pause.max(wanted) }
            }
            WatchProblem::Unauthorized | WatchProblem::Forbidden(_) | WatchProblem::Failed(_) => {
                WatchStep { start: same, pause }
            }
        }
    }

    /// At least half of the pause, so that many watches that failed together do not come back together.
    fn pause(&self, failures: u32, chance: u32) -> Duration {
        spread(backoff(self.limits.first_pause, self.limits.longest_pause, failures) / 2, chance)
    }
}

/// Between once and twice as long.
fn spread(time: Duration, chance: u32) -> Duration {
    let part = f64::from(chance % CHANCES) / f64::from(CHANCES);
    time + time.mul_f64(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u32 = CHANCES - 1;

    fn schedule() -> Schedule {
        Schedule::new(WatchLimits::default())
    }

    fn end(messages: u64, seconds: u64, cause: WatchEndCause) -> WatchEnd {
        WatchEnd { messages, lasted: Duration::from_secs(seconds), cause }
    }

    fn problem(problem: WatchProblem) -> WatchEnd {
        end(0, 0, WatchEndCause::Problem(problem))
    }

    fn failed() -> WatchProblem {
        WatchProblem::Failed("no".to_owned())
    }

    fn list(seconds: u64) -> WatchStep {
        WatchStep { start: Start::List, pause: Duration::from_secs(seconds) }
    }

    fn watch(seconds: u64) -> WatchStep {
        WatchStep { start: Start::Watch, pause: Duration::from_secs(seconds) }
    }

    #[test]
    fn a_list_is_followed_by_a_watch_and_a_watch_by_the_next_one() {
        let mut schedule = schedule();
        assert_eq!(schedule.after_list(None, 0), watch(0));
        assert_eq!(schedule.after_watch(&end(0, 200, WatchEndCause::Closed), 0), watch(0));
        assert_eq!(schedule.after_watch(&end(3, 0, WatchEndCause::Closed), 0), watch(1));
        assert_eq!(schedule.after_watch(&end(0, 5, WatchEndCause::Due), 0), list(0));
    }

    #[test]
    fn the_pause_after_failures_grows_to_half_a_minute_and_stays_there_for_an_hour() {
        let mut schedule = schedule();
        let mut pauses = Vec::new();
        let (mut asked, mut passed) = (0, Duration::ZERO);
        while passed < Duration::from_hours(1) {
            let step = schedule.after_list(Some(&failed()), MOST);
            assert_eq!(step.start, Start::List);
            pauses.push(step.pause.as_secs_f64().round());
            (asked, passed) = (asked + 1, passed + step.pause);
        }
        assert_eq!(pauses.get(..7).unwrap(), [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
        assert!(asked < 130, "{asked} requests in an hour");
    }

    #[test]
    fn a_watch_that_is_refused_is_not_made_good_by_a_list() {
        let mut schedule = schedule();
        for seconds in [1, 2, 4, 8] {
            assert_eq!(schedule.after_list(None, 0), watch(0));
            let refused = problem(WatchProblem::Forbidden(String::new()));
            let step = schedule.after_watch(&refused, MOST);
            assert_eq!(
                (step.start, step.pause.as_secs_f64().round()),
                (Start::Watch, f64::from(seconds))
            );
        }
        schedule.after_watch(&end(1, 0, WatchEndCause::Closed), 0);
        assert_eq!(schedule.after_watch(&problem(failed()), 0).pause, Duration::from_millis(500));
    }

    #[test]
    fn what_is_too_old_is_listed_at_once_but_not_again_and_again() {
        let mut schedule = schedule();
        let expired = problem(WatchProblem::Expired);
        assert_eq!(schedule.after_watch(&expired, 0), list(0));
        assert_eq!(schedule.after_list(None, 0), watch(0));
        assert_eq!(schedule.after_watch(&expired, 0), list(1));
        assert_eq!(schedule.after_list(Some(&WatchProblem::Expired), 0), list(2));
        schedule.after_watch(&end(0, 100, WatchEndCause::Closed), 0);
        assert_eq!(schedule.after_watch(&expired, 0), list(0));
        let silent = end(0, 215, WatchEndCause::Problem(WatchProblem::Silent));
        assert_eq!(schedule.after_watch(&silent, 0), list(0));
    }

    #[test]
    fn watches_that_end_at_once_are_spaced_and_the_fifth_is_followed_by_a_list() {
        let mut schedule = schedule();
        let closed = || end(0, 0, WatchEndCause::Closed);
        let steps: Vec<WatchStep> = (0..10).map(|_| schedule.after_watch(&closed(), 0)).collect();
        let lists = steps.iter().filter(|step| step.start == Start::List).count();
        assert_eq!(lists, 2, "{steps:?}");
        assert!(steps.iter().all(|step| step.pause >= Duration::from_secs(1)), "{steps:?}");
        assert!(steps.iter().all(|step| step.pause <= Duration::from_secs(30)), "{steps:?}");
        assert_eq!(schedule.after_watch(&end(1, 0, WatchEndCause::Closed), 0), watch(1));
    }

    #[test]
    fn a_kind_that_is_absent_is_looked_for_after_minutes_and_a_busy_server_when_it_says() {
        let mut schedule = schedule();
        assert_eq!(schedule.after_list(Some(&WatchProblem::Absent), 0), list(300));
        let later = schedule.after_list(Some(&WatchProblem::Absent), MOST).pause;
        assert!(later > Duration::from_secs(599) && later < Duration::from_mins(10), "{later:?}");
        let busy =
            |seconds| WatchProblem::Throttled(Some(Duration::from_secs(seconds)), String::new());
        assert_eq!(schedule.after_list(Some(&busy(60)), 0), list(60));
        assert_eq!(schedule.after_list(Some(&busy(86_400)), 0), list(120));
    }

    #[test]
    fn a_page_that_is_too_large_is_asked_for_in_halves() {
        let mut schedule = schedule();
        let mut sizes = Vec::new();
        for _ in 0..6 {
            let step = schedule.after_list(Some(&WatchProblem::TooLarge), 0);
            assert_eq!((step.start, step.pause), (Start::List, Duration::ZERO));
            sizes.push(schedule.page_items());
            if schedule.page_items() == 1 {
                break;
            }
        }
        assert_eq!(sizes, [25, 12, 6, 3, 1]);
        assert!(schedule.after_list(Some(&WatchProblem::TooLarge), 0).pause > Duration::ZERO);
    }

    #[test]
    fn everything_is_listed_again_at_different_times() {
        let schedule = schedule();
        let minutes = |chance| schedule.relist_after(chance).as_secs() / 60;
        assert_eq!([minutes(0), minutes(CHANCES / 2), minutes(MOST)], [30, 45, 59]);
    }
}
