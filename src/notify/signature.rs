//! The signature of an event, by which its receiver knows its origin and that it is unchanged: the headers of Standard
//! Webhooks. Pure.
//!
//! <https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use sha2::Sha256;

/// The event's id; the same whenever it is sent again.
pub const ID: &str = "webhook-id";
/// The time of this attempt, in seconds since 1970.
pub const TIMESTAMP: &str = "webhook-timestamp";
/// `v1,` and the HMAC-SHA256 of id, timestamp and body, in base64.
pub const SIGNATURE: &str = "webhook-signature";

const PREFIX: &str = "whsec_";
/// The size of a key: the specification wants 24 to 64 random bytes.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A text that is no key. It says nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a signing secret: `whsec_` and the base64 of 24 to 64 bytes")]
pub struct InvalidKey;

/// The key that signs events.
#[derive(Debug, Clone)]
pub struct SigningSecret(SecretSlice<u8>);

impl SigningSecret {
    /// Parses a text `whsec_…`, as every library for Standard Webhooks reads it.
    ///
    /// # Errors
    /// [`InvalidKey`]
    pub fn parse(text: &SecretString) -> Result<Self, InvalidKey> {
        let text = text.expose_secret().trim().strip_prefix(PREFIX).ok_or(InvalidKey)?;
        let bytes = STANDARD.decode(text).map_err(|_| InvalidKey)?;
        if BYTES.contains(&bytes.len()) { Ok(Self(bytes.into())) } else { Err(InvalidKey) }
    }

    /// Returns the header's value for a body that is sent at that time, in seconds since 1970.
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.expose_secret())
            .expect("HMAC takes keys of every length");
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the tests of the libraries for Standard Webhooks; `docs/cloudevents.md` shows it, too.
    #[test]
    fn the_published_example_is_signed_as_published() {
        let key = SigningSecret::parse(&"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into()).unwrap();
        let signature =
            key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn what_is_no_key_is_refused_without_being_shown() {
        let short = format!("whsec_{}", STANDARD.encode([7; 23]));
        let long = format!("whsec_{}", STANDARD.encode([7; 65]));
        for text in ["", "hunter2", "whsec_", "whsec_hunter2!", &short, &long] {
            let error = SigningSecret::parse(&text.into()).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
        for length in [24, 64] {
            let text = format!("whsec_{}\n", STANDARD.encode(vec![7; length]));
            assert!(SigningSecret::parse(&text.into()).is_ok(), "{length}");
        }
    }

    #[test]
    fn a_key_does_not_print() {
        let key = SigningSecret::parse(&"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into()).unwrap();
        assert!(!format!("{key:?}").contains("49"), "{key:?}");
        assert!(format!("{key:?}").contains("REDACTED"), "{key:?}");
    }
}
