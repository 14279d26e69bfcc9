//! What went wrong with a request, for a person with a browser.

use askama::Template;

use crate::server::pages::document::{NoPage, STYLE};

#[derive(Template)]
#[template(path = "problem.html")]
struct Page<'a> {
    style: &'static str,
    title: &'a str,
    refresh: Option<u32>,
    status: u16,
    detail: &'a str,
}

/// The page for a status, its title and what there is to say.
///
/// # Errors
/// [`NoPage`]
pub(crate) fn page(status: u16, title: &str, detail: &str) -> Result<String, NoPage> {
    Ok(Page { style: STYLE, title, refresh: None, status, detail }.render()?)
}
