//! Acts from pages: each has a page that says what will happen, with the form that does it.
//!
//! ```text
//! GET  ─▶ what would happen, by a dry run of the API ─▶ page with a form
//! POST ─▶ origin, token of the form ─▶ the API's own route, in this process ─▶ 303 to the result
//! ```
//!
//! An act is a request to the API's routes in the name of the person: the same rights, checks, records and idempotency,
//! and no second way. A form works without a script. Nothing is done by GET.

mod api; // requests to the API's routes, in this process
mod apps; // roll back, hold, release, deploy
mod confirmation; // the page that asks for confirmation
mod deployments; // cancel
pub(crate) mod links; // the acts that a page offers
mod locks; // lock, unlock
mod rollouts; // pause, resume, approve, cancel, undo, retry

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Request, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};

use crate::model::app_instance::AppInstance;
use crate::model::callers::Scope;
use crate::server::auth::{Caller, equal_texts};
use crate::server::call::bad;
use crate::server::pages::acts::api::{ActApi, ActRefusal};
use crate::server::pages::acts::confirmation::ActConfirmation;
use crate::server::pages::sign_in::{see_other, sign_in_page_for, unless_revoked};
use crate::server::problem::{Problem, ProblemKind};
use crate::server::routes;
use crate::server::state::Shared;

/// The largest form, in bytes: a reason and a few names, encoded.
const LARGEST_FORM: usize = 16 * 1024;
/// The field of a form with the token that only pages of this service know.
pub(super) const FORM_TOKEN: &str = "form_token";
/// The field with the key by which a form that is sent twice acts once.
const FORM_KEY: &str = "form_key";

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

/// The API's routes, for callers that are authenticated already.
#[derive(Clone)]
struct ActRouter(Router);

/// The token of the forms of a caller.
#[derive(Clone)]
struct FormToken(String);

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

/// A request to an act's page.
struct ActCall {
    shared: Arc<Shared>,
    caller: Caller,
    api: ActApi,
    token: FormToken,
}

impl FromRequestParts<Arc<Shared>> for ActCall {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, Problem> {
        let missing = || {
            let detail = "internal error: the route did not authenticate its caller";
            Problem::new(ProblemKind::Internal, detail)
        };
        let extensions = &parts.extensions;
        let caller: Caller = extensions.get().cloned().ok_or_else(missing)?;
        let router: ActRouter = extensions.get().cloned().ok_or_else(missing)?;
        let token = extensions.get().cloned().ok_or_else(missing)?;
        let api = ActApi::new(router.0, caller.clone());
        Ok(Self { shared: shared.clone(), caller, api, token })
    }
}

impl ActCall {
    /// Fails unless the person may act on the app: nobody is shown a form that would be refused.
    async fn require_deploy(&self, instance: &AppInstance) -> Result<(), Problem> {
        self.shared.state.auth.authorize(&self.caller, Scope::Deploy, &instance.into()).await
    }

    /// Shows the page that asks for confirmation, or why it cannot be shown.
    fn ask(&self, page: Result<ActConfirmation, ActRefusal>) -> Result<Response, Problem> {
        match page {
            Ok(page) => page.respond(StatusCode::OK, &self.token.0),
            Err(refusal) => Ok(refusal.into_response()),
        }
    }

    /// Ends an act: leads to its result, or shows the page again with what is wrong.
    async fn end(
        &self,
        outcome: Result<String, ActRefusal>,
        page: impl Future<Output = Result<ActConfirmation, ActRefusal>>,
        form: &ActForm,
    ) -> Result<Response, Problem> {
        let refusal = match outcome {
            Ok(path) => return Ok(see_other(&path)),
            Err(refusal) => refusal,
        };
        match page.await {
            Ok(page) => {
                let page = page.refused(refusal.detail(), form);
                page.respond(refusal.status(), &self.token.0)
            }
            // The act is not possible any more, which says more than why this attempt failed.
            Err(_) => Ok(refusal.into_response()),
        }
    }
}

/// The fields of a form that comes from a page of this service.
struct ActForm(Vec<(String, String)>);

impl FromRequest<Arc<Shared>> for ActForm {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self, Problem> {
        let token = request.extensions().get::<FormToken>().cloned();
        let form = read_form(request, shared).await?;
        let sent = form.get(FORM_TOKEN).unwrap_or_default();
        if token.is_some_and(|FormToken(token)| equal_texts(&token, sent)) {
            return Ok(form);
        }
        tracing::warn!("form refused: its token is not the session's");
        let detail = "the form is not of your present session: open the page again";
        Err(Problem::new(ProblemKind::Forbidden, detail))
    }
}

/// Reads a form, whoever sends it.
async fn read_form(request: Request, shared: &Arc<Shared>) -> Result<ActForm, Problem> {
    let reading = axum::Form::<Vec<(String, String)>>::from_request(request, shared);
    let limit = shared.state.limits.body_timeout;
    let form = tokio::time::timeout(limit, reading)
        .await
        .map_err(|_| Problem::new(ProblemKind::SlowBody, "the form did not arrive in time"))?;
    let axum::Form(fields) = form.map_err(|_| bad("the form cannot be read"))?;
    Ok(ActForm(fields))
}

impl ActForm {
    /// Returns the text of a field; empty ones count as absent.
    fn get(&self, name: &str) -> Option<&str> {
        let field = self.0.iter().find(|(field, _)| field == name);
        field.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    fn reason(&self) -> &str {
        self.get("reason").unwrap_or_default()
    }

    fn is_checked(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The key by which the API does the act once.
    fn key(&self) -> Option<&str> {
        self.get(FORM_KEY)
    }
}

/// Reads a form that needs no session: that of a sign-in.
pub(super) async fn read_public_form(
    request: Request,
    shared: &Arc<Shared>,
) -> Result<impl Fn(&str) -> Option<String>, Problem> {
    let form = read_form(request, shared).await?;
    Ok(move |name: &str| form.get(name).map(str::to_owned))
}
