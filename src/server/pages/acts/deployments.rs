//! The act on a deployment: cancel.

use axum::response::Response;
use serde_json::json;

use crate::api::deployments::{DeploymentDetail, DeploymentSummary};
use crate::model::callers::Scope;
use crate::model::id::DeployId;
use crate::server::act_api::ApiRefusal;
use crate::server::call::{PathParam, no_deployment, unavailable};
use crate::server::pages::acts::act_call::ActCall;
use crate::server::pages::acts::confirmation::{ActConfirmation, ActField};
use crate::server::pages::acts::form::ActForm;
use crate::server::pages::acts::offers::can_be_cancelled;
use crate::server::problem::Problem;

/// Shows what a cancellation does.
pub(super) async fn ask_cancel(
    call: ActCall,
    PathParam(id): PathParam<DeployId>,
) -> Result<Response, Problem> {
    let request = &call.request;
    let record = request.deployments().store.deployment(&id).await;
    let record = record.map_err(|error| unavailable(&error))?.ok_or_else(|| no_deployment(&id))?;
    request.authorize(Scope::Deploy, request.caller.resource_of(&record)).await?;
    let page = cancel_page(&call, &id).await;
    call.ask(page)
}

/// Cancels a deployment.
pub(super) async fn cancel(
    call: ActCall,
    PathParam(id): PathParam<DeployId>,
    form: ActForm,
) -> Result<Response, Problem> {
    let path = format!("/deployments/{id}/cancel");
    let body = json!({"reason": form.reason()});
    let answer: Result<DeploymentSummary, ApiRefusal> =
        call.api.post(&path, &body, form.key()).await;
    let outcome = answer.map(|_| format!("/deployments/{id}"));
    call.end(outcome, cancel_page(&call, &id), &form).await
}

async fn cancel_page(call: &ActCall, id: &DeployId) -> Result<ActConfirmation, ApiRefusal> {
    let DeploymentDetail { summary: deployment, apps, .. } =
        call.api.get(&format!("/deployments/{id}")).await?;
    let subject = deployment.app.unwrap_or(deployment.repository);
    let mut page = ActConfirmation {
        heading: format!("Cancel the deployment of {subject} to {}", deployment.target),
        back: (format!("/deployments/{id}"), format!("Deployment {id}")),
        ..ActConfirmation::default()
    };
    if deployment.state.is_final() {
        page.consequences.push("It has ended, so there is nothing to cancel.".to_owned());
        return Ok(page);
    }
    let app_states = apps.iter().map(|app| app.state);
    if !can_be_cancelled(deployment.state, deployment.all_apps, app_states) {
        let sentence = "Its push has begun, and may have arrived, so it cannot be cancelled: roll back instead.";
        page.consequences.push(sentence.to_owned());
        return Ok(page);
    }
    page.consequences.push(format!(
        "{} is not deployed; what is live on {} stays. A deployment whose push has begun cannot be cancelled.",
        deployment.tag, deployment.target
    ));
    page.fields = vec![ActField::reason()];
    page.button = Some("Cancel the deployment");
    page.is_severe = true;
    Ok(page)
}
