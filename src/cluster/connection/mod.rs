//! The connection to a cluster's API server.
//!
//! ```text
//! ClusterAccess ─┬─ Kubeconfig ─▶ kubeconfig ─▶ exec_plugin ─┐
//!                └─ Server ──────────────────────────────────┴─▶ client, with bearer and trust
//! ```

pub mod settings; // how a cluster is reached
pub mod error; // why it cannot be
mod trust; // authorities of its certificate
mod exec_plugin; // programs that print credentials
mod bearer; // the token of each request
mod kubeconfig; // a kubeconfig, read for one connection
pub mod client; // the client, made anew when its credentials do not count any more
pub mod access; // what the service may do there
