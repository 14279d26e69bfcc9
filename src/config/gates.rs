//! The servers that the gates of rollouts ask: Prometheus, Alertmanager, and the hosts of HTTP checks.

use std::time::Duration;

use reqwest::Url;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::credential::Secret;
use crate::config::resolver::Resolver;
use crate::lookups::gates::hosts::is_named;
use crate::lookups::gates::{GATE_TIMEOUT, GateServer, GateSettings};
use crate::support::host::is_encrypted_or_local;

/// The shortest and the longest time of a question: a gate is asked again every 15 s.
const TIMEOUTS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(500)..=Duration::from_secs(15);

/// The servers that the gates of rollouts ask. A gate without its part is not passed, and says so.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Gates {
    /// The Prometheus that queries are sent to, or what has its API, as Thanos and Mimir have.
    prometheus: Option<GateApi>,
    /// The Alertmanager that is asked for alerts.
    alertmanager: Option<GateApi>,
    /// The hosts that HTTP checks may go to.
    http: Option<HttpGates>,
}

/// A server with an API.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GateApi {
    /// The address, without the API's own path: https; http only without a token, or on this machine.
    #[schemars(extend("format" = "url"))]
    url: String,
    /// The token, sent as a bearer. A file is read for each question, so that it may be renewed. Default: none.
    #[serde(default)]
    token: Option<Secret>,
    /// The longest time of a question, from `500ms` to `15s`. Default: `10s`.
    #[serde(default)]
    timeout: Option<String>,
}

/// The hosts that HTTP checks may go to.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct HttpGates {
    /// Hosts, or globs of them, with `:PORT` where it is not that of https or http. A host that is named may be
    /// anywhere; one that only a glob covers is on the Internet, or in `outbound.private_networks`. Default: none.
    allowed_hosts: Vec<String>,
    /// The longest time of a question, from `500ms` to `15s`. Default: `10s`.
    timeout: Option<String>,
}

impl Resolver<'_> {
    pub(super) fn gates(&mut self, gates: Gates) -> GateSettings {
        let Gates { prometheus, alertmanager, http } = gates;
        let HttpGates { allowed_hosts, timeout } = http.unwrap_or_default();
        GateSettings {
            prometheus: prometheus.and_then(|api| self.gate_server("gates.prometheus", api)),
            alertmanager: alertmanager.and_then(|api| self.gate_server("gates.alertmanager", api)),
            http_hosts: self.gate_hosts(allowed_hosts),
            http_timeout: self.gate_timeout("gates.http", timeout),
        }
    }

    fn gate_server(&mut self, path: &str, api: GateApi) -> Option<GateServer> {
        let GateApi { url, token, timeout } = api;
        let url_path = format!("{path}.url");
        self.without_credentials(&url_path, &url);
        let parsed = Url::parse(&url).ok().filter(Url::has_host);
        if !parsed.is_some_and(|url| matches!(url.scheme(), "http" | "https") && is_bare(&url)) {
            let help = "write it like https://prometheus.example.com, without the path of the API";
            self.report.error(&url_path, "this is not the address of a server", help);
        } else if token.is_some() && !is_encrypted_or_local(&url) {
            let help = "use an address that begins with https://";
            self.report.error(&url_path, "the token would go to it in the clear", help);
        }
        let timeout = self.gate_timeout(path, timeout);
        let token = match token {
            Some(token) => Some(self.credential(&format!("{path}.token"), token)?),
            None => None,
        };
        Some(GateServer { url, token, timeout })
    }

    fn gate_timeout(&mut self, path: &str, text: Option<String>) -> Duration {
        let path = format!("{path}.timeout");
        let timeout = self.duration(&path, text, GATE_TIMEOUT.as_secs());
        if !TIMEOUTS.contains(&timeout) {
            let message = "the timeout must be between half a second and 15 seconds";
            self.report.error(&path, message, "write `10s`");
        }
        timeout
    }

    fn gate_hosts(&mut self, hosts: Vec<String>) -> Vec<String> {
        let path = "gates.http.allowed_hosts";
        self.limit_length(path, hosts.len());
        let hosts: Vec<String> =
            hosts.into_iter().map(|host| host.trim_end_matches('.').to_lowercase()).collect();
        for (n, host) in hosts.iter().enumerate() {
            let path = format!("{path}[{n}]");
            if host.is_empty() || host.contains(['/', '@', ' ']) {
                let help = "write the host alone: shop.example.com, *.example.com, 10.0.0.7:8080";
                self.report.error(&path, "this is not a host", help);
            } else if !is_named(host) && !has_domain(host) {
                let message = format!("{host:?} covers hosts of every domain");
                let help = "end it with a domain of yours: *.example.com";
                self.report.warning(&path, message, help);
            }
        }
        self.parse_globs(path, &hosts);
        hosts
    }
}

/// Returns whether the address has nothing that the path of the API could not be added to.
fn is_bare(url: &Url) -> bool {
    url.query().is_none() && url.fragment().is_none() && !url.path().ends_with("/api/v1/query")
}

/// Returns whether the glob ends with two labels without wildcards.
fn has_domain(glob: &str) -> bool {
    let host = glob.rsplit_once(':').map_or(glob, |(host, _)| host);
    let mut labels = host.rsplit('.');
    let mut is_fixed = || {
        labels
            .next()
            .is_some_and(|label| !label.is_empty() && !label.contains(['*', '?', '[', '{', '}']))
    };
    is_fixed() && is_fixed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{loaded, refused};

    #[test]
    fn servers_and_hosts_are_those_of_the_file_with_ten_seconds_for_a_question() {
        let text = "gates:\n  prometheus: {url: 'https://prometheus.example.com/main', token: {env: TOKEN}}\n  \
                    alertmanager: {url: 'http://alertmanager.monitoring:9093', timeout: 2s}\n  \
                    http: {allowed_hosts: [Shop.example.com., '*.example.org', '10.0.0.7:8080']}\n";
        let loaded = loaded(text);
        assert_eq!(loaded.warnings, []);
        let GateSettings { prometheus, alertmanager, http_hosts, http_timeout } =
            loaded.settings.gates;
        let prometheus = prometheus.unwrap();
        assert_eq!(prometheus.url, "https://prometheus.example.com/main");
        assert!(prometheus.token.is_some() && prometheus.timeout == Duration::from_secs(10));
        let alertmanager = alertmanager.unwrap();
        assert!(alertmanager.token.is_none() && alertmanager.timeout == Duration::from_secs(2));
        assert_eq!(http_timeout, Duration::from_secs(10));
        assert_eq!(http_hosts, ["shop.example.com", "*.example.org", "10.0.0.7:8080"]);
    }

    #[test]
    fn without_the_part_nothing_can_be_asked() {
        let GateSettings { prometheus, alertmanager, http_hosts, http_timeout: _ } =
            loaded("{}").settings.gates;
        assert!(prometheus.is_none() && alertmanager.is_none() && http_hosts.is_empty());
    }

    #[test]
    fn what_cannot_be_asked_is_told_at_its_place() {
        for (text, wrong) in [
            ("{prometheus: {url: 'http://p.example.com', token: {env: TOKEN}}}", "in the clear"),
            ("{prometheus: {url: 'https://me:pw@p.example.com'}}", "a user name or a password"),
            (
                "{prometheus: {url: 'https://p.example.com/api/v1/query'}}",
                "not the address of a server",
            ),
            ("{prometheus: {url: 'https://p.example.com/?x=1'}}", "not the address of a server"),
            ("{prometheus: {url: 'ftp://p.example.com'}}", "gates.prometheus.url"),
            ("{prometheus: {token: {env: TOKEN}}}", "`url` is missing"),
            (
                "{prometheus: {url: 'https://p.example.com', token: s3cret}}",
                "holds a secret itself",
            ),
            (
                "{prometheus: {url: 'https://p.example.com', token: {env: NONE}}}",
                "the variable NONE is not set",
            ),
            ("{alertmanager: {url: 'https://a.example.com', timeout: 16s}}", "and 15 seconds"),
            ("{alertmanager: {url: 'https://a.example.com', timeout: 0s}}", "half a second"),
            ("{http: {allowed_hosts: ['https://shop.example.com/']}}", "this is not a host"),
            ("{http: {allowed_hosts: ['shop.example.com/x']}}", "this is not a host"),
            ("{http: {allowed_hosts: ['{a']}}", "this glob cannot be read"),
            ("{grafana: {url: 'https://g.example.com'}}", "grafana"),
        ] {
            let lines = refused(&format!("gates: {text}\n"));
            assert!(lines.contains(wrong), "{wrong} is missing in\n{lines}");
            assert!(!lines.contains("me:pw") && !lines.contains("s3cret"), "{lines}");
        }
    }

    #[test]
    fn a_glob_of_every_domain_is_a_warning() {
        for glob in ["*", "shop-*", "*.com", "*example*", "shop.{a.com,b.com}"] {
            let text = format!("gates: {{http: {{allowed_hosts: ['{glob}']}}}}");
            let warnings = loaded(&text).warnings;
            assert!(warnings[0].message.contains("covers hosts of every domain"), "{warnings:?}");
        }
        for glob in ["*.example.com", "{a,b}.example.com", "*.example.com:8443", "shop", "[::1]:80"]
        {
            let text = format!("gates: {{http: {{allowed_hosts: ['{glob}']}}}}");
            assert_eq!(loaded(&text).warnings, [], "{glob}");
        }
    }
}
