//! CODE HOSTS: where service repositories are, where events come from and statuses go.
//!
//! ```text
//! webhook (pure)  event ─▶ DeploymentRequest
//! Forge::file     a service repository's file at a commit
//! Forge::report   what became of the deployment
//! ```
//!
//! Knows nothing of WAMLs, stores or retries: a [`ForgeError`] says what may help, and whoever
//! called decides when.

pub mod error; // what can go wrong, and what to do next
pub mod github; // GitHub and GitHub Enterprise Server
