//! THE MANIFEST REPOSITORY: where a deployment's files go, and what Argo CD syncs from.
//!
//! ```text
//! layout, message, refusal, address   pure: paths and retention, the commit's words, the server's words
//! tree                                one deployment's change, in an object database
//! home: local | kept                  who holds the branch: a folder here, or a server elsewhere
//! transport, wire                     how to talk to that server
//! apply                               edit the tip, commit, publish; or begin again on the new tip
//! writer                              the door: settings, outcomes, one writer a repository
//! reading                             what is live, and what was written last
//! index                               what changed in all apps' `latest` since one looked
//! ```
//!
//! Imports `model` only: it knows no store, no forge and no clock. The time of a commit is handed in.

pub mod address;
mod apply;
pub mod error;
mod home;
pub mod index;
mod kept;
pub mod layout;
mod local;
pub mod message;
pub mod reading;
pub mod refusal;
mod stale;
mod transport;
mod tree;
mod wire;
pub mod writer;
