//! Cookies of browsers: signed values, their names, and how they are read and set. Pure.
//!
//! A signature keeps values that the service did not make from reaching the database. What a cookie has is good for
//! nothing else: a session's id is random, and stored as a hash.

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The longest value of a cookie, in bytes: that of a sign-in has a path in it.
const LONGEST: usize = 4096;

/// A cookie of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cookie {
    /// The session of somebody who has signed in.
    Session,
    /// A sign-in that has begun and that the code host will answer.
    SignIn,
}

/// The key by which the service knows its own cookies.
#[derive(Clone)]
pub struct CookieKey([u8; 32]);

/// The cookies of one service: signed by its key, and only for https if it is reached so.
#[derive(Debug, Clone)]
pub(super) struct CookieJar {
    key: CookieKey,
    is_secure: bool,
}

impl CookieKey {
    /// Makes a key of these random bytes.
    pub fn new(random: [u8; 32]) -> Self {
        Self(random)
    }

    /// Returns the HMAC-SHA256 of the text for that purpose, in hexadecimal.
    pub(super) fn sign(&self, purpose: &str, text: &str) -> String {
        hex::encode(self.mac(purpose, text).finalize().into_bytes())
    }

    /// Compares in a time that reveals nothing.
    pub(super) fn verify(&self, purpose: &str, text: &str, signature: &str) -> bool {
        let Ok(signature) = hex::decode(signature) else { return false };
        self.mac(purpose, text).verify_slice(&signature).is_ok()
    }

    fn mac(&self, purpose: &str, text: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length will do");
        mac.update(purpose.as_bytes());
        mac.update(&[0]);
        mac.update(text.as_bytes());
        mac
    }
}

impl std::fmt::Debug for CookieKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CookieKey")
    }
}

impl CookieJar {
    pub(super) fn new(key: CookieKey, is_secure: bool) -> Self {
        Self { key, is_secure }
    }

    pub(super) fn key(&self) -> &CookieKey {
        &self.key
    }

    /// Returns the value of a cookie that the service has signed.
    pub(super) fn read(&self, headers: &HeaderMap, cookie: Cookie) -> Option<String> {
        let name = self.name(cookie);
        let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.split_once('='));
        let mut values = pairs.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim());
        // A neighbour of the host's could set one of the same name: any that is ours will do.
        values.find_map(|value| {
            let (text, signature) = value.rsplit_once('.')?;
            let is_ours = value.len() <= LONGEST && self.key.verify(&name, text, signature);
            is_ours.then(|| text.to_owned())
        })
    }

    /// Returns the header that sets a cookie, signed. The text has no characters but letters, digits, `.`, `-` and `_`.
    pub(super) fn set(&self, cookie: Cookie, text: &str, seconds: i64) -> Option<HeaderValue> {
        let name = self.name(cookie);
        let signature = self.key.sign(&name, text);
        self.header(&name, &format!("{text}.{signature}"), seconds)
    }

    /// Returns the header that removes a cookie.
    pub(super) fn remove(&self, cookie: Cookie) -> Option<HeaderValue> {
        self.header(&self.name(cookie), "", 0)
    }

    /// `Lax`: links from GitHub and Slack lead to a page that one is signed in to; no other site can send a form.
    fn header(&self, name: &str, value: &str, seconds: i64) -> Option<HeaderValue> {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let text =
            format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
        HeaderValue::from_str(&text).ok()
    }

    /// The prefix keeps others under the same domain from setting it (RFC 6265bis, 4.1.3.2).
    fn name(&self, cookie: Cookie) -> String {
        let name = match cookie {
            Cookie::Session => "the-deployer-session",
            Cookie::SignIn => "the-deployer-sign-in",
        };
        let prefix = if self.is_secure { "__Host-" } else { "" };
        format!("{prefix}{name}")
    }
}

/// Compares two texts in a time that reveals nothing but their lengths.
pub(crate) fn equal_texts(a: &str, b: &str) -> bool {
    let difference = a.bytes().zip(b.bytes()).fold(0, |difference, (a, b)| difference | (a ^ b));
    a.len() == b.len() && std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jar(key: u8, is_secure: bool) -> CookieJar {
        CookieJar::new(CookieKey::new([key; 32]), is_secure)
    }

    fn headers(cookies: &[&str]) -> HeaderMap {
        cookies.iter().map(|text| (COOKIE, HeaderValue::from_str(text).unwrap())).collect()
    }

    #[test]
    fn a_cookie_is_read_as_it_was_set_and_by_its_own_service_alone() {
        let own = jar(1, true);
        let set = own.set(Cookie::Session, "abc.def", 60).unwrap();
        let (pair, attributes) = set.to_str().unwrap().split_once("; ").unwrap();
        assert!(pair.starts_with("__Host-the-deployer-session=abc.def."), "{pair}");
        assert_eq!(attributes, "Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure");
        let read = |cookies: &[&str]| own.read(&headers(cookies), Cookie::Session);
        assert_eq!(read(&[pair]).as_deref(), Some("abc.def"));
        assert_eq!(read(&["a=b", &format!("c=d;{pair} ; e=f")]).as_deref(), Some("abc.def"));
        let forged = "__Host-the-deployer-session=evil.00";
        assert_eq!(read(&[&format!("{forged}; {pair}")]).as_deref(), Some("abc.def"));
        assert_eq!(own.read(&headers(&[pair]), Cookie::SignIn), None);
        assert_eq!(jar(2, true).read(&headers(&[pair]), Cookie::Session), None);
        assert_eq!(jar(1, false).read(&headers(&[pair]), Cookie::Session), None);
        // Signed for another purpose.
        let other = own.set(Cookie::SignIn, "abc.def", 60).unwrap();
        let other = other.to_str().unwrap().replace("sign-in", "session");
        assert_eq!(read(&[other.split(';').next().unwrap()]), None);
        for wrong in
            ["", "=", "__Host-the-deployer-session", "__Host-the-deployer-session=", forged]
        {
            assert_eq!(read(&[wrong]), None, "{wrong}");
        }
    }

    #[test]
    fn without_https_there_is_no_prefix_and_a_removal_is_at_once() {
        let removed = jar(1, false).remove(Cookie::Session).unwrap();
        assert_eq!(
            removed.to_str().unwrap(),
            "the-deployer-session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"
        );
    }
}
