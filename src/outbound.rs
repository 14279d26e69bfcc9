//! HOW WE GET OUT: every HTTP client is made here, so that a proxy and an authority that the
//! company has of its own count for all of them.
//!
//! Without a proxy of ours the standard variables count: `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`.

use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, NoProxy};
use secrecy::{ExposeSecret, SecretString};

const AGENT: &str = concat!("the-deployer/", env!("CARGO_PKG_VERSION"));

/// Who is trusted beside the machine's own authorities, and through whom requests go.
#[derive(Debug, Clone, Default)]
pub struct Outbound {
    /// Certificates of authorities that are trusted, too; each as DER.
    pub authorities: Vec<Vec<u8>>,
    /// The proxy for everything.
    pub proxy: Option<Proxy>,
}

/// A proxy.
#[derive(Debug, Clone)]
pub struct Proxy {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub url: String,
    /// Name and password.
    pub login: Option<(String, SecretString)>,
    /// What is reached without it, separated by commas; absent: what `NO_PROXY` says.
    pub except: Option<String>,
}

impl Outbound {
    /// A client that follows a few redirects, and gives up a connection after that time.
    ///
    /// # Errors
    /// When an authority or the proxy's address cannot be used.
    pub fn client(&self, connect: Duration) -> reqwest::Result<Client> {
        self.builder()?.connect_timeout(connect).build()
    }

    /// The same, for who judges redirects itself.
    ///
    /// # Errors
    /// When an authority or the proxy's address cannot be used.
    pub fn client_without_redirects(&self, connect: Duration) -> reqwest::Result<Client> {
        self.builder()?.connect_timeout(connect).redirect(Policy::none()).build()
    }

    /// What every client begins with. None tells where it was sent on from: an address can be a
    /// secret.
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
            builder = builder.proxy(proxy.made()?);
        }
        Ok(builder)
    }
}

impl Proxy {
    fn made(&self) -> reqwest::Result<reqwest::Proxy> {
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
