//! The manifest repository: the service writes a deployment's files there, and Argo CD syncs from it.
//!
//! [`writer::ManifestRepository`] is the entry: its writer turns each change into one commit and pushes it; its other
//! methods read. In reading order, a write and then the reads:
//!
//! ```text
//! writer                                            settings, and one writer for each repository
//! change: deployment | rollback | conditional_edit  the changes, each one commit
//! layout, message, address                          pure: paths and retention, the commit's message, addresses
//! handedit                                          manual edits of an app's `latest`
//! folder, delta, objects, edits                     edits of a root folder in memory, and the new objects
//! batch                                             several changes as several commits
//! author, signing                                   the author of a commit, and its signature
//! queue, budget, round, rounds                      waiting jobs, the push budget, one push round, and the loop
//! fence                                             the leases that a push needs
//! branch, local                                     the branch: on a server with a clone here, or in a folder
//! bare, clone, stale, tidy                          the clone and the folder on this machine's disk
//! pack, pack_index, push/                           the new objects, and their way to a server
//! remote: http | ssh; transport, failure, token     the connection to that server, and its credentials
//! refusal, outcome, error                           the server's answer, and the outcome of a write
//! tree                                              the reader of commits and trees
//! reading, footprint                                the live revision, the last commits, all files of an app
//! revisions, trailers                               an app's history, and its commits' messages
//! past                                              the whole history, for a service that lost its database
//! index                                             the changes of all apps since the last read
//! follow, snapshot                                  a branch of another repository, and a folder of it at a commit
//! ```
//!
//! The module imports `model` and `support` only: it knows no database, no code host and no clock. The time of a commit
//! is passed in.

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

/// The folders in which started programs are looked for. The path of the service's own process is not passed on, as
/// nothing of its environment is.
const PROGRAMS: &str = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin";
