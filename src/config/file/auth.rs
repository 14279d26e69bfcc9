//! Who may call the API, and see the pages.

use schemars::JsonSchema;
use serde::Deserialize;

/// Who may call the API, and see the pages.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    /// Tokens for programs, and for people who look at the pages.
    pub tokens: Option<Vec<Token>>,
    /// People with a GitHub token of their own, where `forge.github` is set: each may do with an app
    /// what GitHub lets them do with its repository. `{}` is enough. Default: they may not come.
    pub github: Option<GitHubCallers>,
    /// Who may see the pages: `token`, who has one of the tokens; `open`, everybody who can reach
    /// the listener. Default: `token`.
    pub pages: Option<Pages>,
}

/// Who may see the pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// Who gives one of the tokens as the password; everybody, where there are none.
    #[default]
    Token,
    /// Everybody who can reach the listener.
    Open,
}

/// People with a GitHub token of their own.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GitHubCallers {
    /// Teams, `ORGANIZATION/TEAM`, whose members may do everything. Default: none.
    pub admins: Option<Vec<String>>,
    /// Teams whose members may read everything. Default: none; others read of an app what they may
    /// read of its repository.
    pub readers: Option<Vec<String>>,
}

/// What may be done; each holds those before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// See what there is, and what would be.
    Read,
    /// Deploy, roll back, hold, lock and remove apps.
    Deploy,
    /// What concerns many apps: locks on targets, the audit log.
    #[default]
    Admin,
}

/// A token for the API: its name, where it is, and what it is good for. Exactly one of `sha256`,
/// `file` and `env` says where; `the-deployer config token` makes one.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Whose it is, for the log.
    #[schemars(extend("format" = "line"))]
    pub name: String,
    /// The SHA-256 of the token, in hexadecimal: as `the-deployer config token` prints it.
    #[serde(default)]
    pub sha256: Option<String>,
    /// A file that holds the token.
    #[serde(default)]
    pub file: Option<String>,
    /// An environment variable that holds the token.
    #[serde(default)]
    pub env: Option<String>,
    /// What it is good for: `read`, `deploy` or `admin`. Default: `admin`.
    #[serde(default)]
    pub scope: Option<Scope>,
    /// On which targets, as globs over their names. Default: all.
    #[serde(default)]
    pub targets: Option<Vec<String>>,
    /// For which apps, as globs over `namespace/slug`. Default: all.
    #[serde(default)]
    pub apps: Option<Vec<String>>,
}
