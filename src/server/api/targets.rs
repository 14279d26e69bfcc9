//! `/api/v1/targets`: the names of the clusters that can be deployed to.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Serialize;

use crate::model::target::{Clusters, Environment};
use crate::server::Shared;
use crate::server::auth::{Caller, Rights};
use crate::server::openapi::Operation;
use crate::server::ports::Backend;

/// The targets of the service.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TargetList")]
pub(super) struct ListView {
    /// The configured clusters that the caller's token is for, by name.
    targets: Vec<View>,
    /// Whether any other name is a target as well: no cluster is configured.
    any: bool,
    /// Whether these are all; if not, the token is not for the others.
    complete: bool,
}

/// A cluster.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TargetOverview")]
struct View {
    /// Its name, as in `deploy` of the WAML.
    name: String,
    /// `production` or `development`.
    environment: Environment,
}

/// What is said of [`list`].
pub(super) fn operation() -> Operation {
    Operation::reads("listTargets", "The clusters that can be deployed to.")
        .gives::<ListView>(200, "The clusters, by name.")
}

/// The configured clusters. Their names are no secret to who may call: locks on targets name them, too.
pub(super) async fn list<B: Backend>(
    State(shared): State<Arc<Shared<B>>>,
    Extension(caller): Extension<Caller>,
) -> Json<ListView> {
    Json(view(shared.state.backend.clusters(), caller.rights()))
}

fn view(clusters: &Clusters, rights: Option<&Rights>) -> ListView {
    let (all, any) = match clusters {
        Clusters::Any(_) => (Vec::new(), true),
        Clusters::Known(targets) => (targets.values().collect(), false),
    };
    let count = all.len();
    let seen = all.into_iter().filter(|one| rights.is_none_or(|it| it.reach_target(&one.name)));
    let view = |name: String, environment| View { name, environment };
    let targets: Vec<View> = seen.map(|one| view(one.name.to_string(), one.environment)).collect();
    ListView { complete: targets.len() == count, targets, any }
}
