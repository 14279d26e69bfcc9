//! Checks the App's signature: RS256, at most ten minutes ahead.

use std::sync::OnceLock;

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde_json::Value as Json;

use crate::harness::github::answer::Answer;

/// GitHub's most: seconds from now to `exp`.
const LONGEST: i64 = 600;
/// Clocks may differ by so many seconds.
const DRIFT: i64 = 60;

/// The App's key, as GitHub gives it out: PEM.
pub(super) fn private_key() -> String {
    let der: Pkcs8V1Der<'_> = key().as_der().unwrap();
    let base64 = STANDARD.encode(der.as_ref());
    let lines: Vec<&str> =
        base64.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
}

/// Whether this is a token that the App signed, and good now; else what GitHub says.
pub(super) fn verify(token: &str, issuer: u64, now: Timestamp) -> Result<(), Answer> {
    let undecodable = || refused("A JSON web token could not be decoded");
    let (signed, signature) = token.rsplit_once('.').ok_or_else(undecodable)?;
    let (head, claims) = signed.split_once('.').ok_or_else(undecodable)?;
    let (head, claims) =
        (json(head).ok_or_else(undecodable)?, json(claims).ok_or_else(undecodable)?);
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| undecodable())?;
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key().public_key());
    let genuine = public.verify(signed.as_bytes(), &signature).is_ok();
    if head["alg"] != "RS256" || !genuine {
        return Err(undecodable());
    }
    let as_text = issuer.to_string();
    if claims["iss"] != issuer && claims["iss"].as_str() != Some(&as_text) {
        return Err(Answer::refusal(404, "Integration not found"));
    }
    in_time(&claims, now.as_second())
}

fn in_time(claims: &Json, now: i64) -> Result<(), Answer> {
    let (Some(exp), Some(iat)) = (claims["exp"].as_i64(), claims["iat"].as_i64()) else {
        return Err(refused("'Expiration time' claim ('exp') must be a numeric value"));
    };
    if exp <= now {
        let says = "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires";
        return Err(refused(says));
    }
    if exp > now + LONGEST + DRIFT || exp > iat + LONGEST + DRIFT {
        return Err(refused("'Expiration time' claim ('exp') is too far in the future"));
    }
    if iat > now {
        let says = "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued";
        return Err(refused(says));
    }
    Ok(())
}

fn refused(message: &str) -> Answer {
    Answer::refusal(401, message)
}

fn json(part: &str) -> Option<Json> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

/// One for all tests of a process: making one takes a while.
fn key() -> &'static KeyPair {
    static KEY: OnceLock<KeyPair> = OnceLock::new();
    KEY.get_or_init(|| KeyPair::generate(KeySize::Rsa2048).unwrap())
}
