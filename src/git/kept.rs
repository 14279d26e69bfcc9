//! A manifest repository on a server, and the bare clone of it that is kept on our disk.
//!
//! The clone is a cache: the server has the truth. One that is damaged, or of another repository,
//! is made again; one in which too much has piled up is replaced by a new one, which is made beside
//! it while the old one is in use.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use git2::{Oid, Repository};

use crate::git::clone::{self, MARKER, TRACKING};
use crate::git::error::{Trouble, WriteError};
use crate::git::fence::Fence;
use crate::git::fetch::{self, Found, HEADS};
use crate::git::outcome::Published;
use crate::git::pack::Load;
use crate::git::push::{self, Push, PushBy, Update};
use crate::git::remote::Remote;

/// After a clone could not be made anew, so many writes go by before the next attempt.
const REST: u32 = 100;

/// The kept clone.
pub(super) struct Kept {
    folder: PathBuf,
    reference: String,
    remote: Remote,
    by: PushBy,
    push: Box<dyn Push>,
    pub(super) repo: Repository,
    /// The server's branch as last seen.
    pub(super) tip: Seen,
    next: Next,
}

/// What is known of the server's branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing: the server was not asked yet.
    NotYet,
    /// It was there; `None` when there was no such branch.
    At(Option<Oid>),
}

/// The clone that takes this one's place when too much has piled up in it.
enum Next {
    /// There is none, and for so many writes nobody asks whether one is needed.
    None(u32),
    /// It is being made, beside this one.
    Making(JoinHandle<bool>),
}

impl Kept {
    /// Opens the clone in `folder`, or begins one there. Asks the server nothing yet.
    pub(super) fn open(
        folder: &Path,
        reference: &str,
        remote: Remote,
        by: PushBy,
    ) -> Result<Self, Trouble> {
        clone::recover(folder);
        let marker = marker(&remote, reference);
        let usable = fs::read_to_string(folder.join(MARKER)).is_ok_and(|found| found == marker);
        let opened = if usable { clone::usable(folder) } else { None };
        let (repo, tip) = match opened {
            Some((repo, Some(tip))) => (repo, Seen::At(Some(tip))),
            Some((repo, None)) => (repo, Seen::NotYet),
            None => (
                clone::begin(folder, &marker).map_err(|e| disk(&remote, folder, &e))?,
                Seen::NotYet,
            ),
        };
        let (folder, reference) = (folder.to_owned(), reference.to_owned());
        let push = push::of(by, remote.clone());
        Ok(Self { folder, reference, remote, by, push, repo, tip, next: Next::None(0) })
    }

    /// Throws the clone away and begins another.
    pub(super) fn renew(&mut self) -> Result<(), Trouble> {
        let begun = clone::begin(&self.folder, &marker(&self.remote, &self.reference));
        self.repo = begun.map_err(|error| disk(&self.remote, &self.folder, &error))?;
        self.tip = Seen::NotYet;
        Ok(())
    }

    /// Asks the server where the branch is, and gets the objects that are new to us.
    pub(super) fn look(&mut self) -> Result<Option<Oid>, Trouble> {
        let found = fetch::newest(&self.remote, &self.repo, &self.reference);
        let tip = match found.map_err(|error| error.trouble(&self.remote))? {
            Found::At(tip) => {
                self.remember(tip)?;
                Some(tip)
            }
            Found::Empty if self.had_a_branch() => {
                self.tip = Seen::NotYet;
                return Err(self.emptied().into());
            }
            Found::Empty => None,
            Found::Others(others) => {
                self.tip = Seen::NotYet;
                return Err(self.no_branch(&others).into());
            }
        };
        self.tip = Seen::At(tip);
        Ok(tip)
    }

    /// Pushes, if the server's branch is at `base`; then the clone has what the server has.
    pub(super) fn publish(
        &mut self,
        base: Option<Oid>,
        tip: Oid,
        load: &Load,
        fence: &Fence,
    ) -> Result<Published, Trouble> {
        let update = Update { base, tip, reference: &self.reference, load, fence };
        let published = self.push.push(&self.repo, &update)?;
        match published {
            Published::Done => {
                load.save_to(&self.repo)?;
                self.remember(tip)?;
                self.tip = Seen::At(Some(tip));
            }
            Published::Lost => self.tip = Seen::NotYet,
            Published::Late
            | Published::Locked(_)
            | Published::Refused(_)
            | Published::Unclear(_) => {}
        }
        Ok(published)
    }

    /// Whether there was a branch at this address, as far as this service knows. The clone itself does
    /// not tell: it may have been made anew since.
    fn had_a_branch(&self) -> bool {
        let known = fs::read_to_string(clone::with_suffix(&self.folder, "seen"));
        known.is_ok_and(|known| known == marker(&self.remote, &self.reference))
    }

    fn emptied(&self) -> WriteError {
        let note = clone::with_suffix(&self.folder, "seen");
        WriteError::Emptied {
            repository: self.remote.to_string(),
            branch: self.branch().to_owned(),
            anew: format!("remove {} where the-deployer runs", note.display()),
        }
    }

    fn branch(&self) -> &str {
        self.reference.strip_prefix(HEADS).unwrap_or(&self.reference)
    }

    /// A branch with one app in it, begun beside the one that was renamed, would be all that Argo CD
    /// sees: it would take every other app away.
    fn no_branch(&self, others: &[String]) -> WriteError {
        WriteError::NoBranch {
            repository: self.remote.to_string(),
            branch: self.branch().to_owned(),
            others: others.join(", "),
        }
    }

    fn remember(&self, tip: Oid) -> Result<(), Trouble> {
        self.repo.reference(TRACKING, tip, true, "seen")?;
        if !self.had_a_branch() {
            let note = clone::with_suffix(&self.folder, "seen");
            let noted = fs::write(note, marker(&self.remote, &self.reference));
            noted.map_err(|error| disk(&self.remote, &self.folder, &error))?;
        }
        Ok(())
    }

    /// Replaces a clone in which too much has piled up. The new one is made on a thread of its own;
    /// a failure leaves the old one in use.
    pub(super) fn keep_house(&mut self) {
        self.next = match std::mem::replace(&mut self.next, Next::None(0)) {
            Next::None(0) if clone::is_full(&self.folder) => Next::Making(self.make_next()),
            Next::None(rest) => Next::None(rest.saturating_sub(1)),
            Next::Making(making) if !making.is_finished() => Next::Making(making),
            Next::Making(making) => {
                if making.join().unwrap_or(false) && self.swap() {
                    Next::None(0)
                } else {
                    tracing::warn!(clone = %self.folder.display(), "the manifest clone is full and could not be made anew");
                    Next::None(REST)
                }
            }
        };
    }

    fn make_next(&self) -> JoinHandle<bool> {
        let beside = clone::with_suffix(&self.folder, "next");
        let (reference, remote, by) = (self.reference.clone(), self.remote.clone(), self.by);
        std::thread::spawn(move || {
            let next = Self::open(&beside, &reference, remote, by);
            next.and_then(|mut next| next.look()).is_ok()
        })
    }

    /// Takes the new clone, which first gets what was pushed since it was made: readers go by what
    /// the clone says of the branch, and it must not fall back.
    fn swap(&mut self) -> bool {
        let beside = clone::with_suffix(&self.folder, "next");
        let open =
            |folder: &Path| Self::open(folder, &self.reference, self.remote.clone(), self.by);
        if open(&beside).and_then(|mut next| next.look()).is_err()
            || clone::replace(&self.folder, &beside).is_err()
        {
            return false;
        }
        match open(&self.folder) {
            Ok(opened) => {
                *self = opened;
                true
            }
            Err(_) => false,
        }
    }
}

fn marker(remote: &Remote, reference: &str) -> String {
    format!("{remote} {reference}\n")
}

fn disk(remote: &Remote, folder: &Path, error: &std::io::Error) -> WriteError {
    WriteError::Disk {
        repository: remote.to_string(),
        folder: folder.display().to_string(),
        cause: error.to_string(),
    }
}
