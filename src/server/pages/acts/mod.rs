//! Acts from pages: each has a page that says what will happen, with the form that does it.
//!
//! ```text
//! GET  ─▶ what would happen, by a dry run of the API ─▶ page with a form
//! POST ─▶ origin, token of the form ─▶ the API's own route, in this process ─▶ 303 to the result
//! ```
//!
//! An act is a request to the API's routes in the name of the person: the same rights, checks, records and idempotency,
//! and no second way. A form works without a script. Nothing is done by GET.

mod act_call; // a request to the page of an act
mod apps; // roll back, hold, release, deploy
mod confirmation; // the page that asks for confirmation
mod deployments; // cancel
pub(super) mod form; // forms, and the proof that they come from here
pub(crate) mod links; // the acts that a page offers, as it shows them
mod locks; // lock, unlock
pub(super) mod offers; // the acts that a reader may do
mod rollouts; // pause, resume, approve, cancel, undo, retry

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderValue, Method};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};

use crate::server::auth::Caller;
use crate::server::pages::acts::act_call::ActRouter;
use crate::server::pages::acts::form::FormToken;
use crate::server::pages::sign_in::{see_other, sign_in_page_for, unless_revoked};
use crate::server::problem::Problem;
use crate::server::routes;
use crate::server::state::Shared;

/// The largest form, in bytes: a reason and a few names, encoded.
const LARGEST_FORM: usize = 16 * 1024;

/// Builds the routes of acts.
pub(super) fn routes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    const APP: &str = "/apps/{target}/{namespace}/{app}";
    let api = ActRouter(routes::acts(shared));
    Router::new()
        .route(&format!("{APP}/rollback"), get(apps::ask_rollback).post(apps::roll_back))
        .route(&format!("{APP}/deploy"), get(apps::ask_deploy).post(apps::deploy))
        .route(&format!("{APP}/hold"), get(apps::ask_hold).post(apps::hold))
        .route(&format!("{APP}/release"), get(apps::ask_release).post(apps::release))
        .route("/locks/new", get(locks::ask_lock).post(locks::lock))
        .route("/locks/{id}/remove", get(locks::ask_unlock).post(locks::unlock))
        .route("/deployments/{id}/cancel", get(deployments::ask_cancel).post(deployments::cancel))
        .route("/rollouts/{id}/{act}", get(rollouts::ask).post(rollouts::act))
        .layer(DefaultBodyLimit::max(LARGEST_FORM))
        .layer(Extension(api))
        .layer(from_fn_with_state(shared.clone(), acting))
}

/// Lets in who may act: somebody who has signed in, or everybody where no token is needed. Others are asked to sign in.
async fn acting(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let auth = &shared.state.auth;
    auth.is_for_us(&request)?;
    let (mut parts, body) = request.into_parts();
    let sign_in = sign_in_page_for(&parts.uri);
    let session = auth.session_of(&parts).await?;
    let (caller, token) = match &session {
        Some(session) => (session.caller.clone(), session.form_token.clone()),
        None if auth.needs_no_token() => {
            let address = auth.client_ip(&parts.extensions, &parts.headers);
            let caller = Caller::anonymous("unknown, on this machine").at(&parts, address);
            (caller, auth.form_token_of_nobody())
        }
        None => return Ok(see_other(&sign_in)),
    };
    auth.check_rate(&caller)?;
    if parts.method == Method::POST {
        auth.check_origin(&parts.headers)?;
    }
    parts.extensions.insert(caller);
    parts.extensions.insert(FormToken(token));
    let response = next.run(Request::from_parts(parts, body)).await;
    let mut response = unless_revoked(&shared, session, &sign_in, response).await;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
