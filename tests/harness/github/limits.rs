//! The rate limits of the fake GitHub, and what GitHub would punish.
//!
//! The primary limit is answered as GitHub does. Of the secondary ones GitHub says little and
//! punishes much: they are watched here, and a test that breaks one fails at its end.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};

use crate::harness::github::answer::Answer;

/// What an installation may ask an hour.
const HOURLY: u64 = 5_000;
/// Requests at once.
const AT_ONCE: usize = 100;
/// Calls a minute that make something.
const CONTENT_A_MINUTE: usize = 80;
/// The same within an hour.
const CONTENT_AN_HOUR: usize = 500;
/// What may have been on its way when we said to wait: a careful client has no more open.
const ON_THE_WAY: u32 = 10;

pub(super) struct Limits {
    pub(super) hourly: u64,
    quotas: BTreeMap<String, Quota>,
    stops: BTreeMap<String, Stop>,
    contents: BTreeMap<String, VecDeque<Timestamp>>,
    open: usize,
    /// What GitHub would punish, in words.
    pub(super) offences: Vec<String>,
    /// The most content calls in any minute.
    pub(super) busiest_minute: usize,
    /// The same in any hour.
    pub(super) busiest_hour: usize,
}

#[derive(Debug, Clone, Copy)]
struct Quota {
    used: u64,
    reset: Timestamp,
}

/// Somebody was told to wait.
#[derive(Debug, Clone, Copy)]
struct Stop {
    since: Timestamp,
    until: Timestamp,
    status: u16,
    /// Only what makes something was stopped.
    writes_only: bool,
    /// Who went on at that same moment.
    stragglers: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            hourly: HOURLY,
            quotas: BTreeMap::new(),
            stops: BTreeMap::new(),
            contents: BTreeMap::new(),
            open: 0,
            offences: Vec::new(),
            busiest_minute: 0,
            busiest_hour: 0,
        }
    }
}

impl Limits {
    pub(super) fn opened(&mut self) {
        self.open += 1;
        if self.open > AT_ONCE {
            self.offences.push(format!("{} requests at once", self.open));
        }
    }

    pub(super) fn closed(&mut self) {
        self.open -= 1;
    }

    /// Refuses who was told to wait and does not, and who has used up the hour.
    pub(super) fn pass(&mut self, key: &str, line: &str, now: Timestamp) -> Result<(), Answer> {
        self.not_stopped(key, line, now)?;
        let Quota { used, reset } = *self.quota(key, now);
        if used >= self.hourly {
            self.stop(key, 403, reset, now, false);
            return Err(used_up(key));
        }
        Ok(())
    }

    fn not_stopped(&mut self, key: &str, line: &str, now: Timestamp) -> Result<(), Answer> {
        let Some(stop) = self.stops.get_mut(key) else { return Ok(()) };
        if stop.until <= now {
            self.stops.remove(key);
            return Ok(());
        }
        if stop.writes_only && !makes_content(line) {
            return Ok(());
        }
        stop.stragglers += 1;
        if stop.since < now || stop.stragglers > ON_THE_WAY {
            let left = seconds(now, stop.until);
            let offence = format!("{line}: {key} goes on {left} s before it may");
            self.offences.push(offence);
        }
        let (status, until) = (stop.status, stop.until);
        Err(told_to_wait(status, seconds(now, until)))
    }

    /// Whoever asks from now on until then does what GitHub punishes.
    pub(super) fn stop(
        &mut self,
        key: &str,
        status: u16,
        until: Timestamp,
        now: Timestamp,
        writes_only: bool,
    ) {
        let stop = Stop { since: now, until, status, writes_only, stragglers: 0 };
        self.stops.insert(key.to_owned(), stop);
    }

    /// Counts what was answered.
    pub(super) fn count(&mut self, key: &str, line: &str, now: Timestamp, status: u16) {
        let free = status == 304;
        self.quota(key, now).used += u64::from(!free);
        if makes_content(line) {
            self.count_content(key, now);
        }
    }

    fn count_content(&mut self, key: &str, now: Timestamp) {
        let times = self.contents.entry(key.to_owned()).or_default();
        times.push_back(now);
        while times.front().is_some_and(|first| *first <= now - SignedDuration::from_hours(1)) {
            times.pop_front();
        }
        let minute_ago = now - SignedDuration::from_mins(1);
        let minute = times.iter().rev().take_while(|at| **at > minute_ago).count();
        let hour = times.len();
        self.busiest_minute = self.busiest_minute.max(minute);
        self.busiest_hour = self.busiest_hour.max(hour);
        if minute == CONTENT_A_MINUTE + 1 {
            let offence = format!("{key}: more than {CONTENT_A_MINUTE} content calls in a minute");
            self.offences.push(offence);
        }
        if hour == CONTENT_AN_HOUR + 1 {
            let offence = format!("{key}: more than {CONTENT_AN_HOUR} content calls in an hour");
            self.offences.push(offence);
        }
    }

    /// What stands in every answer.
    pub(super) fn headers(&mut self, key: &str, now: Timestamp) -> [(&'static str, String); 5] {
        let limit = self.hourly;
        let Quota { used, reset } = *self.quota(key, now);
        let used = used.min(limit);
        [
            ("x-ratelimit-limit", limit.to_string()),
            ("x-ratelimit-remaining", (limit - used).to_string()),
            ("x-ratelimit-used", used.to_string()),
            ("x-ratelimit-reset", reset.as_second().to_string()),
            ("x-ratelimit-resource", "core".to_owned()),
        ]
    }

    /// The hour's quota is gone; when it comes back.
    pub(super) fn use_up(&mut self, key: &str, now: Timestamp) -> Timestamp {
        let limit = self.hourly;
        let quota = self.quota(key, now);
        quota.used = limit;
        quota.reset
    }

    fn quota(&mut self, key: &str, now: Timestamp) -> &mut Quota {
        let fresh = Quota { used: 0, reset: now + SignedDuration::from_hours(1) };
        let quota = self.quotas.entry(key.to_owned()).or_insert(fresh);
        if quota.reset <= now {
            *quota = fresh;
        }
        quota
    }
}

/// GitHub does not say which calls it counts; these make what people see.
pub(super) fn makes_content(line: &str) -> bool {
    let writes = line.starts_with("POST ") || line.starts_with("PATCH ");
    writes && !line.contains("access_tokens") && !line.contains("/attempts")
}

/// As GitHub words the primary limit; its headers say until when.
pub(super) fn used_up(key: &str) -> Answer {
    Answer::refusal(403, &format!("API rate limit exceeded for {key}."))
}

/// As GitHub words a secondary limit.
pub(super) fn told_to_wait(status: u16, seconds: i64) -> Answer {
    let says =
        "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
    Answer::refusal(status, says).with("retry-after", seconds)
}

fn seconds(now: Timestamp, until: Timestamp) -> i64 {
    until.duration_since(now).as_secs().max(1)
}
