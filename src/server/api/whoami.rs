//! `/api/v1/whoami`: who calls, and what a token is good for.

use axum::{Extension, Json};

use crate::api::identity::{Identity, TokenRights};
use crate::server::auth::{Caller, Rights};
use crate::server::openapi::Operation;

/// What is said of [`whoami`].
pub(super) fn operation() -> Operation {
    Operation::reads("whoAmI", "Who calls.").gives::<Identity>(200, "You.")
}

/// Who calls.
pub(super) async fn whoami(Extension(caller): Extension<Caller>) -> Json<Identity> {
    let rights = caller.rights().map(|rights| [view(rights)]);
    Json(Identity { name: caller.name, via: caller.via.as_str().to_owned(), rights })
}

fn view(rights: &Rights) -> TokenRights {
    let Rights { scope, targets, apps } = rights;
    TokenRights {
        scope: scope.as_str().to_owned(),
        targets: targets.texts().to_vec(),
        apps: apps.texts().to_vec(),
    }
}
