//! Code hosts: GitHub, and bare repositories in a folder. Service repositories are there, events come from there, and
//! statuses go there.
//!
//! ```text
//! github::webhook (pure)  event ─▶ DeploymentRequest
//! github::client          the methods of Forge: reads, statuses, check runs, people
//! local                   the methods that the local code host has, too
//! ```
//!
//! In reading order: [`error::ForgeError`] is the error of every call, [`check`], [`delivery`] and `status` are the
//! data that a code host gets or gives, and [`github`] has the client and the webhook. `branches` sorts the globs of a
//! branch policy.
//!
//! Nothing here knows WAMLs, databases or retries: a [`ForgeError`](error::ForgeError) says what may help, and the
//! caller decides about a retry.

mod branches; // branches by globs
pub mod check; // a check run, as data
pub mod delivery; // failed deliveries, and the requests left
pub mod error; // the errors, with a way out
pub mod github; // GitHub and GitHub Enterprise Server
pub mod local; // bare repositories in a folder
mod status; // statuses of deployments and commits, as data

use crate::forge::github::client::GitHubClient;
use crate::forge::local::LocalForge;

pub use crate::forge::status::{
    APP_TASK, CommitState, CommitStatus, DeploymentStatus, ListedStatus, NewDeployment,
    ROLLBACK_TASK, ROLLOUT_TASK, is_own_task,
};

/// A code host. Every answer is bounded. Errors are [`ForgeError`](error::ForgeError)s: what is missing, and by their
/// disposition whether to ask again.
#[derive(Debug, Clone)]
pub enum Forge {
    /// Bare repositories in a folder.
    Local(LocalForge),
    /// GitHub, or a GitHub Enterprise Server.
    GitHub(Box<GitHubClient>),
}
