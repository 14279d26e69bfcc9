//! Tells commits and pull requests of preview environments, in a lane of its own.
//!
//! Anyone with rights in a cluster can cause these reports, so they never stand in the way of deployments: the lane has
//! a loop of its own, takes only permits of the code host's rate limit that deployments leave, and a bounded share of
//! its hour. The code host's circuit breaker is shared: an outage is noticed once.
//!
//! ```text
//! watch ─► store ◄─ claim ─ plan (pure) ─ quota ─ call ─► report_outcome (pure) ─► store
//! ```

mod comment; // whether and what a comment says, pure
mod status; // what a commit is told, pure

use jiff::{SignedDuration, Timestamp};

use crate::forge::error::ForgeError;
use crate::forge::github::client::comments::PullRequestState;
use crate::model::environment::{EnvironmentCommit, EnvironmentState};
use crate::model::id::{CommitSha, RepoName};
use crate::model::notice::SinkFamily;
use crate::outbox::environments::comment::{CommentPlan, comment_mark, plan_comments};
use crate::outbox::environments::status::{StatusStep, commit_status, next_step, sent_report};
use crate::outbox::quota::QuotaDecision;
use crate::outbox::relay::{Outbox, Sender};
use crate::outbox::report::{Attempt, CallCount, NotCalled, SENDER, warn_of_loss};
use crate::outbox::report_outcome::{FailedAttempt, sent_outcome, word};
use crate::store::{
    EnvironmentCommentClaim, EnvironmentStatusClaim, ShownComment, StateOutcome, StoreError,
};
use crate::support::lease::{Lease, Moment};
use crate::support::time::saturating_add;

/// The most commits beside the head for which the code host is asked whether they are of the pull request: each costs a
/// call.
const MAX_COMPARED: usize = 4;
/// The permits of the code host's rate limit that are left to deployments.
const RESERVE: u32 = 8;
/// The time after a comment without an answer in which it may still appear: until then no other one is written.
const COMMENT_DOUBT: SignedDuration = SignedDuration::from_mins(1);
/// The outcome of a comment that was written.
const WRITTEN: StateOutcome = StateOutcome::Sent { check_at: None, doubted: false };

/// The result of a call about a comment: the outcome, and the comment as it is now.
type CommentResult = Result<(StateOutcome, ShownComment), ForgeError>;

impl Outbox {
    /// Returns the time at which the next report may be sent, if one waits.
    pub(super) async fn next_environment(
        &self,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        let next_call = self.sender(SinkFamily::Forge).breaker().next_spare_call(RESERVE, now);
        Ok(self.store.next_environment().await?.map(|due| due.max(next_call)))
    }

    /// Sends the report that is worth most: comments, then ends, then the rest. Returns false where there is none, or
    /// it may not be sent now.
    pub(super) async fn send_environment(&self) -> Result<bool, StoreError> {
        let asked_at = self.clock.moment();
        let now = asked_at.wall;
        if !self.store.has_environment_report(now).await? {
            return Ok(false);
        }
        let sender = self.sender(SinkFamily::Forge);
        if !sender.breaker().try_acquire_spare(RESERVE, now) {
            return Ok(false);
        }
        let result = self.send_claimed(&sender, asked_at).await;
        if !matches!(result, Ok(true)) {
            sender.breaker().release(1);
        }
        result
    }

    async fn send_claimed(&self, sender: &Sender, asked_at: Moment) -> Result<bool, StoreError> {
        let (now, lease) = (asked_at.wall, self.settings.lease);
        // Whoever was held up for longer than that calls nobody any more: another sender has the claim.
        let held = Lease::requested_at(asked_at, lease);
        if let Some(claim) = self.store.claim_environment_comment(SENDER, now, lease).await? {
            self.send_comment(sender, &claim, &held).await?;
            return Ok(true);
        }
        if let Some(claim) = self.store.claim_environment_status(SENDER, now, lease).await? {
            self.send_status(sender, &claim, &held).await?;
            return Ok(true);
        }
        Ok(false)
    }

    async fn send_status(
        &self,
        sender: &Sender,
        claim: &EnvironmentStatusClaim,
        held: &Lease,
    ) -> Result<(), StoreError> {
        let repository = &claim.workload.commit.repository;
        let is_pending = claim.workload.state == EnvironmentState::Waiting;
        let mut calls = CallCount::default();
        let attempt = match next_step(claim) {
            StatusStep::Nothing(reason) => Attempt::with_nothing(reason),
            StatusStep::Send { verify } => {
                let limited = self.quota_outcome(repository, is_pending, claim.unsure).await?;
                if let Some(outcome) = limited {
                    Attempt::without_call(outcome)
                } else {
                    let commit = (repository, &claim.workload.commit.commit);
                    let status = commit_status(&claim.workload);
                    let call = self.write_commit_status(commit, &status, verify, &mut calls);
                    self.finish_status(claim, self.call_forge(held, call).await)
                }
            }
        };
        attempt.observe(sender, self.clock.now());
        let outcome = attempt.outcome;
        self.metrics.environment_report("status", word(&outcome));
        if let StateOutcome::Refused(reason) = &outcome {
            let EnvironmentCommit { repository, commit, .. } = &claim.workload.commit;
            let (cluster, workload) = (&claim.workload.cluster, &claim.workload.workload);
            tracing::warn!(%cluster, %workload, %repository, %commit, reason, "preview environment not reported");
        }
        let now = self.clock.now();
        let lease = self.store.record_environment_status(claim, &outcome, calls.0, now).await?;
        warn_of_loss(lease, "a preview environment");
        Ok(())
    }

    fn finish_status(
        &self,
        claim: &EnvironmentStatusClaim,
        result: Result<(), NotCalled>,
    ) -> Attempt {
        let now = self.clock.now();
        match result {
            Ok(()) => Attempt::answered(sent_outcome(sent_report(claim), now)),
            Err(error) => {
                let attempt = FailedAttempt {
                    failures: claim.failures,
                    changed_at: claim.changed_at,
                    is_outdated: claim.told.is_some(),
                    unsure: claim.unsure,
                };
                self.fail(attempt, error, now)
            }
        }
    }

    async fn send_comment(
        &self,
        sender: &Sender,
        claim: &EnvironmentCommentClaim,
        held: &Lease,
    ) -> Result<(), StoreError> {
        let EnvironmentCommentClaim { repository, number, .. } = claim;
        let workloads = self.store.environment_of(repository, *number).await?;
        let (mut calls, mut shown) = (CallCount::default(), claim.shown.clone());
        let plans = plan_comments(&workloads, &claim.shown);
        let attempt = match reason_for_silence(&plans) {
            Some(reason) => Attempt::with_nothing(reason),
            None => match self.quota_outcome(repository, false, false).await? {
                Some(outcome) => Attempt::without_call(outcome),
                None => {
                    match self.call_forge(held, self.call_comment(claim, plans, &mut calls)).await {
                        Ok((outcome, written)) => {
                            shown = written;
                            Attempt::answered(outcome)
                        }
                        Err(error) => {
                            let now = self.clock.now();
                            let attempt = FailedAttempt {
                                failures: claim.failures,
                                // What is missing here was there when the status was written.
                                changed_at: Timestamp::MIN,
                                is_outdated: claim.shown.comment.is_some(),
                                unsure: false,
                            };
                            self.fail(attempt, error, now)
                                .not_before(saturating_add(now, COMMENT_DOUBT))
                        }
                    }
                }
            },
        };
        let now = self.clock.now();
        attempt.observe(sender, now);
        let outcome = attempt.outcome;
        self.metrics.environment_report("comment", word(&outcome));
        if let StateOutcome::Refused(reason) = &outcome {
            tracing::warn!(%repository, number, reason, "comment on a preview environment not written");
        }
        let record = self.store.record_environment_comment(claim, &outcome, &shown, calls.0, now);
        warn_of_loss(record.await?, "a preview environment");
        Ok(())
    }

    /// Chooses the commit that the comment is about: the head of the pull request where a workload carries it, else the
    /// first of these that is one of the pull request's. Workloads that carry another commit, by mistake, by malice or
    /// because nothing of them has changed, neither silence the others nor hold them back.
    async fn choose_plan(
        &self,
        claim: &EnvironmentCommentClaim,
        mut plans: Vec<(CommitSha, CommentPlan)>,
    ) -> Result<CommentPlan, ForgeError> {
        let EnvironmentCommentClaim { repository, number, .. } = claim;
        let forge = &self.deployments.forge;
        let head = match forge.pull_request(repository, *number).await? {
            PullRequestState::Missing => {
                return Ok(CommentPlan::Nothing("there is no such pull request"));
            }
            PullRequestState::Closed => {
                return Ok(CommentPlan::Nothing("the pull request is closed"));
            }
            PullRequestState::Open { head } => head,
        };
        if let Some(place) = plans.iter().position(|(commit, _)| *commit == head) {
            return Ok(plans.swap_remove(place).1);
        }
        for (commit, plan) in plans.into_iter().take(MAX_COMPARED) {
            if forge.is_ancestor(repository, &commit, &head).await? {
                return Ok(plan);
            }
        }
        Ok(CommentPlan::Nothing("the commit is none of the pull request's"))
    }

    /// Writes the comment, or changes the one that is there.
    async fn call_comment(
        &self,
        claim: &EnvironmentCommentClaim,
        plans: Vec<(CommitSha, CommentPlan)>,
        calls: &mut CallCount,
    ) -> CommentResult {
        let EnvironmentCommentClaim { repository, number, shown, .. } = claim;
        let forge = &self.deployments.forge;
        let text = match self.choose_plan(claim, plans).await? {
            CommentPlan::Write(text) => text,
            CommentPlan::Nothing(reason) => {
                return Ok((StateOutcome::Nothing(reason.to_owned()), shown.clone()));
            }
        };
        let text = &text;
        let mark = comment_mark(&self.deployments.external_url);
        let body = format!("{mark}\n{}", text.body);
        let written = |comment| ShownComment {
            comment: Some(comment),
            commit: Some(text.commit.clone()),
            digest: Some(text.digest()),
            dismissed: None,
        };
        let sent = |comment| Ok((WRITTEN, written(comment)));
        let comment = match shown.comment {
            Some(comment) => Some(comment),
            // An attempt without an answer may have written it, or another database of this service.
            None => forge.find_comment(repository, *number, &mark).await?,
        };
        if let Some(comment) = comment {
            calls.0 += 1;
            if forge.update_comment(repository, comment, &body).await? {
                return sent(comment);
            }
            let is_same_commit = shown.commit.as_ref() == Some(&text.commit);
            if is_same_commit || text.is_failure {
                let dismissed = Some(text.commit.clone());
                let reason = "a person deleted the comment".to_owned();
                let dismissed = ShownComment { dismissed, ..ShownComment::default() };
                return Ok((StateOutcome::Nothing(reason), dismissed));
            }
        }
        calls.0 += 1;
        sent(forge.create_comment(repository, *number, &body).await?)
    }

    /// Decides by the code host's hour; `None` where the report may be sent.
    async fn quota_outcome(
        &self,
        repository: &RepoName,
        is_pending: bool,
        unsure: bool,
    ) -> Result<Option<StateOutcome>, StoreError> {
        let now = self.clock.now();
        let Some(quota) = self.quota(&SinkFamily::Forge, now).await? else { return Ok(None) };
        let calls = self.store.environment_calls(now).await?;
        Ok(match quota.decide_environment(repository, &calls, is_pending, now) {
            QuotaDecision::Send => None,
            QuotaDecision::Shed(reason) => Some(StateOutcome::Nothing(reason)),
            QuotaDecision::Defer(at) => {
                let reason = "the code host's hour is left to deployments".to_owned();
                Some(StateOutcome::Later { at, unsure, failed: false, reason })
            }
        })
    }
}

/// Returns the reason why nothing is written, whichever of the commits are the pull request's; `None` where something may
/// be.
fn reason_for_silence(plans: &[(CommitSha, CommentPlan)]) -> Option<&'static str> {
    let reasons = plans.iter().map(|(_, plan)| match plan {
        CommentPlan::Nothing(reason) => Some(*reason),
        CommentPlan::Write(_) => None,
    });
    let reasons = reasons.collect::<Option<Vec<_>>>()?;
    Some(reasons.first().copied().unwrap_or("no workload carries a commit of it"))
}
