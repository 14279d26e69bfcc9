//! Lookups: clients for the facts that rules need and only other services have.
//!
//! ```text
//! registry     does an image's tag exist?       OCI distribution API
//! vault        which keys does a secret have?   Vault, key-value engine version 2
//! kubernetes   does a secret exist?             the API server, metadata only
//! gates        does a rollout's gate pass?      an address, Prometheus, Alertmanager
//! clients      all of these, as configured
//! image, challenge                              pure
//! http                                          the HTTP client that they share
//! ```
//!
//! [`clients::LookupClients`] is the entry. Every lookup has a time limit, is tried at most twice, and only a few at a
//! time go to the same server. A failed lookup is a [`FactUnavailable`]; the target's policy decides what it means. No
//! client ever reads the value of a secret. Nothing here has a clock: times come in.

pub mod clients; // the configured clients
pub mod image; // the parts of an image's name
pub mod registry;
pub mod vault;
pub mod kubernetes;
pub mod gates; // questions of a rollout's gates

mod challenge; // a registry's challenge for a login
mod http; // one request, tried at most twice

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use crate::lookups::challenge::fuzz as fuzz_challenge;
pub use crate::lookups::http::{LookupLimits, LookupSettingsError};
pub use crate::model::facts::FactUnavailable;
