//! A repository behind ssh: the system's `ssh` as a child, and git's program behind it.
//!
//! ```text
//! options     pure: the command line
//! complaint   pure: what ssh and the server print, read
//! folder      our key, the host keys that are believed, the connection that is kept
//! client      how the repository is reached: key, host keys, folder
//! failure     what went wrong, as the writer's error
//! session     one child: bytes in, bytes out, each with an end
//! push        our own push over it
//! ```
//!
//! So that ssh's own keys, certificates of hosts and ciphers hold, which companies set rules for.
//! Knows bytes only; what a fetch or a push is, others know.

mod client;
mod complaint;
mod failure;
mod folder;
mod options;
mod push;
mod session;

pub use crate::git::ssh::client::Access;
pub(super) use crate::git::ssh::client::Ssh;
pub(super) use crate::git::ssh::failure::Failure;
pub(super) use crate::git::ssh::options::Program;
pub(super) use crate::git::ssh::session::Session;
