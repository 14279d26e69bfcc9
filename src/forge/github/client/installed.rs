//! Where our App is installed, and a repository as GitHub knows it.

use jiff::Timestamp;
use serde::Deserialize;

use crate::forge::error::ForgeError;
use crate::forge::github::auth::Installation;
use crate::forge::github::auth::permission::Permission;
use crate::forge::github::client::GitHub;
use crate::forge::github::client::call::{About, Call};
use crate::forge::github::client::pages::{Next, PER_PAGE, Page};
use crate::model::event::{NamedRepository, RepositoryIdentity};
use crate::model::id::RepoName;

/// A thousand accounts.
const INSTALLATIONS: usize = 10;

#[derive(Deserialize)]
struct Repositories {
    repositories: Vec<Repository>,
}

#[derive(Deserialize)]
struct Repository {
    full_name: String,
    #[serde(default)]
    archived: bool,
    #[serde(default)]
    disabled: bool,
}

#[derive(Deserialize)]
struct NumberedRepository {
    id: i64,
    full_name: String,
    owner: NumberedOwner,
}

#[derive(Deserialize)]
struct NumberedOwner {
    id: i64,
}

impl GitHub {
    /// The repository's present name, which GitHub says of a former one too, and its numbers.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn named_repository(
        &self,
        repository: &RepoName,
        now: Timestamp,
    ) -> Result<NamedRepository, ForgeError> {
        let about = About::Repository(repository);
        let call = Call::get(about, Permission::METADATA, format!("/repos/{repository}"));
        let NumberedRepository { id, full_name, owner } = self.read(call).await?;
        let name = RepoName::parse(full_name).map_err(|error| {
            self.wire.unreachable(format!("it gives the repository a name that is none: {error}"))
        })?;
        let identity = RepositoryIdentity { repository: id, owner: Some(owner.id), at: Some(now) };
        Ok(NamedRepository { name, identity })
    }

    /// The repositories that our App is installed on, but for those that nobody can deploy from:
    /// archived ones, and those of suspended installations. None where we are no App.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn installed_repositories(&self, most: u32) -> Result<Vec<RepoName>, ForgeError> {
        if !self.auth.is_app() {
            return Ok(Vec::new());
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let about = (About::App("the App's installations"), Permission::METADATA);
        let route = "/app/installations";
        let installations =
            self.all::<Vec<Installation>>(about.into(), route, INSTALLATIONS).await?;
        let mut found = Vec::new();
        for one in installations.iter().filter(|one| !one.is_suspended()) {
            if found.len() >= most {
                break;
            }
            self.repositories_of(one.id, most, &mut found).await?;
        }
        found.truncate(most);
        Ok(found)
    }

    /// Adds those of one installation, until there are as many as wanted.
    async fn repositories_of(
        &self,
        id: u64,
        most: usize,
        found: &mut Vec<RepoName>,
    ) -> Result<(), ForgeError> {
        let about = About::Installation(id, "the App's repositories");
        let pages = (most - found.len()).div_ceil(PER_PAGE).saturating_add(1);
        let look = |page: Vec<Repository>| {
            let live = page.into_iter().filter(|one| !one.archived && !one.disabled);
            found.extend(live.filter_map(|one| RepoName::parse(one.full_name).ok()));
            if found.len() >= most { Next::Enough(()) } else { Next::Page }
        };
        let about = (about, Permission::METADATA);
        self.pages::<Repositories, ()>(about.into(), "/installation/repositories", pages, look)
            .await?;
        Ok(())
    }
}

impl Page for Repositories {
    type Item = Repository;
    fn items(self) -> Vec<Repository> {
        self.repositories
    }
}
