//! How a change becomes one commit on the branch, whoever else writes there.
//!
//! Applies the change to the tip as it is known, publishes it on the condition that the branch is
//! still there, and begins again on the new tip when somebody was faster. Never forces.

use std::time::Duration;

use git2::{Oid, Repository, Signature};
use jiff::Timestamp;

use crate::git::change::Change;
use crate::git::error::WriteError;
use crate::git::home::{Home, Published, Tip, Trouble};
use crate::git::message::is_of;
use crate::git::refusal::Refusal;
use crate::git::tree::{Edited, TreeError};
use crate::git::writer::{Identity, Written};
use crate::model::id::{CommitSha, DeployId};

/// How often a change is applied again after others were faster. Each time somebody else got
/// through, so twelve in a row means a repository too busy for us just now.
const TRIES: u32 = 12;
/// How many commits back a deploy id is looked for: it was lost by a crash, not by a year.
const LOOK_BACK: usize = 1_000;

/// The one writer of a repository; whoever has it, has it alone.
pub(super) struct Writer {
    pub(super) home: Home,
    pub(super) identity: Identity,
    pub(super) branch: String,
    /// The address, for messages.
    pub(super) name: String,
}

impl Writer {
    pub(super) fn write(&mut self, change: &Change, at: Timestamp) -> Result<Written, WriteError> {
        self.with_repair(|writer| writer.apply(change, at))
    }

    /// Runs a step; when git fails on our side, makes the clone again and runs it once more.
    pub(super) fn with_repair<T>(
        &mut self,
        mut step: impl FnMut(&mut Self) -> Result<T, Trouble>,
    ) -> Result<T, WriteError> {
        let first = match step(self) {
            Err(Trouble::Damaged(error)) => error,
            other => return other.map_err(|trouble| self.final_error(trouble)),
        };
        tracing::warn!(repository = %self.name, cause = first.message(), "git failed; the clone is made again");
        let second = self.home.repair().and_then(|()| step(self));
        second.map_err(|trouble| self.final_error(trouble))
    }

    fn final_error(&self, trouble: Trouble) -> WriteError {
        let repository = self.name.clone();
        match trouble {
            Trouble::Error(error) => error,
            Trouble::Damaged(error) => {
                let cause = error.message().to_owned();
                match error.class() {
                    git2::ErrorClass::Net => {
                        WriteError::Unreachable { repository, cause, wait: None }
                    }
                    git2::ErrorClass::Os => WriteError::Disk {
                        repository,
                        folder: self.home.folder().display().to_string(),
                        cause,
                    },
                    _ => WriteError::Corrupt { repository, cause },
                }
            }
        }
    }

    fn apply(&mut self, change: &Change, at: Timestamp) -> Result<Written, Trouble> {
        let mut tip = self.home.first_tip()?;
        let mut lost = 0;
        loop {
            lost += 1;
            let tree = match (self.edit(tip.at, change)?, tip.at) {
                (Edited::Changed(tree), _) => tree,
                // Only a tip seen now may say that there is nothing to do.
                _ if !tip.fresh => {
                    tip = Tip { at: self.home.look()?, fresh: true };
                    continue;
                }
                (Edited::Unchanged, Some(tip)) => {
                    return Ok(Written::Unchanged { commit: sha(tip) });
                }
                (Edited::AlreadyThere, Some(tip)) => return Ok(self.already(tip, change)),
                (Edited::Unchanged | Edited::AlreadyThere, None) => {
                    return Err(git2::Error::from_str("an empty repository holds something").into());
                }
            };
            let commit = self.commit(tip.at, tree, change, at)?;
            match self.home.publish(tip.at, commit)? {
                Published::Done => return Ok(Written::Pushed { commit: sha(commit) }),
                Published::Refused(refusal) => return Err(self.refused(refusal).into()),
                Published::Unclear(error) => {
                    return self.clear_up(error, change, commit);
                }
                Published::Lost if lost == TRIES => return Err(self.lost_races().into()),
                Published::Locked(error) if lost == TRIES => return Err(error.into()),
                Published::Lost | Published::Locked(_) => {}
            }
            give_way(lost);
            tip = Tip { at: self.home.look()?, fresh: true };
        }
    }

    fn edit(&self, tip: Option<Oid>, change: &Change) -> Result<Edited, Trouble> {
        let repo = self.home.repo();
        let root =
            tip.map(|tip| repo.find_commit(tip).and_then(|commit| commit.tree())).transpose()?;
        let repository = || self.name.clone();
        change.edit(repo, root.as_ref()).map_err(|error| match error {
            TreeError::Git(error) => Trouble::Damaged(error),
            TreeError::Blocked(path) => {
                WriteError::Blocked { repository: repository(), path }.into()
            }
            TreeError::Moved(path) => WriteError::Moved { repository: repository(), path }.into(),
        })
    }

    fn commit(
        &self,
        tip: Option<Oid>,
        tree: Oid,
        change: &Change,
        at: Timestamp,
    ) -> Result<Oid, Trouble> {
        let repo = self.home.repo();
        let who = signature(&self.identity, at)?;
        let message = change.message();
        let parent = tip.map(|tip| repo.find_commit(tip)).transpose()?;
        let parents: Vec<_> = parent.iter().collect();
        Ok(repo.commit(None, &who, &who, &message, &repo.find_tree(tree)?, &parents)?)
    }

    /// The connection was cut after the pack was sent. If the branch has our change now, the
    /// push got through; if not, it did not, or comes late: then the next try finds it.
    fn clear_up(
        &mut self,
        error: WriteError,
        change: &Change,
        commit: Oid,
    ) -> Result<Written, Trouble> {
        let Ok(Some(tip)) = self.home.look() else { return Err(error.into()) };
        match change.id().and_then(|id| find(self.home.repo(), tip, id)) {
            Some(found) => Ok(Written::Pushed { commit: sha(found) }),
            None if tip == commit => Ok(Written::Pushed { commit: sha(commit) }),
            None => Err(error.into()),
        }
    }

    /// A revision that is there is its deployment's, wherever its commit is. That nothing is left to
    /// remove can be anybody's doing.
    fn already(&self, tip: Oid, change: &Change) -> Written {
        let found = change.id().and_then(|id| find(self.home.repo(), tip, id));
        match (found, change) {
            (Some(commit), _) => Written::AlreadyPushed { commit: sha(commit) },
            (None, Change::Deploy(_)) => Written::AlreadyPushed { commit: sha(tip) },
            (None, Change::Amend(_)) => Written::Unchanged { commit: sha(tip) },
        }
    }

    fn refused(&self, refusal: Refusal) -> WriteError {
        WriteError::Refused { repository: self.name.clone(), branch: self.branch.clone(), refusal }
    }

    fn lost_races(&self) -> WriteError {
        let (repository, branch) = (self.name.clone(), self.branch.clone());
        WriteError::LostRaces { repository, branch, tries: TRIES }
    }
}

/// The commit of a change on the way back from `tip`; a shallow clone ends somewhere.
pub(super) fn find(repo: &Repository, tip: Oid, id: &DeployId) -> Option<Oid> {
    let mut commit = repo.find_commit(tip).ok()?;
    for _ in 0..LOOK_BACK {
        if is_of(&String::from_utf8_lossy(commit.message_bytes()), id) {
            return Some(commit.id());
        }
        commit = commit.parent(0).ok()?;
    }
    None
}

/// After a lost race: none at first, then longer, so that many writers do not meet for ever.
fn give_way(lost: u32) {
    let millis = u64::from(lost.saturating_sub(1)).pow(2) * 5;
    std::thread::sleep(Duration::from_millis(millis));
}

pub(super) fn signature(
    identity: &Identity,
    at: Timestamp,
) -> Result<Signature<'static>, WriteError> {
    let Identity { name, email } = identity;
    Signature::new(name, email, &git2::Time::new(at.as_second(), 0)).map_err(|_| {
        WriteError::Invalid(format!("{name:?} <{email:?}> cannot be the author of a commit"))
    })
}

fn sha(id: Oid) -> CommitSha {
    CommitSha::parse(id.to_string()).expect("git prints an object id as hexadecimal digits")
}
