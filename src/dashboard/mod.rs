//! PAGES: what became of a deployment, for a person who clicked "View deployment" or "Log".
//!
//! ```text
//! record ─▶ view (pure: words, times, links) ─▶ html/*.html (askama, escaped) ─▶ server/pages
//! ```
//!
//! A page is one answer: no script, no picture, no font from elsewhere, and its one style sheet in
//! it. Knows no HTTP but the policy that holds browsers to that.

pub mod deployment; // the log of one deployment
pub mod list; // the newest ones
pub mod problem; // what went wrong with a request
pub mod story; // what happened, in order

mod escape; // how a text becomes HTML
mod edit; // what somebody had edited by hand
mod messages; // who was told what
mod stages; // how long what took
mod words; // states, times and durations as people read them

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// Where links to a code host lead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Where people look at repositories: `https://github.com`; none where nobody can.
    pub forge: Option<String>,
    /// The WAML's path in a repository.
    pub waml: String,
}

/// A page that could not be made: a fault of ours.
#[derive(Debug, thiserror::Error)]
#[error("a page could not be made: {0}")]
pub struct NoPage(#[from] askama::Error);

/// All styles there are. It stands in each page.
const STYLE: &str = include_str!("html/style.css");

/// The policy that each page is served with: its own style sheet, and nothing else from anywhere.
pub fn policy() -> String {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    )
}
