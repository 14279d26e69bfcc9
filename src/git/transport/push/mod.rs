//! The push of a branch to a server, with the objects that it needs there.
//!
//! ```text
//! pkt       lines of git's protocol, pure
//! report    the server's answer, pure
//! update    the request to receive-pack, and the meaning of a server's refusal
//! direct    the service's own client: one exchange, exactly the new objects
//! libgit2   the fallback: libgit2 finds the new objects by itself
//! ```

mod direct;
mod libgit2;
mod pkt;
pub(crate) mod report;
mod update;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::git::transport::push::direct::DirectPush;
use crate::git::transport::push::libgit2::Libgit2;
pub(in crate::git) use crate::git::transport::push::update::{Push, Update};
use crate::git::transport::remote::Remote;

/// The client that pushes to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PushBy {
    /// The service's own client: one request with exactly the new objects.
    #[default]
    Direct,
    // It asks the server for its branches first and walks trees to find what is new.
    /// libgit2, for a server that `direct` does not get on with; slower on large repositories.
    Libgit2,
}

/// Builds the client that pushes as the settings say.
pub(in crate::git) fn build_push(by: PushBy, remote: Remote) -> Box<dyn Push> {
    match by {
        PushBy::Direct => Box::new(DirectPush::new(remote)),
        PushBy::Libgit2 => Box::new(Libgit2::new(remote)),
    }
}
