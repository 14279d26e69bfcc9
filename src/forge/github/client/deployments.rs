//! The newest deployments of a repository.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::forge::error::ForgeError;
use crate::forge::github::auth::permission::Permission;
use crate::forge::github::client::GitHub;
use crate::forge::github::client::call::About;
use crate::forge::github::client::pages::{Next, PER_PAGE};
use crate::model::id::RepoName;

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
        self.pages::<Vec<Value>, ()>(about, &route, most.div_ceil(PER_PAGE), look).await?;
        found.truncate(most);
        Ok(found)
    }
}
