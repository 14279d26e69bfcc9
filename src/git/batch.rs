//! Several changes become several commits, one on top of the other, for one push.
//!
//! A change that cannot be made, or has nothing to do, leaves no commit and does not stop the
//! others. Whether that is final is not decided here: the tip may be an old one.

use std::collections::HashSet;

use git2::{Oid, Repository};

use crate::git::commit::Committer;
use crate::git::edits::{EditError, Edited};
use crate::git::error::SigningError;
use crate::git::objects::Objects;
use crate::git::pack::Load;
use crate::git::queue::Job;
use crate::model::hand_edit::HandEdit;
use crate::model::id::DeployId;

/// From so many bytes of new objects on no more changes are added to a push. A deployment has some
/// tens of kilobytes, and new versions of the folders on its way, which are held whole.
const LARGEST: usize = 32 * 1024 * 1024;

/// What the changes make of a tip.
pub(super) struct Built {
    /// What became of each change, in order; of the first ones only, where the others would have
    /// made the push too large.
    pub(super) fates: Vec<Fate>,
    /// The last commit; `None` if there was nothing to commit.
    pub(super) tip: Option<Oid>,
    /// Exactly what the server has not.
    pub(super) load: Load,
}

impl Built {
    /// Whether nothing could be signed just now, whatever the tip is.
    pub(super) fn is_unsigned(&self) -> bool {
        self.fates.iter().all(|fate| matches!(fate, Fate::NotSigned(why) if why.passes()))
    }
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is that commit.
    Commit(Oid),
    /// Everything is there as it would be written.
    Unchanged,
    /// An earlier try of it is there.
    AlreadyThere,
    /// A file is at that path, where a folder must be.
    Blocked(String),
    /// What is at that path is not what the change was decided on.
    Moved(String),
    /// Somebody edited that folder by hand, which is to stop the change.
    HandEdited(String, Box<HandEdit>),
    /// Its commit cannot be signed.
    NotSigned(SigningError),
}

/// Applies the jobs' changes to the tip, one after the other, but for those that have `arrived`.
pub(super) fn build(
    repo: &Repository,
    tip: Option<Oid>,
    jobs: &[Job],
    arrived: &HashSet<DeployId>,
    committer: &Committer,
) -> Result<Built, git2::Error> {
    let mut root = tip.map(|tip| repo.find_commit(tip).map(|tip| tip.tree_id())).transpose()?;
    let mut objects = Objects::over(repo, tip)?;
    let (mut at, mut made) = (tip, None);
    let mut fates = Vec::with_capacity(jobs.len());
    // A fault that passes hits whoever comes next, too, and each may take the whole time that gpg has.
    let mut faulty: Option<SigningError> = None;
    for job in jobs {
        if let Some(why) = &faulty {
            fates.push(Fate::NotSigned(why.clone()));
            continue;
        }
        if objects.bytes() > LARGEST {
            break;
        }
        if job.change.id().is_some_and(|id| arrived.contains(id)) {
            fates.push(Fate::AlreadyThere);
            continue;
        }
        let mark = objects.mark();
        let fate = match job.change.edit(&mut objects, root) {
            Ok(Edited::Changed(tree)) => match committer.commit(tree, at, &job.change, job.at) {
                Ok(text) => {
                    let commit = objects.commit(text)?;
                    (root, at, made) = (Some(tree), Some(commit), Some(commit));
                    Fate::Commit(commit)
                }
                Err(why) => {
                    faulty = why.passes().then(|| why.clone());
                    Fate::NotSigned(why)
                }
            },
            Ok(Edited::Unchanged) => Fate::Unchanged,
            Ok(Edited::AlreadyThere) => Fate::AlreadyThere,
            Err(EditError::Blocked(path)) => Fate::Blocked(path),
            Err(EditError::Moved(path)) => Fate::Moved(path),
            Err(EditError::HandEdited(path, edit)) => Fate::HandEdited(path, edit),
            Err(EditError::Git(error)) => return Err(error),
        };
        if !matches!(fate, Fate::Commit(_)) {
            objects.back_to(mark);
        }
        fates.push(fate);
    }
    Ok(Built { fates, tip: made, load: Load::of(objects.into_new()) })
}

#[cfg(test)]
mod tests;
