//! Requests of acts (of pages, of Slack) to the API's routes, in this process and in the name of the person.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{self, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use tower::Service as _;

use crate::server::auth::Caller;
use crate::server::problem::{Problem, ProblemKind, ProblemText};

/// The API for one person.
pub(super) struct ActApi {
    router: Router,
    caller: Caller,
}

/// An answer of the API that is no success.
pub(super) struct ApiRefusal(Response);

impl ActApi {
    pub(super) fn new(router: Router, caller: Caller) -> Self {
        Self { router, caller }
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiRefusal> {
        self.send(Request::get(path).body(Body::empty())).await
    }

    /// Sends an act, or its dry run. With a key the act is done once, however often the form is sent.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Json,
        key: Option<&str>,
    ) -> Result<T, ApiRefusal> {
        let request = Request::builder().method(Method::POST).uri(path);
        let request = request.header(CONTENT_TYPE, "application/json");
        let request = match key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        };
        self.send(request.body(Body::from(body.to_string()))).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: Result<Request, http::Error>,
    ) -> Result<T, ApiRefusal> {
        let internal = |what: &str| {
            tracing::error!(what, "request of a page to the API failed");
            let detail = "internal error; the service's log has more";
            ApiRefusal(Problem::new(ProblemKind::Internal, detail).into_response())
        };
        let mut request = request.map_err(|_| internal("it cannot be made"))?;
        request.extensions_mut().insert(self.caller.clone());
        let Ok(response) = self.router.clone().call(request).await;
        if !response.status().is_success() {
            return Err(ApiRefusal(response));
        }
        // The service's own answer, of bounded size.
        let body = to_bytes(response.into_body(), usize::MAX).await;
        let body = body.map_err(|_| internal("its answer breaks off"))?;
        serde_json::from_slice(&body).map_err(|_| internal("its answer cannot be read"))
    }
}

impl ApiRefusal {
    pub(super) fn status(&self) -> StatusCode {
        self.0.status()
    }

    /// Returns whether what the person saw is no longer so.
    pub(super) fn is_outdated(&self) -> bool {
        let text = self.0.extensions().get::<ProblemText>();
        text.is_some_and(|text| text.kind == ProblemKind::Outdated)
    }

    /// The sentence for the person.
    pub(super) fn detail(&self) -> String {
        let text = self.0.extensions().get::<ProblemText>();
        text.map_or_else(|| "it cannot be done now".to_owned(), |text| text.detail.clone())
    }
}

impl From<Problem> for ApiRefusal {
    fn from(problem: Problem) -> Self {
        Self(problem.into_response())
    }
}

impl IntoResponse for ApiRefusal {
    fn into_response(self) -> Response {
        self.0
    }
}
