//! Texts that only the holder of a key can read: AES-256-GCM, with a random nonce before the text, in hexadecimal.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use secrecy::{ExposeSecret as _, SecretString};

/// Encrypts a text for the given owner; `None` if the system has no random numbers.
pub fn seal(key: &[u8; 32], owner: &str, text: &SecretString) -> Option<String> {
    let mut nonce = [0; NONCE_LEN];
    aws_lc_rs::rand::fill(&mut nonce).ok()?;
    let mut bytes = text.expose_secret().as_bytes().to_vec();
    let nonce_of_text = Nonce::assume_unique_for_key(nonce);
    aes(key)?
        .seal_in_place_append_tag(nonce_of_text, Aad::from(owner.as_bytes()), &mut bytes)
        .ok()?;
    Some(format!("{}{}", hex::encode(nonce), hex::encode(bytes)))
}

/// Decrypts a text; `None` if it was not encrypted by that key for that owner.
pub fn open(key: &[u8; 32], owner: &str, sealed: &str) -> Option<SecretString> {
    let mut bytes = hex::decode(sealed).ok()?;
    let (nonce, text) = bytes.split_at_mut_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let text = aes(key)?.open_in_place(nonce, Aad::from(owner.as_bytes()), text).ok()?;
    Some(SecretString::from(std::str::from_utf8(text).ok()?))
}

fn aes(key: &[u8; 32]) -> Option<LessSafeKey> {
    Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_and_the_owner_open_a_text() {
        let (key, text) = ([7; 32], SecretString::from("ghu_größer"));
        let sealed = seal(&key, "github:ada", &text).unwrap();
        assert_ne!(sealed, seal(&key, "github:ada", &text).unwrap(), "each has a nonce of its own");
        let opened = |key: &[u8; 32], owner, sealed: &str| {
            open(key, owner, sealed).map(|text| text.expose_secret().to_owned())
        };
        assert_eq!(opened(&key, "github:ada", &sealed).as_deref(), Some("ghu_größer"));
        assert_eq!(opened(&[8; 32], "github:ada", &sealed), None);
        assert_eq!(opened(&key, "github:eve", &sealed), None);
        let mut changed = sealed.clone();
        changed.replace_range(30..31, if &sealed[30..31] == "0" { "1" } else { "0" });
        assert_eq!(opened(&key, "github:ada", &changed), None);
        for wrong in ["", "00", "xyz", &sealed[..20], &sealed[..sealed.len() - 2]] {
            assert_eq!(opened(&key, "github:ada", wrong), None, "{wrong}");
        }
    }
}
