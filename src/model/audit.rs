//! The audit log: who did what, why, and from where. Entries are added and never changed.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::model::event::Recipient;
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::words::words;

/// Who acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Their name: a GitHub login, a token's name, or what they call themselves.
    pub name: String,
    /// How we know.
    pub via: AuthMethod,
    /// Where the request came from, an address; `None` where there was none.
    pub from: Option<String>,
    /// The id of the request, which the log carries too.
    pub request: Option<String>,
}

impl Principal {
    /// Finds whom messages about what they ask for are for: only GitHub's names are logins.
    pub fn recipient(&self) -> Recipient {
        match self.via {
            AuthMethod::GitHub => Recipient::Actor,
            AuthMethod::Token | AuthMethod::Loopback | AuthMethod::Operator => Recipient::Nobody,
        }
    }
}

words! {
    /// How we know who acts.
    pub enum AuthMethod {
        /// A token of the configuration.
        Token = "token",
        /// A GitHub token, whose owner GitHub named.
        GitHub = "github",
        /// Not at all: no authentication is configured, and only this machine can call.
        Loopback = "loopback",
        /// Somebody who can open the database named themselves.
        Operator = "operator",
    }
}

/// Which entries to show; what is absent does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Search {
    /// By somebody of that name.
    pub by: Option<String>,
    /// Of that kind.
    pub act: Option<String>,
    /// On that target.
    pub target: Option<TargetName>,
    /// On that app.
    pub app: Option<AppKey>,
    /// At that time or later.
    pub since: Option<Timestamp>,
    /// Before that time.
    pub until: Option<Timestamp>,
    /// Older than that entry.
    pub before: Option<DeployId>,
    /// At most so many; at least 1.
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

/// One act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// Names it, and orders entries by time; has a deploy id's form.
    pub id: DeployId,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: Principal,
    /// What: `rollback`, `lock`, `remove`; a word that only a newer version knows is kept, too.
    pub act: Cow<'static, str>,
    /// On which target, if on one.
    pub target: Option<TargetName>,
    /// On which app, if on one.
    pub app: Option<AppKey>,
    /// What else it was about, for people: a lock's id and scope, a deployment's id.
    pub subject: String,
    /// Why.
    pub reason: String,
    /// What became of it, one sentence.
    pub outcome: String,
}
