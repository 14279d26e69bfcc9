//! The answer to a worker that wants to push.

use crate::model::id::DeployId;
use crate::model::lock::Lock;
use crate::model::rollback::Hold;
use crate::store::claims::ClaimConflict;

/// The answer to a request for the turn to push.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "nothing may be pushed without the turn"]
pub enum PushTurn {
    /// The push may begin, and from now on no deployment supersedes this one.
    Yes,
    /// A newer deployment of the lane has arrived; this one has ended.
    Superseded {
        /// The newer one.
        by: DeployId,
    },
    /// A person has locked it since it was planned or requested. It still runs: the worker decides
    /// what follows.
    Locked(Box<Lock>),
    /// A person has held it since the rules ran.
    HeldBack(Box<Hold>),
    /// The app, its namespace, a route or an object belongs to another since the rules ran. It
    /// still runs; nothing proves that it is of the app.
    Claimed(Box<ClaimConflict>),
    /// Another deployment, or a removal, is at work on one of its clusters: the turn comes once that has ended.
    Busy {
        /// The other one.
        with: DeployId,
    },
    /// Another worker took over, or the deployment has ended. Nothing was changed.
    Lost,
}
