//! How everything outside is reached by HTTP.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::file::Secret;

/// How everything outside is reached by HTTP: GitHub, Slack, git repositories, registries, Vault,
/// clusters.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Outbound {
    /// A file with certificates of authorities that are trusted beside those that the machine
    /// trusts, as PEM.
    pub ca: Option<String>,
    /// The proxy: `http://HOST:PORT` or `https://HOST:PORT`. Default: what `HTTPS_PROXY` and
    /// `HTTP_PROXY` say.
    #[schemars(extend("format" = "url"))]
    pub proxy: Option<String>,
    /// Who we are to the proxy. Default: anybody.
    #[schemars(extend("format" = "line"))]
    pub proxy_username: Option<String>,
    /// The password to that name.
    pub proxy_password: Option<Secret>,
    /// What is reached without the proxy: hosts, which stand for those below them too, addresses
    /// and networks such as `10.0.0.0/8`. Default: what `NO_PROXY` says.
    pub no_proxy: Option<Vec<String>>,
    /// Networks of yours, such as `10.1.0.0/16`, that hosts which others name may lead to: registries that only `*`
    /// stands for, and where registries send the service on. Default: none, only public addresses.
    pub private_networks: Option<Vec<String>>,
}
