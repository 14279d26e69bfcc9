//! The key of a service account, and the request for a token that it signs. Pure.
//!
//! <https://developers.google.com/identity/protocols/oauth2/service-account>

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use octocrab::auth::EncodingKey;
use octocrab::jsonwebtoken::{Algorithm, Header, encode};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;

use crate::notify::bigquery::error::ServiceKeyError;
use crate::support::host::is_encrypted_or_local;

/// The right that tokens have: to tables and their rows.
pub(super) const SCOPE: &str = "https://www.googleapis.com/auth/bigquery";

/// Google's token server.
const TOKEN_SERVER: &str = "https://oauth2.googleapis.com/token";
/// A clock that is ahead of Google's signs nothing in its future.
const BACK: SignedDuration = SignedDuration::from_secs(60);
/// The lifetime of a request. Google takes an hour at most, from `iat`.
const AHEAD: SignedDuration = SignedDuration::from_mins(5);

/// A service account with its private key.
#[derive(Clone)]
pub struct ServiceAccountKey {
    email: String,
    key_id: Option<String>,
    token_server: String,
    key: EncodingKey,
}

/// The file that Google makes.
#[derive(Deserialize)]
struct KeyFile {
    #[serde(rename = "type")]
    kind: String,
    client_email: Option<String>,
    private_key: Option<String>,
    private_key_id: Option<String>,
    token_uri: Option<String>,
}

impl ServiceAccountKey {
    /// Reads the text of a key file.
    ///
    /// # Errors
    /// [`ServiceKeyError`], without anything of the text.
    pub fn parse(text: &SecretString) -> Result<Self, ServiceKeyError> {
        // The parser's own message may have a part of the text.
        let file: KeyFile =
            serde_json::from_str(text.expose_secret()).map_err(|_| ServiceKeyError::NoJson)?;
        let KeyFile { kind, client_email, private_key, private_key_id: key_id, token_uri } = file;
        if kind != "service_account" {
            return Err(ServiceKeyError::OtherType);
        }
        let (email, pem) = client_email.zip(private_key).ok_or(ServiceKeyError::NoJson)?;
        let token_server = token_uri.unwrap_or_else(|| TOKEN_SERVER.to_owned());
        if !is_encrypted_or_local(&token_server) {
            return Err(ServiceKeyError::TokenServer);
        }
        let pem = SecretString::from(pem);
        let key = EncodingKey::from_rsa_pem(pem.expose_secret().as_bytes());
        let key = key.map_err(|_| ServiceKeyError::Damaged)?;
        let account = Self { email, key_id, token_server, key };
        // The library looks at the key only when it signs.
        account.assertion(Timestamp::UNIX_EPOCH).map(|_| account)
    }

    /// Returns the address of the token server.
    pub fn token_server(&self) -> &str {
        &self.token_server
    }

    /// Returns a signed request for a token.
    pub(super) fn assertion(&self, now: Timestamp) -> Result<SecretString, ServiceKeyError> {
        let seconds = |at: Result<Timestamp, jiff::Error>| at.unwrap_or(now).as_second();
        let claims = json!({
            "iss": self.email,
            "scope": SCOPE,
            "aud": self.token_server,
            "iat": seconds(now.checked_sub(BACK)),
            "exp": seconds(now.checked_add(AHEAD)),
        });
        let mut header = Header::new(Algorithm::RS256);
        header.kid.clone_from(&self.key_id);
        let text = encode(&header, &claims, &self.key);
        text.map(SecretString::from).map_err(|_| ServiceKeyError::Damaged)
    }
}

impl fmt::Debug for ServiceAccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { email, key_id: _, token_server, key: _ } = self;
        let mut text = f.debug_struct("ServiceAccountKey");
        text.field("email", email).field("token_server", token_server).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use octocrab::jsonwebtoken::{DecodingKey, Validation, decode, decode_header};
    use serde_json::Value as Json;

    use super::*;

    const PEM: &str = include_str!("../../forge/github/auth/tests/app.pkcs8.pem");
    const PUBLIC: &str = include_str!("../../forge/github/auth/tests/app.pub.pem");

    fn file(change: impl FnOnce(&mut Json)) -> SecretString {
        let mut file = json!({
            "type": "service_account", "project_id": "acme", "private_key_id": "k1",
            "private_key": PEM, "client_email": "deployer@acme.iam.gserviceaccount.com",
            "token_uri": "https://oauth2.googleapis.com/token",
        });
        change(&mut file);
        file.to_string().into()
    }

    #[test]
    fn a_request_is_signed_for_the_token_server_and_for_minutes() {
        let now: Timestamp = "2026-11-24T12:00:00Z".parse().unwrap();
        let key = ServiceAccountKey::parse(&file(|_| ())).unwrap();
        let jwt = key.assertion(now).unwrap();
        assert_eq!(decode_header(jwt.expose_secret()).unwrap().kid.as_deref(), Some("k1"));
        let mut validation = Validation::new(Algorithm::RS256);
        validation.set_audience(&["https://oauth2.googleapis.com/token"]);
        validation.validate_exp = false;
        let public = DecodingKey::from_rsa_pem(PUBLIC.as_bytes()).unwrap();
        let claims = decode::<Json>(jwt.expose_secret(), &public, &validation).unwrap().claims;
        assert_eq!(claims["iss"], "deployer@acme.iam.gserviceaccount.com");
        assert_eq!(claims["scope"], SCOPE);
        assert_eq!(claims["iat"], now.as_second() - 60);
        assert_eq!(claims["exp"], now.as_second() + 300);
    }

    #[test]
    fn a_file_that_cannot_be_meant_is_refused_without_its_text() {
        type Change = fn(&mut Json);
        let changes: [(Change, ServiceKeyError); 6] = [
            (|file| file["type"] = "authorized_user".into(), ServiceKeyError::OtherType),
            (|file| file["private_key"] = "-----BEGIN s3cret".into(), ServiceKeyError::Damaged),
            (|file| file["private_key"] = 7.into(), ServiceKeyError::NoJson),
            (
                |file| file["client_email"].take().as_null().unwrap_or_default(),
                ServiceKeyError::NoJson,
            ),
            (
                |file| file["token_uri"] = "http://token.example.com".into(),
                ServiceKeyError::TokenServer,
            ),
            (|file| file["token_uri"] = "s3cret".into(), ServiceKeyError::TokenServer),
        ];
        for (change, expected) in changes {
            let error = ServiceAccountKey::parse(&file(change)).unwrap_err();
            assert_eq!(error, expected);
            assert!(!format!("{error} {error:?}").contains("s3cret"));
        }
        assert_eq!(
            ServiceAccountKey::parse(&"s3cret".into()).unwrap_err(),
            ServiceKeyError::NoJson
        );
        let key = ServiceAccountKey::parse(&file(|_| ())).unwrap();
        assert!(!format!("{key:?}").contains("BEGIN"), "a key does not print");
    }
}
