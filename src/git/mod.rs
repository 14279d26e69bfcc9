//! THE MANIFEST REPOSITORY: where a deployment's files go, and what Argo CD syncs from.
//!
//! ```text
//! layout, message, refusal, address   pure: paths and retention, the commit's words, the server's words
//! change: deployment | rollback | conditional_edit  what may be done, each one commit
//! handedit                            what somebody changed in an app's `latest` beside us
//! folder, delta, objects, edits       edits of a root folder, in memory; what is new is known
//! batch                               several changes, as many commits, one on top of the other
//! author, signing                     who has asked for a commit, and the signature that proves it ours
//! pack, pack_index, push/             exactly the new objects, and how they come to a server
//! bare, clone                         how a repository comes to be, and a clone of ours
//! branch, local                       who holds the branch: a server with our clone of it, or a folder here
//! remote: http | ssh; transport, failure, token  the way to that server, and as whom
//! queue, budget, round, rounds        who waits, how often is pushed, and how a push ends
//! fence                               who may not push any more
//! outcome, error                      how a write ends
//! writer                              the door: settings, one writer a repository
//! tree                                the one reader of commits and trees
//! reading, footprint                  what is live, what was written last, all that an app has
//! past                                what the commits say was done, and what stands now
//! revisions, trailers                 an app's history for people, and what its commits say of it
//! follow, snapshot                    a branch of another repository, and what lies in it at a commit
//! index                               what changed of all apps since one looked
//! ```
//!
//! Imports `model` and `support` only: it knows no store, no forge and no clock. The time of a commit is handed in.

pub mod address;
mod conditional_edit;
mod author;
mod bare;
mod batch;
mod branch;
pub mod budget;
mod change;
mod clone;
mod delta;
mod deployment;
mod edits;
pub mod error;
mod failure;
mod fence;
mod folder;
pub mod follow;
mod handedit;
pub mod footprint;
mod http;
pub mod index;
pub mod layout;
mod local;
pub mod message;
mod objects;
mod outcome;
mod pack;
mod pack_index;
pub mod past;
pub(crate) mod push;
mod queue;
pub mod reading;
pub mod refusal;
mod remote;
mod rollback;
mod round;
mod rounds;
pub mod revisions;
pub mod signing;
pub mod snapshot;
pub mod ssh;
mod stale;
mod tidy;
pub mod token;
mod trailers;
mod transport;
mod tree;
pub mod writer;

/// Where programs that we start are looked for. The path of our own process is not handed on, as
/// nothing of its environment is.
const PROGRAMS: &str = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin";
