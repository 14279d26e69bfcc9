//! OUTGOING HTTP: every HTTP client is made here, so that the company's proxy and certificate authority count for all
//! of them.
//!
//! Without a configured proxy the standard variables count: `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`.

pub mod body; // a body up to a limit
pub mod public; // only public addresses, for foreign host names
pub mod retry_after; // the header Retry-After

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, NoProxy, Url};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::{ExposeSecret, SecretString};

use crate::support::http::public::{Network, PublicOnly};
use crate::support::percent::encode_segment;

/// The name of the service in its `User-Agent` header.
pub const AGENT: &str = concat!("the-deployer/", env!("CARGO_PKG_VERSION"));

/// The trusted authorities beside the machine's own, and the proxy.
#[derive(Debug, Clone, Default)]
pub struct OutboundHttp {
    /// The certificates of further trusted authorities, each as DER.
    pub authorities: Vec<Vec<u8>>,
    /// The proxy for all requests.
    pub proxy: Option<Proxy>,
    /// The hosts of proxies in the standard variables.
    pub proxies_of_variables: Vec<String>,
    /// The operator's private networks to which foreign host names may resolve.
    pub private_networks: Vec<Network>,
}

/// A proxy.
#[derive(Debug, Clone)]
pub struct Proxy {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub url: String,
    /// The user name and the password.
    pub login: Option<(String, SecretString)>,
    /// The destinations without the proxy, separated by commas; `None` for `NO_PROXY`, as reqwest reads it.
    pub except: Option<String>,
}

/// Chooses the implementation of TLS for this process. A second call changes nothing.
pub fn install_tls_provider() {
    let _is_installed = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// Reads the certificates of authorities from PEM, each as DER. Returns `None` where one is no certificate that can sign.
pub fn read_authorities(pem: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut store = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(pem).map(|certificate| {
        let certificate = certificate.ok()?;
        store.add(certificate.clone()).ok()?;
        Some(certificate.to_vec())
    });
    certificates.collect()
}

/// Returns the certificates of the authorities that this machine trusts. They are read once: there are some hundred, and
/// every client needs all of them.
pub fn machines_own() -> &'static [CertificateDer<'static>] {
    static MACHINES_OWN: LazyLock<Vec<CertificateDer<'static>>> = LazyLock::new(|| {
        let mut store = RootCertStore::empty();
        let certificates = rustls_native_certs::load_native_certs().certs.into_iter();
        // One bad certificate of the machine is no reason to trust none.
        certificates.filter(|certificate| store.add(certificate.clone()).is_ok()).collect()
    });
    &MACHINES_OWN
}

impl OutboundHttp {
    /// Builds a client that follows a few redirects, with that timeout for connections.
    ///
    /// # Errors
    /// When an authority or the proxy's address cannot be used.
    pub fn client(&self, connect: Duration) -> reqwest::Result<Client> {
        self.builder()?.connect_timeout(connect).build()
    }

    /// Builds a client with that timeout for connections that follows no redirect.
    ///
    /// # Errors
    /// When an authority or the proxy's address cannot be used.
    pub fn client_without_redirects(&self, connect: Duration) -> reqwest::Result<Client> {
        self.builder()?.connect_timeout(connect).redirect(Policy::none()).build()
    }

    /// Builds a client with that timeout for connections that uses no proxy and follows no redirect: for a server that
    /// only this machine reaches.
    ///
    /// # Errors
    /// When an authority cannot be used.
    pub fn client_without_proxy(&self, connect: Duration) -> reqwest::Result<Client> {
        let builder = self.builder()?.connect_timeout(connect).redirect(Policy::none());
        builder.no_proxy().build()
    }

    /// Returns the check for foreign addresses: only public ones, and those of the allowed networks.
    pub fn public_only(&self) -> PublicOnly {
        let configured = self.proxy.iter().filter_map(|proxy| host_of(&proxy.url));
        let proxies = configured.chain(self.proxies_of_variables.iter().cloned());
        PublicOnly::new(self.private_networks.clone(), proxies.collect())
    }

    /// Builds a client builder that connects to public addresses only. It follows no redirect: the caller must check
    /// each address first ([`PublicOnly::check`]), since a written address needs no name lookup.
    ///
    /// # Errors
    /// When an authority or the proxy's address cannot be used.
    pub fn public_builder(&self) -> reqwest::Result<ClientBuilder> {
        let resolver = Arc::new(self.public_only());
        Ok(self.builder()?.redirect(Policy::none()).dns_resolver(resolver))
    }

    /// Finds the proxy for connections to that address, for a client that is not built here. Name and password are in
    /// the proxy's address, so it is a secret.
    pub fn proxy_of(&self, destination: &Uri) -> Option<Uri> {
        let matcher = match &self.proxy {
            Some(Proxy { url, except, .. }) => {
                Matcher::builder().all(url).no(except.as_deref().unwrap_or_default()).build()
            }
            None => Matcher::from_env(),
        };
        let intercept = matcher.intercept(destination)?;
        let login = match &self.proxy {
            Some(Proxy { login, .. }) => login
                .as_ref()
                .map(|(name, password)| (name.clone(), password.expose_secret().to_owned())),
            None => login_of(&intercept),
        };
        let user = login.map_or_else(String::new, |(name, password)| {
            format!("{}:{}@", encode_segment(&name), encode_segment(&password))
        });
        let (scheme, authority) = (intercept.uri().scheme_str()?, intercept.uri().authority()?);
        format!("{scheme}://{user}{authority}").parse().ok()
    }

    /// Builds the client builder of every client. No client sends a referer: an address can be a secret.
    ///
    /// # Errors
    /// When an authority or the proxy's address cannot be used.
    pub fn builder(&self) -> reqwest::Result<ClientBuilder> {
        let own = machines_own().iter().map(AsRef::as_ref);
        let all = own.chain(self.authorities.iter().map(Vec::as_slice)).map(Certificate::from_der);
        self.builder_trusting(all.collect::<reqwest::Result<_>>()?)
    }

    /// Does the same for a client that trusts these authorities, and no others.
    ///
    /// # Errors
    /// When the proxy's address cannot be used.
    pub fn builder_trusting(
        &self,
        authorities: Vec<Certificate>,
    ) -> reqwest::Result<ClientBuilder> {
        let mut builder = Client::builder().user_agent(AGENT).referer(false);
        // With none, the client library looks at the machine by itself, and says that there are none.
        if !authorities.is_empty() {
            builder = builder.tls_certs_only(authorities);
        }
        if let Some(proxy) = &self.proxy {
            builder = builder.proxy(proxy.build_proxy()?);
        }
        Ok(builder)
    }
}

/// Reads the name and password of a proxy that a variable names.
fn login_of(intercept: &Intercept) -> Option<(String, String)> {
    let header = intercept.basic_auth()?.to_str().ok()?.strip_prefix("Basic ")?.to_owned();
    let text = String::from_utf8(STANDARD.decode(header).ok()?).ok()?;
    let (name, password) = text.split_once(':').unwrap_or((&text, ""));
    Some((name.to_owned(), password.to_owned()))
}

/// Finds the host of an address, in the form that a resolver gets.
pub fn host_of(address: &str) -> Option<String> {
    // `HTTP_PROXY` may have no scheme.
    let url = Url::parse(address).ok().filter(Url::has_host);
    let url = url.or_else(|| Url::parse(&format!("http://{address}")).ok())?;
    url.host_str().map(|host| host.trim_end_matches('.').to_ascii_lowercase())
}

impl Proxy {
    fn build_proxy(&self) -> reqwest::Result<reqwest::Proxy> {
        let except = match &self.except {
            Some(except) => NoProxy::from_string(except),
            None => NoProxy::from_env(),
        };
        let proxy = reqwest::Proxy::all(&self.url)?.no_proxy(except);
        Ok(match &self.login {
            Some((name, password)) => proxy.basic_auth(name, password.expose_secret()),
            None => proxy,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_for_every_address_but_the_exceptions_and_carries_its_login() {
        let proxy = |except: Option<&str>, login: Option<(&str, &str)>| OutboundHttp {
            proxy: Some(Proxy {
                url: "http://proxy.example.com:3128".to_owned(),
                login: login.map(|(name, password)| (name.to_owned(), password.into())),
                except: except.map(str::to_owned),
            }),
            ..OutboundHttp::default()
        };
        let proxy_of = |outbound: &OutboundHttp, address: &str| {
            outbound.proxy_of(&address.parse().unwrap()).map(|uri| uri.to_string())
        };
        let open = proxy(Some("10.0.0.0/8,internal.example.com"), None);
        let through = Some("http://proxy.example.com:3128/".to_owned());
        for (address, expected) in [
            ("https://192.0.2.1:6443", &through),
            ("http://api.example.com", &through),
            ("https://10.1.2.3:6443", &None),
            ("https://api.internal.example.com", &None),
        ] {
            assert_eq!(proxy_of(&open, address), *expected, "{address}");
        }
        let proxy_with_login = proxy(Some(""), Some(("me", "p@ss:word")));
        let expected = "http://me:p%40ss%3Aword@proxy.example.com:3128/";
        assert_eq!(proxy_of(&proxy_with_login, "https://192.0.2.1").as_deref(), Some(expected));
    }
}
