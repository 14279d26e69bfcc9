//! How everything outside is reached by HTTP.

use std::net::IpAddr;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::config::file;
use crate::config::resolve::Resolver;
use crate::config::settings::Network;
use crate::support::http::{Outbound, Proxy, host_of};

/// The standard variables that name proxies.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

const ONE_OF: &str = "give exactly one of `file` and `env`";

impl Resolver<'_> {
    pub(super) fn outbound(&mut self, outbound: file::outbound::Outbound) -> Outbound {
        let file::outbound::Outbound {
            ca,
            proxy,
            proxy_username,
            proxy_password,
            no_proxy,
            private_networks,
        } = outbound;
        let authorities = ca.and_then(|file| {
            let pem = self.certificates("outbound.ca", &file)?;
            self.authorities(&file, &pem)
        });
        if proxy.is_none() {
            self.without_a_proxy(&[
                ("no_proxy", no_proxy.is_some()),
                ("proxy_username", proxy_username.is_some()),
                ("proxy_password", proxy_password.is_some()),
            ]);
        }
        let login = self.login(proxy_username, proxy_password);
        let proxy = proxy.map(|url| {
            self.proxy_url(&url);
            Proxy { url, login, except: no_proxy.map(|all| all.join(",")) }
        });
        Outbound {
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

    fn private_networks(&mut self, texts: &[String]) -> Vec<(IpAddr, u8)> {
        let mut networks = Vec::new();
        for (n, text) in texts.iter().enumerate() {
            if let Some(Network { address, bits }) = Network::parse(text) {
                networks.push((address, bits));
            } else {
                let help = "write it like 10.1.0.0/16 or fd00:1::/32";
                let path = format!("outbound.private_networks[{n}]");
                self.report.wrong(&path, "this is not a network", help);
            }
        }
        networks
    }

    /// Each certificate, if it is one that can sign.
    fn authorities(&mut self, file: &str, pem: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut store = RootCertStore::empty();
        let certificates = CertificateDer::pem_slice_iter(pem).map(|one| {
            let one = one.ok()?;
            store.add(one.clone()).ok()?;
            Some(one.to_vec())
        });
        let found: Option<Vec<Vec<u8>>> = certificates.collect();
        if found.is_none() {
            let message = format!("{file} holds a certificate that cannot be read");
            let help = "name a file with whole certificates as PEM";
            self.report.wrong("outbound.ca", message, help);
        }
        found
    }

    fn proxy_url(&mut self, url: &str) {
        if crate::config::mask::has_credentials(url) {
            let message = "an address with a name or a password in it ends in logs";
            let help = "take it out, and give `proxy_username` and `proxy_password`";
            self.report.wrong("outbound.proxy", message, help);
        } else if !(url.starts_with("http://") || url.starts_with("https://"))
            || reqwest::Proxy::all(url).is_err()
        {
            let message = "this is not an address of a proxy";
            self.report.wrong("outbound.proxy", message, "write it like http://proxy.example:3128");
        }
    }

    fn without_a_proxy(&mut self, given: &[(&str, bool)]) {
        for (key, _) in given.iter().filter(|(_, given)| *given) {
            let message = format!("`{key}` is of no use without `proxy`");
            let help = "add `proxy`; beside HTTPS_PROXY the variable NO_PROXY counts";
            self.report.wrong(&format!("outbound.{key}"), message, help);
        }
    }

    fn login(
        &mut self,
        username: Option<String>,
        password: Option<file::Secret>,
    ) -> Option<(String, secrecy::SecretString)> {
        match (username, password) {
            (None, None) => None,
            (Some(username), Some(password)) => {
                let password = self.secret("outbound.proxy_password", password, ONE_OF)?;
                Some((username, password))
            }
            (Some(_), None) | (None, Some(_)) => {
                let help = "give both `proxy_username` and `proxy_password`, or neither";
                self.report.wrong("outbound", "a login is a name and a password", help);
                None
            }
        }
    }
}
