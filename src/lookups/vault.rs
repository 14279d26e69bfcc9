//! Lookups of a secret's keys in Vault's key-value engine, version 2. Values are never read: the token needs no right
//! to.
//!
//! `GET /v1/<mount>/metadata/<path>` says that a secret exists, `GET /v1/<mount>/subkeys/<path>` (Vault 1.10 and later)
//! has the keys of its newest version.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{StatusCode, Url};
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::lookups::http::{Http, HttpAnswer, LookupLimits, LookupSettingsError};
use crate::model::facts::FactUnavailable;
use crate::support::credential::Credential;
use crate::support::http::OutboundHttp;
use crate::support::percent::encode_path_below;

const TOKEN: HeaderName = HeaderName::from_static("x-vault-token");
const NAMESPACE: HeaderName = HeaderName::from_static("x-vault-namespace");
/// The header that Vault requires of clients that are not a browser, against forged requests.
const REQUEST: HeaderName = HeaderName::from_static("x-vault-request");
/// The names of keys and versions; a secret has a dozen.
const ANSWER_BYTES: usize = 1024 * 1024;

/// The settings of a cluster's Vault.
#[derive(Debug, Clone)]
pub struct VaultSettings {
    /// `https://vault.example.com`
    pub address: String,
    /// The mount path of the engine: `secret`.
    pub mount: String,
    /// The namespace (Vault Enterprise).
    pub namespace: Option<String>,
    /// The token, which may read `metadata/*` and `subkeys/*` below the mount.
    pub token: Credential,
}

/// A Vault.
#[derive(Debug)]
pub struct VaultClient {
    http: Http,
    settings: VaultSettings,
    base: Url,
    host: String,
}

impl VaultClient {
    /// Builds a client of that Vault; it sends no request yet.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub fn new(
        settings: VaultSettings,
        patience: LookupLimits,
        outbound: &OutboundHttp,
    ) -> Result<Self, LookupSettingsError> {
        let address_error =
            || LookupSettingsError(format!("{} is not an address of a Vault", settings.address));
        let address = format!("{}/", settings.address.trim_end_matches('/'));
        let base = Url::parse(&address).map_err(|_| address_error())?;
        let host = base.host_str().ok_or_else(address_error)?.to_owned();
        let http = Http::new(patience, Vec::new(), outbound)?;
        Ok(Self { http, settings, base, host })
    }

    /// Returns the keys of a secret; `None` if there is no such secret or its newest version is deleted.
    ///
    /// Without wanted keys none are read. A Vault before 1.10 cannot list keys: the wanted keys are then taken to exist
    /// if the secret does.
    ///
    /// # Errors
    /// [`FactUnavailable`]
    pub async fn keys(
        &self,
        path: &str,
        names: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<Option<BTreeSet<String>>, FactUnavailable> {
        if names.is_empty() {
            return Ok(self.is_there(path, now).await?.then(BTreeSet::new));
        }
        let answer = self.get("subkeys", path).await?;
        match answer.status {
            StatusCode::OK => self.read::<Subkeys>(&answer).map(Subkeys::keys),
            StatusCode::NOT_FOUND if has_error_text(&answer, "unsupported path") => {
                Ok(self.is_there(path, now).await?.then(|| names.clone()))
            }
            StatusCode::NOT_FOUND => self.not_there(&answer).map(|()| None),
            _ => Err(self.refusal("subkeys", path, &answer)),
        }
    }

    async fn is_there(&self, path: &str, now: Timestamp) -> Result<bool, FactUnavailable> {
        let answer = self.get("metadata", path).await?;
        match answer.status {
            StatusCode::OK => Ok(self.read::<Metadata>(&answer)?.is_alive(now)),
            StatusCode::NOT_FOUND => self.not_there(&answer).map(|()| false),
            _ => Err(self.refusal("metadata", path, &answer)),
        }
    }

    async fn get(&self, part: &str, path: &str) -> Result<HttpAnswer, FactUnavailable> {
        let VaultSettings { mount, namespace, token, .. } = &self.settings;
        let place = encode_path_below(mount).zip(encode_path_below(path));
        let place = place.map(|(mount, path)| format!("v1/{mount}/{part}/{path}"));
        let address = place.and_then(|place| self.base.join(&place).ok());
        let address = address.ok_or_else(|| {
            FactUnavailable::new(format!("{mount}/{path} cannot be a path in Vault"))
        })?;
        let token = token.text().await.map_err(FactUnavailable::new)?;
        let unusable = |_| {
            FactUnavailable::new("the token for Vault has characters that no HTTP header can carry")
        };
        let mut value = HeaderValue::from_str(token.expose_secret()).map_err(unusable)?;
        value.set_sensitive(true);
        let mut request = self.http.client().get(address).header(TOKEN, value);
        request = request.header(REQUEST, HeaderValue::from_static("true"));
        if let Some(namespace) = namespace {
            request = request.header(NAMESPACE, namespace);
        }
        self.http.ask(&self.host, request, ANSWER_BYTES).await
    }

    fn read<T: DeserializeOwned>(&self, answer: &HttpAnswer) -> Result<T, FactUnavailable> {
        #[derive(Deserialize)]
        struct Body<T> {
            data: T,
        }
        let body: Result<Body<T>, _> = serde_json::from_slice(&answer.body);
        let unread =
            |_| FactUnavailable::new(format!("Vault at {} answers what cannot be read", self.host));
        body.map(|body| body.data).map_err(unread)
    }

    /// Checks a 404: without a complaint the path is empty. With one, something else is wrong.
    fn not_there(&self, answer: &HttpAnswer) -> Result<(), FactUnavailable> {
        if !has_error_text(answer, "no handler for route") {
            return Ok(());
        }
        let mount = &self.settings.mount;
        Err(FactUnavailable::new(format!(
            "Vault at {} has no engine mounted at {mount}",
            self.host
        )))
    }

    fn refusal(&self, part: &str, path: &str, answer: &HttpAnswer) -> FactUnavailable {
        let (host, mount, status) = (&self.host, &self.settings.mount, answer.status.as_u16());
        FactUnavailable::new(match answer.status {
            StatusCode::FORBIDDEN => format!(
                "Vault at {host} does not let the service's token read {mount}/{part}/{path} (403): it has \
                 expired, or lacks `read` on {mount}/{part}/*"
            ),
            StatusCode::SERVICE_UNAVAILABLE => format!("Vault at {host} is sealed or down (503)"),
            code if code.is_redirection() => format!(
                "Vault at {host} redirects ({status}), where the service's token does not go: \
                 configure the address of its active node"
            ),
            _ => format!("Vault at {host} answers {status} for {mount}/{part}/{path}"),
        })
    }
}

fn has_error_text(answer: &HttpAnswer, words: &str) -> bool {
    #[derive(Deserialize)]
    struct Body {
        #[serde(default)]
        errors: Vec<String>,
    }
    let errors = serde_json::from_slice(&answer.body).map_or_else(|_| vec![], |b: Body| b.errors);
    errors.iter().any(|error| error.contains(words))
}

/// The keys of a version, each without its value.
#[derive(Deserialize)]
struct Subkeys {
    /// Absent where the version is deleted.
    subkeys: Option<serde_json::Map<String, serde_json::Value>>,
}

impl Subkeys {
    fn keys(self) -> Option<BTreeSet<String>> {
        self.subkeys.map(|keys| keys.into_iter().map(|(key, _)| key).collect())
    }
}

/// The metadata of a secret's versions.
#[derive(Deserialize)]
struct Metadata {
    current_version: u64,
    #[serde(default)]
    versions: BTreeMap<String, Version>,
}

#[derive(Deserialize)]
struct Version {
    #[serde(default)]
    deletion_time: String,
    #[serde(default)]
    destroyed: bool,
}

impl Metadata {
    /// Returns whether the newest version can be read. Where versions are deleted after a time,
    /// each has that time from the beginning.
    fn is_alive(&self, now: Timestamp) -> bool {
        let newest = self.versions.get(&self.current_version.to_string());
        newest.is_some_and(|version| {
            let deleted = version.deletion_time.parse::<Timestamp>().is_ok_and(|time| time <= now);
            !deleted && !version.destroyed
        })
    }
}
