//! `/api/v1/apps/{target}/{namespace}/{app}/remove`.

use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Path, State};
use axum::{Extension, Json};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::facts::LiveObject;
use crate::model::id::{AppKey, IdError, Namespace, Slug, TargetName};
use crate::model::removal::{Ended, Removal, RemovalRequest, Taken, reason};
use crate::server::Shared;
use crate::server::auth::{Caller, Scope, Subject};
use crate::server::ports::{Backend, Gone, NotRemoved, Outcome};
use crate::server::problem::{Kind, Problem};

/// How many names a message lists.
const NAMED: usize = 20;

/// What a caller says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    reason: String,
    #[serde(default)]
    with_data: bool,
    #[serde(default)]
    dry_run: bool,
}

/// A removal as callers see it.
#[derive(Serialize)]
pub(super) struct View {
    /// `removed`, `already-removed` or `would-remove`.
    outcome: &'static str,
    /// The removal's id; none where it was only asked.
    id: Option<String>,
    target: String,
    app: String,
    actor: String,
    reason: String,
    asked_at: Timestamp,
    /// The commit that took it away.
    commit: Option<String>,
    summary: Option<String>,
    /// Of what was live.
    digest: Option<String>,
    files: Vec<String>,
    objects: Vec<LiveObject>,
    keeps_data: Vec<LiveObject>,
    notes: Vec<String>,
}

/// Takes an app off a target.
pub(super) async fn remove<B: Backend>(
    State(shared): State<Arc<Shared<B>>>,
    Extension(caller): Extension<Caller>,
    path: Result<Path<(String, String, String)>, PathRejection>,
    ask: Result<Json<Ask>, JsonRejection>,
) -> Result<Json<View>, Problem> {
    let Path((target, namespace, slug)) = path.map_err(|_| bad("the path cannot be read"))?;
    let (target, app) = app(target, namespace, slug).map_err(|error| bad(error.to_string()))?;
    shared.may(&caller, Scope::Deploy, &Subject::App(target.clone(), app.clone())).await?;
    let by = caller.by();
    let Json(Ask { reason: text, with_data, dry_run }) = ask.map_err(|error| unread(&error))?;
    let reason = reason(&text).map_err(|error| Problem::new(Kind::Unprocessable, error))?;
    let request = RemovalRequest { target, app, by, reason, with_data, dry_run };
    let gone = shared.state.backend.remove(request).await.map_err(refused)?;
    Ok(Json(view(gone)))
}

pub(super) fn app(
    target: String,
    namespace: String,
    slug: String,
) -> Result<(TargetName, AppKey), IdError> {
    let app = AppKey { namespace: Namespace::parse(namespace)?, slug: Slug::parse(slug)? };
    Ok((TargetName::parse(target)?, app))
}

pub(super) fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(Kind::BadRequest, detail)
}

/// Only JSON that says so is taken: a web page can send anything else here in its visitor's name.
pub(super) fn unread(error: &JsonRejection) -> Problem {
    match error {
        JsonRejection::MissingJsonContentType(_) => {
            Problem::new(Kind::UnsupportedMediaType, "send application/json")
        }
        JsonRejection::JsonDataError(error) => Problem::new(Kind::Unprocessable, error.body_text()),
        JsonRejection::BytesRejection(_) => {
            Problem::new(Kind::TooLarge, "the body is too large, or broke off")
        }
        other => bad(other.body_text()),
    }
}

fn refused(error: NotRemoved) -> Problem {
    match error {
        NotRemoved::Unknown(detail) => Problem::new(Kind::NotFound, detail),
        NotRemoved::Busy(detail) | NotRemoved::Changed(detail) => {
            Problem::new(Kind::Conflict, detail)
        }
        NotRemoved::KeepsData(objects) => Problem::new(
            Kind::WouldLoseData,
            format!(
                "it keeps data: {}; ask with `with_data` if that may be lost",
                list(objects.iter().map(ToString::to_string))
            ),
        ),
        NotRemoved::Foreign(paths) => Problem::new(
            Kind::Conflict,
            format!(
                "these are in its folder and not ours: {}; move them away first",
                list(paths.into_iter())
            ),
        ),
        NotRemoved::Repository(detail) => Problem::new(Kind::Unavailable, detail),
        NotRemoved::Fault(error) => {
            tracing::error!(%error, "an app could not be removed");
            Problem::new(Kind::Unavailable, "it cannot be removed now; come again")
        }
    }
}

fn list(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    let mut names: Vec<String> = names.take(NAMED).collect();
    names.extend((more > 0).then(|| format!("{more} more")));
    names.join(", ")
}

/// Takes the record apart; a new field asks here whether it is to be seen.
fn view(gone: Gone) -> View {
    let Removal { id, target, app, actor, reason, taken, asked_at, ended } = gone.removal;
    let Taken { files, objects, keeps_data, digest, repository: _, notes } = taken;
    let (commit, summary) = match ended {
        Some(Ended { at: _, commit, summary }) => (commit, Some(summary)),
        None => (None, None),
    };
    View {
        outcome: match gone.outcome {
            Outcome::Now => "removed",
            Outcome::Before => "already-removed",
            Outcome::Would => "would-remove",
        },
        id: (gone.outcome != Outcome::Would).then(|| id.into()),
        target: target.into(),
        app: app.to_string(),
        actor,
        reason,
        asked_at,
        commit: commit.map(String::from),
        summary,
        digest: digest.map(|digest| digest.0),
        files,
        objects,
        keeps_data,
        notes,
    }
}
