//! Sheds and defers messages by priority where the code host has an hourly quota of calls. Pure.
//!
//! GitHub takes 500 calls an hour of an account that create content ("Rate limits for the REST
//! API", GitHub Docs). A deployment with all its messages makes six: `queued`, `in_progress` and
//! its end, the commit's `pending` and end, and `inactive` for what it replaced; in a watched cluster
//! it makes ten. So eighty deployments would use up an hour, and the ends of the others would come an hour late. Where many
//! deployments end, transient statuses are skipped and commits are updated last: two hundred
//! deployments fit into an hour.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::model::deployment::ForgeState;
use crate::model::id::RepoName;
use crate::model::notice::Sink;
use crate::store::{ForgeCalls, OutboxMessage};
use crate::support::time::saturating_add;

/// The period of GitHub's quota.
const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// The time for which sent ends count as a sign of how many are to come.
const RECENT: SignedDuration = SignedDuration::from_mins(10);
/// The delay before a deferred end of a commit is tried again.
const REST: SignedDuration = SignedDuration::from_mins(5);
/// The age at which an end of a commit may use what the other ends leave of the quota.
const PATIENT: SignedDuration = SignedDuration::from_mins(30);
/// The age at which an end of a commit without an earlier status is skipped.
const STALE: SignedDuration = SignedDuration::from_hours(2);

/// The calls that create content which the code host takes within an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hourly {
    /// The limit of one account.
    pub most: u32,
    /// True if each owner of repositories is an account of its own, as installations of an App are.
    pub by_owner: bool,
}

/// The importance of a message, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    /// The deployment waits, or its commit shows what it waits for: the end says more.
    Pending,
    /// The deployment runs.
    Progress,
    /// The end on a commit without an earlier status: the deployment says the same.
    RepeatedEnd,
    /// An end. Without it GitHub would show an outdated state for ever.
    End,
}

/// The decision about a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QuotaDecision {
    /// Send it.
    Send,
    /// Skip it for this reason.
    Shed(String),
    /// Do not send it before that time.
    Defer(Timestamp),
}

/// The calls of one account.
#[derive(Debug, Default)]
struct AccountUsage {
    /// The times of the calls within the last hour, oldest first.
    calls: Vec<Timestamp>,
    /// The number of them that sent an end lately.
    lately: usize,
    /// The number of ends that wait.
    waiting: usize,
}

/// The calls of all accounts.
#[derive(Debug)]
pub(super) struct HourlyQuota {
    hourly: Hourly,
    accounts: BTreeMap<String, AccountUsage>,
}

impl Priority {
    pub(super) fn of(message: &OutboxMessage) -> Self {
        let is_ended = !matches!(message.status.state, ForgeState::Queued | ForgeState::InProgress);
        match (&message.sink, message.status.state) {
            (Sink::Commit, _) if is_ended && !message.continues => Self::RepeatedEnd,
            (_, ForgeState::InProgress) if message.sink == Sink::Forge => Self::Progress,
            (_, _) if !is_ended => Self::Pending,
            (_, _) => Self::End,
        }
    }
}

impl HourlyQuota {
    /// Counts the calls of the last hour, and the messages that wait.
    pub(super) fn new(hourly: Hourly, calls: &[ForgeCalls], now: Timestamp) -> Self {
        let mut quota = Self { hourly, accounts: BTreeMap::new() };
        for call in calls {
            quota.add(call, now);
        }
        quota
    }

    fn add(&mut self, call: &ForgeCalls, now: Timestamp) {
        let is_end = call.status.as_ref().is_some_and(|(sink, state)| is_end(sink, *state));
        let load = self.accounts.entry(account(self.hourly, &call.repository)).or_default();
        match call.at {
            None if is_end => load.waiting += call.count,
            None => {}
            Some(at) if now.duration_since(at) >= HOUR => {}
            Some(at) => {
                load.calls.extend(std::iter::repeat_n(at, call.count));
                load.lately += usize::from(is_end && now.duration_since(at) < RECENT);
            }
        }
    }

    /// Decides about a message; one that may be sent is counted.
    pub(super) fn decide(&mut self, message: &OutboxMessage, now: Timestamp) -> QuotaDecision {
        let limit = usize::try_from(self.hourly.most).unwrap_or(usize::MAX);
        let load = self.accounts.entry(account(self.hourly, &message.repository)).or_default();
        let (priority, age) = (Priority::of(message), now.duration_since(message.at));
        let decision = load.decide(priority, age, limit, now);
        if decision == QuotaDecision::Send {
            let calls = if message.begins_there() { 2 } else { 1 };
            load.calls.extend(std::iter::repeat_n(now, calls));
            if is_end(&message.sink, message.status.state) {
                load.waiting = load.waiting.saturating_sub(1);
                load.lately += 1;
            }
        }
        decision
    }

    /// Decides about a call for a preview environment; `calls` are those within the hour, with their repositories.
    ///
    /// Anyone with rights in a cluster can cause them. They take a third of an account's hour at most, and leave its
    /// end to deployments.
    pub(super) fn decide_environment(
        &self,
        repository: &RepoName,
        calls: &[(RepoName, usize)],
        is_pending: bool,
        now: Timestamp,
    ) -> QuotaDecision {
        let limit = usize::try_from(self.hourly.most).unwrap_or(usize::MAX);
        let account_name = account(self.hourly, repository);
        let is_own = |other: &RepoName| account(self.hourly, other) == account_name;
        let own = calls.iter().filter(|(other, _)| is_own(other)).map(|(_, count)| count).sum();
        let load = self.accounts.get(&account_name);
        let used = load.map_or(0, |load| load.calls.len() + load.waiting);
        if is_pending && (limit / 6..).contains(&own) {
            let reason = "skipped: many preview environments change now; the final status is sent";
            return QuotaDecision::Shed(reason.to_owned());
        }
        let has_room = own < limit / 3 && used < limit / 6 * 5;
        if has_room { QuotaDecision::Send } else { QuotaDecision::Defer(saturating_add(now, REST)) }
    }

    /// Decides about the commit status of a rollout, of which there is one for all its deployments.
    pub(super) fn decide_rollout(
        &self,
        repository: &RepoName,
        is_pending: bool,
        now: Timestamp,
    ) -> QuotaDecision {
        let limit = usize::try_from(self.hourly.most).unwrap_or(usize::MAX);
        let priority = if is_pending { Priority::Pending } else { Priority::End };
        let load = self.accounts.get(&account(self.hourly, repository));
        load.map_or(QuotaDecision::Send, |load| {
            load.decide(priority, SignedDuration::ZERO, limit, now)
        })
    }

    /// Returns the time until which even ends have to wait, for the account that waits longest.
    pub(super) fn spent_until(&self) -> Option<Timestamp> {
        let limit = usize::try_from(self.hourly.most).unwrap_or(usize::MAX);
        self.accounts.values().filter_map(|load| load.spent_until(limit)).max()
    }
}

impl AccountUsage {
    fn decide(
        &self,
        priority: Priority,
        age: SignedDuration,
        limit: usize,
        now: Timestamp,
    ) -> QuotaDecision {
        let (used, ends) = (self.calls.len(), self.lately + self.waiting);
        let shed = |reason: &str| {
            QuotaDecision::Shed(format!(
                "skipped: GitHub takes {limit} statuses an hour, and many deployments end now; {reason}"
            ))
        };
        match priority {
            Priority::Pending if ends < limit / 30 && used < limit / 8 * 5 => QuotaDecision::Send,
            Priority::Progress if ends < limit / 20 && used < limit / 4 * 3 => QuotaDecision::Send,
            Priority::Pending | Priority::Progress => shed("the final status is sent"),
            Priority::RepeatedEnd if used + self.waiting < limit / 16 * 5 => QuotaDecision::Send,
            Priority::RepeatedEnd if age >= PATIENT && used + self.waiting < limit / 6 * 5 => {
                QuotaDecision::Send
            }
            Priority::RepeatedEnd if age >= STALE => {
                shed("the deployment's own status says the same")
            }
            Priority::RepeatedEnd => QuotaDecision::Defer(saturating_add(now, REST)),
            Priority::End => {
                self.spent_until(limit).map_or(QuotaDecision::Send, QuotaDecision::Defer)
            }
        }
    }

    /// Returns the time of the next call, if the quota is used up.
    fn spent_until(&self, limit: usize) -> Option<Timestamp> {
        let index = self.calls.len().checked_sub(limit)?;
        self.calls.get(index).map(|at| saturating_add(*at, HOUR))
    }
}

/// Returns true if the status shows that a deployment has ended.
fn is_end(sink: &Sink, state: ForgeState) -> bool {
    match sink {
        Sink::Forge => !matches!(state, ForgeState::Queued | ForgeState::InProgress),
        Sink::Check => true,
        Sink::Commit
        | Sink::Channel
        | Sink::Person
        | Sink::Events(_)
        | Sink::ArgoCd(_)
        | Sink::BigQuery => false,
    }
}

fn account(hourly: Hourly, repository: &RepoName) -> String {
    if hourly.by_owner { repository.owner().to_lowercase() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::fixture;

    const HOURLY: Hourly = Hourly { most: 480, by_owner: true };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    fn message(sink: Sink, state: ForgeState) -> OutboxMessage {
        fixture::message(sink, state, at(0))
    }

    fn call(status: (Sink, ForgeState), seconds: Option<i64>) -> ForgeCalls {
        let repository = RepoName::parse("acme/web").unwrap();
        ForgeCalls { repository, status: Some(status), at: seconds.map(at), count: 1 }
    }

    #[test]
    fn a_quiet_hour_has_room_for_everything() {
        let mut quota = HourlyQuota::new(HOURLY, &[], at(0));
        for state in [ForgeState::Queued, ForgeState::InProgress, ForgeState::Success] {
            assert_eq!(quota.decide(&message(Sink::Forge, state), at(0)), QuotaDecision::Send);
            assert_eq!(quota.decide(&message(Sink::Commit, state), at(0)), QuotaDecision::Send);
        }
    }

    #[test]
    fn where_many_end_queued_goes_first_then_progress_and_ends_stay() {
        let waiting = |n| vec![call((Sink::Forge, ForgeState::Success), None); n];
        let is_sent = |n, sink: Sink, state| {
            let mut quota = HourlyQuota::new(HOURLY, &waiting(n), at(0));
            quota.decide(&message(sink, state), at(0)) == QuotaDecision::Send
        };
        let decisions = |n| {
            [
                is_sent(n, Sink::Commit, ForgeState::Queued),
                is_sent(n, Sink::Forge, ForgeState::Queued),
                is_sent(n, Sink::Forge, ForgeState::InProgress),
                is_sent(n, Sink::Commit, ForgeState::Success),
                is_sent(n, Sink::Forge, ForgeState::Failure),
            ]
        };
        assert_eq!(decisions(15), [true, true, true, true, true]);
        assert_eq!(decisions(16), [false, false, true, true, true]);
        assert_eq!(decisions(24), [false, false, false, true, true]);
        assert_eq!(decisions(150), [false, false, false, false, true]);
    }

    #[test]
    fn a_commit_that_is_shown_as_pending_gets_its_end_as_a_deployment_does() {
        let end = message(Sink::Commit, ForgeState::Success);
        assert_eq!(Priority::of(&end), Priority::RepeatedEnd);
        assert_eq!(Priority::of(&OutboxMessage { continues: true, ..end }), Priority::End);
    }

    #[test]
    fn an_hour_that_is_used_up_lets_the_next_end_go_when_the_oldest_call_is_an_hour_old() {
        let calls: Vec<_> =
            (0..480).map(|n| call((Sink::Commit, ForgeState::Success), Some(n))).collect();
        let mut quota = HourlyQuota::new(HOURLY, &calls, at(480));
        let end = message(Sink::Forge, ForgeState::Success);
        assert_eq!(quota.decide(&end, at(480)), QuotaDecision::Defer(at(3600)));
        assert_eq!(quota.spent_until(), Some(at(3600)));
        let mut quota = HourlyQuota::new(HOURLY, &calls, at(3600));
        assert_eq!(quota.decide(&end, at(3600)), QuotaDecision::Send);
        assert_eq!(quota.decide(&end, at(3600)), QuotaDecision::Defer(at(3601)));
        let other = RepoName::parse("other/web").unwrap();
        let other = OutboxMessage { repository: other, ..end };
        assert_eq!(quota.decide(&other, at(3600)), QuotaDecision::Send, "another installation");
    }

    #[test]
    fn preview_environments_take_a_third_of_the_hour_and_leave_its_end_to_deployments() {
        let web = RepoName::parse("acme/web").unwrap();
        let decide = |used: usize, own: usize, is_pending| {
            let calls = vec![call((Sink::Forge, ForgeState::Success), Some(0)); used];
            let quota = HourlyQuota::new(HOURLY, &calls, at(1));
            // Calls of another account do not count.
            let other = RepoName::parse("other/web").unwrap();
            let own = [(RepoName::parse("acme/api").unwrap(), own), (other, 1000)];
            quota.decide_environment(&web, &own, is_pending, at(1))
        };
        assert_eq!(decide(0, 0, true), QuotaDecision::Send);
        assert!(matches!(decide(0, 80, true), QuotaDecision::Shed(_)));
        assert_eq!(decide(0, 159, false), QuotaDecision::Send);
        assert_eq!(decide(0, 160, false), QuotaDecision::Defer(at(301)));
        assert_eq!(decide(399, 0, false), QuotaDecision::Send);
        assert_eq!(decide(400, 0, false), QuotaDecision::Defer(at(301)));
    }

    #[test]
    fn a_rollout_tells_its_end_before_how_far_it_is() {
        let web = RepoName::parse("acme/web").unwrap();
        let decide = |used: usize, is_pending| {
            let calls = vec![call((Sink::Forge, ForgeState::Success), Some(0)); used];
            HourlyQuota::new(HOURLY, &calls, at(1)).decide_rollout(&web, is_pending, at(1))
        };
        assert_eq!(decide(0, true), QuotaDecision::Send);
        assert!(matches!(decide(300, true), QuotaDecision::Shed(_)));
        assert_eq!(decide(300, false), QuotaDecision::Send);
        assert_eq!(decide(480, false), QuotaDecision::Defer(at(3600)));
    }

    /// However two hundred deployments come within half an hour: the end of each, and `inactive`
    /// for what it replaced, is sent within the hour.
    #[test]
    fn two_hundred_deployments_that_replace_others_are_told_within_the_hour() {
        for pause in [0, 1, 3, 9] {
            let mut calls: Vec<ForgeCalls> = Vec::new();
            let (mut now, mut ends) = (0, 0);
            for n in 0..200 {
                now = now.max(n * pause);
                let statuses = [
                    (Sink::Forge, ForgeState::Queued),
                    (Sink::Commit, ForgeState::Queued),
                    (Sink::Forge, ForgeState::InProgress),
                    (Sink::Forge, ForgeState::Success),
                    (Sink::Forge, ForgeState::Inactive),
                    (Sink::Commit, ForgeState::Success),
                ];
                for (sink, state) in statuses {
                    let mut quota = HourlyQuota::new(HOURLY, &calls, at(now));
                    let outbox_message =
                        OutboxMessage { at: at(now), ..message(sink.clone(), state) };
                    if quota.decide(&outbox_message, at(now)) == QuotaDecision::Send {
                        ends += usize::from(is_end(&sink, state));
                        calls.push(call((sink, state), Some(now)));
                        now += 1;
                    }
                }
            }
            assert_eq!(ends, 400, "one every {pause} s");
            assert!(now < 3600 && calls.len() <= 480, "{now} s, {} calls", calls.len());
        }
    }
}
