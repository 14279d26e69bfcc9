//! `/api/v1/apps/{target}/{namespace}/{app}`: one app as it is now, its revisions, and one of them.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};

use crate::api::apps::AppDetail;
use crate::api::revisions::{RevisionDetail, RevisionList};
use crate::deployments::history::NotShown;
use crate::model::placed::Spot;
use crate::server::Shared;
use crate::server::api::path::{self, InPath};
use crate::server::auth::{Caller, Scope, Subject};
use crate::server::openapi::Operation;
use crate::server::problem::{Kind, Problem};

type Names = InPath<(String, String, String)>;

/// What is said of [`one`].
pub(super) fn one_operation() -> Operation {
    Operation::reads("getApp", "An app on a target as it is now.")
        .about(
            "What is live is what the manifest repository has under `latest`. The server of that \
             repository is asked at most every half minute; our own pushes are seen at once.",
        )
        .gives::<AppDetail>(200, "The app.")
        .fails(&[Kind::NotFound])
}

/// One app on one target.
pub(super) async fn one(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    path: Names,
) -> Result<Json<AppDetail>, Problem> {
    let spot = allowed(&shared, &caller, path::spot(path)?).await?;
    let found = shared.state.deployments.find_app(&spot).await.map_err(not_shown)?;
    let app = found.ok_or_else(|| nothing_of(&spot))?;
    Ok(Json(AppDetail::new(spot, app)))
}

/// What is said of [`revisions`].
pub(super) fn revisions_operation() -> Operation {
    Operation::reads("listRevisions", "The revisions of an app that are kept, newest first.")
        .about(
            "Who made one, when and why comes from the database, or from the commit where the database \
             does not know it; what neither says is null.",
        )
        .gives::<RevisionList>(200, "The history.")
        .fails(&[Kind::NotFound])
}

/// Its revisions.
pub(super) async fn revisions(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    path: Names,
) -> Result<Json<RevisionList>, Problem> {
    let spot = allowed(&shared, &caller, path::spot(path)?).await?;
    let found = shared.state.deployments.find_history(&spot).await.map_err(not_shown)?;
    Ok(Json(found.ok_or_else(|| nothing_of(&spot))?.into()))
}

/// What is said of [`revision`].
pub(super) fn revision_operation() -> Operation {
    Operation::reads("getRevision", "One revision with its files, against what is live.")
        .gives::<RevisionDetail>(200, "The revision.")
        .fails(&[Kind::NotFound])
}

/// One of its revisions.
pub(super) async fn revision(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    path: InPath<(String, String, String, String)>,
) -> Result<Json<RevisionDetail>, Problem> {
    let (spot, id) = path::revision(path)?;
    let spot = allowed(&shared, &caller, spot).await?;
    let found = shared.state.deployments.find_revision(&spot, &id).await.map_err(not_shown)?;
    let revision = found.ok_or_else(|| {
        let Spot { target, app } = &spot;
        let detail = format!("{app} has no revision {id} on {target}: five are kept of each app");
        Problem::new(Kind::NotFound, detail)
    })?;
    Ok(Json(revision.into()))
}

async fn allowed(shared: &Shared, caller: &Caller, spot: Spot) -> Result<Spot, Problem> {
    let subject = Subject::App(spot.target.clone(), spot.app.clone());
    shared.may(caller, Scope::Read, &subject).await?;
    Ok(spot)
}

fn nothing_of(spot: &Spot) -> Problem {
    Problem::new(Kind::NotFound, format!("there is no {} on {}", spot.app, spot.target))
}

fn not_shown(error: NotShown) -> Problem {
    match error {
        NotShown::Repository(detail) => Problem::new(Kind::Unavailable, detail),
        NotShown::Fault(error) => {
            tracing::error!(%error, "an app could not be read");
            Problem::new(Kind::Unavailable, "the app cannot be read now; come again")
        }
    }
}
