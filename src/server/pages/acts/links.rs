//! The acts that a page offers, as it shows them. Pure.

use askama::Template;

use crate::model::app_instance::AppInstance;
use crate::support::percent::encode_segment;

/// The acts that a page offers. In a template: `{{ acts|safe }}`.
#[derive(Debug, Default, Template)]
#[template(path = "acts/links.html")]
pub(crate) struct ActLinks {
    pub(super) links: Vec<ActLink>,
    /// The page on which a reader signs in to act.
    pub(super) sign_in: Option<String>,
}

/// A link to the page of an act.
#[derive(Debug)]
pub(super) struct ActLink {
    path: String,
    text: &'static str,
}

/// Returns the path of an app, which is the same for pages and for the API; those of its acts begin with it.
pub(crate) fn app_path(AppInstance { target, app }: &AppInstance) -> String {
    let parts = [target.as_str(), app.namespace.as_str(), app.slug.as_str()];
    let [target, namespace, slug] = parts.map(encode_segment);
    format!("/apps/{target}/{namespace}/{slug}")
}

impl ActLinks {
    /// Offers to sign in, and to come back to that path.
    pub(super) fn after_sign_in(path: &str) -> Self {
        let path = format!("/account?to={}", encode_segment(path));
        Self { links: Vec::new(), sign_in: Some(path) }
    }
}

impl ActLink {
    pub(super) fn new(path: String, text: &'static str) -> Self {
        Self { path, text }
    }
}
