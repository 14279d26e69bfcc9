//! THE WORLD, ASKED: clients for what rules must know and only others can say.
//!
//! ```text
//! registry     does an image's tag exist        OCI distribution API
//! vault        which keys does a secret have    Vault, key-value engine version 2
//! kubernetes   is a secret there                the API server, metadata only
//! image, challenge, cache                       pure
//! http, credential                              what the clients share
//! ```
//!
//! Every question ends by itself, is asked at most twice, and never more than a few at a time of
//! the same place. What cannot be had is a [`NotKnown`]; whether that matters is the target's
//! policy. No client ever reads the value of a secret. Knows no clock: times come in.

pub mod image; // what an image's name says
pub mod registry;
pub mod vault;
pub mod kubernetes;
pub mod credential; // a secret that may change while we run

mod challenge; // how a registry says who gives tokens
mod http; // one question, asked at most twice

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use crate::facts::challenge::fuzz as fuzz_challenge;
pub use crate::facts::http::Patience;

/// Why something could not be found out: who was asked, and what went wrong. One line for people,
/// without any secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotKnown(pub String);

impl NotKnown {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        let why: String = why.into();
        Self(why.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect())
    }
}

/// In characters: others' words are a part of it, and they may be endless.
const LONGEST: usize = 400;

/// Why a client cannot be made of its settings.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(pub String);
