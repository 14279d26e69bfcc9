//! Outgoing HTTP: the proxy and the trusted certificates.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::credential::{ONE_OF, Secret};
use crate::config::resolver::Resolver;
use crate::support::http::public::{Network, parse_network};
use crate::support::http::{self, Proxy, host_of, read_authorities};

/// The standard variables of proxies.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// Outgoing HTTP: to GitHub, Slack, git repositories, registries, Vault and clusters.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Outbound {
    /// A file with certificates of authorities that the service trusts beside those that the machine trusts, as PEM.
    ca: Option<String>,
    /// The proxy: `http://HOST:PORT` or `https://HOST:PORT`. Default: `HTTPS_PROXY` and `HTTP_PROXY`.
    #[schemars(extend("format" = "url"))]
    proxy: Option<String>,
    /// The user name at the proxy. Default: no login.
    #[schemars(extend("format" = "line"))]
    proxy_username: Option<String>,
    /// The password of that user.
    proxy_password: Option<Secret>,
    /// Destinations without the proxy: hosts with those below them, addresses, and networks such as `10.0.0.0/8`.
    /// Default: `NO_PROXY`.
    no_proxy: Option<Vec<String>>,
    /// Private networks, such as `10.1.0.0/16`, to which foreign host names may resolve: those of registries that only
    /// `*` covers, of redirects by registries, and of HTTP gates that only a glob covers. Default: none, only public
    /// addresses.
    private_networks: Option<Vec<String>>,
}

impl Resolver<'_> {
    pub(super) fn outbound(&mut self, outbound: Outbound) -> http::OutboundHttp {
        let Outbound { ca, proxy, proxy_username, proxy_password, no_proxy, private_networks } =
            outbound;
        let authorities = ca.and_then(|file| {
            let pem = self.certificates("outbound.ca", &file)?;
            self.authorities(&file, &pem)
        });
        if proxy.is_none() {
            self.report_keys_without_proxy(&[
                ("no_proxy", no_proxy.is_some()),
                ("proxy_username", proxy_username.is_some()),
                ("proxy_password", proxy_password.is_some()),
            ]);
        }
        let login = self.login(proxy_username, proxy_password);
        let variable = |name: &&str| self.variables.get(*name).cloned();
        let of_variables = ["NO_PROXY", "no_proxy"].iter().find_map(variable);
        let proxy = proxy.map(|url| {
            self.proxy_url(&url);
            Proxy { url, login, except: no_proxy.map(|hosts| hosts.join(",")).or(of_variables) }
        });
        http::OutboundHttp {
            authorities: authorities.unwrap_or_default(),
            proxy,
            proxies_of_variables: self.proxies_of_variables(),
            private_networks: self.private_networks(&private_networks.unwrap_or_default()),
        }
    }

    fn proxies_of_variables(&self) -> Vec<String> {
        let values = PROXY_VARIABLES.iter().filter_map(|name| self.variables.get(*name));
        values.filter_map(|value| host_of(value)).collect()
    }

    fn private_networks(&mut self, texts: &[String]) -> Vec<Network> {
        let mut networks = Vec::new();
        for (n, text) in texts.iter().enumerate() {
            if let Some(network) = parse_network(text) {
                networks.push(network);
            } else {
                let help = "write it like 10.1.0.0/16 or fd00:1::/32";
                let path = format!("outbound.private_networks[{n}]");
                self.report.error(&path, "this is not a network", help);
            }
        }
        networks
    }

    pub(super) fn certificates(&mut self, path: &str, file: &str) -> Option<Vec<u8>> {
        match std::fs::read(file) {
            Ok(pem) if String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") => {
                Some(pem)
            }
            Ok(_) => {
                let help = "name a file with certificates as PEM";
                self.report.error(path, format!("{file} holds no certificate"), help);
                None
            }
            Err(error) => {
                let message = format!("{file} cannot be read: {error}");
                self.report.error(path, message, "name a file with certificates as PEM");
                None
            }
        }
    }

    /// Reads each certificate, if it is one that can sign.
    fn authorities(&mut self, file: &str, pem: &[u8]) -> Option<Vec<Vec<u8>>> {
        let authorities = read_authorities(pem);
        if authorities.is_none() {
            let message = format!("{file} holds a certificate that cannot be read");
            let help = "name a file with whole certificates as PEM";
            self.report.error("outbound.ca", message, help);
        }
        authorities
    }

    fn proxy_url(&mut self, url: &str) {
        if crate::support::secret_text::has_credentials(url) {
            let message = "the address has a user name or a password in it, which logs would show";
            let help = "remove it, and give `proxy_username` and `proxy_password`";
            self.report.error("outbound.proxy", message, help);
        } else if !(url.starts_with("http://") || url.starts_with("https://"))
            || reqwest::Proxy::all(url).is_err()
        {
            let message = "this is not an address of a proxy";
            self.report.error("outbound.proxy", message, "write it like http://proxy.example:3128");
        }
    }

    fn report_keys_without_proxy(&mut self, keys: &[(&str, bool)]) {
        for (key, _) in keys.iter().filter(|(_, is_given)| *is_given) {
            let message = format!("`{key}` has no effect without `proxy`");
            let help = "add `proxy`; with HTTPS_PROXY, set the variable NO_PROXY";
            self.report.error(&format!("outbound.{key}"), message, help);
        }
    }

    fn login(
        &mut self,
        username: Option<String>,
        password: Option<Secret>,
    ) -> Option<(String, secrecy::SecretString)> {
        match (username, password) {
            (None, None) => None,
            (Some(username), Some(password)) => {
                let password = self.secret("outbound.proxy_password", password, ONE_OF)?;
                Some((username, password))
            }
            (Some(_), None) | (None, Some(_)) => {
                let help = "give both `proxy_username` and `proxy_password`, or neither";
                self.report.error("outbound", "a login is a name and a password", help);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{loaded, refused};

    const CA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/facts/tls/ca.pem");

    #[test]
    fn an_authority_of_ones_own_is_read_and_a_damaged_one_is_not() {
        let text = format!("outbound: {{ca: '{CA}'}}");
        assert_eq!(loaded(&text).settings.outbound.authorities.len(), 1);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let bundle = std::fs::read_to_string(CA).unwrap();
        let lines: Vec<&str> = bundle.lines().collect();
        let truncated = [&lines[..3], &lines[lines.len() - 1..]].concat().join("\n");
        for (content, expected) in [
            (truncated.as_str(), "holds a certificate that cannot be read"),
            ("x", "holds no certificate"),
        ] {
            std::fs::write(&file, content).unwrap();
            let message = refused(&format!("outbound:\n  ca: '{}'\n", file.display()));
            assert!(
                message.contains("config.yaml:2:7: ") && message.contains(expected),
                "{message}"
            );
        }
        let message = refused("outbound: {ca: /none}");
        assert!(message.contains("/none cannot be read"), "{message}");
    }

    #[test]
    fn a_proxy_that_cannot_be_one_is_told_at_its_place() {
        let message = refused("outbound: {proxy: 'http://me:pw@proxy:3128', proxy_username: me}");
        assert!(
            message.contains("config.yaml:1:19: the address has a user name or a password"),
            "{message}"
        );
        assert!(message.contains("config.yaml:1:1: a login is a name and a password"), "{message}");
        let message = refused("outbound: {proxy: 'socks5://proxy:1080'}");
        assert!(
            message.contains("config.yaml:1:19: `outbound.proxy` must be an http or https address"),
            "{message}"
        );
        let message = refused("outbound:\n  no_proxy: [a]\n");
        assert!(
            message.contains("config.yaml:2:3: `no_proxy` has no effect without `proxy`"),
            "{message}"
        );
        let message =
            refused("outbound: {proxy: 'http://p:1', proxy_username: a, proxy_password: pw}");
        assert!(message.contains("`outbound.proxy_password` holds a secret itself"), "{message}");
    }

    #[test]
    fn a_network_that_is_none_is_told_and_no_token_has_a_name_that_deceives() {
        let lines = refused("outbound: {private_networks: [10.1.0.0/16, 10.0.0.0/33]}\n");
        assert!(
            lines.contains("config.yaml:1:") && lines.contains("this is not a network"),
            "{lines}"
        );
        let digits = "9f".repeat(32);
        let lines =
            refused(&format!("auth: {{tokens: [{{name: \"ops\\u202Ex\", sha256: {digits}}}]}}\n"));
        assert!(lines.contains("invisible character (U+202E)"), "{lines}");
    }
}
