//! libgit2's own push: the fallback for a server that the service's own client does not work with.
//!
//! It needs the objects on disk first, requests the server's branches, and walks the trees of the commits to find the
//! new objects.

use std::cell::{Cell, RefCell};

use git2::{ErrorCode, Oid, PushOptions, RemoteCallbacks, Repository};

use crate::git::error::{StepError, WriteError};
use crate::git::transport::failure::{self, Failure};
use crate::git::transport::push::pkt::PRINTED_LIMIT;
use crate::git::transport::push::report::RefStatus;
use crate::git::transport::push::update::{Push, Update, classify_refusal};
use crate::git::transport::remote::Remote;
use crate::git::transport::{self, WireError};
use crate::git::writer::outcome::BranchMove;

/// Pushes to one repository.
pub(super) struct Libgit2 {
    remote: Remote,
}

impl Libgit2 {
    pub(super) fn new(remote: Remote) -> Self {
        Self { remote }
    }

    fn send(
        &self,
        repo: &Repository,
        update: &Update<'_>,
        report: &Report,
    ) -> Result<(), WireError> {
        let Update { base, tip, reference, load: _, fence } = update;
        transport::over(&self.remote, fence, |address| {
            let mut options = PushOptions::new();
            options.remote_callbacks(report.callbacks(base.unwrap_or(Oid::ZERO_SHA1)));
            let mut remote = repo.remote_anonymous(address)?;
            remote.push(&[format!("{tip}:{reference}")], Some(&mut options))
        })
    }

    fn failed(&self, error: WireError) -> Result<BranchMove, StepError> {
        if error.failure == Some(Failure::Server { status: 413 }) {
            return Ok(classify_refusal("the server takes no push that large (HTTP 413)", &[]));
        }
        let definite = error.failure.as_ref().is_some_and(Failure::is_definite);
        let unclear = error.pack_sent && !definite;
        match (unclear, error.into_step_error(&self.remote)) {
            (true, StepError::Error(error)) => Ok(BranchMove::Unclear(error)),
            (true, StepError::Damaged(error)) => {
                Ok(BranchMove::Unclear(WriteError::unreachable(&self.remote, error.message())))
            }
            (false, trouble) => Err(trouble),
        }
    }
}

impl Push for Libgit2 {
    fn push(&mut self, repo: &Repository, update: &Update<'_>) -> Result<BranchMove, StepError> {
        update.load.save_to(repo)?;
        let report = Report::default();
        let result = self.send(repo, update, &report);
        match (result, report.word.into_inner()) {
            (Ok(()), RefStatus::Done) => Ok(BranchMove::Done),
            // Of a pack that the server did not read libgit2 says that the push failed. The server's
            // word on the branch is there nevertheless.
            (Ok(()) | Err(WireError { failure: None, .. }), RefStatus::Not(status)) => {
                Ok(classify_refusal(&status, &report.printed.into_inner()))
            }
            (Err(_), _) if report.moved.get() => Ok(BranchMove::Lost),
            (Err(error), _) if error.git.code() == ErrorCode::NotFastForward => {
                Ok(BranchMove::Lost)
            }
            (Err(error), _) => self.failed(error),
            // No word about the branch: the server said something, but not the outcome of the branch.
            (Ok(()), RefStatus::None | RefStatus::NotUnpacked(_)) => {
                let printed = report.printed.into_inner();
                let words = String::from_utf8_lossy(&printed);
                Ok(BranchMove::Unclear(WriteError::unreachable(
                    &self.remote,
                    failure::unreported(&words),
                )))
            }
        }
    }
}

/// The server's messages during a push; libgit2's callbacks write them.
#[derive(Default)]
struct Report {
    /// True if the branch had moved, and nothing was sent.
    moved: Cell<bool>,
    word: RefCell<RefStatus>,
    printed: RefCell<Vec<u8>>,
}

impl Report {
    fn callbacks(&self, base: Oid) -> RemoteCallbacks<'_> {
        let mut callbacks = RemoteCallbacks::new();
        // Stricter than a fast-forward: a branch that a person moved back or deleted on purpose
        // would otherwise be moved forward again, with the commits that they removed.
        callbacks.push_negotiation(move |updates| {
            let stays = updates.iter().all(|update| update.src() == base);
            self.moved.set(!stays);
            if stays { Ok(()) } else { Err(git2::Error::from_str("the branch has moved")) }
        });
        callbacks.push_update_reference(|_, status| {
            *self.word.borrow_mut() =
                status.map_or(RefStatus::Done, |why| RefStatus::Not(why.to_owned()));
            Ok(())
        });
        callbacks.sideband_progress(|bytes| {
            let mut printed = self.printed.borrow_mut();
            let room = PRINTED_LIMIT.saturating_sub(printed.len());
            printed.extend(bytes.iter().take(room));
            true
        });
        callbacks
    }
}
