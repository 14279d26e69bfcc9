//! `/api/v1/whoami`: who calls, and what a token is good for.

use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Serialize;

use crate::server::auth::{Caller, Rights};
use crate::server::openapi::Operation;

/// Who calls.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Caller")]
pub(super) struct View {
    /// A GitHub login, or a token's name.
    name: String,
    /// How we know: `token`, `github`, `loopback`.
    via: &'static str,
    /// Of a token of the configuration; null where GitHub decides, and where nobody is asked.
    rights: Option<[RightsView; 1]>,
}

/// What a token is good for.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Rights")]
struct RightsView {
    /// `read`, `deploy` or `admin`; each holds those before it.
    scope: &'static str,
    /// Globs; no limit where there is none.
    targets: Vec<String>,
    /// Globs over `namespace/slug`; no limit where there is none.
    apps: Vec<String>,
}

/// What is said of [`whoami`].
pub(super) fn operation() -> Operation {
    Operation::reads("whoAmI", "Who calls.").gives::<View>(200, "You.")
}

/// Who calls.
pub(super) async fn whoami(Extension(caller): Extension<Caller>) -> Json<View> {
    let rights = caller.rights().map(|rights| [view(rights)]);
    Json(View { name: caller.name, via: caller.via.as_str(), rights })
}

fn view(rights: &Rights) -> RightsView {
    let Rights { scope, targets, apps } = rights;
    RightsView {
        scope: scope.as_str(),
        targets: targets.texts().to_vec(),
        apps: apps.texts().to_vec(),
    }
}
