//! `/api/v1/clusters/{cluster}/log-requests` and `…/logs/{id}`: logs that callers read through the agent of a cluster.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use tokio::sync::OwnedSemaphorePermit;

use crate::api::agent_logs::{
    AgentLogAnswer, AgentLogPart, AgentLogRequest, AgentLogRequests, MAX_PART_LINES,
};
use crate::cluster::logs::LogRange;
use crate::cluster::relay::wanted_log::{LogEnd, LogPart, WantedLog};
use crate::deployments::log_exchange::SlowReader;
use crate::model::id::{IdError, TargetName};
use crate::server::call::{PathParam, PathParameter, Payload, unprocessable};
use crate::server::problem::{Problem, ProblemKind};
use crate::server::state::Shared;

/// The longest wait for a log that is wanted: shorter than the deadline of a request.
const LONGEST_WAIT: Duration = Duration::from_secs(7);
/// The most bytes of the lines of a part.
const LONGEST_PART: usize = 256 * 1024;
/// The longest reason of an end, in bytes.
const LONGEST_REASON: usize = 2000;

/// The agent of a cluster that asks for logs.
pub(super) struct AskingAgent(TargetName);

impl FromRequestParts<Arc<Shared>> for AskingAgent {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, Problem> {
        let PathParam(cluster) = PathParam::<TargetName>::from_request_parts(parts, shared).await?;
        shared.state.auth.admit_agent(parts, &cluster).await?;
        Ok(Self(cluster))
    }
}

/// The agent of a cluster that sends a part of a log.
pub(super) struct SendingAgent {
    path: LogPath,
    _place: OwnedSemaphorePermit,
}

impl FromRequestParts<Arc<Shared>> for SendingAgent {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, Problem> {
        let PathParam(path) = PathParam::<LogPath>::from_request_parts(parts, shared).await?;
        shared.state.auth.admit_agent(parts, &path.cluster).await?;
        let place = shared.state.deployments.enter_log(&path.cluster)?;
        Ok(Self { path, _place: place })
    }
}

/// The log of an id, of a cluster.
pub(super) struct LogPath {
    cluster: TargetName,
    id: String,
}

/// `/clusters/{cluster}/logs/{id}`.
impl PathParameter for LogPath {
    type Parts = (String, String);

    fn read((cluster, id): Self::Parts) -> Result<Self, IdError> {
        let cluster = TargetName::parse(cluster)?;
        let is_id = (1..=64).contains(&id.len()) && id.chars().all(|c| c.is_ascii_alphanumeric());
        if is_id {
            Ok(Self { cluster, id })
        } else {
            Err(IdError { what: "log", value: id, rule: "letters and digits, at most 64" })
        }
    }
}

/// Waits for logs that callers want.
pub(super) async fn list_wanted(
    State(shared): State<Arc<Shared>>,
    AskingAgent(cluster): AskingAgent,
) -> Result<Json<AgentLogRequests>, Problem> {
    let next = shared.state.deployments.wanted_logs(&cluster, LONGEST_WAIT);
    let logs = tokio::select! {
        logs = next => logs?,
        () = shared.state.closing.cancelled() => Vec::new(),
    };
    Ok(Json(AgentLogRequests { logs: logs.into_iter().map(write).collect() }))
}

/// Takes a part of a log.
pub(super) async fn receive(
    State(shared): State<Arc<Shared>>,
    SendingAgent { path: LogPath { cluster, id }, _place }: SendingAgent,
    Payload(part): Payload<AgentLogPart>,
) -> Result<Json<AgentLogAnswer>, Problem> {
    let part = read(part).map_err(unprocessable)?;
    let is_read = shared.state.deployments.deliver_log(&cluster, &id, part).await?;
    let is_read = is_read.map_err(|SlowReader| {
        let detail = "whoever reads the log is slow; send the part again in a moment";
        Problem::new(ProblemKind::Overloaded, detail).after(Duration::from_secs(1))
    })?;
    Ok(Json(AgentLogAnswer { wanted: is_read }))
}

fn write(wanted: WantedLog) -> AgentLogRequest {
    let WantedLog { id, namespace, slug, pod, container, range } = wanted;
    let LogRange { lines, previous, follow } = range;
    AgentLogRequest { id, namespace, app: slug, pod, container, lines, previous, follow }
}

fn read(part: AgentLogPart) -> Result<LogPart, String> {
    let AgentLogPart { number, lines, end, reason } = part;
    if lines.len() > MAX_PART_LINES {
        return Err(format!("a part has at most {MAX_PART_LINES} lines"));
    }
    if lines.iter().map(String::len).sum::<usize>() > LONGEST_PART {
        return Err(format!("the lines of a part have at most {LONGEST_PART} bytes"));
    }
    if reason.len() > LONGEST_REASON {
        return Err(format!("`reason` has at most {LONGEST_REASON} bytes"));
    }
    let end = end.map(|end| match end.as_str() {
        AgentLogPart::COMPLETE => LogEnd::Complete,
        AgentLogPart::NOT_FOUND => LogEnd::NotFound(reason),
        // A word of a newer agent.
        _ => LogEnd::Failed(reason),
    });
    Ok(LogPart { number, lines, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_is_not_known_is_a_failure_and_too_much_is_refused() {
        let part = |end: &str| AgentLogPart {
            end: Some(end.to_owned()),
            reason: "why".to_owned(),
            ..AgentLogPart::default()
        };
        let why = "why".to_owned();
        assert_eq!(read(part("complete")).unwrap().end, Some(LogEnd::Complete));
        assert_eq!(read(part("not-found")).unwrap().end, Some(LogEnd::NotFound(why.clone())));
        assert_eq!(read(part("tired")).unwrap().end, Some(LogEnd::Failed(why)));
        assert_eq!(read(AgentLogPart::default()).unwrap().end, None);
        let lines = vec![String::new(); 201];
        assert!(read(AgentLogPart { lines, ..AgentLogPart::default() }).is_err());
        let lines = vec!["x".repeat(2000); 200];
        assert!(read(AgentLogPart { lines, ..AgentLogPart::default() }).is_err());
        let reason = "x".repeat(2001);
        assert!(read(AgentLogPart { reason, ..AgentLogPart::default() }).is_err());
    }

    #[test]
    fn an_id_is_letters_and_digits() {
        let read = |id: &str| LogPath::read(("prod".to_owned(), id.to_owned()));
        assert!(read("0a1B").is_ok());
        for wrong in ["", "a-b", "../x", "ä", &"a".repeat(65)] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
