//! The stores of secrets that people read and write with a login of their own: Vault's key-value engine (version 2), and
//! Secrets of a cluster. The service takes no part in it: it says where the store is, and hears which keys were changed.
//!
//! ```text
//! WAML ──▶ app_secrets   the secrets and keys that the app wants      pure
//! platform ──▶ location  the store of a target                        pure
//! contents               a secret as it was read, and edits of it     pure
//! store ─┬─ vault ── vault_login, oidc
//!        └─ kubernetes
//! ```
//!
//! Every write carries the version that was read (check-and-set): of two writers one is refused, and told.

pub(super) mod app_secrets; // the secrets that an app wants
pub(super) mod location; // the store of a target
pub(super) mod contents; // a secret as it was read, and edits of it
pub(super) mod store; // reads and writes
mod vault; // Vault's key-value engine, version 2
pub(super) mod vault_login; // tokens for Vault
mod oidc; // a login through the browser
mod kubernetes; // Secrets of a cluster
pub(super) mod prompt; // a question without echo
pub(super) mod target_secrets; // the secrets of one target, with its store
