//! Statuses of commits.

use http::Method;
use serde::{Deserialize, Serialize};

use crate::forge::CommitStatus;
use crate::forge::error::ForgeError;
use crate::forge::github::auth::permission::Permission;
use crate::forge::github::client::GitHub;
use crate::forge::github::client::call::{About, Call};
use crate::forge::github::client::pages::{List, Next, Page};
use crate::forge::github::client::statuses::not_empty;
use crate::model::id::{CommitSha, RepoName};
use crate::model::status::ForgeStatus;
use crate::support::text::truncate_chars;

/// A thousand contexts at one commit.
const PAGES: usize = 10;

/// A commit status as GitHub takes it.
#[derive(Serialize)]
struct Body<'a> {
    state: &'static str,
    context: &'a str,
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_url: Option<&'a str>,
}

/// The newest status of each context.
#[derive(Deserialize)]
struct Combined {
    statuses: Vec<Sent>,
}

#[derive(Deserialize)]
struct Sent {
    state: String,
    context: String,
    description: Option<String>,
    target_url: Option<String>,
}

impl GitHub {
    /// Tells GitHub how a commit stands.
    ///
    /// # Errors
    /// [`ForgeError`]; after [`ForgeError::Unreachable`] the status may be there nevertheless.
    pub async fn commit_status(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        status: &CommitStatus,
    ) -> Result<(), ForgeError> {
        let CommitStatus { context, state, description, target_url } = status;
        let body = Body {
            state: state.as_str(),
            context,
            description: truncate_chars(description, ForgeStatus::LONGEST).into_owned(),
            target_url: target_url.as_deref(),
        };
        let route = format!("/repos/{repository}/statuses/{commit}");
        let (about, needs) = (About::Repository(repository), Permission::WRITE_STATUSES);
        self.done(Call::write(about, needs, Method::POST, route, &body).yielding()).await
    }

    /// Whether the newest status of that context at the commit says the same.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn has_commit_status(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        status: &CommitStatus,
    ) -> Result<bool, ForgeError> {
        let route = format!("/repos/{repository}/commits/{commit}/status");
        let list = List::yielding(About::Repository(repository), Permission::READ_STATUSES);
        let look = |page: Vec<Sent>| {
            let newest = page.into_iter().find(|sent| sent.is_of(&status.context));
            newest.map_or(Next::Page, Next::Enough)
        };
        let newest = self.pages::<Combined, Sent>(list, &route, PAGES, look).await?;
        Ok(newest.is_some_and(|newest| newest.says(status)))
    }
}

impl Page for Combined {
    type Item = Sent;
    fn items(self) -> Vec<Sent> {
        self.statuses
    }
}

impl Sent {
    fn is_of(&self, context: &str) -> bool {
        self.context.to_lowercase() == context.to_lowercase()
    }

    fn says(&self, status: &CommitStatus) -> bool {
        self.state == status.state.as_str()
            && self.description.as_deref().unwrap_or_default()
                == truncate_chars(&status.description, ForgeStatus::LONGEST)
            && not_empty(self.target_url.as_deref()) == not_empty(status.target_url.as_deref())
    }
}
