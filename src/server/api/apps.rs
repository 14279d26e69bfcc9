//! `/api/v1/apps/{target}/{namespace}/{app}/remove`.

use std::sync::Arc;

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::{Extension, Json};

use crate::api::apps::{self, RemovalAnswer};
use crate::deployments::removal::{Gone, NotRemoved, Outcome};
use crate::model::facts::LiveObject;
use crate::model::placed::Spot;
use crate::model::removal::{Ended, Removal, RemovalRequest, Taken, reason};
use crate::server::Shared;
use crate::server::api::idempotency::{RequestKey, answer};
use crate::server::api::path::{self, InPath};
use crate::server::auth::{Caller, Scope, Subject};
use crate::server::openapi::Operation;
use crate::server::problem::{Kind, Problem};

/// How many names a message lists.
const NAMED: usize = 20;

/// What is said of [`remove`].
pub(super) fn remove_operation() -> Operation {
    Operation::acts("removeApp", "Takes an app off a target, with all its manifests.")
        .takes::<apps::RemovalRequest>()
        .gives::<RemovalAnswer>(200, "What was removed, or would be.")
        .fails(&[Kind::NotFound, Kind::Conflict, Kind::WouldLoseData])
}

/// Takes an app off a target.
pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Extension(key): Extension<RequestKey>,
    path: InPath<(String, String, String)>,
    ask: Result<Json<apps::RemovalRequest>, JsonRejection>,
) -> Result<Json<RemovalAnswer>, Problem> {
    let Spot { target, app } = path::spot(path)?;
    shared.may(&caller, Scope::Deploy, &Subject::App(target.clone(), app.clone())).await?;
    let by = caller.by();
    let Json(apps::RemovalRequest { reason: text, with_data, dry_run }) =
        ask.map_err(|error| unread(&error))?;
    let reason = reason(&text).map_err(|error| Problem::new(Kind::Unprocessable, error))?;
    let request = RemovalRequest { target, app, by, reason, with_data, dry_run };
    let reply = key.reply(|gone: &Gone| answer(StatusCode::OK, &view(gone.clone())));
    let gone = shared.state.deployments.remove(request, reply).await.map_err(refused)?;
    Ok(Json(view(gone)))
}

/// Only JSON that says so is taken: a web page can send anything else here in its visitor's name.
pub(super) fn unread(error: &JsonRejection) -> Problem {
    match error {
        JsonRejection::MissingJsonContentType(_) => {
            Problem::new(Kind::UnsupportedMediaType, "send application/json")
        }
        JsonRejection::JsonDataError(error) => {
            Problem::new(Kind::Unprocessable, own_words("the JSON is wrong", &error.body_text()))
        }
        JsonRejection::BytesRejection(_) => {
            Problem::new(Kind::TooLarge, "the body is too large, or broke off")
        }
        other => path::bad(own_words("the body is not JSON", &other.body_text())),
    }
}

/// What is wrong where, without how the library begins its sentence.
fn own_words(what: &str, text: &str) -> String {
    let place = text.split_once(": ").map_or(text, |(_, place)| place);
    format!("{what}: {place}")
}

fn refused(error: NotRemoved) -> Problem {
    match error {
        NotRemoved::Unknown(detail) => Problem::new(Kind::NotFound, detail),
        NotRemoved::Busy(detail) | NotRemoved::Changed(detail) => {
            Problem::new(Kind::Conflict, detail)
        }
        NotRemoved::KeepsData(objects) => would_lose_data("it keeps data", &objects),
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

/// The same words for whatever takes away what keeps data.
pub(super) fn would_lose_data(what: &str, objects: &[LiveObject]) -> Problem {
    let objects = list(objects.iter().map(ToString::to_string));
    let detail = format!("{what}: {objects}; ask with `with_data` if that may be lost");
    Problem::new(Kind::WouldLoseData, detail)
}

fn list(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    let mut names: Vec<String> = names.take(NAMED).collect();
    names.extend((more > 0).then(|| format!("{more} more")));
    names.join(", ")
}

/// Takes the record apart; a new field asks here whether it is to be seen.
fn view(gone: Gone) -> RemovalAnswer {
    let Removal { id, target, app, actor, reason, taken, asked_at, ended } = gone.removal;
    let Taken { files, objects, keeps_data, digest, repository: _, notes } = taken;
    let (commit, summary) = match ended {
        Some(Ended { at: _, commit, summary }) => (commit, Some(summary)),
        None => (None, None),
    };
    RemovalAnswer {
        outcome: match gone.outcome {
            Outcome::Now => "removed",
            Outcome::Before => "already-removed",
            Outcome::Would => "would-remove",
        }
        .to_owned(),
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
