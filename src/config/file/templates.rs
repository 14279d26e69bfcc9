//! Where templates come from.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::file::{Secret, access};

/// The templates that manifests are rendered from: at most one of the two. Default: the built-in ones.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Templates {
    /// A folder with `apps/TEMPLATE/VERSION/`.
    pub path: Option<String>,
    /// A git repository; what is pushed to its branch is taken over.
    pub repository: Option<TemplatesRepository>,
}

/// A repository that templates come from.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplatesRepository {
    /// An http or https address without credentials, `git@HOST:PATH` or `ssh://USER@HOST:PORT/PATH`,
    /// or a path.
    pub url: String,
    /// The branch. Default: `main`.
    #[serde(default)]
    pub branch: Option<String>,
    /// The folder in it that has `apps/`. Default: its root.
    #[serde(default)]
    pub path: Option<String>,
    /// How often it is looked at without a push event, `1s` to a day. Default: `5m`.
    #[serde(default)]
    pub refresh: Option<String>,
    /// A token that may read. A file is read anew for each exchange, so that it may be renewed.
    #[serde(default)]
    pub token: Option<Secret>,
    /// As whom to come without a token. Default: `app` where `forge.github.app` is set and the
    /// repository is on its host; otherwise `none`.
    #[serde(default)]
    pub auth: Option<access::RepositoryAuth>,
    /// How to come in over ssh; needed where `url` is ssh's, and only there.
    #[serde(default)]
    pub ssh: Option<access::Ssh>,
}
