//! The signature of a delivery: HMAC-SHA256 over the raw body, compared in constant time. Pure.

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

/// The header that carries the signature.
pub const HEADER: &str = "x-hub-signature-256";

const PREFIX: &str = "sha256=";

/// The reason why a delivery is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSignature {
    /// The delivery has no signature.
    #[error("the header X-Hub-Signature-256 is missing: set a secret on the webhook")]
    Missing,
    /// The header has another form.
    #[error("the header X-Hub-Signature-256 is not `sha256=` and 64 hexadecimal digits")]
    Form,
    /// Another secret, or another body.
    #[error("the signature does not match: the webhook's secret is not the configured one")]
    Wrong,
}

/// A signature that is checked while its body comes, so that no large body is read at once.
#[derive(Debug)]
pub struct Verifier {
    signature: [u8; 32],
    macs: Vec<Hmac<Sha256>>,
}

impl Verifier {
    /// Reads the header `X-Hub-Signature-256`; each of the secrets is good.
    ///
    /// # Errors
    /// [`BadSignature`], when no body could be right.
    pub fn begin<'s>(
        secrets: impl IntoIterator<Item = &'s SecretString>,
        header: Option<&str>,
    ) -> Result<Self, BadSignature> {
        let digits = header.ok_or(BadSignature::Missing)?.trim();
        let digits = digits.strip_prefix(PREFIX).ok_or(BadSignature::Form)?;
        Self::of_digits(secrets, digits)
    }

    /// Reads the hexadecimal digits of an HMAC-SHA256; each of the secrets is good.
    ///
    /// # Errors
    /// [`BadSignature::Form`], when no body could be right.
    pub fn of_digits<'s>(
        secrets: impl IntoIterator<Item = &'s SecretString>,
        digits: &str,
    ) -> Result<Self, BadSignature> {
        let mut signature = [0; 32];
        hex::decode_to_slice(digits, &mut signature).map_err(|_| BadSignature::Form)?;
        Ok(Self { signature, macs: secrets.into_iter().map(start_hmac).collect() })
    }

    /// Adds the next part of the body.
    pub fn update(&mut self, part: &[u8]) {
        for mac in &mut self.macs {
            mac.update(part);
        }
    }

    /// Compares the signature, after the last part.
    ///
    /// # Errors
    /// [`BadSignature`]; it tells a caller nothing about the secrets.
    pub fn finish(self) -> Result<(), BadSignature> {
        let Self { signature, macs } = self;
        // Each is compared, whichever matches, so that time tells nothing.
        let matches = macs.into_iter().map(|mac| mac.verify_slice(&signature).is_ok());
        let is_match = matches.fold(false, |is_match, current| is_match | current);
        if is_match { Ok(()) } else { Err(BadSignature::Wrong) }
    }
}

/// Returns the header's value for a body, as GitHub would send it. For the demo and for tests.
pub fn sign(secret: &SecretString, body: &[u8]) -> String {
    let mut mac = start_hmac(secret);
    mac.update(body);
    format!("{PREFIX}{}", hex::encode(mac.finalize().into_bytes()))
}

fn start_hmac(secret: &SecretString) -> Hmac<Sha256> {
    Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes())
        .expect("HMAC takes keys of every length")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of GitHub's page "Validating webhook deliveries".
    const SECRET: &str = "It's a Secret to Everybody";
    const BODY: &[u8] = b"Hello, World!";
    const DIGITS: &str = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    fn check(header: Option<&str>) -> Result<(), BadSignature> {
        verify(&SECRET.into(), BODY, header)
    }

    fn verify(
        secret: &SecretString,
        body: &[u8],
        header: Option<&str>,
    ) -> Result<(), BadSignature> {
        let mut verifier = Verifier::begin([secret], header)?;
        for part in body.chunks(5) {
            verifier.update(part);
        }
        verifier.finish()
    }

    #[test]
    fn each_of_several_secrets_is_good() {
        let (first, second) = (SECRET.into(), "other".into());
        let header = sign(&first, BODY);
        for (secrets, right) in
            [([&first, &second], true), ([&second, &first], true), ([&second; 2], false)]
        {
            let mut verifier = Verifier::begin(secrets, Some(&header)).unwrap();
            verifier.update(BODY);
            assert_eq!(verifier.finish().is_ok(), right);
        }
    }

    #[test]
    fn githubs_documented_example_is_verified() {
        assert_eq!(sign(&SECRET.into(), BODY), format!("sha256={DIGITS}"));
        assert_eq!(check(Some(&format!("sha256={DIGITS}"))), Ok(()));
        assert_eq!(check(Some(&format!("sha256={}", DIGITS.to_uppercase()))), Ok(()));
    }

    #[test]
    fn another_secret_another_body_or_one_other_bit_is_wrong() {
        let header = format!("sha256={DIGITS}");
        let wrong = Err(BadSignature::Wrong);
        assert_eq!(verify(&"other".into(), BODY, Some(&header)), wrong);
        assert_eq!(verify(&SECRET.into(), b"Hello, World", Some(&header)), wrong);
        assert_eq!(verify(&SECRET.into(), b"", Some(&header)), wrong);
        assert_eq!(check(Some(&header.replace("e17", "e16"))), wrong);
    }

    #[test]
    fn other_forms_of_the_header_are_told_apart() {
        assert_eq!(check(None), Err(BadSignature::Missing));
        let long = format!("sha256={DIGITS}00");
        let sha1 = format!("sha1={DIGITS}");
        for header in ["", "sha256=", DIGITS, &sha1, &long, "sha256=zz", "sha256=äöü"] {
            assert_eq!(check(Some(header)), Err(BadSignature::Form), "{header:?}");
        }
    }
}
