//! An App's private key, and the short JWTs that it signs. Pure.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use octocrab::auth::EncodingKey;
use octocrab::jsonwebtoken::{Algorithm, Header, encode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

/// A clock that is ahead of GitHub's signs nothing in its future.
const BACK: SignedDuration = SignedDuration::from_secs(60);
/// The lifetime of a JWT: GitHub takes ten minutes at most, from its own now; a minute is left for this machine's
/// clock.
const AHEAD: SignedDuration = SignedDuration::from_mins(9);

/// The identity of an App: its number or client id, and its private key.
#[derive(Clone)]
pub struct AppCredentials {
    id: String,
    key: EncodingKey,
}

/// The fault of an App's id or key. Nothing of the key is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppKeyError {
    /// The id is no number and no client id.
    #[error(
        "this is not an App's id: it is a number such as 123456, or a client id such as Iv23li…"
    )]
    Id,
    /// The text is no PEM.
    #[error("this is no private key: one begins with -----BEGIN RSA PRIVATE KEY-----")]
    NoPem,
    /// The text is a public key.
    #[error("this is the public half of a key, not the private one")]
    Public,
    /// The key is locked with a passphrase.
    #[error(
        "this key is locked with a passphrase: unlock it with `openssl rsa -in FILE -out FILE`"
    )]
    Locked,
    /// A key of another kind.
    #[error("this is a key of another kind: an App's is an RSA key as PEM")]
    OtherKind,
    /// The text is damaged.
    #[error("this key is damaged, or a part of it is missing")]
    Damaged,
}

impl AppCredentials {
    /// Returns the key of the App of that id, from the text of its PEM file.
    ///
    /// # Errors
    /// [`AppKeyError`]
    pub fn parse(id: &str, pem: &SecretString) -> Result<Self, AppKeyError> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        if id.is_empty() || id.len() > 100 || !id.bytes().all(legal) {
            return Err(AppKeyError::Id);
        }
        // A variable often has the two characters in place of a line's end.
        let pem = SecretString::from(pem.expose_secret().replace("\\n", "\n"));
        let key = rsa(pem.expose_secret())?;
        let key = Self { id: id.to_owned(), key };
        // The library looks at the key only when it signs.
        key.jwt(Timestamp::UNIX_EPOCH).map(|_| key).map_err(|_| AppKeyError::Damaged)
    }

    /// Returns the App's number or client id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns a pass for the App itself, good for nine minutes.
    pub(super) fn jwt(&self, now: Timestamp) -> Result<SecretString, AppKeyError> {
        let seconds = |at: Result<Timestamp, jiff::Error>| at.unwrap_or(now).as_second();
        let iat = seconds(now.checked_sub(BACK));
        let exp = seconds(now.checked_add(AHEAD));
        let claims = json!({"iss": self.id, "iat": iat, "exp": exp});
        let text = encode(&Header::new(Algorithm::RS256), &claims, &self.key);
        text.map(SecretString::from).map_err(|_| AppKeyError::Damaged)
    }
}

fn rsa(pem: &str) -> Result<EncodingKey, AppKeyError> {
    let Some((_, rest)) = pem.split_once("-----BEGIN ") else { return Err(AppKeyError::NoPem) };
    let kind = rest.split("-----").next().unwrap_or_default();
    match kind {
        _ if kind.contains("PUBLIC") || kind.contains("CERTIFICATE") => Err(AppKeyError::Public),
        "ENCRYPTED PRIVATE KEY" => Err(AppKeyError::Locked),
        "RSA PRIVATE KEY" if rest.contains("ENCRYPTED") => Err(AppKeyError::Locked),
        "RSA PRIVATE KEY" => {
            EncodingKey::from_rsa_pem(pem.as_bytes()).map_err(|_| AppKeyError::Damaged)
        }
        // It may hold a key of any kind.
        "PRIVATE KEY" => {
            EncodingKey::from_rsa_pem(pem.as_bytes()).map_err(|_| AppKeyError::OtherKind)
        }
        _ => Err(AppKeyError::OtherKind),
    }
}

impl fmt::Debug for AppCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, key: _ } = self;
        f.debug_struct("AppKey").field("id", id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use octocrab::jsonwebtoken::{DecodingKey, Validation, decode};
    use serde_json::Value;

    use super::*;

    const PEM: &str = include_str!("tests/app.pem");

    fn parse(pem: &str) -> Result<AppCredentials, AppKeyError> {
        AppCredentials::parse("12", &pem.into())
    }

    #[test]
    fn a_pass_is_signed_dated_back_and_good_for_no_more_than_ten_minutes() {
        let now: Timestamp = "2026-11-21T10:00:00Z".parse().unwrap();
        let jwt = parse(PEM).unwrap().jwt(now).unwrap();
        let public = DecodingKey::from_rsa_pem(include_bytes!("tests/app.pub.pem")).unwrap();
        let mut validation = Validation::new(Algorithm::RS256);
        validation.validate_exp = false;
        let claims = decode::<Value>(jwt.expose_secret(), &public, &validation).unwrap().claims;
        let second = |key: &str| claims[key].as_i64().unwrap() - now.as_second();
        assert_eq!((second("iat"), second("exp")), (-60, 540));
        assert_eq!(claims["iss"], "12");
    }

    #[test]
    fn a_key_may_come_in_three_shapes() {
        parse(include_str!("tests/app.pkcs8.pem")).unwrap();
        parse(&PEM.replace('\n', "\\n")).unwrap();
        parse(&format!("  a comment\n{PEM}")).unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn what_is_no_key_of_an_app_is_told_apart_and_never_shown() {
        let ec = "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n";
        let half: String = PEM.lines().take(10).collect::<Vec<_>>().join("\n");
        let whole_ends = format!("{half}\n-----END RSA PRIVATE KEY-----\n");
        let locked = PEM.replacen('\n', "\nProc-Type: 4,ENCRYPTED\n", 1);
        let pkcs8 = |inner: &str| format!("-----BEGIN {inner}-----\nAAAA\n-----END {inner}-----\n");
        for (text, expected) in [
            ("", AppKeyError::NoPem),
            ("ghp_token", AppKeyError::NoPem),
            (include_str!("tests/app.pub.pem"), AppKeyError::Public),
            (ec, AppKeyError::OtherKind),
            (&pkcs8("OPENSSH PRIVATE KEY"), AppKeyError::OtherKind),
            (&pkcs8("ENCRYPTED PRIVATE KEY"), AppKeyError::Locked),
            (&locked, AppKeyError::Locked),
            (&half, AppKeyError::Damaged),
            (&whole_ends, AppKeyError::Damaged),
        ] {
            assert_eq!(parse(text).unwrap_err(), expected, "{text}");
        }
        for id in ["", "a b", "1\n", "https://github.com/apps/x"] {
            assert_eq!(
                AppCredentials::parse(id, &PEM.into()).unwrap_err(),
                AppKeyError::Id,
                "{id}"
            );
        }
        assert_eq!(format!("{:?}", parse(PEM).unwrap()), r#"AppKey { id: "12", .. }"#);
    }
}
