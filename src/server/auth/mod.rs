//! Authentication and authorization: who calls, and what the caller may do.
//!
//! ```text
//! token ─▶ configured? ──────────────▶ Rights: scope, targets, apps      (token_rights)
//!       └▶ like GitHub's? ─ GitHub ──▶ Person                            (people, token_cache)
//! cookie ─▶ session ─▶ one of the two                                 (sessions, sign_in)
//! agent's token ─▶ the agent of one cluster, whose reports it may send, and nothing else
//! Caller + Scope + Resource ─▶ authorize ─▶ Rights, or GitHub's permissions on the repository and its teams
//! ```
//!
//! A text that is no configured token and does not look like GitHub's is sent nowhere: it may be a configured token
//! with a typo.

mod caller; // the caller, and the resource it asks for
mod client_ip; // the address of a client behind proxies
mod host_guard; // the service's host names
mod rate_limit; // rate limits of callers
mod token_rights; // the rights of API tokens
mod configured_tokens; // the API tokens, and those of the agents of clusters
mod token_cache; // GitHub's answers, for a short while
mod cookies; // signed cookies of browsers
mod session_settings; // the configuration of sessions
mod sessions; // sessions of browsers, and forms from pages of this service
mod sign_in; // sign-ins on the pages: by the code host, or by a token
mod admission; // the configuration, and the Authenticator
mod people; // people's identity and permissions at GitHub
mod account_cache; // GitHub's answers about accounts
mod accounts; // the permissions of GitHub accounts, without a token of their owners
mod authorization; // decides what callers may do
mod authentication; // from a request to a caller

pub use crate::server::auth::admission::Admission;
pub(crate) use crate::server::auth::admission::Authenticator;
pub(super) use crate::server::auth::authentication::{CallerSurface, login_problem};
pub(super) use crate::server::auth::caller::{Caller, RequestId, Resource};
pub use crate::server::auth::client_ip::Proxies;
pub(super) use crate::server::auth::client_ip::subscriber;
pub use crate::server::auth::cookies::CookieKey;
pub(super) use crate::server::auth::cookies::equal_texts;
pub use crate::server::auth::host_guard::AllowedHosts;
pub use crate::server::auth::session_settings::SessionSettings;
pub(super) use crate::server::auth::sessions::BrowserSession;
pub(super) use crate::server::auth::sign_in::{FinishedSignIn, SignInStart, local_path};
pub use crate::server::auth::token_cache::FingerprintKey;
