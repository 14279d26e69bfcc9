//! Where our App is installed.

use crate::forge::error::ForgeError;
use crate::forge::github::client::GitHub;
use crate::model::id::RepoName;

impl GitHub {
    /// The repositories that our App is installed on; none where we are no App.
    ///
    /// # Errors
    /// [`ForgeError`]
    #[expect(clippy::unused_async, reason = "an App asks GitHub")]
    pub async fn installed_repositories(&self, _most: u32) -> Result<Vec<RepoName>, ForgeError> {
        Ok(Vec::new())
    }
}
