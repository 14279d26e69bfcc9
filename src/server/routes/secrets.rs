//! `/api/v1/apps/{target}/{namespace}/{app}/secrets`: records acts on secrets in the audit log.

use axum::Json;

use crate::api::secrets::{MAX_SECRET_KEYS, SecretActAnswer, SecretActRequest};
use crate::deployments::secrets::{SecretActError, SecretActRecord};
use crate::model::app_instance::AppInstance;
use crate::model::callers::Scope;
use crate::model::id::TargetName;
use crate::model::secret_key::SecretKeyName;
use crate::server::call::{AuthenticatedRequest, PathParam, Payload, unprocessable};
use crate::server::problem::{Problem, ProblemKind};

/// Records an act on secrets; it needs the right to deploy the app.
pub(super) async fn record(
    call: AuthenticatedRequest,
    PathParam(instance): PathParam<AppInstance>,
    body: Result<Payload<SecretActRequest>, Problem>,
) -> Result<Json<SecretActAnswer>, Problem> {
    call.authorize(Scope::Deploy, &instance).await?;
    let Payload(SecretActRequest { act, keys, from, dry_run }) = body?;
    if keys.is_empty() || keys.len() > MAX_SECRET_KEYS {
        return Err(unprocessable(format!("keys: name 1 to {MAX_SECRET_KEYS} of them")));
    }
    // A wrong name may be a value at the wrong place: it is not repeated.
    let keys: Result<Vec<_>, _> = keys.into_iter().map(SecretKeyName::parse).collect();
    let keys = keys.map_err(|error| unprocessable(format!("keys: {error}")))?;
    let from = from.map(TargetName::parse).transpose();
    let from = from.map_err(|error| unprocessable(format!("from: {error}")))?;
    let record = SecretActRecord { act: act.as_str(), instance, keys, from };
    let reply = call.reply::<_, SecretActAnswer, 200>();
    let recorded = call.deployments().record_secret_act(record, dry_run, call.by(), &reply).await?;
    Ok(Json(recorded.into()))
}

impl From<bool> for SecretActAnswer {
    fn from(recorded: bool) -> Self {
        Self { recorded }
    }
}

impl From<SecretActError> for Problem {
    fn from(error: SecretActError) -> Self {
        match error {
            SecretActError::Target(detail) => unprocessable(detail),
            SecretActError::Store(error) => {
                tracing::error!(%error, "an act on secrets could not be recorded");
                Self::new(ProblemKind::Unavailable, "this cannot be recorded now; try again later")
            }
        }
    }
}
