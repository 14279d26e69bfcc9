//! Previews of pull requests, as an operator writes of them.

use schemars::JsonSchema;
use serde::Deserialize;

/// Previews of pull requests: a check run that shows what merging would change.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Previews {
    /// Whether pull requests are previewed. Default: yes with a GitHub App; with a token there are
    /// none, because only Apps may make check runs.
    pub enabled: Option<bool>,
    /// Whether those from forks are previewed too: whoever opens one may then read rendered manifests.
    /// Default: no.
    pub forks: Option<bool>,
    /// Whether every pull request gets the check run, if only to say that there is nothing to
    /// preview; needed where branch protection requires the check. Default: no.
    pub always: Option<bool>,
}
