//! Whether an image's tag exists: the OCI distribution API, with its tokens.
//!
//! ```text
//! HEAD /v2/<name>/manifests/<tag> ─▶ 200 it is there, 404 it is not
//!         │ 401 WWW-Authenticate: Bearer realm=…
//!         ▼
//! GET realm?service=…&scope=…  (our name and password, if we have them) ─▶ a token, and again
//! ```
//!
//! Tags hardly ever go away, so that one is there is remembered for minutes; that it is not only
//! for seconds, because somebody waits for it to be pushed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use reqwest::header::{ACCEPT, HeaderMap, WWW_AUTHENTICATE};
use reqwest::{Method, RequestBuilder, StatusCode, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use crate::facts::cache::Cache;
use crate::facts::challenge::{self, Bearer, Challenge};
use crate::facts::credential::Credential;
use crate::facts::http::{Answer, Http, Patience, Redirects};
use crate::facts::image::Image;
use crate::facts::{NotKnown, SettingsError};
use crate::outbound::Outbound;

/// How long it is remembered that a tag is there.
pub const THERE: SignedDuration = SignedDuration::from_mins(10);
/// How long it is remembered that a tag is not there.
pub const NOT_THERE: SignedDuration = SignedDuration::from_secs(5);
/// A thousand apps on a few tags each.
const IMAGES: usize = 4096;
const TOKENS: usize = 1024;
/// The specification's default where a token says nothing of its life.
const TOKEN_LIFE: i64 = 60;
/// A token is not used in its last moments: it must live until the answer.
const TOKEN_MARGIN: i64 = 10;
/// A token service's answer; ours have some 10 KiB at most.
const TOKEN_BYTES: usize = 128 * 1024;
/// Errors of a registry are short; of a manifest nothing is read.
const ANSWER_BYTES: usize = 16 * 1024;

/// Every kind that a tag can lead to; a registry says 404 for a kind that is not named.
const KINDS: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.docker.distribution.manifest.v1+prettyjws, */*;q=0.1";

/// Every other registry, asked without credentials.
pub const ANY_OTHER: &str = "*";

/// What is configured of one registry.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    /// Who we are there; `None`: anybody.
    pub login: Option<Login>,
    /// Whether it is reached by http. Everything goes in the clear then.
    pub insecure: bool,
}

/// A name and a password.
#[derive(Debug, Clone)]
pub struct Login {
    /// The name.
    pub username: String,
    /// The password, or a token in its place.
    pub password: Credential,
}

/// The registries that may be asked.
#[derive(Debug)]
pub struct Registries {
    http: Http,
    known: BTreeMap<String, Registry>,
    images: Mutex<Cache<Image, (bool, Timestamp)>>,
    tokens: Mutex<Cache<(String, String), SecretString>>,
}

/// What was found, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Whether the tag is there.
    pub there: bool,
    /// When the registry said so.
    pub at: Timestamp,
}

impl Registries {
    /// The registries by host, as people name them; [`ANY_OTHER`] is a host too.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn new(
        known: BTreeMap<String, Registry>,
        patience: Patience,
        outbound: &Outbound,
    ) -> Result<Self, SettingsError> {
        Ok(Self {
            http: Http::new(patience, Redirects::Few, Vec::new(), outbound)?,
            known,
            images: Mutex::new(Cache::new(IMAGES)),
            tokens: Mutex::new(Cache::new(TOKENS)),
        })
    }

    /// Whether the configuration lets us ask for this image.
    pub fn may_ask(&self, image: &Image) -> bool {
        self.of(image).is_some()
    }

    fn of(&self, image: &Image) -> Option<&Registry> {
        let other = || self.known.get(ANY_OTHER).filter(|_| image.is_public());
        self.known.get(&image.host).or_else(other)
    }

    /// Whether the image's tag is there.
    ///
    /// # Errors
    /// [`NotKnown`] when the registry does not say, or is none that we may ask.
    pub async fn has(&self, image: &Image, now: Timestamp) -> Result<Found, NotKnown> {
        if let Some((there, at)) = lock(&self.images).get(image, now) {
            return Ok(Found { there, at });
        }
        let registry = self.of(image).ok_or_else(|| {
            NotKnown::new(format!("{} is not under `registries` in the configuration", image.host))
        })?;
        let question = Question { registries: self, registry, image, now };
        let there = question.answer().await?;
        let life = if there { THERE } else { NOT_THERE };
        lock(&self.images).put(image.clone(), (there, now), later(now, life));
        Ok(Found { there, at: now })
    }
}

/// One image at its registry.
struct Question<'a> {
    registries: &'a Registries,
    registry: &'a Registry,
    image: &'a Image,
    now: Timestamp,
}

/// What goes into `Authorization`.
enum Proof {
    None,
    Token(SecretString),
    Login(Login, SecretString),
}

impl Question<'_> {
    async fn answer(&self) -> Result<bool, NotKnown> {
        let kept = lock(&self.registries.tokens).get(&self.token_key(), self.now);
        let answer = self.manifest(kept.map_or(Proof::None, Proof::Token)).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return self.judge(&answer);
        }
        lock(&self.registries.tokens).forget(&self.token_key());
        let proof = self.proof(&answer.headers).await?;
        self.judge(&self.manifest(proof).await?)
    }

    fn judge(&self, answer: &Answer) -> Result<bool, NotKnown> {
        match answer.status {
            status if status.is_success() => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                let who = match &self.registry.login {
                    None => "it wants to know who we are: add our login under `registries`",
                    Some(_) => "our login under `registries` is wrong, or may not pull it",
                };
                Err(self.not_known(&format!(
                    "answers {} for {}; {who}",
                    status.as_u16(),
                    self.image.name
                )))
            }
            StatusCode::TOO_MANY_REQUESTS => Err(self.not_known("is asked too often for now")),
            status => Err(self.not_known(&format!("answers {status}"))),
        }
    }

    /// HEAD costs no pull where pulls are counted; who does not know it is asked by GET.
    async fn manifest(&self, proof: Proof) -> Result<Answer, NotKnown> {
        let head = self.request(Method::HEAD, &proof)?;
        let answer = self.ask(head, ANSWER_BYTES).await?;
        match answer.status {
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
                let get = self.request(Method::GET, &proof)?;
                self.ask(get, ANSWER_BYTES).await
            }
            _ => Ok(answer),
        }
    }

    fn request(&self, method: Method, proof: &Proof) -> Result<RequestBuilder, NotKnown> {
        let scheme = if self.registry.insecure { "http" } else { "https" };
        let Image { name, reference, .. } = self.image;
        let address =
            format!("{scheme}://{}/v2/{name}/manifests/{reference}", self.image.authority());
        let address =
            Url::parse(&address).map_err(|_| self.not_known("has no address that can be used"))?;
        let request = self.registries.http.client().request(method, address).header(ACCEPT, KINDS);
        Ok(match proof {
            Proof::None => request,
            Proof::Token(token) => request.bearer_auth(token.expose_secret()),
            Proof::Login(login, password) => {
                request.basic_auth(&login.username, Some(password.expose_secret()))
            }
        })
    }

    async fn ask(&self, request: RequestBuilder, limit: usize) -> Result<Answer, NotKnown> {
        self.registries.http.ask(self.image.authority(), request, limit).await
    }

    /// What the registry's challenge asks for.
    async fn proof(&self, headers: &HeaderMap) -> Result<Proof, NotKnown> {
        let texts = headers.get_all(WWW_AUTHENTICATE).iter();
        let challenges = challenge::read(texts.filter_map(|text| text.to_str().ok()));
        let bearer = challenges.iter().find_map(|challenge| match challenge {
            Challenge::Bearer(bearer) => Some(bearer),
            Challenge::Basic => None,
        });
        if let Some(bearer) = bearer {
            return self.token(bearer).await.map(Proof::Token);
        }
        match (&self.registry.login, challenges.is_empty()) {
            (Some(login), false) => Ok(Proof::Login(login.clone(), login.password.text().await?)),
            (None, false) => Err(self.not_known("wants a login: add ours under `registries`")),
            (_, true) => Err(self.not_known("refuses us, and does not say what it wants (401)")),
        }
    }

    async fn token(&self, bearer: &Bearer) -> Result<SecretString, NotKnown> {
        let realm = self.realm(&bearer.realm)?;
        let host = realm.host_str().unwrap_or_default().to_owned();
        let scope = bearer.scope.clone().unwrap_or_else(|| self.scope());
        let mut address = realm;
        address.query_pairs_mut().append_pair("scope", &scope);
        if let Some(service) = &bearer.service {
            address.query_pairs_mut().append_pair("service", service);
        }
        let mut request = self.registries.http.client().get(address);
        if let Some(login) = &self.registry.login {
            let password = login.password.text().await?;
            request = request.basic_auth(&login.username, Some(password.expose_secret()));
        }
        let answer = self.registries.http.ask(&host, request, TOKEN_BYTES).await?;
        if !answer.status.is_success() {
            let why = match (answer.status, &self.registry.login) {
                (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, None) => {
                    "; add our login under `registries`"
                }
                (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, Some(_)) => {
                    "; our login under `registries` is wrong, or may not pull it"
                }
                _ => "",
            };
            let status = answer.status.as_u16();
            return Err(NotKnown::new(format!("{host} gives no token (it answers {status}){why}")));
        }
        let (token, life) = token_of(&answer.body)
            .ok_or_else(|| NotKnown::new(format!("{host} gives no token that can be read")))?;
        let until = later(self.now, SignedDuration::from_secs(life - TOKEN_MARGIN));
        lock(&self.registries.tokens).put(self.token_key(), token.clone(), until);
        Ok(token)
    }

    /// Where tokens are given. Our password goes there, so it is https; or http at the very
    /// registry that the configuration lets us speak http with.
    fn realm(&self, realm: &str) -> Result<Url, NotKnown> {
        let refuse =
            |why: &str| self.not_known(&format!("has its tokens given where we do not go: {why}"));
        let url = Url::parse(realm).map_err(|_| refuse("that is no address"))?;
        let own = self.image.authority().split(':').next();
        let same_host = url.host_str() == own;
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

    fn scope(&self) -> String {
        format!("repository:{}:pull", self.image.name)
    }

    fn token_key(&self) -> (String, String) {
        (self.image.host.clone(), self.image.name.clone())
    }

    fn not_known(&self, what: &str) -> NotKnown {
        NotKnown::new(format!("the registry {} {what}", self.image.host))
    }
}

/// The token and how many seconds it lives.
fn token_of(body: &[u8]) -> Option<(SecretString, i64)> {
    #[derive(Deserialize)]
    struct Body {
        token: Option<SecretString>,
        access_token: Option<SecretString>,
        expires_in: Option<i64>,
    }
    let Body { token, access_token, expires_in } = serde_json::from_slice(body).ok()?;
    let token = token.or(access_token).filter(|token| !token.expose_secret().is_empty())?;
    let life = expires_in.unwrap_or(TOKEN_LIFE).clamp(0, 24 * 60 * 60);
    Some((token, life))
}

fn later(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.saturating_add(by).unwrap_or(now)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_in_both_spellings() {
        let read = |text: &str| {
            token_of(text.as_bytes()).map(|(token, life)| (token.expose_secret().to_owned(), life))
        };
        assert_eq!(read(r#"{"token": "a", "expires_in": 300}"#), Some(("a".to_owned(), 300)));
        assert_eq!(read(r#"{"access_token": "b", "x": {}}"#), Some(("b".to_owned(), 60)));
        for none in ["", "{}", r#"{"token": ""}"#, r#"{"token": 7}"#, "[]"] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
