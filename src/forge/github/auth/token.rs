//! A token of an installation: an hour, at most one repository, one purpose. Pure.

use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::forge::github::auth::permission::{Granted, Permission, Purpose};
use crate::forge::github::client::wire::{Account, Pass};

/// A request takes less; the rest is for clocks that disagree.
const FOR_A_CALL: SignedDuration = SignedDuration::from_mins(5);
/// A first clone of a large repository takes ten.
const FOR_GIT: SignedDuration = SignedDuration::from_mins(15);
/// When no other can be had, until its very end.
const AT_LEAST: SignedDuration = SignedDuration::from_secs(30);

/// What a token is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) whose: Whose,
    pub(super) purpose: Purpose,
}

/// Where a token is good.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whose {
    /// One repository, its name in small letters.
    Repository(String),
    /// All repositories of an installation.
    Installation(u64),
}

/// A token that was made.
#[derive(Debug, Clone)]
pub(super) struct Token {
    secret: SecretString,
    granted: Granted,
    installation: u64,
    expires_at: Timestamp,
}

/// What GitHub sends of it.
#[derive(Deserialize)]
pub(super) struct Sent {
    token: SecretString,
    expires_at: Timestamp,
    #[serde(default)]
    permissions: Option<Granted>,
}

/// What GitHub is asked for.
#[derive(Debug, Serialize)]
pub(super) struct Wanted {
    #[serde(skip_serializing_if = "Option::is_none")]
    repositories: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repository_ids: Option<Vec<u64>>,
    permissions: Granted,
}

/// Which repositories a token is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Only<'a> {
    Name(&'a str),
    Number(u64),
    All,
}

impl Wanted {
    pub(super) fn new(only: Only<'_>, permissions: Granted) -> Self {
        let (repositories, repository_ids) = match only {
            Only::Name(name) => (Some(vec![name.to_owned()]), None),
            Only::Number(number) => (None, Some(vec![number])),
            Only::All => (None, None),
        };
        Self { repositories, repository_ids, permissions }
    }
}

impl Token {
    pub(super) fn of(sent: Sent, wanted: Wanted, installation: u64) -> Self {
        let Sent { token, expires_at, permissions } = sent;
        let granted = permissions.unwrap_or(wanted.permissions);
        Self { secret: token, granted, installation, expires_at }
    }

    /// Whether it allows what is needed for as long as that takes.
    pub(super) fn is_good(&self, purpose: Purpose, needs: Permission, now: Timestamp) -> bool {
        let margin = match purpose {
            Purpose::Deploy | Purpose::Look => FOR_A_CALL,
            Purpose::Fetch | Purpose::Push => FOR_GIT,
        };
        self.lasts(margin, now) && needs.is_in(&self.granted)
    }

    /// Whether it does in need.
    pub(super) fn is_better_than_none(&self, needs: Permission, now: Timestamp) -> bool {
        self.lasts(AT_LEAST, now) && needs.is_in(&self.granted)
    }

    pub(super) fn is(&self, secret: &SecretString) -> bool {
        super::same(&self.secret, secret)
    }

    pub(super) fn pass(self) -> Pass {
        let account = Some(Account::Installation(self.installation));
        Pass { token: self.secret, account }
    }

    fn lasts(&self, time: SignedDuration, now: Timestamp) -> bool {
        self.expires_at.duration_since(now) > time
    }
}
