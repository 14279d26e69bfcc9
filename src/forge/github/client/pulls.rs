//! What a pull request changes.

use serde::Deserialize;

use crate::forge::error::ForgeError;
use crate::forge::github::auth::permission::Permission;
use crate::forge::github::client::GitHub;
use crate::forge::github::client::call::About;
use crate::forge::github::client::pages::Next;
use crate::model::id::RepoName;

/// GitHub lists no more than three thousand files.
const PAGES: usize = 30;

#[derive(Deserialize)]
struct Changed {
    filename: String,
    #[serde(default)]
    previous_filename: Option<String>,
}

impl GitHub {
    /// Whether a pull request changes the file of that path, moves it, or takes it away.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn pull_request_touches(
        &self,
        repository: &RepoName,
        number: i64,
        path: &str,
    ) -> Result<bool, ForgeError> {
        let route = format!("/repos/{repository}/pulls/{number}/files");
        let about = (About::Repository(repository), Permission::READ_PULL_REQUESTS);
        let look = |page: Vec<Changed>| {
            let is_it = |one: &Changed| {
                one.filename == path || one.previous_filename.as_deref() == Some(path)
            };
            if page.iter().any(is_it) { Next::Enough(()) } else { Next::Page }
        };
        let found = self.pages::<Vec<Changed>, ()>(about.into(), &route, PAGES, look).await?;
        Ok(found.is_some())
    }
}
