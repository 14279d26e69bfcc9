//! Checks the `Host` of requests if no token is needed. Pure.
//!
//! Any web page can make its own name resolve to this machine, and a browser then takes this service for the page's
//! server (DNS rebinding); only the `Host` that the browser sends shows it.

use axum::extract::Request;
use axum::http::Uri;
use axum::http::header::HOST;
use axum::http::uri::Authority;

use crate::server::problem::{Problem, ProblemKind};
use crate::support::host::is_loopback;

/// The service's own host name, beside those of this machine.
#[derive(Debug, Clone, Default)]
pub struct AllowedHosts(Option<String>);

impl AllowedHosts {
    /// Reads the host of `server.external_url`, if it has one.
    pub fn of(external_url: &str) -> Self {
        let uri: Option<Uri> = external_url.parse().ok();
        Self(uri.and_then(|uri| uri.host().map(str::to_owned)))
    }

    /// Refuses a request to another host. A request without a host is not a browser's.
    pub(super) fn check_host(&self, request: &Request) -> Result<(), Problem> {
        let header = request.headers().get(HOST).map(|host| host.to_str().unwrap_or("?"));
        let Some(host) = header.or_else(|| request.uri().authority().map(Authority::as_str)) else {
            return Ok(());
        };
        if self.is_ours(host) {
            return Ok(());
        }
        tracing::warn!("request refused: unknown host name");
        Err(Problem::new(
            ProblemKind::Forbidden,
            "this service needs no token, so it answers only requests for names of this machine, \
             such as localhost, and for the host of `server.external_url`",
        ))
    }

    fn is_ours(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let name = authority.host().trim_end_matches('.').to_ascii_lowercase();
        let is_own_host =
            self.0.as_ref().is_some_and(|own_host| own_host.eq_ignore_ascii_case(&name));
        is_loopback(&name) || name.ends_with(".localhost") || is_own_host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_and_our_own_are_answered() {
        let site = AllowedHosts::of("https://Deployer.example.com:8443/x");
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "a.localhost:1",
            "127.0.0.1:8080",
            "127.8.9.1",
            "[::1]:8080",
            "[::ffff:127.0.0.1]:8080",
            "deployer.example.com",
            "deployer.example.com.:443",
        ] {
            assert!(site.is_ours(host), "{host}");
        }
        for host in [
            "evil.example.net",
            "localhost.example.net",
            "example.com",
            "192.0.2.1:8080",
            "[2001:db8::1]",
            "127.0.0.1.nip.io",
            "",
            "a b",
        ] {
            assert!(!site.is_ours(host), "{host}");
        }
        assert!(!AllowedHosts::default().is_ours("deployer.example.com"));
    }
}
