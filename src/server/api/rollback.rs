//! `/api/v1/apps/{target}/{namespace}/{app}/rollback`, `…/hold`, `…/release`, and `/api/v1/holds`.

use std::sync::Arc;

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::{Extension, Json};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::placed::Spot;
use crate::model::release::Release;
use crate::model::removal::reason;
use crate::model::rollback::{Hold, RollbackRequest};
use crate::pipeline::diff::Change;
use crate::server::Shared;
use crate::server::api::app_view::RolledBackView;
use crate::server::api::apps::{unread, would_lose_data};
use crate::server::api::idempotency::{RequestKey, answer};
use crate::server::api::path::{self, InPath, InQuery, bad};
use crate::server::api::query;
use crate::server::api::view::{Overview, overview};
use crate::server::auth::{Caller, Scope, Subject};
use crate::server::openapi::{Form, Operation, Parameter, forms};
use crate::server::ports::{Backend, Fault, NotRolledBack, RolledBack, Version};
use crate::server::problem::{Kind, Problem};
use crate::store::StoredAnswer;

type AppPath = InPath<(String, String, String)>;

/// The parameters of the list of holds.
const HOLDS: &[Parameter] = &[Parameter::text("target", Form::TARGET, "Only on this target.")];

/// What a caller says who rolls back.
#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub(super) struct AskBack {
    /// A revision; without one, the one before the live one.
    #[serde(default)]
    #[schemars(with = "Option<forms::OfDeployId>")]
    to: Option<String>,
    /// Why; one line.
    #[schemars(with = "forms::OfReason")]
    reason: String,
    /// Whether objects that keep data may go.
    #[serde(default)]
    with_data: bool,
    /// Whether Kubernetes may go down to one pod until the revision's autoscaler counts.
    #[serde(default)]
    with_fewer_pods: bool,
    /// Only say what would become another.
    #[serde(default)]
    dry_run: bool,
}

/// What a caller says who holds or releases.
#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub(super) struct HoldBody {
    /// Why; one line.
    #[schemars(with = "forms::OfReason")]
    reason: String,
}

/// A rollback as callers see it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RollbackAnswer")]
pub(super) struct BackView {
    /// The deployment that it is. Null where it was only asked what would be done.
    deployment: Option<Overview>,
    /// What is live now; null where somebody edited it by hand.
    from: Option<VersionView>,
    /// What becomes live again.
    to: VersionView,
    /// That the revision was itself rolled back from; null where it was not, or is live again since.
    warning: Option<RolledBackView>,
    /// What a person should know, one sentence each.
    notes: Vec<String>,
    /// Whether automation is held afterwards.
    hold: bool,
    /// What becomes another; null where what is live cannot be read.
    changes: Option<Vec<Change>>,
}

/// A revision in a few words.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Version")]
struct VersionView {
    /// Its deploy id.
    id: String,
    /// The image tag.
    tag: Option<String>,
    /// The commit that its WAML was read at.
    commit: Option<String>,
    /// The service's repository.
    repository: Option<String>,
    /// Who asked for it.
    actor: Option<String>,
    /// When it was made.
    at: Option<Timestamp>,
}

/// A hold as callers see it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Hold")]
pub(super) struct HoldView {
    /// The cluster.
    target: String,
    /// `NAMESPACE/SLUG`
    app: String,
    /// Who took it.
    by: String,
    /// Why.
    reason: String,
    /// Since when.
    since: Timestamp,
    /// The rollback that took it; null where a person did.
    rollback: Option<String>,
    /// The tag that was rolled back from.
    from: Option<String>,
    /// The tag that was rolled back to.
    to: Option<String>,
}

/// One hold, or none.
#[derive(Serialize, JsonSchema)]
pub(super) struct OneHold {
    /// The hold, as it is or was.
    hold: Option<HoldView>,
}

/// All holds.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Holds")]
pub(super) struct HoldsView {
    /// The oldest first.
    holds: Vec<HoldView>,
}

/// What is said of [`roll_back`].
pub(super) fn back_operation() -> Operation {
    Operation::acts("rollBack", "Makes a former revision live again, byte for byte.")
        .about(
            "It is a deployment of its own and waits its turn. Where the target says so, automation is \
             held afterwards: only a person deploys over it, or releases the hold.",
        )
        .takes::<AskBack>()
        .gives::<BackView>(200, "What would be done; nothing was.")
        .gives::<BackView>(202, "It is recorded, and will be done.")
        .fails(&[Kind::NotFound, Kind::Conflict, Kind::WouldLoseData])
}

/// Makes a former revision live again.
pub(super) async fn roll_back<B: Backend>(
    State(shared): State<Arc<Shared<B>>>,
    Extension(caller): Extension<Caller>,
    Extension(key): Extension<RequestKey>,
    path: AppPath,
    ask: Result<Json<AskBack>, JsonRejection>,
) -> Result<(StatusCode, Json<BackView>), Problem> {
    let (target, app) = allowed(&shared, &caller, path).await?;
    let Json(AskBack { to, reason: text, with_data, with_fewer_pods, dry_run }) =
        ask.map_err(|error| unread(&error))?;
    let to = to.map(DeployId::parse).transpose();
    let to = to.map_err(|error| bad(format!("to: {error}")))?;
    let reason = why(&text)?;
    let request = RollbackRequest { target, app, to, reason, with_data, with_fewer_pods, dry_run };
    let reply = key.reply(|back: &RolledBack| answer(StatusCode::ACCEPTED, &view(back.clone())));
    let back = shared.state.backend.roll_back(request, caller.by(), &reply).await;
    let status = if dry_run { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(view(back.map_err(refused)?))))
}

/// What is said of [`hold()`].
pub(super) fn hold_operation() -> Operation {
    Operation::acts("holdApp", "Holds automation off an app on a target.")
        .takes::<HoldBody>()
        .gives::<OneHold>(200, "The hold.")
        .fails(&[Kind::NotFound, Kind::Conflict])
}

/// Holds automation off an app.
pub(super) async fn hold<B: Backend>(
    State(shared): State<Arc<Shared<B>>>,
    Extension(caller): Extension<Caller>,
    Extension(key): Extension<RequestKey>,
    path: AppPath,
    ask: Result<Json<HoldBody>, JsonRejection>,
) -> Result<Json<OneHold>, Problem> {
    let (target, app) = allowed(&shared, &caller, path).await?;
    let Json(HoldBody { reason }) = ask.map_err(|error| unread(&error))?;
    let (reason, reply) = (why(&reason)?, key.reply(hold_answer));
    let held = shared.state.backend.hold(target, app, reason, caller.by(), &reply).await;
    Ok(Json(OneHold::of(held.map_err(refused)?)))
}

/// What is said of [`release`].
pub(super) fn release_operation() -> Operation {
    Operation::acts("releaseApp", "Ends a hold.")
        .takes::<HoldBody>()
        .gives::<OneHold>(200, "The hold that it was.")
        .fails(&[Kind::NotFound])
}

/// Ends a hold.
pub(super) async fn release<B: Backend>(
    State(shared): State<Arc<Shared<B>>>,
    Extension(caller): Extension<Caller>,
    Extension(key): Extension<RequestKey>,
    path: AppPath,
    ask: Result<Json<HoldBody>, JsonRejection>,
) -> Result<Json<OneHold>, Problem> {
    let (target, app) = allowed(&shared, &caller, path).await?;
    let Json(HoldBody { reason }) = ask.map_err(|error| unread(&error))?;
    let nothing = format!("{app} is not held on {target}");
    let (reason, reply) = (why(&reason)?, key.reply(hold_answer));
    let released = shared.state.backend.release(target, app, reason, caller.by(), &reply).await;
    let hold = released.map_err(refused)?.ok_or_else(|| Problem::new(Kind::NotFound, nothing))?;
    Ok(Json(OneHold::of(hold)))
}

/// What is said of [`holds`].
pub(super) fn holds_operation() -> Operation {
    Operation::reads("listHolds", "What automation is held off.")
        .query(HOLDS)
        .gives::<HoldsView>(200, "The holds.")
}

/// All holds, or those of a target.
pub(super) async fn holds<B: Backend>(
    State(shared): State<Arc<Shared<B>>>,
    Extension(caller): Extension<Caller>,
    pairs: InQuery,
) -> Result<Json<HoldsView>, Problem> {
    let target = read(&path::pairs(pairs)?).map_err(bad)?;
    let holds = shared.state.backend.holds(target.as_ref()).await;
    let holds = holds.map_err(|error| unavailable(&error))?;
    let subject = |hold: &Hold| Subject::App(hold.target.clone(), hold.app.clone());
    let holds = shared.seen(&caller, holds, subject).await?;
    Ok(Json(HoldsView { holds: holds.into_iter().map(HoldView::of).collect() }))
}

fn read(pairs: &[(String, String)]) -> Result<Option<TargetName>, String> {
    query::once(pairs)?;
    let mut target = None;
    for (name, value) in pairs {
        match name.as_str() {
            "target" => target = Some(query::id(name, value, TargetName::parse)?),
            _ => return Err(query::unknown(name, HOLDS)),
        }
    }
    Ok(target)
}

async fn allowed<B: Backend>(
    shared: &Shared<B>,
    caller: &Caller,
    path: AppPath,
) -> Result<(TargetName, AppKey), Problem> {
    let Spot { target, app } = path::spot(path)?;
    shared.may(caller, Scope::Deploy, &Subject::App(target.clone(), app.clone())).await?;
    Ok((target, app))
}

fn why(text: &str) -> Result<String, Problem> {
    reason(text).map_err(|error| Problem::new(Kind::Unprocessable, error))
}

fn refused(error: NotRolledBack) -> Problem {
    match error {
        NotRolledBack::Unknown(detail) => Problem::new(Kind::NotFound, detail),
        NotRolledBack::Against(detail) => Problem::new(Kind::Conflict, detail),
        NotRolledBack::KeepsData(objects) => would_lose_data("what is live keeps data", &objects),
        NotRolledBack::NotMeant(detail) => Problem::new(Kind::Unprocessable, detail),
        NotRolledBack::Repository(detail) => Problem::new(Kind::Unavailable, detail),
        NotRolledBack::Fault(error) => unavailable(&error),
    }
}

fn unavailable(error: &Fault) -> Problem {
    tracing::error!(%error, "a rollback or hold could not be recorded or read");
    Problem::new(Kind::Unavailable, "this cannot be recorded now; nothing was done, come again")
}

fn view(back: RolledBack) -> BackView {
    let RolledBack { deployment, from, to, warning, notes, hold, changes } = back;
    BackView {
        deployment: deployment.map(overview),
        from: from.map(VersionView::of),
        to: VersionView::of(to),
        warning: warning.map(Into::into),
        notes,
        hold,
        changes,
    }
}

impl VersionView {
    fn of(version: Version) -> Self {
        let Version { id, release, by } = version;
        let (repository, commit, tag) = release
            .map(|Release { repository, commit, tag }| (repository, commit, tag))
            .map_or((None, None, None), |(a, b, c)| (Some(a), Some(b), Some(c)));
        let (actor, at) = by.map_or((None, None), |(actor, at)| (Some(actor), Some(at)));
        Self {
            id: id.into(),
            tag: tag.map(String::from),
            commit: commit.map(String::from),
            repository: repository.map(String::from),
            actor,
            at,
        }
    }
}

/// What is kept of the answer to who holds or releases.
fn hold_answer(hold: &Hold) -> StoredAnswer {
    answer(StatusCode::OK, &OneHold::of(hold.clone()))
}

impl OneHold {
    fn of(hold: Hold) -> Self {
        Self { hold: Some(HoldView::of(hold)) }
    }
}

impl HoldView {
    pub(super) fn of(hold: Hold) -> Self {
        let Hold { target, app, by, reason, since, rollback, away, to } = hold;
        Self {
            target: target.into(),
            app: app.to_string(),
            by,
            reason,
            since,
            rollback: rollback.map(String::from),
            from: away.map(|away| away.tag.into()),
            to: to.map(String::from),
        }
    }
}
