//! CODE HOSTS: where service repositories are, where events come from and statuses go.
//!
//! ```text
//! github::webhook (pure)  event ─▶ DeploymentRequest
//! github::client          what is asked of a code host and told to it: the methods of Forge
//! local                   what of that the local one can answer, too
//! ```
//!
//! Knows nothing of WAMLs, stores or retries: a [`ForgeError`](error::ForgeError) says what may
//! help, and whoever called decides when.

mod branches; // which branches are meant
pub mod check; // a check run, as data
pub mod delivery; // events that did not arrive; how many requests are left
pub mod error; // what can go wrong, and what to do next
pub mod github; // GitHub and GitHub Enterprise Server
pub mod local; // bare repositories in a folder
mod status; // statuses of deployments and commits, as data

use crate::forge::github::client::GitHubClient;
use crate::forge::local::LocalForge;

pub use crate::forge::status::{
    CommitState, CommitStatus, DeploymentStatus, ListedStatus, NewDeployment, ROLLBACK_TASK,
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
