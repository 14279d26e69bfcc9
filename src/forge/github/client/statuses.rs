//! Statuses of deployments.

use http::Method;
use serde::{Deserialize, Serialize};

use crate::forge::error::ForgeError;
use crate::forge::github::auth::permission::Permission;
use crate::forge::github::client::GitHub;
use crate::forge::github::client::call::{About, Call};
use crate::forge::github::client::pages::{List, Next};
use crate::forge::{ListedStatus, Status};
use crate::model::id::RepoName;
use crate::model::status::ForgeStatus;
use crate::support::text::truncate_chars;

/// Five hundred statuses: a deployment of ours has some five, and others add to it.
const PAGES: usize = 5;

/// A deployment status as GitHub takes it.
#[derive(Serialize)]
struct Body<'a> {
    state: &'static str,
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment_url: Option<&'a str>,
    /// GitHub would make older ones of the environment inactive, whatever app they are of.
    auto_inactive: bool,
}

/// A deployment status as GitHub sends it: its state is any word.
#[derive(Deserialize)]
struct Sent {
    state: String,
    description: Option<String>,
    log_url: Option<String>,
    creator: Option<Creator>,
}

#[derive(Deserialize)]
struct Creator {
    login: String,
}

impl GitHub {
    /// Tells GitHub what became of a deployment.
    ///
    /// # Errors
    /// [`ForgeError`]; after [`ForgeError::Unreachable`] the status may be there nevertheless.
    pub async fn report(
        &self,
        repository: &RepoName,
        forge_id: i64,
        status: &Status,
    ) -> Result<(), ForgeError> {
        let about = About::Repository(repository);
        let body = Body::of(status);
        let (needs, route) = (Permission::WRITE_DEPLOYMENTS, route(repository, forge_id));
        self.done(Call::write(about, needs, Method::POST, route, &body).yielding()).await
    }

    /// Whether a deployment has that status: the same state, description and page.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn has_status(
        &self,
        repository: &RepoName,
        forge_id: i64,
        status: &Status,
    ) -> Result<bool, ForgeError> {
        let list = List::yielding(About::Repository(repository), Permission::READ_DEPLOYMENTS);
        let route = route(repository, forge_id);
        let look = |page: Vec<Sent>| {
            let found = page.iter().any(|sent| sent.says(status));
            if found { Next::Enough(()) } else { Next::Page }
        };
        let found = self.pages::<Vec<Sent>, ()>(list, &route, PAGES, look).await?;
        Ok(found.is_some())
    }

    /// The statuses of a deployment, newest first; five hundred at most.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn statuses(
        &self,
        repository: &RepoName,
        forge_id: i64,
    ) -> Result<Vec<ListedStatus>, ForgeError> {
        let list = List::yielding(About::Repository(repository), Permission::READ_DEPLOYMENTS);
        let route = route(repository, forge_id);
        let sent = self.all::<Vec<Sent>>(list, &route, PAGES).await?;
        Ok(sent.into_iter().map(ListedStatus::from).collect())
    }
}

fn route(repository: &RepoName, forge_id: i64) -> String {
    format!("/repos/{repository}/deployments/{forge_id}/statuses")
}

impl<'a> Body<'a> {
    fn of(status: &'a Status) -> Self {
        let Status { state, description, log_url, environment_url } = status;
        Self {
            state: state.as_str(),
            description: truncate_chars(description, ForgeStatus::LONGEST).into_owned(),
            log_url: log_url.as_deref(),
            environment_url: environment_url.as_deref(),
            auto_inactive: false,
        }
    }
}

impl Sent {
    fn says(&self, status: &Status) -> bool {
        self.state == status.state.as_str()
            && self.description.as_deref().unwrap_or_default()
                == truncate_chars(&status.description, ForgeStatus::LONGEST)
            && not_empty(self.log_url.as_deref()) == not_empty(status.log_url.as_deref())
    }
}

impl From<Sent> for ListedStatus {
    fn from(sent: Sent) -> Self {
        let Sent { state, description, log_url, creator } = sent;
        Self {
            state,
            description: description.unwrap_or_default(),
            log_url: log_url.filter(|url| !url.is_empty()),
            creator: creator.map(|creator| creator.login),
        }
    }
}

/// GitHub sends an empty text for none.
pub(super) fn not_empty(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}
