//! OUTGOING HTTP: every HTTP client is made here, so that the company's proxy and certificate authority count for all
//! of them.
//!
//! Without a configured proxy the standard variables count: `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`.

pub mod body; // a body up to a limit
pub mod public; // only public addresses, for foreign host names
pub mod retry_after; // the header Retry-After

use std::sync::Arc;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, NoProxy, Url};
use secrecy::{ExposeSecret, SecretString};

use crate::support::http::public::{Network, PublicOnly};

const AGENT: &str = concat!("the-deployer/", env!("CARGO_PKG_VERSION"));

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
    /// The destinations without the proxy, separated by commas; `None` for `NO_PROXY`.
    pub except: Option<String>,
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

    /// Returns the check for foreign addresses: only public ones, and those of the allowed networks.
    pub fn public_only(&self) -> PublicOnly {
        let own = self.proxy.iter().filter_map(|proxy| host_of(&proxy.url));
        let proxies = own.chain(self.proxies_of_variables.iter().cloned());
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

    /// Builds the client builder of every client. No client sends a referer: an address can be a secret.
    ///
    /// # Errors
    /// When an authority or the proxy's address cannot be used.
    pub fn builder(&self) -> reqwest::Result<ClientBuilder> {
        let mut builder = Client::builder().user_agent(AGENT).referer(false);
        if !self.authorities.is_empty() {
            let certificates = self.authorities.iter().map(|der| Certificate::from_der(der));
            builder = builder.tls_certs_merge(certificates.collect::<reqwest::Result<Vec<_>>>()?);
        }
        if let Some(proxy) = &self.proxy {
            builder = builder.proxy(proxy.build_proxy()?);
        }
        Ok(builder)
    }
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
