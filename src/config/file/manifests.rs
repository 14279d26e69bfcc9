//! The part `manifests`: where manifests are pushed to, and how.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::file::signing::Signing;
use crate::config::file::{Identity, Secret, access};

/// The repositories that manifests are pushed to.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Manifests {
    /// For each target the first whose globs match it. Default: a local one in the storage folder.
    pub repositories: Option<Vec<ManifestRepository>>,
}

/// One repository that manifests are pushed to.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ManifestRepository {
    /// What it is called in logs; also the name of its clone.
    #[schemars(extend("format" = "slug"))]
    pub name: String,
    /// An http or https address without credentials, `git@HOST:PATH` or `ssh://USER@HOST:PORT/PATH`,
    /// or a path.
    pub url: String,
    /// The branch that Argo CD follows. Default: `main`.
    #[serde(default)]
    pub branch: Option<String>,
    /// Globs over target names. Default: all.
    #[serde(default)]
    pub targets: Option<Vec<String>>,
    /// A token that may push. A file is read anew for each exchange, so that it may be renewed.
    #[serde(default)]
    pub token: Option<Secret>,
    /// As whom to come without a token. Default: `app` where `forge.github.app` is set and the
    /// repository is on its host; otherwise `none`.
    #[serde(default)]
    pub auth: Option<access::RepositoryAuth>,
    /// How to come in over ssh; needed where `url` is ssh's, and only there.
    #[serde(default)]
    pub ssh: Option<access::Ssh>,
    /// Who commits.
    #[serde(default)]
    pub identity: Option<Identity>,
    /// The key that commits are signed with. Default: they are not.
    #[serde(default)]
    pub signing: Option<Signing>,
    /// How often the repository may be pushed to. Default: on github.com what GitHub advises, 3 at
    /// once and 6 a minute; elsewhere 100 at once and 1,200 a minute.
    #[serde(default)]
    pub push_budget: Option<PushBudget>,
    /// Who pushes. Default: `direct`.
    #[serde(default)]
    pub push: Option<PushBy>,
}

/// How often a repository may be pushed to. What waits for a push goes into it together, a commit
/// for each deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PushBudget {
    /// The most pushes of any minute.
    #[schemars(range(min = 1, max = 100_000))]
    pub per_minute: u32,
    /// How many of them may follow one another at once. Default: half of a minute's.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000))]
    pub burst: Option<u32>,
}

/// Who pushes to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PushBy {
    /// Our own client: one request with exactly the new objects.
    Direct,
    /// libgit2, for a server that `direct` does not get on with; slower on large repositories.
    Libgit2,
}
