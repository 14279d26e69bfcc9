//! The outcomes of a write, and of a push of the branch. Plain values.

use crate::git::error::WriteError;
use crate::git::transport::push_rejection::PushRefusal;
use crate::model::id::CommitSha;

/// The outcome of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a deployment is recorded with the commit that holds it"]
pub enum PushOutcome {
    /// A commit was made, and the branch is at it.
    Pushed {
        /// The new commit.
        commit: CommitSha,
    },
    /// The branch holds exactly this already; no commit was made.
    Unchanged {
        /// The tip that holds it.
        commit: CommitSha,
    },
    /// A former try of the same change got through; no second commit was made.
    AlreadyPushed {
        /// The commit of that try, or the tip if it is too far back.
        commit: CommitSha,
    },
}

/// The outcome of moving the branch.
#[derive(Debug)]
pub(in crate::git) enum BranchMove {
    /// The branch is at the new commit.
    Done,
    /// Another process moved it first.
    Lost,
    /// A lease had ended; nothing was moved.
    Late,
    /// Another process is moving it now; the error is for when that lasts.
    Locked(WriteError),
    /// The server does not want it.
    Refused(PushRefusal),
    /// The connection ended after the pack was sent: only the branch itself can tell.
    Unclear(WriteError),
}
