//! The parts that all pages share: the frame, the assets, the content security policy, the destinations of links, and
//! the escaping of texts; and the page of a problem.

use std::fmt;
use std::sync::LazyLock;

use askama::Template;
use askama::filters::{Escaper, Html};
use sha2::{Digest, Sha256};

use crate::deployments::Deployments;
use crate::deployments::checks::Notice;
use crate::support::text::reveal_invisible;

/// The destinations of links to a code host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CodeHostLinks {
    /// The address of repositories for browsers: `https://github.com`; `None` if there is none.
    pub(crate) forge: Option<String>,
    /// The WAML's path in a repository.
    pub(crate) waml: String,
}

impl From<&Deployments> for CodeHostLinks {
    fn from(Deployments { forge_url, waml, .. }: &Deployments) -> Self {
        Self { forge: forge_url.clone(), waml: waml.path.clone() }
    }
}

/// A page that could not be rendered: an error in the service.
#[derive(Debug, thiserror::Error)]
#[error("the page could not be rendered: {0}")]
pub(crate) struct PageError(#[from] askama::Error);

/// The style sheet of every page.
pub(super) const STYLE: &str = include_str!("html/style.css");
/// The script of every page: live updates, and local times.
pub(super) const SCRIPT: &str = include_str!("html/page.js");

/// The content security policy of every page: files of the service itself, and nothing inline.
pub(super) const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
                                 object-src 'none'";

/// The version of the assets, which is in their addresses: browsers keep each for good.
static ASSETS: LazyLock<String> = LazyLock::new(|| {
    let digest = Sha256::new().chain_update(STYLE).chain_update(SCRIPT).finalize();
    hex::encode(digest.get(..6).unwrap_or_default())
});

/// The frame around a page: its head and the way to other pages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Frame {
    /// The title.
    pub(crate) title: String,
    /// The part of the service that the page belongs to.
    pub(crate) section: PageSection,
    /// The CSS class of the state that the page is about: the icon has its colour.
    pub(crate) look: &'static str,
    /// The seconds until a browser without scripts loads the page again; `None` if it does not.
    pub(crate) refresh: Option<u32>,
    /// The stream of changes; `None` where nothing changes.
    pub(crate) live: Option<LivePage>,
    /// Notices for the reader, such as an outage.
    pub(crate) notices: Vec<Notice>,
    /// True if the page takes the whole width of the window.
    pub(crate) is_wide: bool,
}

/// A page that changes in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LivePage {
    /// The address of its stream of changes.
    pub(crate) stream: String,
    /// The version of what it shows; empty where that is the document's.
    pub(crate) version: String,
}

/// A part of the service that has pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum PageSection {
    Apps,
    Deployments,
    Rollouts,
    Locks,
    Insights,
    Audit,
    System,
    Account,
    /// None of them: a problem.
    #[default]
    Elsewhere,
}

/// A link of the navigation.
pub(crate) struct NavigationLink {
    pub(super) path: &'static str,
    pub(super) text: &'static str,
    pub(super) is_current: bool,
}

impl Frame {
    /// Returns the links to all parts of the service.
    pub(super) fn links(&self) -> Vec<NavigationLink> {
        let sections = [
            (PageSection::Apps, "/", "Apps"),
            (PageSection::Deployments, "/deployments", "Deployments"),
            (PageSection::Rollouts, "/rollouts", "Rollouts"),
            (PageSection::Locks, "/locks", "Locks"),
            (PageSection::Insights, "/insights", "Insights"),
            (PageSection::Audit, "/audit", "Audit"),
            (PageSection::System, "/system", "System"),
            (PageSection::Account, "/account", "Account"),
        ];
        let link = |(section, path, text)| NavigationLink {
            path,
            text,
            is_current: section == self.section,
        };
        sections.map(link).into()
    }

    pub(super) fn icon(&self) -> String {
        let look = if self.look.is_empty() { "plain" } else { self.look };
        format!("/assets/icon-{look}.svg")
    }

    pub(super) fn style(&self) -> String {
        self.asset("style.css")
    }

    pub(super) fn script(&self) -> String {
        self.asset("page.js")
    }

    #[expect(clippy::unused_self, reason = "the templates call it on the frame")]
    fn asset(&self, name: &str) -> String {
        format!("/assets/{name}?v={}", *ASSETS)
    }
}

/// A page as it is sent.
pub(crate) struct RenderedPage {
    /// The document.
    pub(crate) html: String,
    /// The version of what it shows; empty where nothing changes.
    pub(crate) version: String,
    /// True if the page changes by itself.
    pub(crate) is_live: bool,
}

impl RenderedPage {
    /// Makes it of a rendered document. Where that has no version of its own, it gets one: the same for equal documents.
    pub(super) fn new(html: String) -> Self {
        // Quotes of texts are escaped, so that no text looks like the attribute.
        const ATTRIBUTE: &str = " data-version=\"";
        let Some((_, rest)) = html.split_once(ATTRIBUTE) else {
            return Self { html, version: String::new(), is_live: false };
        };
        let own = rest.split('"').next().unwrap_or_default().to_owned();
        if !own.is_empty() {
            return Self { html, version: own, is_live: true };
        }
        let version = version(&html);
        let html = html.replacen(ATTRIBUTE, &format!("{ATTRIBUTE}{version}"), 1);
        Self { html, version, is_live: true }
    }
}

/// Draws the icon of a state; `None` for a name that no page uses.
pub(super) fn icon(look: &str) -> Option<String> {
    let colour = match look {
        "plain" => "#4a6fdc",
        "good" => "#2c8a50",
        "bad" => "#c23a3a",
        "going" | "warn" => "#c28a1a",
        "gone" => "#7a828e",
        _ => return None,
    };
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\">\
         <path d=\"M8 1l6 6h-4v8H6V7H2z\" fill=\"{colour}\"/></svg>"
    ))
}

/// Returns the version of what a page shows: equal pages have the same in every replica.
pub(super) fn version(content: impl AsRef<[u8]>) -> String {
    hex::encode(Sha256::digest(content).get(..8).unwrap_or_default())
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
    frame: Frame,
    title: &'a str,
    status: u16,
    detail: &'a str,
}

/// Renders the page of a problem, for a person with a browser.
///
/// # Errors
/// [`PageError`]
pub(crate) fn problem(status: u16, title: &str, detail: &str) -> Result<String, PageError> {
    let frame = Frame { title: title.to_owned(), look: "bad", ..Frame::default() };
    Ok(ProblemPage { frame, title, status, detail }.render()?)
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

    #[test]
    fn equal_pages_have_one_version_and_a_text_makes_none() {
        let render = |title: &str| {
            let live = LivePage { stream: "/live/x".to_owned(), version: String::new() };
            let frame = Frame { title: title.to_owned(), live: Some(live), ..Frame::default() };
            let page = ProblemPage { frame, title, status: 200, detail: "" };
            RenderedPage::new(page.render().unwrap())
        };
        let (one, same, other) = (render("a"), render("a"), render(" data-version=\"1\""));
        assert_eq!(one.version, same.version);
        assert_ne!(one.version, other.version);
        assert!(other.html.contains(&format!(" data-version=\"{}\"", other.version)));
        assert!(one.is_live && one.version.len() == 16);
        assert!(!RenderedPage::new(problem(404, "", "").unwrap()).is_live);
    }

    #[test]
    fn each_look_has_an_icon() {
        for look in ["plain", "good", "bad", "going", "warn", "gone"] {
            assert!(icon(look).unwrap().starts_with("<svg"), "{look}");
        }
        assert_eq!(icon("\"><script>"), None);
    }
}
