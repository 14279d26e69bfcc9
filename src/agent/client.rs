//! Sends an agent's reports to the service, and reads the answers.
//!
//! The token is read from its file for each request, goes by https or stays on this machine, and follows no redirect.

use std::time::Duration;

use reqwest::{RequestBuilder, Response, StatusCode, Url};
use secrecy::ExposeSecret as _;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::api::agent_logs::{AgentLogAnswer, AgentLogPart, AgentLogRequest, AgentLogRequests};
use crate::api::observations::{
    ObservationAnswer, ObservationReport, ObservedChange, ObservedKind, ObservedLog,
};
use crate::api::problem::ProblemBody;
use crate::cluster::logs::LogRange;
use crate::cluster::object::WatchedKind;
use crate::cluster::relay::report::{
    ClusterReport, ReportVerdict, ReportedChange, ReportedLog, ReportedObject, ReportedSight,
};
use crate::cluster::relay::wanted_log::{LogEnd, LogPart, WantedLog};
use crate::model::id::TargetName;
use crate::support::cause::innermost_cause;
use crate::support::credential::Credential;
use crate::support::host::is_local;
use crate::support::http::OutboundHttp;
use crate::support::http::body::read_bounded;
use crate::support::http::retry_after::retry_after_seconds;
use crate::support::percent::encode_segment;
use crate::support::text::truncate_chars;

/// The deadline of a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// The deadline of an answer. The service gives up after nine seconds.
const ANSWER: Duration = Duration::from_secs(20);
/// The longest answer that is read, in bytes.
const LONGEST_ANSWER: usize = 64 * 1024;
/// The longest text of an answer that is logged, in characters.
const LONGEST_DETAIL: usize = 300;

/// The service, and the credentials for it.
#[derive(Debug, Clone)]
pub struct ReportTarget {
    /// The service's address.
    pub server: String,
    /// The cluster's name there.
    pub cluster: TargetName,
    /// The agent's token.
    pub token: Credential,
    /// The proxy, and the authorities that are trusted.
    pub outbound: OutboundHttp,
}

/// The way to the service. Clones share its connections.
#[derive(Debug, Clone)]
pub struct ReportClient {
    /// The address of the cluster's resources.
    address: String,
    token: Credential,
    http: reqwest::Client,
}

/// What has become of a report.
pub(super) type ReportOutcome = Result<ReportVerdict, ServiceTrouble>;

/// The reason why the service has not taken a request. No text has a secret in it.
#[derive(Debug)]
pub(super) enum ServiceTrouble {
    /// Another replica of the service follows the cluster.
    Misdirected(String),
    /// The service did not answer, or cannot at present; it may have asked for a pause.
    Failed(String, Option<Duration>),
    /// The service refuses it, until a person changes something.
    Refused(String),
}

impl ServiceTrouble {
    /// Returns the reason.
    pub(super) fn into_reason(self) -> String {
        match self {
            Self::Misdirected(reason) | Self::Failed(reason, _) | Self::Refused(reason) => reason,
        }
    }
}

/// The reason why reports cannot be sent to an address.
#[derive(Debug, thiserror::Error)]
pub enum ReportTargetError {
    /// The address is none.
    #[error("{0} is not the address of a service: write it like https://deployer.example.com")]
    NoAddress(String),
    /// The token would go over the network in the clear.
    #[error("the agent's token would go to {0} in the clear: use its https address")]
    InTheClear(String),
    /// The address has a user name or a password in it.
    #[error("the address of the service has a user name or a password in it: remove it")]
    Credentials,
    /// An authority or the proxy cannot be used.
    #[error("no HTTP client can be made: {0}")]
    Client(reqwest::Error),
}

impl ReportClient {
    /// Makes the client; it has asked nothing yet.
    ///
    /// # Errors
    /// `ReportTargetError`
    pub fn new(target: ReportTarget) -> Result<Self, ReportTargetError> {
        let ReportTarget { server, cluster, token, outbound } = target;
        let base = server.trim_end_matches('/');
        let address = format!("{base}/api/v1/clusters/{}", encode_segment(cluster.as_str()));
        let url = Url::parse(&address);
        let url = url.map_err(|_| ReportTargetError::NoAddress(server.clone()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ReportTargetError::Credentials);
        }
        match url.scheme() {
            "https" => {}
            "http" if is_local(&url) => {}
            "http" => return Err(ReportTargetError::InTheClear(server)),
            _ => return Err(ReportTargetError::NoAddress(server)),
        }
        crate::support::http::install_tls_provider();
        let http = outbound.client_without_redirects(CONNECT).map_err(ReportTargetError::Client)?;
        Ok(Self { address, token, http })
    }

    /// Sends a report.
    pub(super) fn send(
        &self,
        report: ClusterReport,
    ) -> impl Future<Output = ReportOutcome> + Send + use<> {
        let client = self.clone();
        async move {
            let request = client.http.post(format!("{}/observations", client.address));
            read_verdict(&client.ask(request.json(&write(report))).await?)
        }
    }

    /// Waits for logs that callers want; none after some seconds.
    pub(super) async fn wanted_logs(&self) -> Result<Vec<WantedLog>, ServiceTrouble> {
        let request = self.http.get(format!("{}/log-requests", self.address));
        let answer: AgentLogRequests = self.ask(request).await?;
        Ok(answer.logs.into_iter().map(read_wanted).collect())
    }

    /// Sends a part of a log; returns false if nobody reads it any more.
    pub(super) async fn send_log_part(
        &self,
        id: &str,
        part: &LogPart,
    ) -> Result<bool, ServiceTrouble> {
        let request = self.http.post(format!("{}/logs/{}", self.address, encode_segment(id)));
        let answer: AgentLogAnswer = self.ask(request.json(&write_part(part))).await?;
        Ok(answer.wanted)
    }

    async fn ask<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ServiceTrouble> {
        let token = self.token.text().await.map_err(ServiceTrouble::Refused)?;
        let request = request.bearer_auth(token.expose_secret()).timeout(ANSWER);
        let response = request.send().await;
        let response = response.map_err(|error| ServiceTrouble::Failed(describe(&error), None))?;
        read_answer(response).await
    }
}

/// Says why there is no answer, without the address, which the log has from the start.
fn describe(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "the service does not answer in time".to_owned();
    }
    format!("the service cannot be reached: {}", innermost_cause(error))
}

async fn read_answer<T: DeserializeOwned>(response: Response) -> Result<T, ServiceTrouble> {
    let status = response.status();
    let after = retry_after_seconds(response.headers());
    let body = match read_bounded(reqwest::Body::from(response), LONGEST_ANSWER).await {
        Ok(body) => body.bytes,
        Err(error) => return Err(ServiceTrouble::Failed(describe(&error), None)),
    };
    if status == StatusCode::OK {
        return serde_json::from_slice(&body).map_err(|_| strange());
    }
    let problem = serde_json::from_slice::<ProblemBody>(&body).ok();
    let detail = problem.map(|problem| problem.detail.unwrap_or(problem.title));
    let detail = detail.unwrap_or_else(|| "no reason is given".to_owned());
    let detail = truncate_chars(&detail, LONGEST_DETAIL).into_owned();
    let reason = format!("the service answers {}: {detail}", status.as_u16());
    Err(match status.as_u16() {
        421 => ServiceTrouble::Misdirected(reason),
        // 409: another agent reports, and may be gone in a moment.
        408 | 409 | 429 | 500.. => ServiceTrouble::Failed(reason, after),
        _ => ServiceTrouble::Refused(reason),
    })
}

fn strange() -> ServiceTrouble {
    ServiceTrouble::Refused("the server does not answer like the-deployer".to_owned())
}

fn read_verdict(answer: &ObservationAnswer) -> ReportOutcome {
    match answer.status.as_str() {
        ObservationAnswer::ACCEPTED => Ok(ReportVerdict::Accepted(answer.sequence)),
        ObservationAnswer::RESYNC => Ok(ReportVerdict::Resync),
        _ => Err(strange()),
    }
}

fn read_wanted(request: AgentLogRequest) -> WantedLog {
    let AgentLogRequest { id, namespace, app, pod, container, lines, previous, follow } = request;
    let range = LogRange { lines, previous, follow };
    WantedLog { id, namespace, slug: app, pod, container, range }
}

fn write_part(part: &LogPart) -> AgentLogPart {
    let LogPart { number, lines, end } = part;
    let (end, reason) = match end {
        None => (None, ""),
        Some(LogEnd::Complete) => (Some(AgentLogPart::COMPLETE), ""),
        Some(LogEnd::NotFound(why)) => (Some(AgentLogPart::NOT_FOUND), why.as_str()),
        Some(LogEnd::Failed(why)) => (Some(AgentLogPart::FAILED), why.as_str()),
    };
    let reason = truncate_chars(reason, LONGEST_DETAIL).into_owned();
    AgentLogPart { number: *number, lines: lines.clone(), end: end.map(str::to_owned), reason }
}

/// Writes a report in the words of the API.
fn write(report: ClusterReport) -> ObservationReport {
    let ClusterReport { session, sequence, changes, sights, logs, is_last } = report;
    let kinds = sights.map(|sights| {
        let kind = |(kind, sight): (WatchedKind, ReportedSight)| {
            let (state, since, reason) = match sight {
                ReportedSight::Starting => ("starting", None, String::new()),
                ReportedSight::Seen => ("seen", None, String::new()),
                ReportedSight::Unseen { since, reason } => ("unseen", since, reason),
                ReportedSight::Hidden { reason } => ("hidden", None, reason),
                ReportedSight::Absent => ("absent", None, String::new()),
            };
            let (kind, state) = (kind.as_str().to_owned(), state.to_owned());
            ObservedKind { kind, state, since, reason }
        };
        sights.into_iter().map(kind).collect()
    });
    ObservationReport {
        agent: session.agent,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        generation: session.generation,
        sequence,
        changes: changes.into_iter().map(write_change).collect(),
        kinds,
        logs: logs.map(|logs| logs.into_iter().map(write_log).collect()),
        last: is_last,
    }
}

fn write_log(log: ReportedLog) -> ObservedLog {
    let ReportedLog { namespace, pod, container, tail } = log;
    ObservedLog { namespace, pod, container, lines: tail.lines().to_vec() }
}

fn write_change(change: ReportedChange) -> ObservedChange {
    let (word, kind, object) = match change {
        ReportedChange::ListBegun(kind) => ("list-begun", kind, None),
        ReportedChange::Listed(object) => ("listed", object.kind, Some(object)),
        ReportedChange::ListDone(kind) => ("list-done", kind, None),
        ReportedChange::Applied(object) => ("applied", object.kind, Some(object)),
        ReportedChange::Deleted(key, uid) => {
            let metadata = json!({"namespace": key.namespace, "name": key.name, "uid": uid});
            let (object, template) = (json!({ "metadata": metadata }), String::new());
            ("deleted", key.kind, Some(ReportedObject { kind: key.kind, object, template }))
        }
    };
    let (object, template) =
        object.map_or((None, String::new()), |one| (Some(one.object), one.template));
    ObservedChange { change: word.to_owned(), kind: kind.as_str().to_owned(), object, template }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(server: &str) -> Result<ReportClient, ReportTargetError> {
        ReportClient::new(ReportTarget {
            server: server.to_owned(),
            cluster: TargetName::parse("prod-1").unwrap(),
            token: Credential { secret: "t0ken".into(), file: None },
            outbound: OutboundHttp::default(),
        })
    }

    #[test]
    fn a_token_goes_by_https_or_stays_on_this_machine() {
        for server in
            ["https://deploy.example.com/base/", "http://127.0.0.1:8080", "http://[::1]:1"]
        {
            let url = Url::parse(&client(server).unwrap().address).unwrap();
            assert!(url.as_str().ends_with("/api/v1/clusters/prod-1"), "{url}");
            assert!(!url.path().contains("//"), "{url}");
        }
        for (server, expected) in [
            ("http://deploy.example.com", "in the clear"),
            ("deploy.example.com", "is not the address"),
            ("ftp://deploy.example.com", "is not the address"),
            ("https://me:s3cret@deploy.example.com", "has a user name or a password"),
        ] {
            let message = client(server).unwrap_err().to_string();
            assert!(message.contains(expected) && !message.contains("s3cret"), "{message}");
        }
    }
}
