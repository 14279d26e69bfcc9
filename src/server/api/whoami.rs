//! `/api/v1/whoami`: who calls, and what a token is good for.

use axum::{Extension, Json};
use serde::Serialize;

use crate::server::auth::{Caller, Rights};

/// Who calls.
#[derive(Serialize)]
pub(super) struct View {
    name: String,
    /// How we know: `token`, `github`, `loopback`.
    via: &'static str,
    /// Of a token of the configuration; null where GitHub decides, and where nobody is asked.
    rights: Option<[RightsView; 1]>,
}

/// What a token is good for.
#[derive(Serialize)]
struct RightsView {
    scope: &'static str,
    targets: Vec<String>,
    apps: Vec<String>,
}

/// Who calls.
pub(super) async fn whoami(Extension(caller): Extension<Caller>) -> Json<View> {
    let rights = caller.rights().map(|rights| [view(rights)]);
    Json(View { name: caller.name, via: caller.via.as_str(), rights })
}

fn view(rights: &Rights) -> RightsView {
    let Rights { scope, targets, apps } = rights;
    RightsView { scope: scope.as_str(), targets: targets.texts(), apps: apps.texts() }
}
