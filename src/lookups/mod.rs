//! THE WORLD, ASKED: clients for what rules must know and only others can say.
//!
//! ```text
//! registry     does an image's tag exist        OCI distribution API
//! vault        which keys does a secret have    Vault, key-value engine version 2
//! kubernetes   is a secret there                the API server, metadata only
//! all             the clients that the configuration names
//! image, challenge                              pure
//! http                                          what the clients share
//! ```
//!
//! Every question ends by itself, is asked at most twice, and never more than a few at a time of
//! the same place. What cannot be had is a [`FactUnavailable`]; whether that matters is the target's
//! policy. No client ever reads the value of a secret. Knows no clock: times come in.

pub mod clients; // the clients that the configuration names
pub mod image; // what an image's name says
pub mod registry;
pub mod vault;
pub mod kubernetes;

mod challenge; // how a registry says who gives tokens
mod http; // one question, asked at most twice

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use crate::lookups::challenge::fuzz as fuzz_challenge;
pub use crate::lookups::http::{LookupLimits, LookupSettingsError};
pub use crate::model::facts::FactUnavailable;
