//! Forms: their fields, and the proof that they come from a page of this service.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};

use crate::server::auth::equal_texts;
use crate::server::call::bad;
use crate::server::problem::{Problem, ProblemKind};
use crate::server::state::Shared;

/// The field of a form with the token that only pages of this service know.
pub(in crate::server::pages) const FORM_TOKEN: &str = "form_token";
/// The field with the key by which a form that is sent twice acts once.
const FORM_KEY: &str = "form_key";

/// The token of the forms of a caller.
#[derive(Clone)]
pub(super) struct FormToken(pub(super) String);

/// The fields of a form that comes from a page of this service.
pub(super) struct ActForm(Vec<(String, String)>);

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
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let field = self.0.iter().find(|(field, _)| field == name);
        field.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub(super) fn reason(&self) -> &str {
        self.get("reason").unwrap_or_default()
    }

    pub(super) fn is_checked(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The key by which the API does the act once.
    pub(super) fn key(&self) -> Option<&str> {
        self.get(FORM_KEY)
    }
}

/// Reads a form that needs no session: that of a sign-in.
pub(in crate::server::pages) async fn read_public_form(
    request: Request,
    shared: &Arc<Shared>,
) -> Result<impl Fn(&str) -> Option<String>, Problem> {
    let form = read_form(request, shared).await?;
    Ok(move |name: &str| form.get(name).map(str::to_owned))
}
