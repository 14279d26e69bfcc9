//! The page with the newest deployments, each with a link to its own page.

use askama::Template;

use crate::deployments::checks::Notice;
use crate::model::deployment::Deployment;
use crate::server::pages::document::{PageError, STYLE};
use crate::server::pages::words;
use crate::server::pages::words::RelativeTime;

#[derive(Template)]
#[template(path = "list.html")]
struct Page {
    style: &'static str,
    title: &'static str,
    refresh: Option<u32>,
    /// Notices for the reader, such as an outage.
    notices: Vec<Notice>,
    rows: Vec<Row>,
    /// The query of the next page.
    older: Option<String>,
}

struct Row {
    id: String,
    subject: String,
    target: String,
    tag: String,
    actor: String,
    state: &'static str,
    look: &'static str,
    received: RelativeTime,
    summary: String,
}

/// Renders the page; `older` is the query of the next one.
///
/// # Errors
/// [`PageError`]
pub(crate) fn page(
    deployments: Vec<Deployment>,
    older: Option<String>,
    notices: Vec<Notice>,
) -> Result<String, PageError> {
    let rows = deployments.into_iter().map(row).collect();
    Ok(Page { style: STYLE, title: "deployments", refresh: None, notices, rows, older }.render()?)
}

fn row(deployment: Deployment) -> Row {
    let Deployment { id, request, app, state, received_at, summary, .. } = deployment;
    let repository = request.release.repository;
    Row {
        id: id.to_string(),
        subject: app.map_or_else(|| repository.to_string(), |app| app.to_string()),
        target: request.target.to_string(),
        tag: request.release.tag.to_string(),
        actor: request.actor,
        state: state.as_str(),
        look: words::pick_css_class(state),
        received: words::moment(received_at),
        summary,
    }
}
