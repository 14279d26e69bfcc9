//! `/api/v1/forge`, and `POST /api/v1/deployments` where the code host has no deployments of its own.

use std::sync::Arc;

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::{Extension, Json};

use crate::api::code_host::{CodeHostAnswer, DeviceLogin};
use crate::api::deployments::{DeployAnswer, DeployRequest};
use crate::deployments::CodeHost;
use crate::deployments::create::{CreatedDeployment, NotAsked, Wanted};
use crate::model::id::{IdError, ImageTag, RepoName, TargetName};
use crate::server::Shared;
use crate::server::api::apps::unread;
use crate::server::api::idempotency::{RequestKey, answer};
use crate::server::auth::{Caller, Scope, Subject};
use crate::server::openapi::Operation;
use crate::server::problem::{Kind, Problem};
use crate::support::text::refuse_invisible;

/// As `model::event::DeploymentRequest::description` promises.
const DESCRIPTION_CHARACTERS: usize = 500;
/// GitHub's own bound for a ref's name, with room for `refs/heads/`.
const REF_BYTES: usize = 300;

/// What is said of [`forge`].
pub(super) fn forge_operation() -> Operation {
    Operation::open("getCodeHost", "Which code host, and how one logs in there.")
        .gives::<CodeHostAnswer>(200, "The code host; nothing of it is secret.")
}

/// What is said of [`create`].
pub(super) fn create_operation() -> Operation {
    Operation::acts("deploy", "Deploys, where the service keeps the repositories itself.")
        .about("With GitHub a deployment is created there, and comes here by its event.")
        .takes::<DeployRequest>()
        .gives::<DeployAnswer>(202, "It is recorded, and will be done.")
        .fails(&[Kind::Conflict])
}

/// Says where service repositories are, and how one logs in there: nothing that is secret.
pub(super) async fn forge(State(shared): State<Arc<Shared>>) -> Json<CodeHostAnswer> {
    Json(match shared.state.deployments.code_host.clone() {
        CodeHost::Local => {
            let kind = "local".to_owned();
            CodeHostAnswer { kind, api_url: None, web_url: None, login: None }
        }
        CodeHost::GitHub { api_url, web_url, client_id } => CodeHostAnswer {
            kind: "github".to_owned(),
            api_url: Some(api_url),
            web_url: Some(web_url),
            login: client_id.map(|client_id| DeviceLogin { client_id }),
        },
    })
}

/// Asks for a deployment.
pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Extension(key): Extension<RequestKey>,
    ask: Result<Json<DeployRequest>, JsonRejection>,
) -> Result<(StatusCode, Json<DeployAnswer>), Problem> {
    let Json(ask) = ask.map_err(|error| unread(&error))?;
    let wanted = read(ask, &caller).map_err(|why| Problem::new(Kind::Unprocessable, why))?;
    let subject = Subject::Repository(wanted.repository.clone(), Some(wanted.target.clone()));
    shared.may(&caller, Scope::Deploy, &subject).await?;
    let reply = key
        .reply(|asked: &CreatedDeployment| answer(StatusCode::ACCEPTED, &answer_of(asked.clone())));
    let asked = shared
        .state
        .deployments
        .create_deployment(wanted, caller.by(), &reply)
        .await
        .map_err(refused)?;
    Ok((StatusCode::ACCEPTED, Json(answer_of(asked))))
}

fn answer_of(CreatedDeployment { id, forge_id }: CreatedDeployment) -> DeployAnswer {
    DeployAnswer { id: id.into(), forge_id }
}

fn read(ask: DeployRequest, caller: &Caller) -> Result<Wanted, String> {
    let DeployRequest { repository, git_ref, tag, target, description } = ask;
    let named = |name: &'static str| move |error: IdError| format!("{name}: {error}");
    let legal_ref =
        !git_ref.is_empty() && git_ref.len() <= REF_BYTES && !git_ref.contains(char::is_control);
    if !legal_ref {
        return Err("ref: this is not a branch, tag or commit".to_owned());
    }
    let description = description.unwrap_or_default();
    refuse_invisible("description", &description)?;
    let description = description.chars().filter(|c| !c.is_control());
    Ok(Wanted {
        repository: RepoName::parse(repository).map_err(named("repository"))?,
        git_ref,
        tag: ImageTag::parse(tag).map_err(named("tag"))?,
        target: TargetName::parse(target).map_err(named("target"))?,
        description: description.take(DESCRIPTION_CHARACTERS).collect(),
        actor: caller.name.clone(),
    })
}

fn refused(error: NotAsked) -> Problem {
    match error {
        NotAsked::Elsewhere(detail) => Problem::new(Kind::Conflict, detail),
        NotAsked::Unknown(detail) => Problem::new(Kind::Unprocessable, detail),
        NotAsked::Fault(error) => {
            tracing::error!(%error, "a deployment could not be asked for");
            Problem::new(Kind::Unavailable, "it cannot be deployed now; come again")
        }
    }
}
