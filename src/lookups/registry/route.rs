//! The connection to a registry, and its redirects: a registry that the configuration names is asked wherever it is;
//! every other host must be public, as a stranger has named it: a developer in an image's name, or a registry in a
//! redirect or in the address of its tokens.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::header::{AUTHORIZATION, COOKIE, LOCATION, PROXY_AUTHORIZATION};
use reqwest::{Request, RequestBuilder, Url};

use crate::lookups::http::{Http, HttpAnswer, LookupLimits, LookupSettingsError};
use crate::lookups::image;
use crate::model::facts::FactUnavailable;
use crate::support::cause::innermost_cause;
use crate::support::credential::Credential;
use crate::support::http::OutboundHttp;
use crate::support::http::public::PublicOnly;

/// The entry for every other registry on the Internet, asked without credentials.
pub const ANY_OTHER: &str = "*";

/// The configuration of one registry.
#[derive(Debug, Clone, Default)]
pub struct RegistryAccess {
    /// The login; `None`: anonymous.
    pub login: Option<BasicLogin>,
    /// True if the registry is reached by http: then everything is sent unencrypted.
    pub insecure: bool,
}

/// A name and a password.
#[derive(Debug, Clone)]
pub struct BasicLogin {
    /// The name.
    pub username: String,
    /// The password, or a token in its place.
    pub password: Credential,
}

/// The limit of redirects of one request.
const REDIRECTS: usize = 3;

/// Clients for both kinds of hosts. Neither follows a redirect by itself.
#[derive(Debug)]
pub(super) struct RegistryClients {
    /// The client for hosts that the configuration names.
    configured: Http,
    /// The client for every other host: it connects to public addresses only.
    public: Http,
    guard: PublicOnly,
    /// Hosts with their ports.
    hosts: BTreeSet<(String, Option<u16>)>,
}

impl RegistryClients {
    pub(super) fn new(
        accesses: &BTreeMap<String, RegistryAccess>,
        patience: LookupLimits,
        outbound: &OutboundHttp,
    ) -> Result<Self, LookupSettingsError> {
        let configured = Http::new(patience, Vec::new(), outbound)?;
        let unusable =
            |error: reqwest::Error| LookupSettingsError(innermost_cause(&error).to_string());
        let public = outbound.public_builder().map_err(unusable)?;
        let public = configured.with_client(public).map_err(unusable)?;
        let hosts =
            accesses.iter().filter(|(host, _)| *host != ANY_OTHER).filter_map(|(host, access)| {
                let scheme = if access.insecure { "http" } else { "https" };
                let url = Url::parse(&format!("{scheme}://{}/", image::authority_of(host))).ok()?;
                Some(authority(&url))
            });
        Ok(Self { configured, public, guard: outbound.public_only(), hosts: hosts.collect() })
    }

    /// Returns true if an image's host without an entry may be asked, as far as its spelling says.
    pub(super) fn may_be_public(&self, host: &str) -> bool {
        let url = Url::parse(&format!("https://{}/", image::authority_of(host)));
        url.is_ok_and(|url| self.guard.check(&url).is_ok())
    }

    /// Sends a request, and follows redirects.
    pub(super) async fn ask(
        &self,
        request: Request,
        limit: usize,
    ) -> Result<HttpAnswer, FactUnavailable> {
        let mut request = request;
        for _ in 0..=REDIRECTS {
            let from = request.url().clone();
            let host = from.host_str().unwrap_or_default();
            let http = self.http_for(&from)?;
            let copy = request.try_clone();
            let request_builder = RequestBuilder::from_parts(http.client().clone(), request);
            let answer = http.ask(host, request_builder, limit).await?;
            let Some((to, copy)) = redirect(&answer, &from)?.zip(copy) else { return Ok(answer) };
            request = sent_on(copy, to)?;
        }
        Err(not_followed(request.url(), "again and again"))
    }

    fn http_for(&self, url: &Url) -> Result<&Http, FactUnavailable> {
        if self.hosts.contains(&authority(url)) {
            return Ok(&self.configured);
        }
        self.guard.check(url).map(|()| &self.public).map_err(|why| {
            FactUnavailable::new(format!(
                "{why}: name the host under `registries`, or its network under `outbound.private_networks`"
            ))
        })
    }
}

fn authority(url: &Url) -> (String, Option<u16>) {
    (url.host_str().unwrap_or_default().to_owned(), url.port_or_known_default())
}

/// Returns the address of a redirect, if the answer is one.
fn redirect(answer: &HttpAnswer, from: &Url) -> Result<Option<Url>, FactUnavailable> {
    if !matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let to = answer.headers.get(LOCATION).and_then(|to| to.to_str().ok());
    let to = to.and_then(|to| from.join(to).ok());
    to.map(Some).ok_or_else(|| not_followed(from, "to something that is no address"))
}

/// Builds the same request to another address. Credentials are removed when the host changes.
fn sent_on(mut request: Request, to: Url) -> Result<Request, FactUnavailable> {
    let from = request.url();
    if from.scheme() == "https" && to.scheme() != "https" {
        return Err(not_followed(from, "from https to http"));
    }
    if !matches!(to.scheme(), "https" | "http") {
        return Err(not_followed(from, "to something that is no web address"));
    }
    if authority(from) != authority(&to) || from.scheme() != to.scheme() {
        for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION] {
            request.headers_mut().remove(name);
        }
    }
    *request.url_mut() = to;
    // A registry that writes a login into an address is after the service's own.
    let url = request.url_mut();
    let _never_without_a_host = url.set_username("").and_then(|()| url.set_password(None));
    Ok(request)
}

fn not_followed(from: &Url, reason: &str) -> FactUnavailable {
    FactUnavailable::new(format!("{} redirects {reason}", from.host_str().unwrap_or_default()))
}
