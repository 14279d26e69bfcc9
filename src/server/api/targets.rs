//! `/api/v1/targets`: the names of the clusters that can be deployed to. `/api/v1/platform`: what they offer.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};

use crate::api::targets::{TargetList, TargetSummary};
use crate::model::id::RepoName;
use crate::model::snapshot::ClusterSnapshot;
use crate::model::target::{Clusters, Target};
use crate::server::Shared;
use crate::server::api::path::{self, InQuery};
use crate::server::api::query;
use crate::server::auth::{Caller, Rights, Scope, Subject};
use crate::server::openapi::{Form, Operation, Parameter};

use crate::server::problem::Problem;

/// What is said of [`list`].
pub(super) fn operation() -> Operation {
    Operation::reads("listTargets", "The clusters that can be deployed to.")
        .gives::<TargetList>(200, "The clusters, by name.")
}

/// The configured clusters. Their names are no secret to who may call: locks on targets name them, too.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
) -> Json<TargetList> {
    Json(view(&shared.state.deployments.clusters, caller.rights()))
}

/// Whose targets are told.
const PLATFORM: &[Parameter] = &[Parameter::text(
    "repository",
    Form::REPOSITORY,
    "Those that this service's repository may be seen on: `OWNER/NAME`.",
)
.required()];

/// What is said of [`platform`].
pub(super) fn platform_operation() -> Operation {
    Operation::reads("getPlatform", "What the clusters offer, for planning elsewhere.")
        .about("`bart validate` and `bart render` plan with it. Where API servers are is left out.")
        .query(PLATFORM)
        .gives::<ClusterSnapshot>(200, "The clusters that the caller may see.")
}

/// The clusters as the configuration has them, for who may see the repository there.
pub(super) async fn platform(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    pairs: InQuery,
) -> Result<Json<ClusterSnapshot>, Problem> {
    let repository = read(&path::pairs(pairs)?).map_err(path::bad)?;
    let deployments = &shared.state.deployments;
    // Without a time, so that the answer keeps its ETag while nothing has changed.
    let mut snapshot = ClusterSnapshot::new(&deployments.clusters);
    if snapshot.any.is_some() {
        shared.may(&caller, Scope::Read, &Subject::Repository(repository, None)).await?;
        return Ok(Json(snapshot));
    }
    let count = snapshot.targets.len();
    let on = |target: &Target| Subject::Repository(repository.clone(), Some(target.name.clone()));
    snapshot.targets = shared.seen(&caller, snapshot.targets, on).await?;
    snapshot.complete = snapshot.targets.len() == count;
    Ok(Json(snapshot))
}

fn read(pairs: &[(String, String)]) -> Result<RepoName, String> {
    query::once(pairs)?;
    let mut repository = None;
    for (name, value) in pairs {
        match name.as_str() {
            "repository" => repository = Some(query::id(name, value, RepoName::parse)?),
            _ => return Err(query::unknown(name, PLATFORM)),
        }
    }
    repository.ok_or_else(|| "repository is missing: name it like repository=OWNER/NAME".to_owned())
}

fn view(clusters: &Clusters, rights: Option<&Rights>) -> TargetList {
    let (all, any) = match clusters {
        Clusters::Any(_) => (Vec::new(), true),
        Clusters::Known(targets) => (targets.values().collect(), false),
    };
    let count = all.len();
    let seen = all.into_iter().filter(|one| rights.is_none_or(|it| it.reach_target(&one.name)));
    let summary = |one: &Target| TargetSummary {
        name: one.name.to_string(),
        environment: one.environment.as_str().to_owned(),
    };
    let targets: Vec<_> = seen.map(summary).collect();
    TargetList { complete: targets.len() == count, targets, any }
}
