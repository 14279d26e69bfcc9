//! Decides the next step after each list and each watch: list or watch, and when. Pure; chance is an argument.
//!
//! | event | next step |
//! |---|---|
//! | a list is complete | a watch from its version |
//! | a watch ended, or was cut, after some time or some events | a watch from the last version |
//! | five watches failed, or ended at once and without an event | a list: some servers answer no watch |
//! | 410; nothing for longer than a watch may take | a list |
//! | 401, 403, 429, 5xx, no connection | the same again, after a pause that grows |
//! | 404 | a list in some minutes: the kind is not installed |
//! | a line of a watch cannot be read | the watch continues, and there is a list soon |
//! | the list is older than half an hour | a list: API servers have lost deletions from their caches |
//!
//! The pause is as at first only after a watch that worked: one that lasted or brought an event, and one that failed
//! only if it had lasted longer than any pause. The time before the stream is open does not count: a refusal can be
//! slow. A list that succeeds is no proof, and neither is one event before an error: some servers answer lists and
//! refuse every watch, others send a bookmark and then 410.

use std::time::Duration;

use crate::cluster::watch::protocol::WatchProblem;
use crate::support::retry::backoff;

/// The limits of watches: how often, how long and how much they ask.
#[derive(Debug, Clone, Copy)]
pub struct WatchLimits {
    /// The pause after a first failure; each is twice as long as the one before.
    pub first_pause: Duration,
    /// No pause after a failure is longer: a cluster that is back is seen so soon.
    pub longest_pause: Duration,
    /// Watches begin no closer to each other, whatever ends them.
    pub least_gap: Duration,
    /// The length of a watch that nothing disturbs. Load balancers drop a connection that is idle for four minutes.
    pub watch: Duration,
    /// The time after that in which the server must end the watch: then it counts as silent.
    pub grace: Duration,
    /// The longest time for one page of a list.
    pub page: Duration,
    /// The most objects of a page.
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

/// The number of watches in a row that failed or ended at once, after which there is a list.
const FRUITLESS_WATCHES: u32 = 5;

/// The number of chances: 24 bits.
const CHANCES: u32 = 1 << 24;

/// The next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// List everything.
    List,
    /// Watch from the last version.
    Watch,
}

/// The next request, and the pause before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WatchStep {
    pub(super) start: Start,
    pub(super) pause: Duration,
}

/// The end of a watch.
#[derive(Debug)]
pub(super) struct WatchEnd {
    /// The number of its messages, with bookmarks.
    pub(super) messages: u64,
    /// The time for which its stream was open; zero if it never was.
    pub(super) lasted: Duration,
    pub(super) cause: WatchEndCause,
}

/// The cause of a watch's end.
#[derive(Debug)]
pub(super) enum WatchEndCause {
    /// The server ended it, or the connection broke.
    Closed,
    /// Everything is to be listed again.
    Due,
    /// The server refused it, or sent an error.
    Problem(WatchProblem),
}

/// The memory between steps.
#[derive(Debug)]
pub(super) struct Schedule {
    limits: WatchLimits,
    /// The number of failures since the last watch that worked.
    failures: u32,
    /// The number of watches in a row that failed or ended at once.
    fruitless: u32,
    /// The number of objects that the next page asks for.
    page_items: u32,
}

impl Schedule {
    pub(super) fn new(limits: WatchLimits) -> Self {
        Self { limits, failures: 0, fruitless: 0, page_items: limits.page_items.max(1) }
    }

    pub(super) fn page_items(&self) -> u32 {
        self.page_items
    }

    /// Returns the time from a list to the next one.
    pub(super) fn relist_after(&self, chance: u32) -> Duration {
        spread(self.limits.relist, chance)
    }

    /// Returns the time from a line that cannot be read to a list: no shorter than the longest pause, so that a server
    /// that sends many of them is not listed all the time.
    pub(super) fn relist_soon(&self) -> Duration {
        self.limits.longest_pause
    }

    pub(super) fn after_list(&mut self, problem: Option<&WatchProblem>, chance: u32) -> WatchStep {
        match problem {
            None => {
                // The objects that were too large for a page may be gone.
                self.page_items =
                    self.page_items.saturating_mul(2).min(self.limits.page_items.max(1));
                WatchStep { start: Start::Watch, pause: Duration::ZERO }
            }
            Some(WatchProblem::TooLarge) if self.page_items > 1 => {
                self.page_items = (self.page_items / 2).max(1);
                WatchStep { start: Start::List, pause: Duration::ZERO }
            }
            Some(problem) => self.after_problem(problem, Start::List, chance),
        }
    }

    pub(super) fn after_watch(&mut self, end: &WatchEnd, chance: u32) -> WatchStep {
        let WatchEnd { messages, lasted, cause } = end;
        let has_worked = match cause {
            WatchEndCause::Closed | WatchEndCause::Due => *messages > 0 || *lasted >= SHORT,
            WatchEndCause::Problem(_) => *lasted >= self.limits.longest_pause,
        };
        if has_worked {
            (self.failures, self.fruitless) = (0, 0);
        }
        match cause {
            WatchEndCause::Due => WatchStep { start: Start::List, pause: Duration::ZERO },
            WatchEndCause::Closed if has_worked => {
                let pause = self.limits.least_gap.saturating_sub(*lasted);
                WatchStep { start: Start::Watch, pause }
            }
            WatchEndCause::Closed => {
                let start = self.after_fruitless_watch();
                let pause = self.pause(self.fruitless - 1, chance).max(self.limits.least_gap);
                WatchStep { start, pause }
            }
            WatchEndCause::Problem(problem) => {
                let start = self.after_fruitless_watch();
                self.after_problem(problem, start, chance)
            }
        }
    }

    /// Counts the watch; returns the next request.
    fn after_fruitless_watch(&mut self) -> Start {
        self.fruitless = self.fruitless.saturating_add(1);
        if self.fruitless.is_multiple_of(FRUITLESS_WATCHES) { Start::List } else { Start::Watch }
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
                let wait = after.unwrap_or_default().min(self.limits.longest_pause * 4);
                WatchStep { start: same, pause: pause.max(wait) }
            }
            WatchProblem::Unauthorized | WatchProblem::Forbidden(_) | WatchProblem::Failed(_) => {
                WatchStep { start: same, pause }
            }
        }
    }

    /// Returns a random time between half of the pause and all of it: watches that failed together do not come back
    /// together.
    fn pause(&self, failures: u32, chance: u32) -> Duration {
        spread(backoff(self.limits.first_pause, self.limits.longest_pause, failures) / 2, chance)
    }
}

/// Lengthens a time by a random part of it.
fn spread(time: Duration, chance: u32) -> Duration {
    let part = f64::from(chance % CHANCES) / f64::from(CHANCES);
    time + time.mul_f64(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u32 = CHANCES - 1;

    fn schedule() -> Schedule {
        Schedule::new(WatchLimits::default())
    }

    fn closed(messages: u64, seconds: u64) -> WatchEnd {
        end(messages, seconds, WatchEndCause::Closed)
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
        assert_eq!(schedule.after_watch(&closed(0, 200), 0), watch(0));
        assert_eq!(schedule.after_watch(&closed(3, 0), 0), watch(1));
        assert_eq!(schedule.after_watch(&end(0, 5, WatchEndCause::Due), 0), list(0));
    }

    #[test]
    fn the_pause_after_failures_grows_to_half_a_minute_and_stays_there_for_an_hour() {
        let mut schedule = schedule();
        let mut pauses = Vec::new();
        let (mut requests, mut passed) = (0, Duration::ZERO);
        while passed < Duration::from_hours(1) {
            let step = schedule.after_list(Some(&failed()), MAX);
            assert_eq!(step.start, Start::List);
            pauses.push(step.pause.as_secs_f64().round());
            (requests, passed) = (requests + 1, passed + step.pause);
        }
        assert_eq!(pauses.get(..7).unwrap(), [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
        assert!(requests < 130, "{requests} requests in an hour");
    }

    #[test]
    fn a_watch_that_is_refused_is_not_made_good_by_a_list() {
        let mut schedule = schedule();
        for seconds in [1, 2, 4, 8] {
            assert_eq!(schedule.after_list(None, 0), watch(0));
            let refused = problem(WatchProblem::Forbidden(String::new()));
            let step = schedule.after_watch(&refused, MAX);
            assert_eq!(
                (step.start, step.pause.as_secs_f64().round()),
                (Start::Watch, f64::from(seconds))
            );
        }
        schedule.after_watch(&closed(1, 0), 0);
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
        schedule.after_watch(&closed(0, 100), 0);
        assert_eq!(schedule.after_watch(&expired, 0), list(0));
        let silent = end(0, 215, WatchEndCause::Problem(WatchProblem::Silent));
        assert_eq!(schedule.after_watch(&silent, 0), list(0));
    }

    #[test]
    fn after_five_watches_that_failed_there_is_a_list_whatever_the_lists_say() {
        for refusal in
            [failed(), WatchProblem::Forbidden(String::new()), WatchProblem::Unauthorized]
        {
            let mut schedule = schedule();
            let mut starts = Vec::new();
            for _ in 0..12 {
                let step = schedule.after_watch(&problem(refusal.clone()), 0);
                if step.start == Start::List {
                    assert_eq!(schedule.after_list(None, 0), watch(0));
                }
                starts.push(step.start);
            }
            let lists = starts.iter().enumerate().filter(|(_, start)| **start == Start::List);
            let lists: Vec<usize> = lists.map(|(n, _)| n).collect();
            assert_eq!(lists, [4, 9], "{refusal:?}");
            // One that works begins the count anew.
            schedule.after_watch(&closed(1, 0), 0);
            assert_eq!(schedule.after_watch(&problem(refusal), 0).start, Start::Watch);
        }
    }

    #[test]
    fn an_error_after_some_messages_or_some_seconds_is_no_watch_that_worked() {
        for (messages, seconds) in [(0, 5), (1, 0), (100, 29)] {
            let failing = |cause| end(messages, seconds, WatchEndCause::Problem(cause));
            let mut schedule = schedule();
            let pauses: Vec<f64> = (0..6)
                .map(|_| schedule.after_watch(&failing(WatchProblem::Expired), MAX))
                .inspect(|step| assert_eq!(step.start, Start::List))
                .map(|step| step.pause.as_secs_f64().round())
                .collect();
            let expected = [0.0, 2.0, 4.0, 8.0, 16.0, 30.0];
            assert_eq!(pauses, expected, "410 after {messages} and {seconds}");
            let pause = schedule.after_watch(&failing(failed()), MAX).pause;
            assert!(pause > Duration::from_secs(29), "{pause:?}");
            let lasting = end(0, 30, WatchEndCause::Problem(WatchProblem::Expired));
            assert_eq!(schedule.after_watch(&lasting, MAX), list(0));
        }
    }

    #[test]
    fn watches_that_end_at_once_are_spaced_and_the_fifth_is_followed_by_a_list() {
        let mut schedule = schedule();
        let steps: Vec<WatchStep> =
            (0..10).map(|_| schedule.after_watch(&closed(0, 0), 0)).collect();
        let lists = steps.iter().filter(|step| step.start == Start::List).count();
        assert_eq!(lists, 2, "{steps:?}");
        assert!(steps.iter().all(|step| step.pause >= Duration::from_secs(1)), "{steps:?}");
        assert!(steps.iter().all(|step| step.pause <= Duration::from_secs(30)), "{steps:?}");
        assert_eq!(schedule.after_watch(&closed(1, 0), 0), watch(1));
    }

    #[test]
    fn a_kind_that_is_absent_is_looked_for_after_minutes_and_a_busy_server_when_it_says() {
        let mut schedule = schedule();
        assert_eq!(schedule.after_list(Some(&WatchProblem::Absent), 0), list(300));
        let later = schedule.after_list(Some(&WatchProblem::Absent), MAX).pause;
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
        let mut after = || {
            schedule.after_list(None, 0);
            schedule.page_items()
        };
        assert_eq!([(); 7].map(|()| after()), [2, 4, 8, 16, 32, 50, 50], "they grow again");
    }

    #[test]
    fn everything_is_listed_again_at_different_times() {
        let schedule = schedule();
        let minutes = |chance| schedule.relist_after(chance).as_secs() / 60;
        assert_eq!([minutes(0), minutes(CHANCES / 2), minutes(MAX)], [30, 45, 59]);
    }
}
