//! The name of a key in an app's secret: `db/password`. Names only, no values.

use std::fmt;

use crate::model::id::is_rfc1123_subdomain;

/// A key of a secret, `SECRET/KEY`. A Secret's name is RFC 1123's, a key has Kubernetes' alphabet; neither has a `/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretKeyName {
    text: String,
    slash: usize,
}

/// The longest key of a Secret (Kubernetes, `ValidateSecret`).
const LONGEST: usize = 253;

/// The reason why a text is no name of a key. It does not repeat the text, which may be a secret at the wrong place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "write a key as SECRET/KEY, such as db/password: letters, digits, `-`, `_` and `.`, the secret's name in lower case"
)]
pub struct SecretKeyError;

impl SecretKeyName {
    /// Reads a name.
    ///
    /// # Errors
    /// [`SecretKeyError`]
    pub fn parse(text: impl Into<String>) -> Result<Self, SecretKeyError> {
        let text = text.into();
        let slash = text.find('/').ok_or(SecretKeyError)?;
        let (secret, key) = text.split_at(slash);
        let is_legal =
            is_rfc1123_subdomain(secret) && is_secret_key(key.get(1..).unwrap_or_default());
        if is_legal { Ok(Self { text, slash }) } else { Err(SecretKeyError) }
    }

    /// Joins the name of a secret and a key.
    ///
    /// # Errors
    /// [`SecretKeyError`]
    pub fn join(secret: &str, key: &str) -> Result<Self, SecretKeyError> {
        Self::parse(format!("{secret}/{key}"))
    }

    /// Returns the secret's name.
    pub fn secret(&self) -> &str {
        self.text.get(..self.slash).unwrap_or_default()
    }

    /// Returns the key in it.
    pub fn key(&self) -> &str {
        self.text.get(self.slash + 1..).unwrap_or_default()
    }

    /// Returns both, `SECRET/KEY`.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for SecretKeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Checks a key of a Secret or `ConfigMap` as Kubernetes' `IsConfigMapKey` does: the key can be the name of a file.
pub fn is_secret_key(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (1..=LONGEST).contains(&text.len())
        && text != "."
        && !text.starts_with("..")
        && text.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_a_secret_and_a_name() {
        let name = SecretKeyName::parse("my.db/PASS_word.1").unwrap();
        assert_eq!((name.secret(), name.key()), ("my.db", "PASS_word.1"));
        for text in
            ["", "db", "db/", "/key", "db/a/b", "Db/a", "db/a b", "-db/a", "db./a", "db/..", "db/ä"]
        {
            assert_eq!(SecretKeyName::parse(text), Err(SecretKeyError), "{text:?}");
        }
        let long = "a".repeat(254);
        assert!(
            SecretKeyName::join(&long, "a").is_err() && SecretKeyName::join("a", &long).is_err()
        );
    }

    #[test]
    fn a_refusal_does_not_repeat_what_may_be_a_secret() {
        let message = SecretKeyName::parse("hunter2!").unwrap_err().to_string();
        assert!(!message.contains("hunter2"), "{message}");
    }
}
