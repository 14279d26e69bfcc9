//! Decides what follows each end and each failure of an attempt. Pure: the only place that decides
//! about a deployment's retries, and that words the outcome for people. `outbox/outcome.rs` decides
//! about messages.

use std::time::Duration;

use jiff::Timestamp;

use crate::deployments::outcome::{DeployError, Remedy, object_taken, route_taken};
use crate::model::deployment::{ClusterPhase, Deployment, ForgeState, Pushed};
use crate::model::id::{ImageTag, TargetName};
use crate::model::revision::Revision;
use crate::model::rollback::Rollback;
use crate::model::status::{ForgeStatus, one_line};
use crate::model::violation::{Rejection, Violation, Violations};
use crate::model::words::words;
use crate::store::{ClaimConflict, Completion, FinalState, Findings, LeaseState, MAX_DEATHS};
use crate::support::retry::RetryPolicy;
use crate::support::time::saturating_add;

/// The time after which a refusal that may be temporary counts as final.
const DOUBT: Duration = Duration::from_mins(4);
/// The first delay after such a refusal; each further one is as long as the refusal has lasted.
const FIRST_DOUBT: Duration = Duration::from_secs(15);

/// The longest summary, in characters: a page shows it whole.
const LONGEST_SUMMARY: usize = 2000;

words! {
    /// The outcome of one attempt, by the word that the metric counts.
    pub enum AttemptOutcome {
        /// The deployment is in the manifest repository.
        Succeeded = "succeeded",
        /// The deployment was rejected, or given up.
        Failed = "failed",
        /// A newer deployment superseded it.
        Superseded = "superseded",
        /// The deployment is tried again later.
        RetryScheduled = "put_off",
        /// Another worker took over the lease.
        LeaseLost = "lost",
        /// The worker released the deployment, at a shutdown or to let a suspect deployment be tried
        /// alone.
        Released = "gave_back",
        /// The deployment goes on in another lane, that of its app, or through the deployments of all apps.
        HandedOn = "handed_on",
    }
}

impl AttemptOutcome {
    /// Returns this outcome, or `LeaseLost` if another worker had the deployment by then.
    pub(super) fn if_held(self, lease: LeaseState) -> Self {
        if lease == LeaseState::Held { self } else { Self::LeaseLost }
    }
}

/// The reason why an attempt did not finish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptError {
    /// The WAML breaks rules.
    Rejected(Rejection),
    /// Another problem, such as a commit that does not exist or a service that does not answer.
    Problem(DeployError),
    /// Attempts at the deployment died as often as is allowed.
    DiedTooOften,
    /// Attempts at the deployment died one after the other, before any began to push.
    KillsProcess,
}

/// The step after an attempt that did not finish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// The deployment has failed.
    End(Box<Completion>),
    /// Another attempt follows.
    Retry {
        /// The time of the next attempt.
        at: Timestamp,
        /// A text for people about the failure.
        summary: String,
    },
}

/// Returns the step after a failed attempt at a deployment received at that time; `failures` counts
/// the failures before it.
pub fn next_step(
    attempt_error: AttemptError,
    findings: Findings,
    received_at: Timestamp,
    failures: u32,
    policy: &RetryPolicy,
    now: Timestamp,
) -> NextStep {
    let (state, sentence) = match attempt_error {
        AttemptError::Rejected(rejection) => {
            let (sentence, violations) = (rejection.to_string(), rejection.violations.into());
            return NextStep::End(
                failure_completion(ForgeState::Failure, &sentence, violations, findings).into(),
            );
        }
        AttemptError::DiedTooOften => {
            (ForgeState::Error, format!("given up: {failures} attempts failed or died on the way"))
        }
        AttemptError::KillsProcess => {
            let sentence = format!(
                "given up: the service died during each of the last {MAX_DEATHS} attempts, most \
                 likely because of this deployment; the operator finds the reason in the \
                 service's log and memory limit"
            );
            (ForgeState::Error, sentence)
        }
        AttemptError::Problem(DeployError { remedy, message }) => match remedy {
            Remedy::Reject => (ForgeState::Failure, message),
            Remedy::GiveUp => (ForgeState::Error, message),
            Remedy::Doubt => {
                let minutes = DOUBT.as_secs() / 60;
                let sentence = format!("refused again and again for {minutes} minutes: {message}");
                (ForgeState::Error, sentence)
            }
            Remedy::Late { what, until } => {
                let end = saturating_add(received_at, until);
                if let Some(at) = policy.next_attempt(failures, None, now).filter(|_| now < end) {
                    // The last look is when the time is over, not some doubled delay before it.
                    let at = at.min(end);
                    let message = format!("waiting for GitHub to know {what}: {message}");
                    return NextStep::Retry {
                        at,
                        summary: waiting_summary(&message, failures, at),
                    };
                }
                (ForgeState::Failure, message)
            }
            Remedy::Retry { after } => {
                if let Some(at) = policy.next_attempt(failures, after, now) {
                    return NextStep::Retry {
                        at,
                        summary: waiting_summary(&message, failures, at),
                    };
                }
                let times = failures.saturating_add(1);
                let sentence = format!("given up after {times} attempts: {message}");
                (ForgeState::Error, sentence)
            }
        },
    };
    NextStep::End(failure_completion(state, &sentence, Violations::default(), findings).into())
}

/// Returns the time of the next attempt and its summary for something that was refused since that
/// time; `None` where the refusal counts as final.
pub(super) fn retry_refusal(
    message: &str,
    since: Timestamp,
    failures: u32,
    now: Timestamp,
) -> Option<(Timestamp, String)> {
    let end = saturating_add(since, DOUBT);
    if now >= end {
        return None;
    }
    // A clock that was put back since must not make it last longer.
    let duration = now.duration_since(since).try_into().unwrap_or(Duration::ZERO);
    let at = saturating_add(now, duration.max(FIRST_DOUBT)).min(end);
    let until = end.strftime("%H:%M:%S");
    let message = format!("refused, and tried again until {until} UTC: {message}");
    Some((at, waiting_summary(&message, failures, at)))
}

/// Returns the time at which a preview is tried again after a problem; `None` when it is given up.
/// `failures` counts the failures before it, and the event about the pull request arrived at
/// `received_at`.
pub(super) fn preview_retry(
    problem: &DeployError,
    received_at: Timestamp,
    failures: u32,
    policy: &RetryPolicy,
    now: Timestamp,
) -> Option<Timestamp> {
    match problem.remedy {
        Remedy::Retry { after } => policy.next_attempt(failures, after, now),
        Remedy::Late { until, .. } => policy
            .next_attempt(failures, None, now)
            .filter(|_| now < saturating_add(received_at, until)),
        Remedy::Reject | Remedy::Doubt | Remedy::GiveUp => None,
    }
}

/// Returns the completion of a deployment or rollback that is in the manifest repository. Where its
/// cluster is watched, it ends later.
pub fn completion(
    deployment: &Deployment,
    pushed: Pushed,
    warnings: Vec<Violation>,
    is_watched: bool,
) -> Completion {
    let tag = &deployment.request.release.tag;
    let completion = match &deployment.rollback {
        Some(rollback) => rollback_completion(pushed, tag, rollback),
        None => success_completion(pushed, tag, warnings),
    };
    if is_watched { await_cluster(completion) } else { completion }
}

/// Returns the same, where the cluster says when the deployment ends.
fn await_cluster(completion: Completion) -> Completion {
    let FinalState::Succeeded(pushed) = completion.end else { return completion };
    let sentence = format!("{}; waiting for Argo CD to sync it", completion.summary);
    Completion {
        end: FinalState::Syncing(pushed),
        status: ForgeStatus::in_cluster(ClusterPhase::Syncing, &sentence),
        summary: sentence,
        ..completion
    }
}

fn rollback_completion(pushed: Pushed, tag: &ImageTag, rollback: &Rollback) -> Completion {
    let Rollback { to, reason, hold, .. } = rollback;
    let commit = pushed.commit.short();
    let sentence = if pushed.changed {
        format!("rolled back to {tag}, commit {commit}")
    } else {
        format!("nothing to roll back: commit {commit} has revision {to} of {tag}")
    };
    let note = if *hold { "; automation is held" } else { "" };
    Completion {
        end: FinalState::Succeeded(pushed),
        status: ForgeStatus::new(ForgeState::Success, &format!("rolled back to {tag}: {reason}")),
        summary: format!("{sentence}{note}"),
        violations: Violations::default(),
        findings: Findings::default(),
    }
}

/// Returns the completion of a deployment that is in the manifest repository.
fn success_completion(pushed: Pushed, tag: &ImageTag, warnings: Vec<Violation>) -> Completion {
    let commit = pushed.commit.short();
    let change = if pushed.changed {
        format!("{tag} is in the manifest repository, commit {commit}")
    } else {
        format!("nothing to change for {tag}: commit {commit} has the same manifests")
    };
    let sentence = match warnings.len() {
        0 => change,
        1 => format!("{change}; 1 warning"),
        n => format!("{change}; {n} warnings"),
    };
    Completion {
        end: FinalState::Succeeded(pushed),
        status: ForgeStatus::new(ForgeState::Success, &sentence),
        summary: sentence,
        violations: warnings.into(),
        findings: Findings::default(),
    }
}

/// Returns the error for a name that another deployment has claimed and no rule has refused.
pub(super) fn claim_error(
    (revision, target): (Option<&Revision>, &TargetName),
    conflict: &ClaimConflict,
) -> DeployError {
    let Some(Revision { app, .. }) = revision else {
        return DeployError::reject(format!("a name of it on `{target}` belongs to another app"));
    };
    let message = match conflict {
        ClaimConflict::App => {
            format!("`{app}` on `{target}` belongs to another repository: choose another slug")
        }
        ClaimConflict::Namespace => format!(
            "the namespace `{}` on `{target}` belongs to other owners: choose one of your own",
            app.namespace
        ),
        ClaimConflict::Route(route) => route_taken(route),
        ClaimConflict::Object { object, app } => object_taken(object, app),
    };
    DeployError::reject(message)
}

/// Returns the same error for a rollback.
pub(super) fn rollback_claim_error(conflict: &ClaimConflict) -> DeployError {
    let message = match conflict {
        ClaimConflict::Route(route) => route_taken(route),
        ClaimConflict::Object { object, app } => object_taken(object, app),
        ClaimConflict::App | ClaimConflict::Namespace => {
            "the app belongs to another repository by now".to_owned()
        }
    };
    DeployError::reject(format!("not rolled back: {message}"))
}

fn failure_completion(
    state: ForgeState,
    sentence: &str,
    violations: Violations,
    findings: Findings,
) -> Completion {
    Completion {
        end: FinalState::Failed,
        status: ForgeStatus::new(state, sentence),
        summary: one_line(sentence, LONGEST_SUMMARY),
        violations,
        findings,
    }
}

fn waiting_summary(message: &str, failures: u32, at: Timestamp) -> String {
    let attempt = failures.saturating_add(2);
    let at = at.strftime("%H:%M:%S");
    one_line(&format!("attempt {attempt} at {at} UTC: {message}"), LONGEST_SUMMARY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployments::outcome::describe_push;
    use crate::git::writer::PushOutcome;
    use crate::model::id::CommitSha;
    use crate::model::revision::Digest;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;
    const PATIENCE: RetryPolicy = RetryPolicy {
        first: Duration::from_secs(1),
        longest: Duration::from_secs(10),
        failures: 6,
    };

    fn problem(remedy: Remedy) -> DeployError {
        DeployError { remedy, message: "the forge does not answer".to_owned() }
    }

    fn next(remedy: Remedy, failures: u32) -> NextStep {
        next_step(
            AttemptError::Problem(problem(remedy)),
            Findings::default(),
            NOW,
            failures,
            &PATIENCE,
            NOW,
        )
    }

    fn end(next: NextStep) -> Completion {
        match next {
            NextStep::End(completion) => *completion,
            NextStep::Retry { .. } => panic!("{next:?}"),
        }
    }

    fn delay(next: &NextStep) -> i64 {
        match next {
            NextStep::Retry { at, .. } => at.as_second(),
            NextStep::End(_) => panic!("{next:?}"),
        }
    }

    #[test]
    fn delays_double_up_to_the_longest() {
        let retry = Remedy::Retry { after: None };
        let delays: Vec<_> = (0..5).map(|failures| delay(&next(retry, failures))).collect();
        assert_eq!(delays, [1, 2, 4, 8, 10]);
    }

    #[test]
    fn the_other_sides_wish_is_heeded_within_bounds() {
        let after = |seconds| Remedy::Retry { after: Some(Duration::from_secs(seconds)) };
        assert_eq!(delay(&next(after(100), 0)), 100);
        assert_eq!(delay(&next(after(0), 3)), 8);
        assert_eq!(delay(&next(after(u64::MAX), 0)), 2 * 60 * 60);
    }

    #[test]
    fn the_last_failure_ends_it_with_its_reason() {
        let completion = end(next(Remedy::Retry { after: None }, 5));
        assert_eq!(completion.summary, "given up after 6 attempts: the forge does not answer");
        assert_eq!(completion.status.state, ForgeState::Error);
    }

    #[test]
    fn a_problem_that_does_not_pass_ends_it_at_once() {
        assert_eq!(end(next(Remedy::Reject, 0)).status.state, ForgeState::Failure);
        assert_eq!(end(next(Remedy::GiveUp, 0)).status.state, ForgeState::Error);
    }

    #[test]
    fn a_refusal_that_may_not_be_meant_is_believed_after_some_minutes() {
        let since = NOW;
        let (mut now, mut tries) = (since, vec![]);
        while let Some((at, summary)) = retry_refusal("HTTP 403", since, 0, now) {
            assert!(summary.contains("refused, and tried again until 00:04:00 UTC: HTTP 403"));
            assert!(at > now, "{summary}");
            now = at;
            tries.push(now.as_second());
        }
        assert_eq!(tries, [15, 30, 60, 120, 240]);
        let completion = end(next(Remedy::Doubt, 5));
        assert_eq!(
            completion.summary,
            "refused again and again for 4 minutes: the forge does not answer"
        );
        assert_eq!(completion.status.state, ForgeState::Error);
    }

    #[test]
    fn a_forge_that_may_be_behind_is_waited_for_and_no_longer() {
        let late = Remedy::Late { what: "the commit", until: Duration::from_secs(20) };
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let (mut now, mut times) = (0, vec![]);
        let completion = loop {
            let failures = u32::try_from(times.len()).unwrap();
            let attempt_error = AttemptError::Problem(problem(late));
            match next_step(attempt_error, Findings::default(), at(0), failures, &PATIENCE, at(now))
            {
                NextStep::Retry { at, summary } => {
                    assert!(summary.contains("waiting for GitHub to know the commit"), "{summary}");
                    now = at.as_second();
                    times.push(now);
                }
                NextStep::End(completion) => break completion,
            }
        };
        assert_eq!(times, [1, 3, 7, 15, 20], "doubled, and once at the end");
        assert_eq!(completion.summary, "the forge does not answer");
        assert_eq!(completion.status.state, ForgeState::Failure);
        let attempt_error = AttemptError::Problem(problem(late));
        let step = next_step(attempt_error, Findings::default(), at(0), 0, &PATIENCE, at(21));
        assert!(matches!(step, NextStep::End(_)), "it waited for something else before");
    }

    #[test]
    fn a_retry_says_when_and_what_for() {
        let NextStep::Retry { summary, .. } = next(Remedy::Retry { after: None }, 2) else {
            panic!()
        };
        assert_eq!(summary, "attempt 4 at 00:00:04 UTC: the forge does not answer");
    }

    #[test]
    fn a_rejection_keeps_its_violations_and_tells_the_first() {
        let violations =
            vec![Violation::error("ports-map", "no port"), Violation::warning("slo", "odd")];
        let rejection = Rejection::of(violations.clone()).unwrap();
        let attempt_error = AttemptError::Rejected(rejection);
        let completion = end(next_step(attempt_error, Findings::default(), NOW, 0, &PATIENCE, NOW));
        assert_eq!(completion.violations, violations.into());
        assert_eq!(completion.status.description(), "no port [ports-map]");
    }

    #[test]
    fn a_success_says_what_was_pushed_or_that_nothing_was() {
        let commit = CommitSha::parse("ab".repeat(20)).unwrap();
        let tag = ImageTag::parse("v1").unwrap();
        let sentence = |push, warnings| {
            let pushed = describe_push(push, Digest(String::new()), vec![]);
            success_completion(pushed, &tag, warnings).summary
        };
        let warning = Violation::warning("slo", "odd");
        assert_eq!(
            sentence(PushOutcome::Pushed { commit: commit.clone() }, vec![warning]),
            "v1 is in the manifest repository, commit abababab; 1 warning"
        );
        assert_eq!(
            sentence(PushOutcome::Unchanged { commit }, vec![]),
            "nothing to change for v1: commit abababab has the same manifests"
        );
    }
}
