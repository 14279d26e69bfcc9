//! The parts that all pages share: the style sheet, the content security policy, the destinations of links, and the
//! escaping of texts; and the page of a problem.

use std::fmt;

use askama::Template;
use askama::filters::{Escaper, Html};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::support::text::reveal_invisible;

/// The destinations of links to a code host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CodeHostLinks {
    /// The address of repositories for browsers: `https://github.com`; `None` if there is none.
    pub(crate) forge: Option<String>,
    /// The WAML's path in a repository.
    pub(crate) waml: String,
}

/// A page that could not be rendered: an error in the service.
#[derive(Debug, thiserror::Error)]
#[error("the page could not be rendered: {0}")]
pub(crate) struct PageError(#[from] askama::Error);

/// The style sheet. It is part of each page.
pub(super) const STYLE: &str = include_str!("html/style.css");

/// Returns the content security policy of every page: its own style sheet, and nothing else from anywhere.
pub(crate) fn policy() -> String {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    )
}

/// The escaper of texts for HTML, in all templates (`askama.toml`): it shows markup as text, and each invisible
/// character as `\u{202e}`: a name must not turn the rest of its line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HtmlEscaper;

impl Escaper for HtmlEscaper {
    fn write_escaped_str<W: fmt::Write>(&self, to: W, text: &str) -> fmt::Result {
        Html.write_escaped_str(to, &reveal_invisible(text))
    }
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    style: &'static str,
    title: &'a str,
    refresh: Option<u32>,
    status: u16,
    detail: &'a str,
}

/// Renders the page of a problem, for a person with a browser.
///
/// # Errors
/// [`PageError`]
pub(crate) fn problem(status: u16, title: &str, detail: &str) -> Result<String, PageError> {
    Ok(ProblemPage { style: STYLE, title, refresh: None, status, detail }.render()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_what_nobody_sees_are_only_themselves() {
        let mut html = String::new();
        HtmlEscaper.write_escaped_str(&mut html, "<b>ops\u{202e}\u{200b}</b> größer 👩‍💻").unwrap();
        assert!(html.contains("ops\\u{202e}\\u{200b}") && html.contains("größer 👩‍💻"), "{html}");
        assert!(!html.contains("<b>"), "{html}");
    }
}
