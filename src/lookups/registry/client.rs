//! The registries, and the requests about one image's repository with the login that its registry requires.

use std::collections::BTreeMap;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Method, Request, StatusCode, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use tokio::sync::Semaphore;

use crate::lookups::challenge::{self, Bearer, Challenge};
use crate::lookups::http::{HttpAnswer, LookupLimits, LookupSettingsError};
use crate::lookups::image::ImageReference;
use crate::lookups::registry::image_config::ImageBuild;
use crate::lookups::registry::route::{ANY_OTHER, BasicLogin, RegistryAccess, RegistryClients};
use crate::lookups::registry::tags::ListOrder;
use crate::model::facts::{FactUnavailable, RegistryImage};
use crate::model::id::ImageDigest;
use crate::support::cache::BoundedCache;
use crate::support::http::OutboundHttp;
use crate::support::sync::lock;
use crate::support::time::saturating_add;

/// The time for which an existing tag is cached.
pub const THERE: SignedDuration = SignedDuration::from_mins(10);
/// The time for which a missing tag is cached.
pub const NOT_THERE: SignedDuration = SignedDuration::from_secs(5);
/// A thousand apps on a few tags each.
const IMAGES: usize = 4096;
const TOKENS: usize = 1024;
/// Lists of builds whose order is remembered: as many as people page through at a time.
const ORDERS: usize = 64;
/// Errors of a registry are short; of a manifest nothing is read.
const ANSWER_BYTES: usize = 16 * 1024;

/// Lists of builds that are made at once: each may hold a page of tags and several manifests in memory.
const LISTS_AT_ONCE: usize = 4;

/// Every kind that a tag can lead to; a registry says 404 for a kind that is not named.
pub(super) const KINDS: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.docker.distribution.manifest.v1+prettyjws, */*;q=0.1";

/// The specification's default where a token says nothing of its life.
const TOKEN_LIFE: i64 = 60;
/// A token is not used in its last moments: it must live until the answer.
const TOKEN_MARGIN: i64 = 10;
/// The largest answer of a token server; known ones have some 10 KiB at most.
const TOKEN_BYTES: usize = 32 * 1024;
/// The longest token: it goes into a header of each request, and a thousand of them are cached.
const LONGEST_TOKEN: usize = 12 * 1024;

/// The registries that may be asked.
#[derive(Debug)]
pub struct Registries {
    route: RegistryClients,
    accesses: BTreeMap<String, RegistryAccess>,
    images: Mutex<BoundedCache<ImageReference, ImageLookup>>,
    tokens: Mutex<BoundedCache<(String, String), CachedAuth>>,
    pub(super) builds: Mutex<BoundedCache<ImageReference, ImageBuild>>,
    /// The order of the list, by image without a reference.
    pub(super) orders: Mutex<BoundedCache<ImageReference, ListOrder>>,
    /// Lists of builds that may be made now.
    pub(super) lists: Semaphore,
}

/// The result of a lookup, with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageLookup {
    /// The registry's answer.
    pub image: RegistryImage,
    /// The time of the registry's answer.
    pub at: Timestamp,
}

impl Registries {
    /// Builds the registries by host, as people name them; [`ANY_OTHER`] is a host too.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn new(
        accesses: BTreeMap<String, RegistryAccess>,
        patience: LookupLimits,
        outbound: &OutboundHttp,
    ) -> Result<Self, LookupSettingsError> {
        Ok(Self {
            route: RegistryClients::new(&accesses, patience, outbound)?,
            accesses,
            images: Mutex::new(BoundedCache::new(IMAGES)),
            tokens: Mutex::new(BoundedCache::new(TOKENS)),
            builds: Mutex::new(BoundedCache::new(IMAGES)),
            orders: Mutex::new(BoundedCache::new(ORDERS)),
            lists: Semaphore::new(LISTS_AT_ONCE),
        })
    }

    /// Returns true if the configuration lets the service ask for this image.
    pub fn may_ask(&self, image: &ImageReference) -> bool {
        self.find_registry(image).is_some()
    }

    fn find_registry(&self, image: &ImageReference) -> Option<&RegistryAccess> {
        let is_public = |_: &&RegistryAccess| self.route.may_be_public(&image.host);
        let other = || self.accesses.get(ANY_OTHER).filter(is_public);
        self.accesses.get(&image.host).or_else(other)
    }

    /// Looks up the image's tag at its registry. A cached answer counts if it is not older than `since`: a tag may lead
    /// to another image by now.
    ///
    /// # Errors
    /// [`FactUnavailable`] when the registry does not say, or may not be asked.
    pub async fn find_tag(
        &self,
        image: &ImageReference,
        since: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<ImageLookup, FactUnavailable> {
        let cached = lock(&self.images).get(image, now);
        if let Some(lookup) = cached.filter(|lookup| since.is_none_or(|since| lookup.at >= since)) {
            return Ok(lookup);
        }
        let question = self.question(image, now)?;
        let path = format!("manifests/{}", image.reference);
        let request =
            RegistryRequest { method: Method::HEAD, path, accept: KINDS, limit: ANSWER_BYTES };
        let answer = question.answer(&request).await?;
        let (image_state, life) = if question.judge(&answer)? {
            (RegistryImage::Present { digest: digest_of(&answer.headers) }, THERE)
        } else {
            (RegistryImage::Absent, NOT_THERE)
        };
        let lookup = ImageLookup { image: image_state, at: now };
        lock(&self.images).put(image.clone(), lookup.clone(), saturating_add(now, life));
        Ok(lookup)
    }

    pub(super) fn question<'a>(
        &'a self,
        image: &'a ImageReference,
        now: Timestamp,
    ) -> Result<ImageQuestion<'a>, FactUnavailable> {
        let registry = self.find_registry(image).ok_or_else(|| {
            FactUnavailable::new(format!(
                "{} is not under `registries` in the configuration",
                image.host
            ))
        })?;
        Ok(ImageQuestion { registries: self, registry, image, now })
    }
}

/// One image at its registry.
pub(super) struct ImageQuestion<'a> {
    pub(super) registries: &'a Registries,
    pub(super) registry: &'a RegistryAccess,
    pub(super) image: &'a ImageReference,
    pub(super) now: Timestamp,
}

/// A request about the image's repository.
#[derive(Debug, Clone)]
pub(super) struct RegistryRequest<'a> {
    pub(super) method: Method,
    /// The path below the repository's name: `manifests/1.0`.
    pub(super) path: String,
    /// The accepted media types.
    pub(super) accept: &'a str,
    /// A longer answer is cut.
    pub(super) limit: usize,
}

/// The login that a registry accepted, for the next request.
#[derive(Debug, Clone)]
pub(super) enum CachedAuth {
    /// This token.
    Token(SecretString),
    /// The configured name and password, in each request.
    Login,
}

/// The value of `Authorization`.
enum Proof {
    None,
    Token(SecretString),
    Login(BasicLogin, SecretString),
}

impl ImageQuestion<'_> {
    /// Returns the registry's answer, whatever its status; a login that it refuses is renewed once.
    pub(super) async fn answer(
        &self,
        registry_request: &RegistryRequest<'_>,
    ) -> Result<HttpAnswer, FactUnavailable> {
        let cached = lock(&self.registries.tokens).get(&self.token_key(), self.now);
        let proof = match cached {
            None => Proof::None,
            Some(CachedAuth::Token(token)) => Proof::Token(token),
            Some(CachedAuth::Login) => self.login().await?,
        };
        let answer = self.send_request(registry_request, &proof).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        lock(&self.registries.tokens).remove(&self.token_key());
        let proof = self.proof(&answer.headers).await?;
        self.send_request(registry_request, &proof).await
    }

    /// Reads from an answer whether it is there: `true` for yes, `false` for a plain no.
    pub(super) fn judge(&self, answer: &HttpAnswer) -> Result<bool, FactUnavailable> {
        match answer.status {
            status if status.is_success() => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                let hint = match &self.registry.login {
                    None => "it requires a login: add one under `registries`",
                    Some(_) => "the login under `registries` is wrong, or may not pull it",
                };
                Err(self.not_known(&format!(
                    "answers {} for {}; {hint}",
                    status.as_u16(),
                    self.image.name
                )))
            }
            StatusCode::TOO_MANY_REQUESTS => Err(self.not_known("limits the rate of requests now")),
            status => Err(self.not_known(&format!("answers {status}"))),
        }
    }

    /// Sends a request. HEAD costs no pull where pulls are counted; a registry that does not know HEAD gets a GET.
    async fn send_request(
        &self,
        registry_request: &RegistryRequest<'_>,
        proof: &Proof,
    ) -> Result<HttpAnswer, FactUnavailable> {
        let ask = |request| self.registries.route.ask(request, registry_request.limit);
        let answer = ask(self.request(&registry_request.method, registry_request, proof)?).await?;
        let unknown = StatusCode::METHOD_NOT_ALLOWED == answer.status
            || StatusCode::NOT_IMPLEMENTED == answer.status;
        if unknown && registry_request.method == Method::HEAD {
            return ask(self.request(&Method::GET, registry_request, proof)?).await;
        }
        Ok(answer)
    }

    fn request(
        &self,
        method: &Method,
        registry_request: &RegistryRequest<'_>,
        proof: &Proof,
    ) -> Result<Request, FactUnavailable> {
        let scheme = if self.registry.insecure { "http" } else { "https" };
        let (authority, name, path) =
            (self.image.authority(), &self.image.name, &registry_request.path);
        let address = Url::parse(&format!("{scheme}://{authority}/v2/{name}/{path}"));
        let address = address.map_err(|_| self.not_known("has no address that can be used"))?;
        let mut request = Request::new(method.clone(), address);
        if let Ok(accept) = HeaderValue::from_str(registry_request.accept) {
            request.headers_mut().insert(ACCEPT, accept);
        }
        match proof {
            Proof::None => {}
            Proof::Token(token) => self.authorize(&mut request, "Bearer", token)?,
            Proof::Login(login, password) => self.log_in(&mut request, login, password)?,
        }
        Ok(request)
    }

    fn log_in(
        &self,
        request: &mut Request,
        login: &BasicLogin,
        password: &SecretString,
    ) -> Result<(), FactUnavailable> {
        let credentials = format!("{}:{}", login.username, password.expose_secret());
        self.authorize(request, "Basic", &STANDARD.encode(credentials).into())
    }

    fn authorize(
        &self,
        request: &mut Request,
        scheme: &str,
        proof: &SecretString,
    ) -> Result<(), FactUnavailable> {
        let value = HeaderValue::try_from(format!("{scheme} {}", proof.expose_secret()));
        let mut value = value.map_err(|_| {
            self.not_known("asks for a token, or gave one, that no HTTP header can carry")
        })?;
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
        Ok(())
    }

    /// Gets the login that the registry's challenge requires.
    async fn proof(&self, headers: &HeaderMap) -> Result<Proof, FactUnavailable> {
        let texts = headers.get_all(WWW_AUTHENTICATE).iter();
        let challenges = challenge::read(texts.filter_map(|text| text.to_str().ok()));
        let bearer = challenges.iter().find_map(|challenge| match challenge {
            Challenge::Bearer(bearer) => Some(bearer),
            Challenge::Basic => None,
        });
        if let Some(bearer) = bearer {
            return self.token(bearer).await.map(Proof::Token);
        }
        if challenges.is_empty() {
            return Err(self.not_known("refuses the request and names no way to log in (401)"));
        }
        let proof = self.login().await?;
        let until = saturating_add(self.now, THERE);
        lock(&self.registries.tokens).put(self.token_key(), CachedAuth::Login, until);
        Ok(proof)
    }

    /// Returns the configured name and password, read now: those of some registries change twice a day.
    async fn login(&self) -> Result<Proof, FactUnavailable> {
        match &self.registry.login {
            Some(login) => Ok(Proof::Login(login.clone(), self.password(login).await?)),
            None => Err(self.not_known("requires a login: add one under `registries`")),
        }
    }

    async fn password(&self, login: &BasicLogin) -> Result<SecretString, FactUnavailable> {
        login.password.text().await.map_err(FactUnavailable::new)
    }

    async fn token(&self, bearer: &Bearer) -> Result<SecretString, FactUnavailable> {
        let realm = self.realm(&bearer.realm)?;
        let host = realm.host_str().unwrap_or_default().to_owned();
        let usual = || format!("repository:{}:pull", self.image.name);
        let scope = bearer.scope.clone().unwrap_or_else(usual);
        let mut address = realm;
        address.query_pairs_mut().append_pair("scope", &scope);
        if let Some(service) = &bearer.service {
            address.query_pairs_mut().append_pair("service", service);
        }
        let mut request = Request::new(Method::GET, address);
        if let Some(login) = &self.registry.login {
            self.log_in(&mut request, login, &self.password(login).await?)?;
        }
        let answer = self.registries.route.ask(request, TOKEN_BYTES).await?;
        if !answer.status.is_success() {
            let why = match (answer.status, &self.registry.login) {
                (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, None) => {
                    "; add a login under `registries`"
                }
                (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, Some(_)) => {
                    "; the login under `registries` is wrong, or may not pull it"
                }
                _ => "",
            };
            let status = answer.status.as_u16();
            return Err(FactUnavailable::new(format!(
                "{host} gives no token (it answers {status}){why}"
            )));
        }
        let (token, life) = token_of(&answer.body).ok_or_else(|| {
            FactUnavailable::new(format!("{host} gives no token that can be read"))
        })?;
        let until = saturating_add(self.now, SignedDuration::from_secs(life - TOKEN_MARGIN));
        let cached = CachedAuth::Token(token.clone());
        lock(&self.registries.tokens).put(self.token_key(), cached, until);
        Ok(token)
    }

    /// Parses the address of a token server. The password goes there, so it is https; or http at the very registry that
    /// is configured with http.
    fn realm(&self, realm: &str) -> Result<Url, FactUnavailable> {
        let refuse = |reason: &str| {
            self.not_known(&format!("names a token server that the service does not use: {reason}"))
        };
        let url = Url::parse(realm).map_err(|_| refuse("that is no address"))?;
        let host = self.image.authority().split(':').next();
        let same_host = url.host_str() == host;
        match url.scheme() {
            _ if !url.username().is_empty() || url.password().is_some() => {
                Err(refuse("the address has a login in it"))
            }
            "https" => Ok(url),
            "http" if self.registry.insecure && same_host => Ok(url),
            "http" => Err(refuse("at another host by plain http")),
            _ => Err(refuse("not by https")),
        }
    }

    fn token_key(&self) -> (String, String) {
        (self.image.host.clone(), self.image.name.clone())
    }

    pub(super) fn not_known(&self, detail: &str) -> FactUnavailable {
        FactUnavailable::new(format!("the registry {} {detail}", self.image.host))
    }
}

/// Reads the digest that an answer about a manifest names (OCI distribution specification, "Pulling manifests").
fn digest_of(headers: &HeaderMap) -> Option<ImageDigest> {
    let text = headers.get("docker-content-digest")?.to_str().ok()?;
    ImageDigest::parse(text.trim()).ok()
}

/// Returns the token and its lifetime in seconds.
fn token_of(body: &[u8]) -> Option<(SecretString, i64)> {
    #[derive(Deserialize)]
    struct Body {
        token: Option<SecretString>,
        access_token: Option<SecretString>,
        expires_in: Option<i64>,
    }
    let Body { token, access_token, expires_in } = serde_json::from_slice(body).ok()?;
    let fits = |token: &SecretString| (1..=LONGEST_TOKEN).contains(&token.expose_secret().len());
    let token = token.or(access_token).filter(fits)?;
    let life = expires_in.unwrap_or(TOKEN_LIFE).clamp(0, 24 * 60 * 60);
    Some((token, life))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_in_both_spellings() {
        let parse = |text: &str| {
            token_of(text.as_bytes()).map(|(token, life)| (token.expose_secret().to_owned(), life))
        };
        assert_eq!(parse(r#"{"token": "a", "expires_in": 300}"#), Some(("a".to_owned(), 300)));
        assert_eq!(parse(r#"{"access_token": "b", "x": {}}"#), Some(("b".to_owned(), 60)));
        for none in ["", "{}", r#"{"token": ""}"#, r#"{"token": 7}"#, "[]"] {
            assert_eq!(parse(none), None, "{none}");
        }
        let of = |length: usize| format!(r#"{{"token": "{}"}}"#, "x".repeat(length));
        assert!(parse(&of(LONGEST_TOKEN)).is_some() && parse(&of(LONGEST_TOKEN + 1)).is_none());
    }
}
