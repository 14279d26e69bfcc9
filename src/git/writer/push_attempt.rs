//! One push round of the writer: the waiting changes become commits on the tip, the branch is moved to the last of
//! them, and every caller gets an answer.
//!
//! The round applies the changes to the known tip, and pushes on the condition that the branch is still there. A
//! successful push proves that the tip was not an old one; without a push only a fresh tip may show that there is
//! nothing to do, or that a change fails. It never forces.

use std::collections::HashSet;

use git2::Oid;

use crate::git::changes::ManifestChange;
use crate::git::clone::branch::{BranchBackend, Tip};
use crate::git::error::{StepError, WriteError};
use crate::git::message::ids_of;
use crate::git::objects::tree::{MAX_SEARCHED, back, commit_of, sha};
use crate::git::transport::push_rejection::PushRefusal;
use crate::git::writer::batch::{self, Built, ChangeOutcome, Committer, JobOutcome};
use crate::git::writer::fence::{Fence, Now};
use crate::git::writer::outcome::{BranchMove, PushOutcome};
use crate::git::writer::queue::{Base, Job};
use crate::model::id::DeployId;
use crate::support::disk;

/// The limit of lost races. Each time another process got through, so twelve in a row means that the repository is too
/// busy just now.
pub(in crate::git) const TRIES: u32 = 12;

/// The one writer of a repository; its holder has it alone.
pub(in crate::git) struct Writer {
    pub(in crate::git) home: BranchBackend,
    pub(in crate::git) committer: Committer,
    pub(in crate::git) branch: String,
    /// The address, for messages.
    pub(in crate::git) name: String,
    /// The time that leases are compared with.
    pub(in crate::git) now: Now,
}

/// The outcome of a round.
pub(in crate::git) struct PushAttempt {
    /// True if the server was asked to move the branch.
    pub(in crate::git) pushed: bool,
    /// The number of changes that a successful push answered; none if there was none.
    pub(in crate::git) landed: usize,
    pub(in crate::git) end: PushAttemptEnd,
}

/// The end of a round.
pub(in crate::git) enum PushAttemptEnd {
    /// Every caller has an answer except those whose jobs had no room in the push.
    Answered(Vec<Job>),
    /// Another process pushed first: all jobs again, on the new tip. The error is for when that lasts.
    Lost(Vec<Job>, WriteError),
    /// The server does not want it, for the sake of one of them or of all.
    Refused(Vec<Job>, PushRefusal),
}

/// The outcome of moving the branch.
enum Attempt {
    /// The answers to the first of the jobs; whether a push of theirs got through.
    Told(Answers, bool),
    Lost(WriteError),
    Refused(PushRefusal),
    /// The lease of a job has ended on the way, and nothing got through: again, without it.
    Late,
}

type Answers = Vec<Result<Vec<PushOutcome>, WriteError>>;

impl Writer {
    /// Works on the jobs together.
    pub(in crate::git) fn round(&mut self, mut jobs: Vec<Job>) -> PushAttempt {
        let (mut pushed, mut landed) = (false, 0);
        let mut attempt = Ok(Attempt::Late);
        while matches!(attempt, Ok(Attempt::Late)) {
            jobs = self.drop_late(jobs);
            if jobs.is_empty() {
                break;
            }
            attempt = self.with_repair(|writer| writer.attempt(&mut jobs, &mut pushed));
        }
        let end = match attempt {
            Ok(Attempt::Late) => PushAttemptEnd::Answered(Vec::new()),
            Ok(Attempt::Lost(error)) => PushAttemptEnd::Lost(jobs, error),
            Ok(Attempt::Refused(refusal)) => PushAttemptEnd::Refused(jobs, refusal),
            Ok(Attempt::Told(answers, done)) => {
                let rest = jobs.split_off(answers.len().min(jobs.len()));
                landed = if done { jobs.len() } else { 0 };
                jobs.into_iter().zip(answers).for_each(|(job, outcome)| job.answer(outcome));
                PushAttemptEnd::Answered(rest)
            }
            Err(error) => {
                for job in jobs {
                    job.answer(Err(error.clone()));
                }
                PushAttemptEnd::Answered(Vec::new())
            }
        };
        PushAttempt { pushed, landed, end }
    }

    /// Returns the jobs that may still be pushed. A job without a waiting caller is dropped; the caller of a job whose
    /// lease has ended gets an error.
    fn drop_late(&self, jobs: Vec<Job>) -> Vec<Job> {
        let now = self.now.now();
        let awaited = jobs.into_iter().filter(Job::is_awaited);
        let (late, in_time): (Vec<_>, Vec<_>) = awaited.partition(|job| job.lease.is_over(now));
        for job in late {
            let id = job.changes.iter().find_map(ManifestChange::id).map(tracing::field::display);
            tracing::warn!(repository = %self.name, deployment = id, "lease ended, change not pushed");
            job.answer(Err(WriteError::LeaseOver { repository: self.name.clone() }));
        }
        in_time
    }

    /// Runs a step; when git fails on this machine, creates the clone again and repeats the step once.
    pub(in crate::git) fn with_repair<T>(
        &mut self,
        mut step: impl FnMut(&mut Self) -> Result<T, StepError>,
    ) -> Result<T, WriteError> {
        let first = match step(self) {
            // Another clone would fare no better on this machine, and the one that is there would be lost.
            Err(StepError::Damaged(error))
                if disk::shortage(self.home.repo().path(), error.message()).is_some() =>
            {
                return Err(self.final_error(StepError::Damaged(error)));
            }
            Err(StepError::Damaged(error)) => error,
            other => return other.map_err(|trouble| self.final_error(trouble)),
        };
        tracing::warn!(repository = %self.name, error = first.message(), "git failed, clone is created again");
        let second = self.home.repair().and_then(|()| step(self));
        second.map_err(|trouble| self.final_error(trouble))
    }

    fn final_error(&self, trouble: StepError) -> WriteError {
        let repository = self.name.clone();
        match trouble {
            StepError::Error(error) => error,
            StepError::Damaged(error) => {
                WriteError::of_git(repository, self.home.repo().path(), &error)
            }
        }
    }

    fn attempt(&mut self, jobs: &mut [Job], pushed: &mut bool) -> Result<Attempt, StepError> {
        let mut tip = self.home.first_tip()?;
        loop {
            let arrived = self.find_arrived(tip.at, jobs);
            let built = batch::build(
                (self.home.repo(), &self.name),
                tip.at,
                jobs,
                &arrived,
                &self.committer,
            )?;
            if let Some(last) = built.tip {
                // After the tip was read, and before anything is sent: see `fence`.
                let fence = Fence::of(
                    jobs.iter().take(built.outcomes.len()).map(|job| &job.lease),
                    &self.now,
                );
                if fence.is_closed() || !jobs.iter().all(Job::is_awaited) {
                    return Ok(Attempt::Late);
                }
                for job in jobs.iter_mut().take(built.outcomes.len()) {
                    job.tried_on.get_or_insert(Base(tip.at));
                }
                *pushed = true;
                return self.publish((&tip, last), built, jobs, &fence);
            }
            if tip.fresh || built.is_unsigned() {
                return Ok(Attempt::Told(self.answers(tip.at, built.outcomes, jobs), false));
            }
            tip = Tip { at: self.home.fetch_tip()?, fresh: true };
        }
    }

    fn publish(
        &mut self,
        (tip, last): (&Tip, Oid),
        built: Built,
        jobs: &[Job],
        fence: &Fence,
    ) -> Result<Attempt, StepError> {
        let published = match self.home.publish(tip.at, last, &built.load, fence) {
            Err(StepError::Error(WriteError::LeaseOver { .. })) => BranchMove::Late,
            published => published?,
        };
        match published {
            BranchMove::Late => Ok(Attempt::Late),
            BranchMove::Done => Ok(Attempt::Told(self.answers(tip.at, built.outcomes, jobs), true)),
            BranchMove::Lost => Ok(Attempt::Lost(self.lost_races())),
            BranchMove::Locked(error) => Ok(Attempt::Lost(error)),
            // A server may refuse for want of what lay below an old tip, before it looks at the branch.
            BranchMove::Refused(_) if !tip.fresh && self.home.fetch_tip()? != tip.at => {
                Ok(Attempt::Lost(self.lost_races()))
            }
            BranchMove::Refused(refusal) => Ok(Attempt::Refused(refusal)),
            BranchMove::Unclear(error) => Ok(self.find_outcome(error, last, built, jobs)),
        }
    }

    /// Finds the outcome after the connection was cut behind the pack. If the branch has the last commit now, the push
    /// got through, and all of it; if not, it did not, or comes late: then the next try finds it.
    fn find_outcome(
        &mut self,
        error: WriteError,
        last: Oid,
        built: Built,
        jobs: &[Job],
    ) -> Attempt {
        let tip = self.home.fetch_tip().ok().flatten();
        match tip.filter(|tip| {
            back(self.home.repo(), *tip).take(MAX_SEARCHED).any(|commit| commit.id() == last)
        }) {
            Some(tip) => Attempt::Told(self.answers(Some(tip), built.outcomes, jobs), true),
            // The service cut it. If it comes late, the branch is the fence for the others' next try.
            None if matches!(error, WriteError::LeaseOver { .. }) => Attempt::Late,
            None => Attempt::Told(vec![Err(error); built.outcomes.len()], false),
        }
    }

    /// Returns the tried jobs that have come to the branch since: by a push of unknown outcome, or by another's of the
    /// same change.
    fn find_arrived(&self, tip: Option<Oid>, jobs: &[Job]) -> HashSet<DeployId> {
        let bases_tried = jobs.iter().filter_map(|job| job.tried_on).filter(|base| base.0 != tip);
        let mut bases: HashSet<Base> = bases_tried.collect();
        let mut ids = HashSet::new();
        let Some(tip) = tip else { return ids };
        for commit in back(self.home.repo(), tip).take(MAX_SEARCHED) {
            bases.remove(&Base(Some(commit.id())));
            if bases.is_empty() {
                break;
            }
            ids.extend(ids_of(&String::from_utf8_lossy(commit.message_bytes())));
        }
        ids
    }

    /// Builds the answer of each job; the outcomes are final, and `tip` is what they were decided on.
    fn answers(&self, tip: Option<Oid>, outcomes: Vec<JobOutcome>, jobs: &[Job]) -> Answers {
        let mut at = tip;
        let mut answer = |(outcome, change): (ChangeOutcome, &ManifestChange)| {
            if let ChangeOutcome::Commit(commit) = outcome {
                at = Some(commit);
            }
            self.answer(outcome, at, change)
        };
        let mut job_answer =
            |(outcome, job): (JobOutcome, &Job)| -> Result<Vec<PushOutcome>, WriteError> {
                outcome?.into_iter().zip(&job.changes).map(&mut answer).collect()
            };
        outcomes.into_iter().zip(jobs).map(&mut job_answer).collect()
    }

    fn answer(
        &self,
        outcome: ChangeOutcome,
        tip: Option<Oid>,
        change: &ManifestChange,
    ) -> Result<PushOutcome, WriteError> {
        match (outcome, tip) {
            (ChangeOutcome::Commit(commit), _) => Ok(PushOutcome::Pushed { commit: sha(commit) }),
            (ChangeOutcome::Unchanged, Some(tip)) => {
                Ok(PushOutcome::Unchanged { commit: sha(tip) })
            }
            (ChangeOutcome::AlreadyThere, Some(tip)) => Ok(self.existing_outcome(tip, change)),
            (ChangeOutcome::Unchanged | ChangeOutcome::AlreadyThere, None) => {
                Err(WriteError::Corrupt {
                    repository: self.name.clone(),
                    cause: "an empty repository holds something".to_owned(),
                })
            }
        }
    }

    /// Returns the outcome of a change that is in the repository already. An existing revision belongs to its
    /// deployment, wherever its commit is. A removal without anything left may be another's work.
    fn existing_outcome(&self, tip: Oid, change: &ManifestChange) -> PushOutcome {
        let commit = change.id().and_then(|id| commit_of(self.home.repo(), tip, id));
        match (commit, change) {
            (Some(commit), _) => PushOutcome::AlreadyPushed { commit: sha(commit.id()) },
            (None, ManifestChange::Deploy(_)) => PushOutcome::AlreadyPushed { commit: sha(tip) },
            (None, ManifestChange::Amend(_) | ManifestChange::Restore(_)) => {
                PushOutcome::Unchanged { commit: sha(tip) }
            }
        }
    }

    pub(in crate::git) fn refused_error(&self, refusal: PushRefusal) -> WriteError {
        WriteError::Refused { repository: self.name.clone(), branch: self.branch.clone(), refusal }
    }

    pub(in crate::git) fn not_asked_error(&self, refusal: PushRefusal) -> WriteError {
        WriteError::NotAsked { repository: self.name.clone(), branch: self.branch.clone(), refusal }
    }

    fn lost_races(&self) -> WriteError {
        let (repository, branch) = (self.name.clone(), self.branch.clone());
        WriteError::LostRaces { repository, branch, tries: TRIES }
    }
}
