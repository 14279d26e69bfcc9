//! What all pages share: their style sheet, the policy that holds browsers to it, and where links lead.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// Where links to a code host lead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// Where people look at repositories: `https://github.com`; none where nobody can.
    pub(crate) forge: Option<String>,
    /// The WAML's path in a repository.
    pub(crate) waml: String,
}

/// A page that could not be made: a fault of ours.
#[derive(Debug, thiserror::Error)]
#[error("a page could not be made: {0}")]
pub(crate) struct NoPage(#[from] askama::Error);

/// All styles there are. It stands in each page.
pub(super) const STYLE: &str = include_str!("html/style.css");

/// The policy that each page is served with: its own style sheet, and nothing else from anywhere.
pub(crate) fn policy() -> String {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    )
}
