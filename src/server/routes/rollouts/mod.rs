//! `/api/v1/rollouts`: starts rollouts, lists and shows them, and lets people act on them.
//!
//! A rollout is visible to callers who may see the app on every target of it, and acts are for those who may deploy to
//! every one of them. A gate with a team is for its members.

mod request; // from the body of a request to what the use case takes
mod picture; // from a record to the answer

pub(in crate::server) use crate::server::routes::rollouts::picture::possible_acts;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};

use crate::api::rollouts::{
    RolloutActRequest, RolloutApprovalRequest, RolloutDetail, RolloutList, RolloutStartRequest,
    RolloutStatus, RolloutSummary,
};
use crate::deployments::rollouts::{
    PreparedRollout, RolloutActError, RolloutError, RolloutFilter, RolloutView,
};
use crate::model::callers::{Rights, Scope};
use crate::model::id::{RepoName, RolloutId, TargetName};
use crate::model::removal::reason;
use crate::rollout::acts::RolloutAct;
use crate::rollout::plan::{Gate, RolloutStep};
use crate::rollout::record::RolloutRecord;
use crate::server::auth::Resource;
use crate::server::call::{
    AuthenticatedRequest, PathParam, Payload, QueryPairs, bad, unprocessable,
};
use crate::server::openapi::{Form, Parameter, ParameterForm};
use crate::server::problem::{Problem, ProblemKind};
use crate::server::query::{LIMIT, Params, quote_value};
use crate::store::DeploymentPlace;

/// The words of a rollout's states, as [`RolloutStatus`] has them.
const STATES: &[&str] =
    &["created", "rolling_out", "paused", "undoing", "done", "undone", "undo_failed", "cancelled"];

/// The parameters of the list.
pub(super) const QUERY: &[Parameter] = &[
    Parameter::text("app", Form::APP, "Only rollouts of this app: `NAMESPACE/SLUG`."),
    Parameter::text(
        "repository",
        Form::REPOSITORY,
        "Only rollouts of this service repository: `OWNER/NAME`.",
    ),
    Parameter::text("target", Form::TARGET, "Only rollouts with this target."),
    Parameter::new("state", ParameterForm::Words(STATES), "Only rollouts in this state."),
    Parameter::new(
        "unfinished",
        ParameterForm::Words(&["true", "false"]),
        "Only rollouts that have not ended.",
    ),
    LIMIT,
    Parameter::text(
        "cursor",
        Form::ROLLOUT_ID,
        "The `next` of the page before, with the same other parameters.",
    ),
];

/// Lists the newest rollouts that pass the filters and that the caller may see.
pub(super) async fn list(
    call: AuthenticatedRequest,
    QueryPairs(pairs): QueryPairs,
) -> Result<Json<RolloutList>, Problem> {
    let (filter, before, limit) = read_query(&pairs).map_err(bad)?;
    let page = call.deployments().rollouts(&filter, before.as_ref(), limit).await;
    let page = page.map_err(|error| unavailable(&error))?;
    let rollouts = filter_visible(&call, page.rollouts).await?;
    let rollouts = rollouts.iter().map(RolloutSummary::from).collect();
    Ok(Json(RolloutList { rollouts, next: page.next.map(String::from) }))
}

/// Shows one rollout with its steps and targets.
pub(super) async fn get(
    call: AuthenticatedRequest,
    PathParam(id): PathParam<RolloutId>,
) -> Result<Json<RolloutDetail>, Problem> {
    let rollout = load(&call, &id).await?;
    authorize(&call, Scope::Read, &rollout).await?;
    read_detail(&call, rollout).await.map(Json)
}

/// Reads what is shown of a rollout, with all answers of its gates.
pub(in crate::server) async fn read_detail(
    call: &AuthenticatedRequest,
    rollout: RolloutView,
) -> Result<RolloutDetail, Problem> {
    let answers = call.deployments().gate_answers(&rollout.record.id).await;
    Ok(picture::detail(rollout, answers.map_err(|error| unavailable(&error))?))
}

/// Makes the problem of a rollout that cannot be planned. Errors that list targets say so only to those who see all.
fn refusal_for(error: RolloutError, rights: Option<&Rights>) -> Problem {
    let sees_all = rights.is_none_or(|rights| rights.hold(Scope::Read, &Resource::Everywhere, &[]));
    match error {
        RolloutError::NotDeployed { .. }
        | RolloutError::NotConfigured { .. }
        | RolloutError::SharedCluster { .. }
        | RolloutError::Selection(_)
            if !sees_all =>
        {
            unprocessable(
                "there is no such rollout, or there are no such targets; a token for all targets is told which there are",
            )
        }
        error => error.into(),
    }
}

/// Starts a rollout, or shows the plan of one.
pub(super) async fn start(
    call: AuthenticatedRequest,
    Payload(body): Payload<RolloutStartRequest>,
) -> Result<Response, Problem> {
    let is_dry_run = body.dry_run;
    let request = request::read(body).map_err(unprocessable)?;
    let repository = request.repository.clone();
    let hidden = call.authorize(Scope::Read, Resource::Repository(repository, None)).await.err();
    let prepared = call.deployments().prepare_rollout(request).await;
    // A caller who may not see the repository learns nothing of it.
    let prepared = prepared
        .map_err(|error| hidden.unwrap_or_else(|| refusal_for(error, call.caller.rights())))?;
    authorize_start(&call, &prepared).await?;
    let deployments = call.deployments();
    if is_dry_run {
        let preview = deployments.preview_rollout(&prepared).await?;
        let plan = picture::plan(prepared, preview);
        return Ok((StatusCode::OK, Json(plan)).into_response());
    }
    // Not the whole: the answer to an act is stored for a repeat, and must be small.
    let reply = call.reply::<_, RolloutSummary, 202>();
    let rollout = deployments.start_rollout(prepared, call.by(), &reply).await?;
    Ok((StatusCode::ACCEPTED, Json(RolloutSummary::from(rollout))).into_response())
}

/// Fails unless the caller may deploy to every target of a new rollout; the problem names the first where that is
/// missing. A caller who may see none of them learns no target.
async fn authorize_start(
    call: &AuthenticatedRequest,
    prepared: &PreparedRollout,
) -> Result<(), Problem> {
    let resource = |target: &TargetName| {
        Resource::Repository(prepared.release.repository.clone(), Some(target.clone()))
    };
    for (_, target) in prepared.plan.sequence() {
        let Err(problem) = call.authorize(Scope::Deploy, resource(target)).await else { continue };
        for (_, other) in prepared.plan.sequence() {
            if call.can_read(&resource(other)).await? {
                return Err(problem);
            }
        }
        let repository = prepared.release.repository.clone();
        call.authorize(Scope::Read, Resource::Repository(repository, None)).await?;
        return Err(problem);
    }
    Ok(())
}

/// Pauses a rollout before its next target.
pub(super) async fn pause(
    call: AuthenticatedRequest,
    PathParam(id): PathParam<RolloutId>,
    Payload(body): Payload<RolloutActRequest>,
) -> Result<Json<RolloutSummary>, Problem> {
    let reason = read_act(&call, &id, body).await?;
    act(&call, &id, RolloutAct::Pause { reason }).await
}

/// Lets a paused rollout go on.
pub(super) async fn resume(
    call: AuthenticatedRequest,
    PathParam(id): PathParam<RolloutId>,
    Payload(body): Payload<RolloutActRequest>,
) -> Result<Json<RolloutSummary>, Problem> {
    let reason = read_act(&call, &id, body).await?;
    act(&call, &id, RolloutAct::Resume { reason }).await
}

/// Ends a rollout where it is.
pub(super) async fn cancel(
    call: AuthenticatedRequest,
    PathParam(id): PathParam<RolloutId>,
    Payload(body): Payload<RolloutActRequest>,
) -> Result<Json<RolloutSummary>, Problem> {
    let reason = read_act(&call, &id, body).await?;
    act(&call, &id, RolloutAct::Cancel { reason }).await
}

/// Gives every changed target its former revision back.
pub(super) async fn undo(
    call: AuthenticatedRequest,
    PathParam(id): PathParam<RolloutId>,
    Payload(body): Payload<RolloutActRequest>,
) -> Result<Json<RolloutSummary>, Problem> {
    let reason = read_act(&call, &id, body).await?;
    act(&call, &id, RolloutAct::Undo { reason }).await
}

/// Tries failed targets, or failed undos, again.
pub(super) async fn retry(
    call: AuthenticatedRequest,
    PathParam(id): PathParam<RolloutId>,
    Payload(body): Payload<RolloutActRequest>,
) -> Result<Json<RolloutSummary>, Problem> {
    let reason = read_act(&call, &id, body).await?;
    act(&call, &id, RolloutAct::Retry { reason }).await
}

/// Approves the gate at which a rollout waits.
pub(super) async fn approve(
    call: AuthenticatedRequest,
    PathParam(id): PathParam<RolloutId>,
    Payload(body): Payload<RolloutApprovalRequest>,
) -> Result<Json<RolloutSummary>, Problem> {
    let rollout = load(&call, &id).await?;
    let RolloutApprovalRequest { reason: why, step: expected_step } = body;
    // Of this step: the next gate may be for another team.
    let step = expected_step.unwrap_or(rollout.record.index);
    require_approver(&call, &rollout, step).await?;
    let reason = reason(&why).map_err(unprocessable)?;
    let approval = RolloutAct::Approve { step, by: call.caller.name.clone(), reason };
    let reply = call.reply::<_, RolloutSummary, 200>();
    match call.deployments().act_on_rollout(&id, approval, call.by(), &reply).await {
        Ok(rollout) => Ok(Json(rollout.into())),
        // No step waits for a second time.
        Err(RolloutActError::Refused(refusal)) if expected_step.is_some() => {
            Err(Problem::new(ProblemKind::Outdated, refusal.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads the reason of an act, after the caller's rights on every target are checked.
async fn read_act(
    call: &AuthenticatedRequest,
    id: &RolloutId,
    body: RolloutActRequest,
) -> Result<String, Problem> {
    let rollout = load(call, id).await?;
    authorize(call, Scope::Deploy, &rollout).await?;
    let RolloutActRequest { reason: why } = body;
    reason(&why).map_err(unprocessable)
}

async fn act(
    call: &AuthenticatedRequest,
    id: &RolloutId,
    act: RolloutAct,
) -> Result<Json<RolloutSummary>, Problem> {
    let reply = call.reply::<_, RolloutSummary, 200>();
    let rollout = call.deployments().act_on_rollout(id, act, call.by(), &reply).await?;
    Ok(Json(rollout.into()))
}

/// Reads a rollout; the caller's rights are not checked yet.
pub(in crate::server) async fn load(
    call: &AuthenticatedRequest,
    id: &RolloutId,
) -> Result<RolloutView, Problem> {
    let rollout = call.deployments().rollout(id).await.map_err(|error| unavailable(&error))?;
    rollout.ok_or_else(|| no_rollout(id))
}

/// Returns the resources that decide about a rollout: the app on each of its targets.
pub(super) fn resources(
    call: &AuthenticatedRequest,
    rollout: &RolloutView,
) -> impl Iterator<Item = Resource> {
    let record = &rollout.record;
    record.targets.iter().map(|target| {
        call.caller.resource_of_place(&DeploymentPlace {
            target: target.target.clone(),
            repository: record.release.repository.clone(),
            app: Some(record.app.clone()),
        })
    })
}

/// Fails unless the caller has the permission on every target; the problem names the first that is missing.
pub(in crate::server) async fn authorize(
    call: &AuthenticatedRequest,
    scope: Scope,
    rollout: &RolloutView,
) -> Result<(), Problem> {
    for resource in resources(call, rollout) {
        call.authorize(scope, resource).await?;
    }
    Ok(())
}

/// Fails unless the caller may approve the gate of that step.
pub(in crate::server) async fn require_approver(
    call: &AuthenticatedRequest,
    rollout: &RolloutView,
    step: usize,
) -> Result<(), Problem> {
    let RolloutRecord { plan, release, .. } = &rollout.record;
    match plan.steps.get(step) {
        Some(RolloutStep::Gate { gate: Gate::Approval { team: Some(team) }, .. }) => {
            authorize(call, Scope::Read, rollout).await?;
            call.require_member(team, &release.repository).await
        }
        _ => authorize(call, Scope::Deploy, rollout).await,
    }
}

/// Returns the rollouts of which the caller may see every target.
pub(in crate::server) async fn filter_visible(
    call: &AuthenticatedRequest,
    rollouts: Vec<RolloutView>,
) -> Result<Vec<RolloutView>, Problem> {
    let of_rollout = |(place, rollout): (usize, &RolloutView)| {
        resources(call, rollout).map(move |resource| (place, resource)).collect::<Vec<_>>()
    };
    let places: Vec<_> = rollouts.iter().enumerate().flat_map(of_rollout).collect();
    let visible = call.filter_visible(places, |(_, resource)| resource.clone()).await?;
    let mut counts = vec![0_usize; rollouts.len()];
    for (place, _) in visible {
        if let Some(count) = counts.get_mut(place) {
            *count += 1;
        }
    }
    let is_visible =
        |(rollout, count): &(RolloutView, usize)| rollout.record.targets.len() == *count;
    let pairs = rollouts.into_iter().zip(counts).filter(is_visible);
    Ok(pairs.map(|(rollout, _)| rollout).collect())
}

/// Reads the parameters of the list; the message says which one is wrong.
pub(in crate::server) fn read_query(
    pairs: &[(String, String)],
) -> Result<(RolloutFilter, Option<RolloutId>, u32), String> {
    let params = Params::of(pairs, QUERY)?;
    let filter = RolloutFilter {
        app: params.app()?,
        repository: params.id("repository", RepoName::parse)?,
        target: params.id("target", TargetName::parse)?,
        state: params.read("state", state)?.map(|state| state.as_str().to_owned()),
        unfinished: params.read("unfinished", flag)?.unwrap_or_default(),
    };
    Ok((filter, params.id("cursor", RolloutId::parse)?, params.limit()?))
}

fn state(value: &str) -> Result<RolloutStatus, String> {
    RolloutStatus::parse(value).ok_or_else(|| {
        format!("state: {} is not a state: use {}", quote_value(value), STATES.join(", "))
    })
}

fn flag(value: &str) -> Result<bool, String> {
    let flag = value.parse().ok();
    flag.ok_or_else(|| format!("unfinished: {} is not `true` or `false`", quote_value(value)))
}

/// Makes the problem of a rollout that does not exist.
pub(in crate::server) fn no_rollout(id: &RolloutId) -> Problem {
    Problem::new(ProblemKind::NotFound, format!("there is no rollout {id}"))
}

/// Makes the problem of a database that does not answer.
pub(in crate::server) fn unavailable(error: &dyn std::error::Error) -> Problem {
    tracing::error!(%error, "rollouts could not be read or stored");
    Problem::new(
        ProblemKind::Unavailable,
        "rollouts cannot be read or changed now; nothing was done, try again later",
    )
}

impl From<RolloutError> for Problem {
    fn from(error: RolloutError) -> Self {
        match error {
            RolloutError::Unknown(_)
            | RolloutError::Waml(_)
            | RolloutError::NotDeployed { .. }
            | RolloutError::NotConfigured { .. }
            | RolloutError::SharedCluster { .. }
            | RolloutError::Selection(_)
            | RolloutError::Plan(_)
            | RolloutError::Weights(_) => unprocessable(error.to_string()),
            RolloutError::Overlap { .. } => Self::new(ProblemKind::Conflict, error.to_string()),
            RolloutError::Unavailable(detail) => Self::new(ProblemKind::Unavailable, detail),
            RolloutError::Fault(error) => unavailable(&error),
        }
    }
}

impl From<RolloutActError> for Problem {
    fn from(error: RolloutActError) -> Self {
        match error {
            RolloutActError::Unknown(_) => Self::new(ProblemKind::NotFound, error.to_string()),
            RolloutActError::Refused(_)
            | RolloutActError::Overlap(_)
            | RolloutActError::Busy(_) => Self::new(ProblemKind::Conflict, error.to_string()),
            RolloutActError::Fault(error) => unavailable(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_has_every_state() {
        assert_eq!(STATES, RolloutStatus::ALL.map(RolloutStatus::as_str));
    }

    #[test]
    fn parameters_are_read_and_a_wrong_one_is_named() {
        let read = |pairs: &[(&str, &str)]| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            read_query(&pairs.iter().map(owned).collect::<Vec<_>>())
        };
        let (filter, before, limit) = read(&[
            ("app", "devx/shop"),
            ("target", "dev"),
            ("state", "paused"),
            ("unfinished", "true"),
            ("cursor", "r-20261121-054812123-3f9a2c"),
        ])
        .unwrap();
        assert_eq!((filter.state.as_deref(), filter.unfinished, limit), (Some("paused"), true, 50));
        assert_eq!(before.unwrap().as_str(), "r-20261121-054812123-3f9a2c");
        assert!(read(&[("state", "x")]).unwrap_err().contains("use created, rolling_out"));
        assert!(read(&[("unfinished", "1")]).unwrap_err().contains("`true` or `false`"));
    }
}
