//! The listener of the server, and its public address.

use std::net::SocketAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::resolver::Resolver;
use crate::support::http::public::{Network, parse_network};

/// The listener of the server, and its public address.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Server {
    /// Address and port: 127.0.0.1:8080. Another address than loopback needs `auth.tokens` or `auth.github`.
    listen: Option<String>,
    /// The public address, with which links to pages begin. Default: `http://` and `listen`.
    #[schemars(extend("format" = "url"))]
    external_url: Option<String>,
    /// The longest time for open work to end when the process stops: `25s`.
    shutdown_grace: Option<String>,
    /// Proxies whose `X-Forwarded-For` is trusted, as addresses or networks: `10.0.0.0/8`. Default: none.
    trusted_proxies: Option<Vec<String>>,
}

/// The listener of the server, and its public address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// Address and port.
    pub listen: SocketAddr,
    /// The public address, with which links to pages begin; without a slash at the end.
    pub external_url: String,
    /// The longest time for open work to end.
    pub shutdown_grace: Duration,
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<Network>,
}

impl Resolver<'_> {
    pub(super) fn server(&mut self, server: Server, open: bool) -> Option<ServerSettings> {
        let Server { listen, external_url, shutdown_grace, trusted_proxies } = server;
        let trusted_proxies = self.trusted_proxies(&trusted_proxies.unwrap_or_default());
        let listen = listen.as_deref().unwrap_or("127.0.0.1:8080");
        let grace = self.duration("server.shutdown_grace", shutdown_grace, 25);
        let Ok(listen) = listen.parse::<SocketAddr>() else {
            let help = "write it like 127.0.0.1:8080 or [::1]:8080";
            self.report.error("server.listen", "this is not an address and a port", help);
            return None;
        };
        if open && !listen.ip().to_canonical().is_loopback() {
            let message = format!("{listen} can be reached from other machines without a token");
            let help = "add a token under `auth.tokens`, set `auth.github`, or listen on 127.0.0.1";
            self.report.error("server.listen", message, help);
        }
        let external_url = external_url.unwrap_or_else(|| format!("http://{listen}"));
        let external_url = external_url.trim_end_matches('/').to_owned();
        Some(ServerSettings { listen, external_url, shutdown_grace: grace, trusted_proxies })
    }

    pub(super) fn trusted_proxies(&mut self, texts: &[String]) -> Vec<Network> {
        let path = "server.trusted_proxies";
        self.limit_length(path, texts.len());
        let mut networks = Vec::new();
        for (n, text) in texts.iter().enumerate() {
            if let Some(network) = parse_network(text) {
                networks.push(network);
            } else {
                let message = "this is neither an address nor a network";
                let help = "write it like 10.1.2.3 or 10.0.0.0/8";
                self.report.error(&format!("{path}[{n}]"), message, help);
            }
        }
        networks
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{GITHUB, loaded};

    #[test]
    fn proxies_and_teams_and_the_pace_are_read() {
        let text = format!(
            "{GITHUB}server: {{trusted_proxies: [10.0.0.0/8, '::1']}}\nlimits: {{requests_per_minute: 7}}\n\
             clusters:\n- {{name: prod, environment: production, domain: a.b, policies: {{deploy_teams: [acme/sre]}}}}\n"
        );
        let settings = loaded(&text).settings;
        let proxies = settings.server.trusted_proxies;
        assert_eq!(proxies.iter().map(|(_, bits)| *bits).collect::<Vec<_>>(), [8, 128]);
        assert_eq!(settings.limits.requests_per_minute, 7);
        assert_eq!(loaded("").settings.limits.requests_per_minute, 1200);
    }
}
