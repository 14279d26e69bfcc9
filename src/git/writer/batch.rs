//! The commits of several changes, one on top of the other, for one push, each with its own author.
//!
//! A change that fails, or has nothing to do, leaves no commit and does not stop the others. This module does not
//! decide that a failure is final: the tip may be an old one.

use std::collections::HashSet;
use std::sync::Arc;

use git2::{Oid, Repository};
use jiff::Timestamp;

use crate::git::author::{CommitIdentity, author};
use crate::git::changes::ManifestChange;
use crate::git::error::{SigningError, StepError, WriteError};
use crate::git::objects::ObjectOverlay;
use crate::git::objects::edits::EditOutcome;
use crate::git::objects::pack::NewObjects;
use crate::git::signing::CommitSigner;
use crate::git::writer::queue::Job;
use crate::model::id::DeployId;

/// The size of new objects, in bytes, from which no more changes are added to a push. A deployment has some tens of
/// kilobytes, and new versions of the folders on its path, which are held whole.
const LARGEST: usize = 32 * 1024 * 1024;

/// The commits of the changes on a tip.
pub(in crate::git) struct Built {
    /// The outcome of each job, in order; of the first ones only, where the others would have made the push too
    /// large.
    pub(in crate::git) outcomes: Vec<JobOutcome>,
    /// The last commit; `None` if there was nothing to commit.
    pub(in crate::git) tip: Option<Oid>,
    /// The objects that the server does not have.
    pub(in crate::git) load: NewObjects,
}

impl Built {
    /// Returns whether nothing could be signed just now, whatever the tip is.
    pub(in crate::git) fn is_unsigned(&self) -> bool {
        self.outcomes.iter().all(is_unsigned)
    }
}

/// Returns true if gpg failed in a way that passes: that affects the next job, too.
fn is_unsigned(outcome: &JobOutcome) -> bool {
    matches!(outcome, Err(WriteError::NotSigned { why, .. }) if why.passes())
}

/// The outcomes of a job's changes, in order; or the error of the first one that failed, or whose commit could not be
/// signed: then none of them is made.
pub(in crate::git) type JobOutcome = Result<Vec<ChangeOutcome>, WriteError>;

/// The outcome of a change that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::git) enum ChangeOutcome {
    /// The change is that commit.
    Commit(Oid),
    /// Everything is there as it would be written.
    Unchanged,
    /// An earlier try of it is there.
    AlreadyThere,
}

/// The root and the last commit, as far as changes are applied.
#[derive(Debug, Clone, Copy)]
struct BatchTip {
    root: Option<Oid>,
    at: Option<Oid>,
}

/// Applies the jobs' changes to the tip, one after the other, but for those that have `arrived`.
pub(in crate::git) fn build(
    (repo, repository): (&Repository, &str),
    tip: Option<Oid>,
    jobs: &[Job],
    arrived: &HashSet<DeployId>,
    committer: &Committer,
) -> Result<Built, StepError> {
    let root = tip.map(|tip| repo.find_commit(tip).map(|tip| tip.tree_id())).transpose()?;
    let mut objects = ObjectOverlay::at_tip(repo, repository, tip)?;
    let mut end = BatchTip { root, at: tip };
    let mut outcomes: Vec<JobOutcome> = Vec::with_capacity(jobs.len());
    for job in jobs {
        // Each may take the whole time that gpg has.
        if let Some(unsigned) = outcomes.last().filter(|outcome| is_unsigned(outcome)) {
            outcomes.push(unsigned.clone());
            continue;
        }
        if objects.bytes() > LARGEST {
            break;
        }
        let mark = objects.mark();
        match apply(&mut objects, end, job, arrived, (repository, committer)) {
            Ok((new_outcomes, new_end)) => {
                end = new_end;
                outcomes.push(Ok(new_outcomes));
            }
            Err(StepError::Error(error)) => {
                objects.truncate(mark);
                outcomes.push(Err(error));
            }
            Err(damaged) => return Err(damaged),
        }
    }
    let newest = end.at.filter(|at| Some(*at) != tip);
    Ok(Built { outcomes, tip: newest, load: NewObjects::of(objects.into_new()) })
}

/// Applies a job's changes one after the other; where one fails, none counts.
fn apply(
    objects: &mut ObjectOverlay<'_>,
    mut end: BatchTip,
    job: &Job,
    arrived: &HashSet<DeployId>,
    (repository, committer): (&str, &Committer),
) -> Result<(Vec<ChangeOutcome>, BatchTip), StepError> {
    let mut outcomes = Vec::with_capacity(job.changes.len());
    for change in &job.changes {
        if change.id().is_some_and(|id| arrived.contains(id)) {
            outcomes.push(ChangeOutcome::AlreadyThere);
            continue;
        }
        let mark = objects.mark();
        let outcome = match change.edit(objects, end.root)? {
            EditOutcome::Changed(tree) => {
                let text = committer.commit(tree, end.at, change, job.at).map_err(|why| {
                    WriteError::NotSigned { repository: repository.to_owned(), why }
                })?;
                let commit = objects.commit(text)?;
                end = BatchTip { root: Some(tree), at: Some(commit) };
                outcomes.push(ChangeOutcome::Commit(commit));
                continue;
            }
            EditOutcome::Unchanged => ChangeOutcome::Unchanged,
            EditOutcome::AlreadyThere => ChangeOutcome::AlreadyThere,
        };
        objects.truncate(mark);
        outcomes.push(outcome);
    }
    Ok((outcomes, end))
}

/// The committer of all commits.
#[derive(Debug, Clone)]
pub(in crate::git) struct Committer {
    pub(in crate::git) identity: CommitIdentity,
    /// The domain of the addresses that people have whom the code host names.
    pub(in crate::git) people: String,
    /// The signer of commits.
    pub(in crate::git) signing: Option<Arc<CommitSigner>>,
}

impl Committer {
    /// Builds the text of a change's commit. Its author is the person who asked; the service, where none did.
    pub(in crate::git) fn commit(
        &self,
        tree: Oid,
        parent: Option<Oid>,
        change: &ManifestChange,
        at: Timestamp,
    ) -> Result<Vec<u8>, SigningError> {
        let actor = change.author_of_change().and_then(|asker| author(asker, &self.people));
        let author = stamp(actor.as_ref().unwrap_or(&self.identity), at);
        let committer = stamp(&self.identity, at);
        let mut head = format!("tree {tree}\n");
        if let Some(parent) = parent {
            head += &format!("parent {parent}\n");
        }
        head += &format!("author {author}\ncommitter {committer}\n");
        let message = change.message();
        if let Some(signing) = &self.signing {
            let signature = signing.sign(format!("{head}\n{message}").as_bytes())?;
            // The last header, each of its lines but the first behind a space, as git writes it.
            head += &format!("gpgsig {}\n", signature.replace('\n', "\n "));
        }
        Ok(format!("{head}\n{message}").into_bytes())
    }
}

/// Checks that commits can have that name and address.
pub(in crate::git) fn check(
    CommitIdentity { name, email }: &CommitIdentity,
) -> Result<(), WriteError> {
    if plain(name).is_empty() || plain(email).is_empty() {
        let message = format!("{name:?} <{email:?}> cannot be the author of a commit");
        return Err(WriteError::Invalid(message));
    }
    Ok(())
}

/// Writes the identity in git's form: `Name <e-mail> seconds +0000`.
fn stamp(CommitIdentity { name, email }: &CommitIdentity, at: Timestamp) -> String {
    format!("{} <{}> {} +0000", plain(name), plain(email), at.as_second())
}

/// Removes characters that end a name or a line in a commit.
fn plain(text: &str) -> String {
    let text: String =
        text.chars().filter(|c| !c.is_control() && !matches!(c, '<' | '>')).collect();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests;
