//! An installation of the service's App, and its tokens, in GitHub's form. Pure.

use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::forge::error::ForgeError;
use crate::forge::github::answer::{missing_permission, suspension};
use crate::forge::github::permission::{GrantedPermissions, Permission, TokenPurpose};
use crate::forge::github::request::{Account, RequestCredential};

/// A permission that is granted, or an installation that is suspended, is seen after that.
const FRESH: SignedDuration = SignedDuration::from_mins(5);
/// A request takes less; the rest is for clocks that disagree.
const FOR_A_CALL: SignedDuration = SignedDuration::from_mins(5);
/// A first clone of a large repository takes ten.
const FOR_GIT: SignedDuration = SignedDuration::from_mins(15);
/// The shortest rest of a token's life, when no other can be had.
const AT_LEAST: SignedDuration = SignedDuration::from_secs(30);

/// An installation as GitHub sends it.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::forge::github) struct Installation {
    pub(in crate::forge::github) id: u64,
    #[serde(default)]
    pub(super) permissions: GrantedPermissions,
    #[serde(default)]
    suspended_at: Option<String>,
    /// The page where people change it.
    #[serde(default)]
    pub(super) html_url: Option<String>,
}

/// The installation that has a repository.
#[derive(Debug, Clone)]
pub(super) struct Installed {
    pub(super) installation: Installation,
    /// The repository's number, if its name is an old one.
    pub(super) repository: Option<u64>,
    found_at: Timestamp,
}

impl Installation {
    pub(in crate::forge::github) fn is_suspended(&self) -> bool {
        self.suspended_at.is_some()
    }
}

impl Installed {
    /// Builds it from an answer; `route` is the last route of its redirects: `/repositories/7/installation` where a
    /// repository has another name now.
    pub(super) fn new(installation: Installation, route: &str, found_at: Timestamp) -> Self {
        let number = route.strip_prefix("/repositories/").and_then(|rest| rest.split('/').next());
        let repository = number.and_then(|number| number.parse().ok());
        Self { installation, repository, found_at }
    }

    /// Returns true if the installation needs no second lookup. An obstacle is checked each time, so that the service
    /// sees at once when a person has removed it.
    pub(super) fn is_good(&self, permission: Permission, now: Timestamp) -> bool {
        let Installation { permissions, suspended_at, .. } = &self.installation;
        let age = now.duration_since(self.found_at);
        suspended_at.is_none() && permission.is_in(permissions) && age < FRESH
    }

    /// Checks that the installation can be used.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub(super) fn check(&self, subject: &str, permission: Permission) -> Result<(), ForgeError> {
        let Installation { permissions, html_url: page, .. } = &self.installation;
        if self.installation.is_suspended() {
            Err(suspension(subject.to_owned(), page.as_deref()))
        } else if !permission.is_in(permissions) {
            Err(missing_permission(subject.to_owned(), permission, page.as_deref()))
        } else {
            Ok(())
        }
    }
}

/// The purpose and scope of a token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TokenKey {
    pub(super) whose: TokenScope,
    pub(super) purpose: TokenPurpose,
}

/// The scope of a token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TokenScope {
    /// One repository, its name in small letters.
    Repository(String),
    /// All repositories of an installation.
    Installation(u64),
}

/// The request for a token: for an hour, and for at most one repository, unless for all of the installation.
#[derive(Debug, Default, Serialize)]
pub(super) struct TokenRequest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) repositories: Option<[&'a str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) repository_ids: Option<[u64; 1]>,
    pub(super) permissions: GrantedPermissions,
}

/// A token of an installation, as GitHub sends it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct InstallationToken {
    token: SecretString,
    expires_at: Timestamp,
    /// The permissions of the token; the requested ones, where GitHub does not say.
    #[serde(default)]
    pub(super) permissions: Option<GrantedPermissions>,
    /// The installation's number.
    #[serde(skip)]
    pub(super) installation: u64,
}

impl InstallationToken {
    /// Returns true if the token has the permissions for as long as the request takes.
    pub(super) fn is_good(
        &self,
        purpose: TokenPurpose,
        permission: Permission,
        now: Timestamp,
    ) -> bool {
        let margin = match purpose {
            TokenPurpose::Deploy | TokenPurpose::Look => FOR_A_CALL,
            TokenPurpose::Fetch | TokenPurpose::Push => FOR_GIT,
        };
        self.allows(permission) && self.lasts(margin, now)
    }

    /// Returns whether the token will do if there is no better one.
    pub(super) fn is_better_than_none(&self, permission: Permission, now: Timestamp) -> bool {
        self.allows(permission) && self.lasts(AT_LEAST, now)
    }

    pub(super) fn is(&self, secret: &SecretString) -> bool {
        self.token.expose_secret() == secret.expose_secret()
    }

    pub(super) fn pass(self) -> RequestCredential {
        RequestCredential {
            token: self.token,
            account: Some(Account::Installation(self.installation)),
        }
    }

    fn allows(&self, permission: Permission) -> bool {
        self.permissions.as_ref().is_some_and(|granted| permission.is_in(granted))
    }

    fn lasts(&self, time: SignedDuration, now: Timestamp) -> bool {
        self.expires_at.duration_since(now) > time
    }
}
