//! An installation of our App, as GitHub tells of it. Pure.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use crate::forge::error::ForgeError;
use crate::forge::github::auth::permission::{Granted, Permission};
use crate::forge::github::client::answer::{missing, suspended};

/// A permission that is granted, or an installation that is suspended, is seen after that.
const FRESH: SignedDuration = SignedDuration::from_mins(5);

/// What GitHub sends of an installation.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::forge::github) struct Sent {
    pub(in crate::forge::github) id: u64,
    #[serde(default)]
    permissions: Granted,
    #[serde(default)]
    suspended_at: Option<String>,
    #[serde(default)]
    html_url: Option<String>,
}

/// An installation that was found.
#[derive(Debug, Clone)]
pub(super) struct Installation {
    pub(super) id: u64,
    pub(super) granted: Granted,
    suspended: bool,
    /// Where people change it.
    pub(super) page: Option<String>,
    /// The repository's number, if its name is an old one.
    pub(super) repository: Option<u64>,
    found_at: Timestamp,
}

impl Sent {
    pub(in crate::forge::github) fn is_suspended(&self) -> bool {
        self.suspended_at.is_some()
    }
}

impl Installation {
    /// `route` is where the answer came from in the end: `/repositories/7/installation` where a
    /// repository has another name now.
    pub(super) fn of(sent: Sent, route: &str, now: Timestamp) -> Self {
        let suspended = sent.is_suspended();
        let Sent { id, permissions, suspended_at: _, html_url } = sent;
        let number = route.strip_prefix("/repositories/").and_then(|rest| rest.split('/').next());
        let repository = number.and_then(|number| number.parse().ok());
        Self { id, granted: permissions, suspended, page: html_url, repository, found_at: now }
    }

    /// Whether it needs no second look. What is in the way is looked at each time, so that it is
    /// seen at once when somebody has put it right.
    pub(super) fn is_good(&self, needs: Permission, now: Timestamp) -> bool {
        let age = now.duration_since(self.found_at);
        !self.suspended && needs.is_in(&self.granted) && age < FRESH
    }

    /// # Errors
    /// Why nothing can be done with it.
    pub(super) fn check(&self, about: &str, needs: Permission) -> Result<(), ForgeError> {
        let page = self.page.as_deref();
        if self.suspended {
            Err(suspended(about.to_owned(), page))
        } else if !needs.is_in(&self.granted) {
            Err(missing(about.to_owned(), needs, page))
        } else {
            Ok(())
        }
    }
}
