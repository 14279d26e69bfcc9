//! THE MANIFEST REPOSITORY: where a deployment's files go, and what Argo CD syncs from.
//!
//! ```text
//! layout, message, refusal, address   pure: paths and retention, the commit's words, the server's words
//! change: deployment | amendment      what may be done, each one commit
//! handedit                            what somebody changed in an app's `latest` beside us
//! tree                                edits in an object database
//! home: local | kept                  who holds the branch: a folder here, or a server elsewhere
//! transport, wire, token              how to talk to that server, and as whom
//! author, signing                     who has made a commit, and the signature that proves it
//! apply                               edit the tip, commit, publish; or begin again on the new tip
//! writer                              the door: settings, outcomes, one writer a repository
//! reading, footprint                  what is live, what was written last, all that an app has
//! follow, snapshot                    a branch of another repository, and what lies in it at a commit
//! index                               what changed in all apps' `latest` since one looked
//! ```
//!
//! Imports `model` only: it knows no store, no forge and no clock. The time of a commit is handed in.

pub mod address;
mod amendment;
mod apply;

mod change;
mod deployment;
pub mod error;
pub mod footprint;
pub mod follow;
mod handedit;
mod home;
pub mod index;
mod kept;
pub mod layout;
mod local;
pub mod message;
pub mod reading;
pub mod refusal;
pub mod signing;
pub mod snapshot;
mod stale;
pub mod token;
mod transport;
mod tree;
mod wire;
pub mod writer;
