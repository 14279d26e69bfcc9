//! The page with the newest deployments, each with a link to its own page.

use askama::Template;

use crate::deployments::checks::Notice;
use crate::model::deployment::{Deployment, State};
use crate::server::pages::document::{Frame, LivePage, PageError, PageSection};
use crate::server::pages::words;
use crate::server::pages::words::RelativeTime;

#[derive(Template)]
#[template(path = "list.html")]
struct Page {
    frame: Frame,
    filter: ListFilter,
    states: Vec<&'static str>,
    is_filtered: bool,
    rows: Vec<DeploymentLine>,
    /// The query of the next page.
    older: Option<String>,
}

/// The texts of the filter, as the address has them.
#[derive(Debug, Default)]
struct ListFilter {
    state: String,
    target: String,
    app: String,
    actor: String,
    /// The other parameters, which the form sends again.
    others: Vec<(String, String)>,
}

/// A deployment in a list.
pub(super) struct DeploymentLine {
    pub(super) id: String,
    subject: String,
    target: String,
    pub(super) tag: String,
    pub(super) actor: String,
    pub(super) state: &'static str,
    pub(super) look: &'static str,
    pub(super) received: RelativeTime,
    pub(super) summary: String,
}

/// The parts of the page that come from the request.
pub(crate) struct ListQuery {
    /// The parameters, which have been checked.
    pub(crate) pairs: Vec<(String, String)>,
    /// The query of the next page.
    pub(crate) older: Option<String>,
    /// The stream of the page's changes; `None` for a page of the past.
    pub(crate) live: Option<LivePage>,
}

/// Renders the page.
///
/// # Errors
/// [`PageError`]
pub(crate) fn page(
    deployments: Vec<Deployment>,
    query: ListQuery,
    notices: Vec<Notice>,
) -> Result<String, PageError> {
    let ListQuery { pairs, older, live } = query;
    let rows = deployments.into_iter().map(row).collect();
    let frame = Frame {
        title: "deployments".to_owned(),
        section: PageSection::Deployments,
        refresh: live.is_some().then_some(30),
        live,
        notices,
        ..Frame::default()
    };
    let is_filtered = !pairs.is_empty();
    let states = State::ALL.map(State::as_str).into();
    Ok(Page { frame, filter: filter(pairs), states, is_filtered, rows, older }.render()?)
}

fn filter(pairs: Vec<(String, String)>) -> ListFilter {
    let mut filter = ListFilter::default();
    for (name, value) in pairs {
        match name.as_str() {
            "state" => filter.state = value,
            "target" => filter.target = value,
            "app" => filter.app = value,
            "actor" => filter.actor = value,
            "cursor" => {}
            _ => filter.others.push((name, value)),
        }
    }
    filter
}

/// Makes the row of a deployment.
pub(super) fn row(deployment: Deployment) -> DeploymentLine {
    let Deployment { id, request, app, state, received_at, summary, .. } = deployment;
    let repository = request.release.repository;
    DeploymentLine {
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
