//! Who may call, and what they may do.
//!
//! ```text
//! token ─▶ one of ours? ─────────────▶ Rights: scope, targets, apps      (token_rights)
//!       └▶ like GitHub's? ─ GitHub ──▶ Person                            (people, token_cache)
//! Caller + Scope + Resource ─▶ authorize ─▶ Rights, or what GitHub says of the repository and its teams
//! ```
//!
//! A text that is none of ours and does not look like GitHub's is shown to nobody: it may be one of
//! ours with a slip in it.

mod caller; // who calls, and what it is about
mod client_ip; // where a request comes from
mod host_guard; // which names are ours
mod rate_limit; // how often each caller may come
mod token_rights; // what a token of the configuration is good for
mod token_cache; // what GitHub said, for a short while
mod admission; // what is asked of callers
mod people; // what GitHub says of people
mod authorization; // what callers may do
mod authentication; // from a request to a caller

pub use crate::server::auth::admission::Admission;
pub(crate) use crate::server::auth::admission::Authenticator;
pub(super) use crate::server::auth::authentication::CallerSurface;
pub(super) use crate::server::auth::caller::{Caller, RequestId, Resource};
pub use crate::server::auth::client_ip::Proxies;
pub(super) use crate::server::auth::client_ip::subscriber;
pub use crate::server::auth::host_guard::Site;
pub use crate::server::auth::token_cache::FingerprintKey;
