//! One request over HTTP: a bounded time, a bounded answer, and one retry when there was no answer.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, RequestBuilder, StatusCode};
use tokio::sync::Semaphore;

use crate::model::facts::FactUnavailable;
use crate::support::cause::innermost_cause;
use crate::support::http::OutboundHttp;
use crate::support::http::body::{BoundedBody, read_bounded};

/// Between the two tries: enough for a connection that was just being closed.
const PAUSE: Duration = Duration::from_millis(100);

/// The reason why a client cannot be built from its settings.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LookupSettingsError(pub String);

/// The limits of a client: times, and requests at once.
#[derive(Debug, Clone, Copy)]
pub struct LookupLimits {
    /// The longest time of one try, the answer's body included.
    pub one_try: Duration,
    /// The limit of requests at once; others wait for their turn.
    pub at_once: usize,
}

/// An HTTP client with limits.
#[derive(Debug, Clone)]
pub(super) struct Http {
    client: Client,
    one_try: Duration,
    turns: Arc<Semaphore>,
}

/// An answer, whatever it says.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// True if the answer was longer than the limit.
    pub(super) cut: bool,
}

impl Http {
    /// Builds the client. It follows no redirect: the token is in a header that would go along.
    pub(super) fn new(
        patience: LookupLimits,
        roots: Vec<reqwest::Certificate>,
        outbound: &OutboundHttp,
    ) -> Result<Self, LookupSettingsError> {
        let unusable = |error| LookupSettingsError(innermost_cause(&error).to_string());
        // A host with its own authority is trusted by that one alone.
        let builder =
            if roots.is_empty() { outbound.builder() } else { outbound.builder_trusting(roots) };
        let builder = builder.map_err(unusable)?.connect_timeout(patience.one_try);
        let client = builder.redirect(reqwest::redirect::Policy::none()).build();
        let client = client.map_err(unusable)?;
        let turns = Arc::new(Semaphore::new(patience.at_once));
        Ok(Self { client, one_try: patience.one_try, turns })
    }

    /// Returns the same with another client; both together have one limit of requests at once.
    pub(super) fn with_client(&self, builder: reqwest::ClientBuilder) -> reqwest::Result<Self> {
        let client = builder.connect_timeout(self.one_try).build()?;
        Ok(Self { client, one_try: self.one_try, turns: self.turns.clone() })
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Sends a request, and once more when there was no answer or the server had a fault. `host` is for the message. A
    /// body longer than `limit` is cut.
    pub(super) async fn ask(
        &self,
        host: &str,
        request: RequestBuilder,
        limit: usize,
    ) -> Result<HttpAnswer, FactUnavailable> {
        let second = request.try_clone();
        let first = self.send_once(host, request, limit).await;
        let may_retry = match &first {
            Ok(answer) => answer.status.is_server_error(),
            Err(_) => true,
        };
        match second.filter(|_| may_retry) {
            Some(second) => {
                tokio::time::sleep(PAUSE).await;
                self.send_once(host, second, limit).await
            }
            None => first,
        }
    }

    /// Sends a request, with one try.
    pub(super) async fn send_once(
        &self,
        host: &str,
        request: RequestBuilder,
        limit: usize,
    ) -> Result<HttpAnswer, FactUnavailable> {
        let deadline = tokio::time::Instant::now() + self.one_try;
        // The semaphore is never closed; if it were, no request would need to wait.
        let Ok(_turn) = tokio::time::timeout_at(deadline, self.turns.acquire()).await else {
            let why =
                format!("{host} was not asked: other requests took all of {:?}", self.one_try);
            return Err(FactUnavailable::new(why));
        };
        let exchange = async { read(request.send().await?, limit).await };
        match tokio::time::timeout_at(deadline, exchange).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                let cause = innermost_cause(&error);
                Err(FactUnavailable::new(format!("{host} cannot be reached: {cause}")))
            }
            Err(_) => Err(FactUnavailable::new(format!(
                "{host} did not answer within {:?}",
                self.one_try
            ))),
        }
    }
}

async fn read(response: reqwest::Response, limit: usize) -> reqwest::Result<HttpAnswer> {
    let (status, headers) = (response.status(), response.headers().clone());
    let BoundedBody { bytes, is_cut } = read_bounded(reqwest::Body::from(response), limit).await?;
    Ok(HttpAnswer { status, headers, body: bytes, cut: is_cut })
}
