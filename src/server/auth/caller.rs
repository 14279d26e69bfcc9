//! Who calls, and what they may do to what.

use crate::model::audit::{By, Via};
use crate::model::id::{AppKey, RepoName, TargetName};
use crate::server::Shared;
use crate::server::ports::Backend;
use crate::server::problem::Problem;

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) struct Caller {
    /// A GitHub login, or the name of a token's owner.
    pub(in crate::server) name: String,
    /// How we know.
    pub(in crate::server) via: Via,
    /// Where the request came from, and its id.
    pub(in crate::server) from: Option<String>,
    pub(in crate::server) request: Option<String>,
}

/// What somebody wants to do; each holds those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::server) enum Scope {
    /// See it.
    Read,
    /// Deploy it, roll it back, lock it.
    Deploy,
    /// What concerns many apps: locks on targets, the audit log.
    Admin,
}

/// What it is to be done to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) enum Subject {
    /// Everything that there is.
    Everywhere,
    /// Everything on a target.
    Target(TargetName),
    /// An app on a target.
    App(TargetName, AppKey),
    /// What is deployed of a repository, to a target where one is named.
    Repository(RepoName, Option<TargetName>),
}

impl Caller {
    /// A caller of that name.
    pub(super) fn new(name: impl Into<String>, via: Via) -> Self {
        Self { name: name.into(), via, from: None, request: None }
    }

    /// As whom they act.
    pub(in crate::server) fn by(&self) -> By {
        let Self { name, via, from, request } = self.clone();
        By { name, via, from, request }
    }
}

impl<B: Backend> Shared<B> {
    /// Whether the caller may do that. Asked first by every handler.
    #[expect(clippy::unused_async, reason = "a code host may have to be asked")]
    pub(in crate::server) async fn may(
        &self,
        caller: &Caller,
        scope: Scope,
        subject: &Subject,
    ) -> Result<(), Problem> {
        // Whoever has a token may do everything.
        tracing::debug!(caller = caller.name, ?scope, ?subject, "allowed");
        Ok(())
    }
}
