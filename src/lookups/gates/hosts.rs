//! The hosts that an HTTP gate may be at. Developers write its address, and the service is in a network that they may
//! not reach: it goes only to hosts that the operator allows. No request goes out here.
//!
//! A host that the operator names may be anywhere. One that only a glob covers must be on the Internet or in
//! `outbound.private_networks`: whoever can add a name below a domain could let it lead to any address otherwise.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use reqwest::Url;

use crate::lookups::gates::MAX_ADDRESS_BYTES;
use crate::support::globs::Globs;
use crate::support::http::public::PublicOnly;

/// The hosts that are allowed.
#[derive(Debug)]
pub(super) struct GateHosts {
    /// Not among the globs: an address may have a host that is called like a glob.
    named: BTreeSet<String>,
    globs: Globs,
    public: PublicOnly,
}

/// The addresses that a host may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostAccess {
    /// All: the operator names the host.
    Named,
    /// Public addresses: a glob covers the host.
    Public,
}

impl GateHosts {
    pub(super) fn new(entries: &[String], public: PublicOnly) -> Self {
        let (named, globs): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| is_named(entry));
        let globs = Globs::parse_readable(globs);
        Self { named: named.into_iter().cloned().collect(), globs, public }
    }

    /// Parses the address of a gate, and checks that it may be asked.
    ///
    /// # Errors
    /// The reason why it may not. The address itself is not in it.
    pub(super) fn check(&self, url: &str) -> Result<(Url, HostAccess), String> {
        if url.len() > MAX_ADDRESS_BYTES {
            return Err(format!("the gate's address takes more than {MAX_ADDRESS_BYTES} bytes"));
        }
        let parsed = Url::parse(url).ok().filter(Url::has_host);
        let url = parsed
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .ok_or("the gate's address is none: write it like https://shop.example.com/healthz")?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the gate's address has a login in it, which is not sent: remove it".into());
        }
        let host = authority(&url);
        if self.named.contains(&host) {
            return Ok((url, HostAccess::Named));
        }
        if !self.globs.is_match(&host) {
            return Err(format!(
                "the service may not ask {host}: an operator allows hosts under `gates.http.allowed_hosts`"
            ));
        }
        self.public.check(&url).map_err(|refusal| {
            format!(
                "the service may not ask {host}: {refusal}. An operator names the host itself under \
                 `gates.http.allowed_hosts`, or its network under `outbound.private_networks`"
            )
        })?;
        Ok((url, HostAccess::Public))
    }
}

/// Returns the host of an address, with the port where it is not the scheme's own.
pub(super) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default().trim_end_matches('.');
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Returns whether an entry of the allowed hosts names one host, and is no glob.
pub fn is_named(entry: &str) -> bool {
    let v6 = entry.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    v6.is_some_and(|(address, _)| address.parse::<Ipv6Addr>().is_ok())
        || !entry.contains(['*', '?', '[', '{', '\\'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::http::OutboundHttp;

    fn check(globs: &[&str], url: &str) -> Result<HostAccess, String> {
        let private_networks = vec![("10.1.0.0".parse().unwrap(), 16)];
        let outbound = OutboundHttp { private_networks, ..OutboundHttp::default() };
        let globs: Vec<String> = globs.iter().map(|glob| (*glob).to_owned()).collect();
        GateHosts::new(&globs, outbound.public_only()).check(url).map(|(_, access)| access)
    }

    #[test]
    fn a_host_is_asked_that_is_named_or_that_a_glob_covers() {
        let hosts = [
            "shop.example.com",
            "*.example.org",
            "shop.shop.svc:8080",
            "10.0.0.7:8080",
            "[::1]:8081",
        ];
        for (url, access) in [
            ("https://shop.example.com/healthz", HostAccess::Named),
            ("http://SHOP.example.com:80/", HostAccess::Named),
            ("https://shop.example.com./", HostAccess::Named),
            ("http://shop.shop.svc:8080/ready?deep=1", HostAccess::Named),
            ("http://10.0.0.7:8080/", HostAccess::Named),
            ("https://[::1]:8081/", HostAccess::Named),
            ("https://a.b.example.org/", HostAccess::Public),
        ] {
            assert_eq!(check(&hosts, url), Ok(access), "{url}");
        }
        for url in [
            "https://other.example.com/",
            "https://shop.example.com:8443/",
            "https://shop.example.com.evil.io/",
            "https://example.org/",
            "https://evilexample.org/",
            "https://x.example.org:8443/",
            "http://shop.shop.svc/",
            "http://10.0.0.8:8080/",
            "http://169.254.169.254/latest/meta-data",
        ] {
            let reason = check(&hosts, url).unwrap_err();
            assert!(
                reason.contains("allows hosts under `gates.http.allowed_hosts`"),
                "{url}: {reason}"
            );
        }
        assert!(check(&[], "https://shop.example.com/").is_err(), "by default none");
    }

    #[test]
    fn a_glob_covers_no_host_of_a_private_network_but_the_networks_of_the_operator() {
        for url in [
            "http://127.0.0.1/",
            "http://0x7f.1/",
            "http://localhost/",
            "http://169.254.169.254/",
            "http://kubernetes.default.svc/",
            "http://10.0.0.7/",
            "http://[::ffff:127.0.0.1]/",
        ] {
            let reason = check(&["*"], url).unwrap_err();
            assert!(reason.contains("names the host itself"), "{url}: {reason}");
        }
        assert_eq!(check(&["*"], "http://10.1.2.3/"), Ok(HostAccess::Public));
        let like_the_glob = check(&["*.example.org"], "https://*.example.org/");
        assert_ne!(like_the_glob, Ok(HostAccess::Named));
        assert_eq!(check(&["*"], "https://shop.example.com:8443/"), Ok(HostAccess::Public));
    }

    #[test]
    fn an_address_with_a_login_or_of_another_kind_is_refused_and_not_shown() {
        for url in [
            "https://me:s3cret@shop.example.com/",
            "https://s3cret@shop.example.com/",
            "ftp://shop.example.com/s3cret",
            "file:///s3cret",
            "shop.example.com/s3cret",
            "https:///",
            "",
            "https://[::1/s3cret",
            &format!("https://shop.example.com/{}", "s3cret".repeat(2000)),
        ] {
            let reason = check(&["*", "shop.example.com"], url).unwrap_err();
            assert!(!reason.contains("s3cret"), "{url}: {reason}");
        }
    }

    #[test]
    fn an_entry_without_a_wildcard_names_a_host() {
        for entry in ["shop.example.com", "shop.shop.svc:8080", "10.0.0.7", "[::1]:80", "[fd00::7]"]
        {
            assert!(is_named(entry), "{entry}");
        }
        for entry in
            ["*.example.com", "shop-?.example.com", "{a,b}.example.com", "[ab].example.com"]
        {
            assert!(!is_named(entry), "{entry}");
        }
    }
}
