//! Connects to a cluster's API server.
//!
//! ```text
//! ClusterAccess ─┬─ Kubeconfig ─▶ kubeconfig ─▶ exec_plugin ─┐
//!                └─ Server ──────────────────────────────────┴─▶ client, with bearer and trust
//! ```

pub mod settings; // the way to a cluster, from the configuration
pub mod error; // reasons why there is no connection
mod trust; // authorities of the server's certificate
mod exec_plugin; // programs that print credentials
mod bearer; // the token of each request
pub mod kubeconfig; // a kubeconfig, read for one connection
pub mod client; // the client, made anew when its credentials expire or are refused
pub(in crate::cluster) mod request; // requests, and refusals of the server
pub mod access; // permissions of the service in the cluster
