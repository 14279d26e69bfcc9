//! Vault's key-value engine, version 2, with a person's token.
//!
//! `GET <mount>/metadata/<path>` has versions and times, `GET <mount>/subkeys/<path>` the keys without values (Vault 1.10
//! and later), `GET <mount>/data/<path>` the values; `POST <mount>/data/<path>` writes a new version if the newest is
//! `options.cas`. No redirect is followed: no other host gets the token.

use std::collections::BTreeMap;

use jiff::Timestamp;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Method, StatusCode, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value as Json, json};

use super::contents::{SecretState, StoredSecret, StoredValue, WriteBase};
use super::location::VaultLocation;
use crate::cli::client;
use crate::cli::error::CliError;
use crate::model::platform::vault_path::VaultPath;
use crate::support::percent::encode_path_below;

const TOKEN: HeaderName = HeaderName::from_static("x-vault-token");
const NAMESPACE: HeaderName = HeaderName::from_static("x-vault-namespace");
/// The header that Vault requires of clients that are not a browser, against forged requests.
const REQUEST: HeaderName = HeaderName::from_static("x-vault-request");
/// The words of a Vault that refuses a write for its check-and-set.
const CAS_MISMATCH: &str = "check-and-set parameter did not match the current version";

/// A Vault, with a person's token where there is one.
pub(super) struct PersonalVault {
    pub(super) location: VaultLocation,
    pub(super) token: Option<SecretString>,
}

/// An answer of a Vault.
pub(super) struct VaultAnswer {
    pub(super) status: StatusCode,
    body: Json,
}

impl VaultAnswer {
    /// Returns a part of the answer.
    pub(super) fn part(&self, pointer: &str) -> Option<&Json> {
        self.body.pointer(pointer)
    }

    /// Returns the texts of its errors.
    pub(super) fn errors(&self) -> Vec<&str> {
        let errors = self.body.get("errors").and_then(Json::as_array);
        errors.into_iter().flatten().filter_map(Json::as_str).collect()
    }

    fn has_error(&self, words: &str) -> bool {
        self.errors().iter().any(|error| error.contains(words))
    }
}

impl PersonalVault {
    /// Sends a request below `/v1/`.
    pub(super) async fn request(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<&Json>,
    ) -> Result<VaultAnswer, CliError> {
        let VaultLocation { address, namespace, .. } = &self.location;
        client::only_safely(address)?;
        let path = encode_path_below(path);
        let url = path
            .and_then(|path| Url::parse_with_params(&format!("{address}/v1/{path}"), query).ok());
        let url = url.ok_or_else(|| CliError::usage("this cannot be a path in Vault"))?;
        let mut request = client::service_client()?.request(method, url);
        request = request.header(REQUEST, HeaderValue::from_static("true"));
        if let Some(token) = &self.token {
            let value = HeaderValue::from_str(token.expose_secret());
            let mut value = value.map_err(|_| {
                CliError::usage("the token for Vault has characters that no token has")
            })?;
            value.set_sensitive(true);
            request = request.header(TOKEN, value);
        }
        if let Some(namespace) = namespace {
            request = request.header(NAMESPACE, namespace);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.map_err(|error| client::unreachable(address, &error))?;
        let status = answer.status();
        if status.is_redirection() {
            return Err(CliError::io(format!(
                "Vault at {address} redirects ({status}), where no token goes"
            ))
            .hint("ask the service's operator to configure the address of its active node"));
        }
        let body = client::read_json(address, answer).await?.unwrap_or_default();
        Ok(VaultAnswer { status, body })
    }

    /// Reads the names of keys, the version and its time, and no value if Vault can do that.
    pub(super) async fn state(&self, path: &str) -> Result<SecretState, CliError> {
        let answer = self.get("subkeys", path).await?;
        let keys = match answer.status {
            StatusCode::OK => answer.part("/data/subkeys").and_then(Json::as_object),
            // An older Vault, or a policy for `data` alone: the values are read and dropped.
            StatusCode::FORBIDDEN => return Ok(self.read(path).await?.state),
            StatusCode::NOT_FOUND if answer.has_error("unsupported path") => {
                return Ok(self.read(path).await?.state);
            }
            StatusCode::NOT_FOUND => {
                self.check_mount(&answer)?;
                None
            }
            _ => return Err(self.refusal("subkeys", path, &answer)),
        };
        let Some(keys) = keys else { return Ok(SecretState::default()) };
        Ok(state_of(keys.keys().cloned(), answer.part("/data/metadata")))
    }

    /// Reads a secret with its values.
    pub(super) async fn read(&self, path: &str) -> Result<StoredSecret, CliError> {
        let answer = self.get("data", path).await?;
        let metadata = answer.part("/data/metadata");
        let version = metadata.and_then(|metadata| metadata.get("version")).and_then(Json::as_u64);
        // The answer about a deleted version has its number: the next write must name it.
        let base = WriteBase::Vault(version.unwrap_or(0));
        match answer.status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => {
                self.check_mount(&answer)?;
                let (state, values) = (SecretState::default(), BTreeMap::new());
                return Ok(StoredSecret { state, values, base });
            }
            _ => return Err(self.refusal("data", path, &answer)),
        }
        let (Some(data), Some(_)) = (answer.part("/data/data").and_then(Json::as_object), version)
        else {
            return Err(self.unlike_kv2());
        };
        let values = data.iter().map(|(key, value)| (key.clone(), StoredValue::from_vault(value)));
        let state = state_of(data.keys().cloned(), metadata);
        Ok(StoredSecret { state, values: values.collect(), base })
    }

    /// Writes a new version, if the newest one is still the one that was read; returns its number.
    pub(super) async fn write(
        &self,
        path: &str,
        version: u64,
        values: &BTreeMap<String, StoredValue>,
    ) -> Result<String, CliError> {
        let mut data = Map::new();
        for (key, value) in values {
            let value = value.to_vault().ok_or_else(|| {
                CliError::usage(format!(
                    "the value of {key} is not text (UTF-8), and Vault keeps texts"
                ))
                .hint("encode it, such as by base64")
            })?;
            data.insert(key.clone(), value);
        }
        let body = json!({"options": {"cas": version}, "data": data});
        let path_in_engine = self.path("data", path)?;
        let answer = self.request(Method::POST, &path_in_engine, &[], Some(&body)).await?;
        if answer.status == StatusCode::BAD_REQUEST && answer.has_error(CAS_MISMATCH) {
            return Err(conflict());
        }
        if !answer.status.is_success() {
            return Err(self.refusal("data", path, &answer));
        }
        let version = answer.part("/data/version").and_then(Json::as_u64);
        version.map(|version| version.to_string()).ok_or_else(|| self.unlike_kv2())
    }

    async fn get(&self, part: &str, path: &str) -> Result<VaultAnswer, CliError> {
        self.request(Method::GET, &self.path(part, path)?, &[], None).await
    }

    fn path(&self, part: &str, path: &str) -> Result<String, CliError> {
        let is_plain = VaultPath::parse(path).is_ok_and(VaultPath::is_plain);
        if !is_plain {
            return Err(CliError::usage(format!("{path} cannot be a path in Vault"))
                .hint("`bart validate` shows what is wrong where"));
        }
        Ok(format!("{}/{part}/{path}", self.location.mount))
    }

    fn check_mount(&self, answer: &VaultAnswer) -> Result<(), CliError> {
        if !answer.has_error("no handler for route") {
            return Ok(());
        }
        let VaultLocation { address, mount, .. } = &self.location;
        Err(CliError::io(format!("Vault at {address} has no engine mounted at {mount}"))
            .hint("ask the service's operator to correct `platform.secrets.vault.mount`"))
    }

    fn unlike_kv2(&self) -> CliError {
        let VaultLocation { address, mount, .. } = &self.location;
        CliError::io(format!(
            "Vault at {address} does not answer like a key-value engine of version 2 at {mount}"
        ))
    }

    fn refusal(&self, part: &str, path: &str, answer: &VaultAnswer) -> CliError {
        let VaultLocation { address, mount, .. } = &self.location;
        let status = answer.status.as_u16();
        match answer.status {
            StatusCode::FORBIDDEN => CliError::refused(format!(
                "Vault at {address} does not let you use {mount}/{part}/{path} (403)"
            ))
            .hint(
                "the token has expired: `bart secrets login TARGET`; or its policy lacks the path",
            ),
            StatusCode::SERVICE_UNAVAILABLE => {
                CliError::io(format!("Vault at {address} is sealed or down (503)")).passing()
            }
            _ => CliError::io(format!(
                "Vault at {address} answers {status} for {mount}/{part}/{path}"
            )),
        }
    }
}

/// Makes the error for a writer that was not first.
pub(super) fn conflict() -> CliError {
    use crate::cli::error::CliErrorKind;
    CliError::new(
        CliErrorKind::InTheWay,
        "another writer changed the secret after it was read: nothing was written",
    )
    .hint("look with `bart secrets list TARGET`, then do it again")
}

/// Makes the error of a refused login, with Vault's words unless they repeat what was presented.
pub(super) fn login_refusal(
    location: &VaultLocation,
    mount: &str,
    answer: &VaultAnswer,
    presented: &SecretString,
) -> CliError {
    let presented = presented.expose_secret();
    let is_repeated = |text: &str| !presented.is_empty() && text.contains(presented);
    let words = answer.errors().into_iter().find(|text| !text.is_empty() && !is_repeated(text));
    let words: String = words.unwrap_or_default().chars().take(300).collect();
    let status = answer.status.as_u16();
    let words = if words.is_empty() {
        String::new()
    } else {
        format!(": {}", words.replace(['\n', '\t'], " "))
    };
    CliError::refused(format!(
        "Vault at {} refuses the login by {mount} ({status}){words}",
        location.address
    ))
    .hint("name the auth method with --method and its mount path with --mount, as your company's Vault has it")
}

fn state_of(keys: impl Iterator<Item = String>, metadata: Option<&Json>) -> SecretState {
    let part = |key: &str| metadata.and_then(|metadata| metadata.get(key));
    let since =
        part("created_time").and_then(Json::as_str).and_then(|text| text.parse::<Timestamp>().ok());
    let version = part("version").and_then(Json::as_u64).map(|version| version.to_string());
    SecretState { exists: true, keys: keys.collect(), version, since }
}
