//! A request to the page of an act: the person, the API in their name, and how the request is answered.

use std::sync::Arc;

use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};

use crate::model::app_instance::AppInstance;
use crate::model::callers::Scope;
use crate::server::act_api::{ActApi, ApiRefusal};
use crate::server::call::AuthenticatedRequest;
use crate::server::pages::acts::confirmation::ActConfirmation;
use crate::server::pages::acts::form::{ActForm, FormToken};
use crate::server::pages::sign_in::see_other;
use crate::server::problem::{Problem, ProblemKind};
use crate::server::state::Shared;

/// The API's routes, for callers that are authenticated already.
#[derive(Clone)]
pub(super) struct ActRouter(pub(super) Router);

/// A request to an act's page.
pub(super) struct ActCall {
    pub(super) request: AuthenticatedRequest,
    pub(super) api: ActApi,
    token: FormToken,
}

impl FromRequestParts<Arc<Shared>> for ActCall {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, Problem> {
        let missing = || {
            let detail = "internal error: the route did not authenticate its caller";
            Problem::new(ProblemKind::Internal, detail)
        };
        let request = AuthenticatedRequest::from_request_parts(parts, shared).await?;
        let router: ActRouter = parts.extensions.get().cloned().ok_or_else(missing)?;
        let token = parts.extensions.get().cloned().ok_or_else(missing)?;
        let api = ActApi::new(router.0, request.caller.clone());
        Ok(Self { request, api, token })
    }
}

impl ActCall {
    /// Fails unless the person may act on the app: nobody is shown a form that would be refused.
    pub(super) async fn require_deploy(&self, instance: &AppInstance) -> Result<(), Problem> {
        self.request.authorize(Scope::Deploy, instance).await
    }

    /// Returns true if the person has a GitHub token of their own, with which the service can act for them there.
    pub(super) fn has_github_token(&self) -> bool {
        self.request.caller.github_token().is_some()
    }

    /// Shows the page that asks for confirmation, or why it cannot be shown.
    pub(super) fn ask(
        &self,
        page: Result<ActConfirmation, ApiRefusal>,
    ) -> Result<Response, Problem> {
        match page {
            Ok(page) => page.respond(StatusCode::OK, &self.token.0),
            Err(refusal) => Ok(refusal.into_response()),
        }
    }

    /// Ends an act: leads to its result, or shows the page again with what is wrong.
    pub(super) async fn end(
        &self,
        outcome: Result<String, ApiRefusal>,
        page: impl Future<Output = Result<ActConfirmation, ApiRefusal>>,
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
