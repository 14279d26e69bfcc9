//! Describes the service: the caller (`/api/v1/whoami`), the code host (`/api/v1/forge`), the targets
//! (`/api/v1/targets`), and what they offer (`/api/v1/platform`).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use crate::api::service::{
    CodeHostAnswer, DeviceLogin, Identity, TargetList, TargetSummary, TokenRights,
};
use crate::deployments::CodeHost;
use crate::model::callers::{Rights, Scope};
use crate::model::id::RepoName;
use crate::model::snapshot::ClusterSnapshot;
use crate::model::target::{Clusters, Environment, Target};
use crate::server::auth::Resource;
use crate::server::call::{AuthenticatedRequest, QueryPairs, bad};
use crate::server::openapi::{Form, Parameter};
use crate::server::problem::Problem;
use crate::server::query::Params;
use crate::server::state::Shared;

/// The parameter that selects the targets.
pub(super) const PLATFORM: &[Parameter] = &[Parameter::text(
    "repository",
    Form::REPOSITORY,
    "Only targets on which the caller may see this service repository: `OWNER/NAME`.",
)
.required()];

/// Shows the caller, and the rights of its API token.
pub(super) async fn whoami(call: AuthenticatedRequest) -> Json<Identity> {
    let rights = call.caller.rights().map(|Rights { scope, targets, apps }| {
        [TokenRights {
            scope: scope.as_str().to_owned(),
            targets: targets.texts().to_vec(),
            apps: apps.texts().to_vec(),
        }]
    });
    let via = call.caller.via.as_str().to_owned();
    Json(Identity { name: call.caller.name, via, rights })
}

/// Shows the code host and its login; nothing of it is secret.
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

/// Lists the configured clusters and fleets. Their names are no secret to callers: locks on targets name them, too.
pub(super) async fn targets(call: AuthenticatedRequest) -> Json<TargetList> {
    let (targets, takes_any) = match &call.deployments().clusters {
        Clusters::Any(_) => (Vec::new(), true),
        Clusters::Known(targets) => (targets.values().collect(), false),
    };
    let count = targets.len();
    let rights = call.caller.rights();
    let visible = targets
        .into_iter()
        .filter(|target| rights.is_none_or(|rights| rights.reach_target(&target.name)));
    let summary = |target: &Target| TargetSummary {
        name: target.name.to_string(),
        environment: target.environment.as_str().to_owned(),
        clusters: Vec::new(),
    };
    let mut targets: Vec<_> = visible.map(summary).collect();
    let complete = targets.len() == count;
    let deployments = call.deployments();
    let visible_fleets = deployments
        .fleets
        .names()
        .filter(|name| rights.is_none_or(|rights| rights.reach_target(name)));
    targets.extend(visible_fleets.map(|name| {
        let environment = if deployments.is_production(name) {
            Environment::Production
        } else {
            Environment::Development
        };
        let clusters = deployments.clusters_of(name);
        TargetSummary {
            name: name.to_string(),
            environment: environment.as_str().to_owned(),
            clusters: clusters.iter().map(ToString::to_string).collect(),
        }
    }));
    Json(TargetList { complete, targets, any: takes_any })
}

/// Shows the configured clusters that the caller may see for the repository.
pub(super) async fn platform(
    call: AuthenticatedRequest,
    QueryPairs(pairs): QueryPairs,
) -> Result<Json<ClusterSnapshot>, Problem> {
    let params = Params::of(&pairs, PLATFORM).map_err(bad)?;
    let repository = params.id("repository", RepoName::parse).map_err(bad)?;
    let repository = repository
        .ok_or_else(|| bad("repository is missing: name it like repository=OWNER/NAME"))?;
    // Without a time, so that the answer keeps its ETag while nothing has changed.
    let deployments = call.deployments();
    let mut snapshot = ClusterSnapshot::new(&deployments.clusters, &deployments.fleets);
    if snapshot.any.is_some() {
        call.authorize(Scope::Read, Resource::Repository(repository, None)).await?;
        return Ok(Json(snapshot));
    }
    let on = |target: &Target| Resource::Repository(repository.clone(), Some(target.name.clone()));
    let visible = call.filter_visible(snapshot.targets.clone(), on).await?;
    snapshot.retain(visible);
    Ok(Json(snapshot))
}
