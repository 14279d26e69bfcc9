//! A deployment event as GitHub sends it: its shape, its headers, its signature.

use std::net::SocketAddr;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Value as Json, json};

use crate::cli::client;
use crate::cli::error::CliError;
use crate::forge::github::webhook::signature;
use crate::model::id::CommitSha;

/// What is to be deployed.
pub(super) struct Wanted<'a> {
    pub(super) number: i64,
    pub(super) commit: &'a CommitSha,
    pub(super) tag: &'a str,
    pub(super) reason: &'a str,
}

pub(super) const REPOSITORY: &str = "example/my-app";
pub(super) const TARGET: &str = "prod-cluster-1";

/// Sends the event; the id of the deployment that it became.
pub(super) async fn send(
    address: SocketAddr,
    secret: &SecretString,
    wanted: &Wanted<'_>,
) -> Result<String, CliError> {
    let body = body(wanted).to_string();
    let client = reqwest::Client::builder().timeout(Duration::from_secs(10)).build();
    let answer = client
        .map_err(|error| CliError::io(error.to_string()))?
        .post(format!("http://{address}/webhooks/github"))
        .header("content-type", "application/json")
        .header("x-github-event", "deployment")
        .header("x-github-delivery", format!("demo-{}", wanted.number))
        .header(signature::HEADER, signature::sign(secret, body.as_bytes()))
        .body(body)
        .send()
        .await
        .map_err(|error| CliError::io(format!("the event could not be sent: {error}")))?;
    let status = answer.status();
    let answer: Option<Json> = client::read_json(&address.to_string(), answer).await?;
    let answer = answer.unwrap_or_default();
    match answer.get("id").and_then(Json::as_str) {
        Some(id) if status == 202 => Ok(id.to_owned()),
        _ => Err(CliError::io(format!("the event was answered with {status}: {answer}"))),
    }
}

fn body(wanted: &Wanted<'_>) -> Json {
    json!({
        "action": "created",
        "deployment": {
            "id": wanted.number,
            "sha": wanted.commit,
            "ref": "main",
            "task": "deploy",
            "environment": TARGET,
            "description": wanted.reason,
            "payload": {"tag": wanted.tag},
            "creator": {"login": "ada"},
        },
        "repository": {"id": 1, "full_name": REPOSITORY, "name": "my-app", "owner": {"login": "example"}},
        "sender": {"login": "ada"},
        "workflow": null,
        "workflow_run": null,
    })
}
