//! Decides which events a sweep recovers, and how many requests it may spend. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::forge::ListedStatus;
use crate::forge::delivery::{HookDelivery, RequestBudget};
use crate::forge::github::webhook::listed_deployment::ListedDeployment;
use crate::model::event::WebhookEvent;
use crate::model::id::RepoName;

/// The time for which GitHub keeps a delivery: three days.
const DELIVERY_RETENTION: SignedDuration = SignedDuration::from_hours(72);
/// The overlap of two runs: a delivery may be under way during a run, and clocks differ.
const OVERLAP: SignedDuration = SignedDuration::from_mins(10);
/// The age after which an unanswered deployment counts as abandoned.
const OLDEST: SignedDuration = SignedDuration::from_hours(24);
/// The age from which a deployment may be lost: a younger one's delivery may be on its way.
const YOUNGEST: SignedDuration = SignedDuration::from_mins(2);

/// The part of the host's hourly limit that sweeps spend: 1/20.
const SHARE: u64 = 20;
/// The requests of a run where the host names no limit.
const UNLIMITED: u64 = 60;
/// The most requests of one run: it must end within its lease.
const MAX_SPENT: u64 = 200;
/// The fewest requests of a run that may ask at all, so that it gets somewhere.
const LEAST_SPENT: u64 = 3;

/// The kinds of events that the service uses.
const USED: [&str; 3] = ["deployment", "pull_request", "push"];

/// Returns the time since which failed deliveries are looked at.
pub(super) fn deliveries_since(
    position: Option<&str>,
    installed: Timestamp,
    now: Timestamp,
) -> Timestamp {
    let oldest = now.saturating_sub(DELIVERY_RETENTION).unwrap_or(Timestamp::MIN);
    let position = position.and_then(|text| text.parse().ok());
    let position = position.and_then(|millis| Timestamp::from_millisecond(millis).ok());
    position.unwrap_or(installed).max(installed).max(oldest)
}

/// The deliveries to replay in one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReplayPlan {
    /// The deliveries to replay now, newest first, so that of several deployments of one lane only
    /// the newest runs.
    pub(super) now: Vec<HookDelivery>,
    /// The time where the next run goes on once these are settled.
    pub(super) next_since: Timestamp,
    /// The number of deliveries left for the next run.
    pub(super) remaining: usize,
}

/// Chooses from the failed deliveries those that the service uses and does not know; the oldest, at
/// most so many.
pub(super) fn plan_replays(
    failed: Vec<HookDelivery>,
    guids: &BTreeSet<String>,
    limit: usize,
    now: Timestamp,
) -> ReplayPlan {
    let mut deliveries: Vec<_> =
        failed.into_iter().filter(|delivery| is_open(delivery, guids)).collect();
    deliveries.sort_by_key(|delivery| (delivery.delivered_at, delivery.id));
    let rest = deliveries.split_off(deliveries.len().min(limit));
    deliveries.reverse();
    let overlap = now.saturating_sub(OVERLAP).unwrap_or(now);
    let next_since = rest.first().map_or(overlap, |first| first.delivered_at.min(overlap));
    ReplayPlan { now: deliveries, next_since, remaining: rest.len() }
}

fn is_open(delivery: &HookDelivery, guids: &BTreeSet<String>) -> bool {
    USED.contains(&delivery.event.as_str()) && !guids.contains(&delivery.guid)
}

/// Returns how many requests a run may spend: a small part of the hour's limit, less when others
/// have used much of it, and none near its end.
pub(super) fn allowance(budget: Option<RequestBudget>, every: Duration, now: Timestamp) -> u64 {
    let Some(RequestBudget { limit, remaining, reset }) = budget else { return UNLIMITED };
    if reset <= now {
        return share(limit, every);
    }
    match remaining {
        left if left < limit / 4 => 0,
        left if left < limit / 2 => (share(limit, every) / 2).max(LEAST_SPENT),
        _ => share(limit, every),
    }
}

fn share(limit: u64, every: Duration) -> u64 {
    let hourly_share = limit / SHARE;
    (hourly_share * every.as_secs().min(3600) / 3600).clamp(LEAST_SPENT, MAX_SPENT)
}

/// Returns the repositories that are left of a round in which `after` was the last.
pub(super) fn remaining_repositories<'r>(
    repositories: &'r BTreeSet<RepoName>,
    after: Option<&str>,
) -> Vec<&'r RepoName> {
    let after = after.unwrap_or_default();
    repositories.iter().filter(|name| name.as_str() > after).collect()
}

/// Returns true if the listed deployment may be a lost one.
pub(super) fn may_be_lost(
    deployment: &ListedDeployment,
    installed: Timestamp,
    now: Timestamp,
) -> bool {
    let age = now.duration_since(deployment.created_at);
    let is_ours = deployment.created_at >= installed && age <= OLDEST;
    match deployment.event {
        WebhookEvent::Deployment(_) | WebhookEvent::Rollout(_) => is_ours && age >= YOUNGEST,
        // No delivery will change that.
        WebhookEvent::Refused(_) => is_ours,
        WebhookEvent::Ping
        | WebhookEvent::Push(_)
        | WebhookEvent::PullRequest(_)
        | WebhookEvent::Rerun(_)
        | WebhookEvent::Ignored { .. } => false,
    }
}

/// The standing of a deployment at the code host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeploymentStanding {
    /// It has no final status, and none of this service.
    Open,
    /// It has a status of this service.
    Answered,
    /// Another program has ended it.
    Closed,
}

/// Returns the standing of a deployment with these statuses, newest first; links to this service
/// begin with that address.
pub(super) fn deployment_standing(
    statuses: &[ListedStatus],
    our_address: &str,
) -> DeploymentStanding {
    let leads_to_us = |url: &String| {
        url.strip_prefix(our_address).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if statuses.iter().any(|status| status.log_url.as_ref().is_some_and(leads_to_us)) {
        return DeploymentStanding::Answered;
    }
    let last = statuses.first().map(|status| status.state.as_str());
    match last {
        Some("success" | "failure" | "error" | "inactive") => DeploymentStanding::Closed,
        Some(_) | None => DeploymentStanding::Open,
    }
}

/// Returns the time before which notes about processed deliveries may be deleted: the host has
/// forgotten them too.
pub(super) fn forget_before(now: Timestamp) -> Timestamp {
    now.saturating_sub(DELIVERY_RETENTION + OLDEST).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::{DeploymentRequest, EventRefusal, UnusedPart};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_795_240_000 + seconds).unwrap()
    }

    fn failed(id: i64, event: &str) -> HookDelivery {
        let (guid, event) = (format!("guid-{id}"), event.to_owned());
        HookDelivery { id, guid, event, delivered_at: at(id), status_code: 502 }
    }

    #[test]
    fn a_new_installation_replays_no_history_and_an_old_one_goes_on_where_it_was() {
        let position = at(500).as_millisecond().to_string();
        assert_eq!(deliveries_since(None, at(100), at(1000)), at(100));
        assert_eq!(deliveries_since(Some(&position), at(100), at(1000)), at(500));
        assert_eq!(deliveries_since(Some("nonsense"), at(100), at(1000)), at(100));
        let days = 10 * 24 * 3600;
        assert_eq!(deliveries_since(Some(&position), at(100), at(days)), at(days - 72 * 3600));
    }

    #[test]
    fn what_is_used_and_not_known_is_replayed_the_oldest_first_in_line_the_newest_first_done() {
        let list = vec![
            failed(5, "deployment"),
            failed(4, "deployment_status"),
            failed(3, "push"),
            failed(2, "deployment"),
            failed(1, "pull_request"),
        ];
        let guids = BTreeSet::from(["guid-2".to_owned()]);
        let ids = |replays: &ReplayPlan| {
            replays.now.iter().map(|delivery| delivery.id).collect::<Vec<_>>()
        };
        let plan = plan_replays(list.clone(), &guids, 10, at(5000));
        assert_eq!(
            (ids(&plan), plan.next_since, plan.remaining),
            (vec![5, 3, 1], at(5000 - 600), 0)
        );
        let part = plan_replays(list, &guids, 2, at(5000));
        assert_eq!((ids(&part), part.next_since, part.remaining), (vec![3, 1], at(5), 1));
    }

    #[test]
    fn a_run_spends_little_less_or_nothing() {
        let minutes = Duration::from_mins(5);
        let spend = |remaining| {
            allowance(Some(RequestBudget { limit: 5000, remaining, reset: at(10) }), minutes, at(0))
        };
        assert_eq!((spend(5000), spend(2000), spend(1000)), (20, 10, 0));
        let reset = RequestBudget { limit: 5000, remaining: 0, reset: at(0) };
        assert_eq!(allowance(Some(reset), minutes, at(0)), 20, "the hour is over");
        assert_eq!(allowance(None, minutes, at(0)), 60);
        let tiny = RequestBudget { limit: 60, remaining: 60, reset: at(10) };
        assert_eq!(allowance(Some(tiny), Duration::from_secs(1), at(0)), 3);
        let huge = RequestBudget { limit: 1_000_000, remaining: 1_000_000, reset: at(10) };
        assert_eq!(allowance(Some(huge), Duration::from_hours(24), at(0)), 200);
    }

    #[test]
    fn a_round_goes_on_after_the_last_one() {
        let names = ["a/a", "a/b", "b/a"].map(|name| RepoName::parse(name).unwrap());
        let repositories = BTreeSet::from(names);
        let texts = |after| {
            remaining_repositories(&repositories, after)
                .iter()
                .map(|n| n.as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(texts(None), ["a/a", "a/b", "b/a"]);
        assert_eq!(texts(Some("a/a")), ["a/b", "b/a"]);
        assert_eq!(texts(Some("a/aa")), ["a/b", "b/a"], "one that is gone meanwhile");
        assert!(texts(Some("b/a")).is_empty());
    }

    fn listed(created: i64, event: WebhookEvent) -> ListedDeployment {
        let repository = RepoName::parse("a/b").unwrap();
        ListedDeployment { repository, forge_id: 1, created_at: at(created), event }
    }

    #[test]
    fn only_what_is_old_enough_and_no_history_may_be_lost() {
        let refused = || {
            WebhookEvent::Refused(EventRefusal {
                repository: RepoName::parse("a/b").unwrap(),
                forge_id: 1,
                field: "deployment.environment",
                problem: String::new(),
            })
        };
        let lost = |created, now| may_be_lost(&listed(created, refused()), at(0), at(now));
        assert!(lost(10, 11) && !lost(-1, 11) && !lost(10, 24 * 3600 + 11));
        let ignored = WebhookEvent::Ignored { why: UnusedPart::Task, reason: String::new() };
        assert!(!may_be_lost(&listed(10, ignored), at(0), at(500)));
        let mut deployment = listed(10, WebhookEvent::Deployment(request()));
        assert!(!may_be_lost(&deployment, at(0), at(100)), "its delivery may be on its way");
        assert!(may_be_lost(&deployment, at(0), at(130)));
        deployment.created_at = at(-1);
        assert!(!may_be_lost(&deployment, at(0), at(130)));
    }

    fn request() -> DeploymentRequest {
        serde_json::from_value(serde_json::json!({
            "forge_id": 1, "git_ref": "main", "actor": "jo", "description": "", "target": "prod",
            "release": {"repository": "a/b", "commit": "a".repeat(40), "tag": "v1"},
        }))
        .unwrap()
    }

    #[test]
    fn a_deployment_is_ours_to_take_unless_we_or_others_have_ended_it() {
        let status = |state: &str, log_url: Option<&str>| ListedStatus {
            state: state.to_owned(),
            description: String::new(),
            log_url: log_url.map(str::to_owned),
            creator: None,
        };
        let standing =
            |statuses: &[ListedStatus]| deployment_standing(statuses, "https://us.example.com");
        assert_eq!(standing(&[]), DeploymentStanding::Open);
        assert_eq!(standing(&[status("queued", None)]), DeploymentStanding::Open);
        let other = status("inactive", Some("https://us.example.com.evil.org/x"));
        assert_eq!(standing(&[other]), DeploymentStanding::Closed);
        let ours = status("queued", Some("https://us.example.com/deployments/1"));
        assert_eq!(standing(&[status("inactive", None), ours]), DeploymentStanding::Answered);
    }
}
