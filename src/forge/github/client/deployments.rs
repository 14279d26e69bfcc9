//! The newest deployments of a repository, and those that began with us.

use std::collections::BTreeSet;

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::forge::error::ForgeError;
use crate::forge::github::auth::permission::Permission;
use crate::forge::github::client::GitHub;
use crate::forge::github::client::call::{About, Call};
use crate::forge::github::client::pages::{Next, PER_PAGE};
use crate::forge::{Begun, ROLLBACK_TASK};
use crate::model::id::RepoName;
use crate::model::status::ForgeStatus;
use crate::support::text::truncate_chars;

impl GitHub {
    /// The newest deployments, newest first, each as GitHub sent it: as in an event's `deployment`.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn recent_deployments(
        &self,
        repository: &RepoName,
        most: u32,
    ) -> Result<Vec<Value>, ForgeError> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let route = format!("/repos/{repository}/deployments");
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        let look = |page: Vec<Value>| {
            // A new one pushes the last of a page onto the next.
            let is_new = |one: &Value| one["id"].as_i64().is_none_or(|id| seen.insert(id));
            found.extend(page.into_iter().filter(is_new));
            if found.len() >= most { Next::Enough(()) } else { Next::Page }
        };
        let about = (About::Repository(repository), Permission::READ_DEPLOYMENTS);
        self.pages::<Vec<Value>, ()>(about.into(), &route, most.div_ceil(PER_PAGE), look).await?;
        found.truncate(most);
        Ok(found)
    }
}

/// As many of the newest are looked at for one that was just made.
const LOOKED_AT: u32 = 100;

/// A deployment as GitHub takes it.
#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "ref")]
    git_ref: &'a str,
    environment: &'a str,
    task: &'static str,
    /// What was deployed before needs no new proof.
    required_contexts: [&'static str; 0],
    /// GitHub would merge the default branch into the ref.
    auto_merge: bool,
    payload: Payload<'a>,
    description: String,
    production_environment: bool,
}

#[derive(Serialize)]
struct Payload<'a> {
    tag: &'a str,
    deploy_id: &'a str,
}

/// What of the answer is used.
#[derive(Deserialize)]
struct Made {
    id: i64,
}

impl GitHub {
    /// Makes a deployment of a rollback; its number.
    ///
    /// # Errors
    /// [`ForgeError`]; after [`ForgeError::Unreachable`] it may be there nevertheless.
    pub async fn begin(&self, begun: &Begun) -> Result<i64, ForgeError> {
        let Begun { id, release, target, description, production } = begun;
        let body = Body {
            git_ref: release.commit.as_str(),
            environment: target.as_str(),
            task: ROLLBACK_TASK,
            required_contexts: [],
            auto_merge: false,
            payload: Payload { tag: release.tag.as_str(), deploy_id: id.as_str() },
            description: truncate_chars(description, ForgeStatus::LONGEST).into_owned(),
            production_environment: *production,
        };
        let about = About::Repository(&release.repository);
        let route = format!("/repos/{}/deployments", release.repository);
        let needs = Permission::WRITE_DEPLOYMENTS;
        let made: Made = self.read(Call::write(about, needs, Method::POST, route, &body)).await?;
        Ok(made.id)
    }

    /// The number of the deployment that was made of a rollback.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn find_begun(&self, begun: &Begun) -> Result<Option<i64>, ForgeError> {
        let listed = self.recent_deployments(&begun.release.repository, LOOKED_AT).await?;
        let is_it = |one: &&Value| {
            let id = one.pointer("/payload/deploy_id").and_then(Value::as_str);
            one["task"] == ROLLBACK_TASK && id == Some(begun.id.as_str())
        };
        Ok(listed.iter().find(is_it).and_then(|one| one["id"].as_i64()))
    }
}
