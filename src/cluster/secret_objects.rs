//! Secrets of a cluster, read and written with a person's own credentials: `bart secrets` uses it, and the service never
//! does.
//!
//! A write carries the version that was read (`metadata.resourceVersion`), so that the API server refuses it if another
//! writer was first.

use std::time::Duration;

use http::{Method, Request};
use serde_json::Value as Json;

use crate::cluster::connection::client::ClusterConnection;
use crate::cluster::connection::request::{RequestError, send};
use crate::cluster::logs::is_object_name;
use crate::support::http::body::read_bounded;

/// The largest object, in bytes; a Secret has 1 MiB at most, its Base64 a third more.
const MAX_OBJECT: usize = 4 * 1024 * 1024;
/// The deadline of a body.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

/// The reason why a Secret was not read or written. Nothing was changed, unless the answer was lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretObjectError {
    /// Another writer was first.
    #[error("another writer was first")]
    Conflict,
    /// The API server refuses.
    #[error("{0}")]
    Refused(String),
    /// There is no answer.
    #[error("{0}")]
    NoAnswer(String),
}

/// The kinds of objects that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretObjectKind {
    /// A Secret.
    Secret,
    /// External Secrets' store of a namespace.
    SecretStore,
    /// … and of the whole cluster.
    ClusterSecretStore,
}

impl SecretObjectKind {
    fn collection(self, namespace: &str) -> Vec<String> {
        let external =
            |version: &str, rest: &str| format!("/apis/external-secrets.io/{version}{rest}");
        let of_versions =
            |rest: &str| ["v1", "v1beta1"].map(|version| external(version, rest)).into();
        match self {
            Self::Secret => vec![format!("/api/v1/namespaces/{namespace}/secrets")],
            Self::SecretStore => of_versions(&format!("/namespaces/{namespace}/secretstores")),
            Self::ClusterSecretStore => of_versions("/clustersecretstores"),
        }
    }
}

/// Reads an object; `None` if there is none.
///
/// # Errors
/// [`SecretObjectError`]
pub async fn get_object(
    connection: &ClusterConnection,
    kind: SecretObjectKind,
    namespace: &str,
    name: &str,
) -> Result<Option<Json>, SecretObjectError> {
    check_name(name)?;
    for collection in kind.collection(namespace) {
        match request(connection, Method::GET, &format!("{collection}/{name}"), None).await {
            Ok(object) => return Ok(Some(object)),
            Err(Answer::NotFound) => {}
            Err(Answer::Error(error)) => return Err(error),
        }
    }
    Ok(None)
}

/// Creates a Secret.
///
/// # Errors
/// [`SecretObjectError::Conflict`] if there is one of that name by now.
pub async fn create_secret(
    connection: &ClusterConnection,
    namespace: &str,
    secret: &Json,
) -> Result<Json, SecretObjectError> {
    let path = format!("/api/v1/namespaces/{namespace}/secrets");
    Ok(request(connection, Method::POST, &path, Some(secret)).await?)
}

/// Replaces a Secret, which has the `resourceVersion` that was read.
///
/// # Errors
/// [`SecretObjectError::Conflict`] if it was changed since.
pub async fn replace_secret(
    connection: &ClusterConnection,
    namespace: &str,
    name: &str,
    secret: &Json,
) -> Result<Json, SecretObjectError> {
    check_name(name)?;
    let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
    match request(connection, Method::PUT, &path, Some(secret)).await {
        // It was deleted since.
        Err(Answer::NotFound) => Err(SecretObjectError::Conflict),
        result => Ok(result?),
    }
}

enum Answer {
    NotFound,
    Error(SecretObjectError),
}

impl From<Answer> for SecretObjectError {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::NotFound => {
                Self::Refused("the server answers 404: there is no such namespace".to_owned())
            }
            Answer::Error(error) => error,
        }
    }
}

fn check_name(name: &str) -> Result<(), SecretObjectError> {
    if is_object_name(name) {
        return Ok(());
    }
    Err(SecretObjectError::Refused(format!("{name:?} is no name of an object")))
}

async fn request(
    connection: &ClusterConnection,
    method: Method,
    path: &str,
    body: Option<&Json>,
) -> Result<Json, Answer> {
    let failed = |message: String| Answer::Error(SecretObjectError::NoAnswer(message));
    let client = connection.client().await.map_err(|error| failed(error.to_string()))?;
    let request = Request::builder().method(method).uri(path);
    let request =
        request.header("accept", "application/json").header("content-type", "application/json");
    let bytes = body.map(serde_json::to_vec).transpose();
    let bytes = bytes.map_err(|error| failed(error.to_string()))?.unwrap_or_default();
    let request = request.body(bytes).map_err(|error| failed(error.to_string()))?;
    let response = send(&client.client, request).await.map_err(|error| match error {
        RequestError::Refused(refusal) => match refusal.code {
            404 => Answer::NotFound,
            409 => Answer::Error(SecretObjectError::Conflict),
            _ => Answer::Error(SecretObjectError::Refused(refusal.message)),
        },
        RequestError::Timeout(message) | RequestError::NoAnswer(message) => failed(message),
    })?;
    let read = tokio::time::timeout(BODY_DEADLINE, read_bounded(response.into_body(), MAX_OBJECT));
    let body = read.await.map_err(|_| failed("the answer did not come in time".to_owned()))?;
    let body = body.map_err(|error| failed(error.to_string()))?;
    // The parser's own words may repeat a value.
    serde_json::from_slice(&body.bytes)
        .map_err(|_| failed("the server does not answer like an API server".to_owned()))
}
