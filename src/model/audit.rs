//! The audit log: each act of a person or program with its reason and origin. Entries are added and never changed.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::model::event::Recipient;
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::words::words;

/// The person or program that acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The name: a GitHub login, a token's name, or the name that an operator gave.
    pub name: String,
    /// The way in which the service knows the principal.
    pub via: AuthMethod,
    /// The address that the request came from; `None` where there was none.
    pub from: Option<String>,
    /// The id of the request, which the log carries too.
    pub request: Option<String>,
}

impl Principal {
    /// Returns the receiver of messages about the principal's deployments: only GitHub's names are logins.
    pub fn recipient(&self) -> Recipient {
        match self.via {
            AuthMethod::GitHub | AuthMethod::Slack => Recipient::Actor,
            AuthMethod::Token
            | AuthMethod::Loopback
            | AuthMethod::Operator
            | AuthMethod::Service => Recipient::Nobody,
        }
    }

    /// Returns the service itself, which acts by a policy of its configuration.
    pub fn service() -> Self {
        Self { name: SERVICE.to_owned(), via: AuthMethod::Service, from: None, request: None }
    }
}

/// The name of the service where it acts by itself.
const SERVICE: &str = "the-deployer";

words! {
    /// The way in which the service knows who acts.
    pub enum AuthMethod {
        /// A token of the configuration.
        Token = "token",
        /// A GitHub token, whose owner GitHub named.
        GitHub = "github",
        /// A user of Slack, to whom the configuration gives that GitHub login.
        Slack = "slack",
        /// No authentication is configured, and only this machine can call.
        Loopback = "loopback",
        /// An operator who can open the database gave this name.
        Operator = "operator",
        /// The service itself acted, by a policy of its configuration.
        Service = "service",
    }
}

/// The filter for entries; an absent part does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Search {
    /// Entries by a principal of that name.
    pub by: Option<String>,
    /// Entries of that kind of act.
    pub act: Option<String>,
    /// Entries about that target.
    pub target: Option<TargetName>,
    /// Entries about that app.
    pub app: Option<AppKey>,
    /// Entries of that time or later.
    pub since: Option<Timestamp>,
    /// Before that time.
    pub until: Option<Timestamp>,
    /// Older than that entry.
    pub before: Option<DeployId>,
    /// The largest number of entries; at least 1.
    pub limit: u32,
}

/// Entries, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditRecords {
    /// The entries.
    pub entries: Vec<AuditRecord>,
    /// The `before` of those that follow, if there are any.
    pub next: Option<DeployId>,
}

/// One act in the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// Names it, and orders entries by time; has a deploy id's form.
    pub id: DeployId,
    /// The time of the act.
    pub at: Timestamp,
    /// The principal that acted.
    pub by: Principal,
    /// The kind of act: `rollback`, `lock`, `remove`; a word that only a newer version knows is kept, too.
    pub act: Cow<'static, str>,
    /// The target of the act, if it has one.
    pub target: Option<TargetName>,
    /// The app of the act, if it has one.
    pub app: Option<AppKey>,
    /// The other things that it was about, for people: a lock's id and scope, a deployment's id.
    pub subject: String,
    /// The reason that the principal gave.
    pub reason: String,
    /// The outcome, in one sentence.
    pub outcome: String,
}
