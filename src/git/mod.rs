//! The manifest repository: the service writes a deployment's files there, and Argo CD syncs from it.
//!
//! [`writer::ManifestRepository`] is the entry: its writer turns each change into one commit and pushes it; its other
//! methods read. In reading order, a write and then the reads:
//!
//! ```text
//! layout        the paths of an app in the repository, and how many revisions stay; pure
//! message       the words and trailers of a commit; pure
//! changes/      what may be written, each one commit: a deployment, a rollback, a conditional edit
//! objects/      the object database: trees read, folders edited in memory, packs of exactly the new objects
//! writer/       one writer a repository: queue, batch, push attempt and push loop, push rate limit, fence
//! clone/        the branch in a folder: a clone of a server's, or a repository of this machine; its locks and its gc
//! transport/    the way to a server: http, ssh, tokens, pushes, and what a failure or a rejection means
//! drift/        manual edits of an app's `latest`
//! history/      what the commits say was done: trailers, revisions, the live revision, all files of an app
//! signing/      the signature of a commit
//! author        the author of a commit: the person who asked for it
//! snapshot      the files of a folder at one commit
//! index         what changed of all apps since the last look
//! error         how a write ends
//! ```
//!
//! The module imports `model` and `support` only: it knows no database, no code host and no clock. The time of a commit
//! is passed in.

pub mod layout;
pub mod message;
mod changes;
mod objects;
pub mod writer;
pub mod clone;
pub mod transport;
mod drift;
pub mod history;
pub mod signing;
mod author;
pub mod snapshot;
pub mod index;
pub mod error;

/// The folders in which started programs are looked for. The path of the service's own process is not passed on, as
/// nothing of its environment is.
const PROGRAMS: &str = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin";
