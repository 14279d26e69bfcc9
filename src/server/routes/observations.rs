//! `/api/v1/clusters/{cluster}/observations`: the reports of the agent inside a cluster.
//!
//! The token is checked, and a place taken, before the body is read. The loop that follows the cluster judges the
//! report; the route reads its form.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use tokio::sync::OwnedSemaphorePermit;

use crate::api::observations::{
    MAX_CHANGES, MAX_LOGS, ObservationAnswer, ObservationReport, ObservedChange, ObservedKind,
    ObservedLog,
};
use crate::cluster::failure::{LOG_LINES, LogTail};
use crate::cluster::object::{ObjectMeta, WatchedKind};
use crate::cluster::relay::report::{
    ClusterReport, ReportSession, ReportVerdict, ReportedChange, ReportedLog, ReportedObject,
    ReportedSight,
};
use crate::deployments::agent_inbox::InboxError;
use crate::model::id::TargetName;
use crate::server::call::{PathParam, Payload, unprocessable};
use crate::server::problem::{Problem, ProblemKind};
use crate::server::state::Shared;

/// The longest name of an agent's process, in characters.
const LONGEST_NAME: usize = 64;

/// The longest name of an object of Kubernetes, in bytes.
const LONGEST_OBJECT_NAME: usize = 253;

/// The agent of a cluster, with its place among the reports that are read.
pub(super) struct ReportingAgent {
    cluster: TargetName,
    _place: OwnedSemaphorePermit,
}

impl FromRequestParts<Arc<Shared>> for ReportingAgent {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, Problem> {
        let PathParam(cluster) = PathParam::<TargetName>::from_request_parts(parts, shared).await?;
        shared.state.auth.admit_agent(parts, &cluster).await?;
        let place = shared.state.deployments.enter_report(&cluster)?;
        Ok(Self { cluster, _place: place })
    }
}

/// Takes a report.
pub(super) async fn report(
    State(shared): State<Arc<Shared>>,
    agent: ReportingAgent,
    Payload(report): Payload<ObservationReport>,
) -> Result<Json<ObservationAnswer>, Problem> {
    let version = report.version.clone();
    let report = read(report).map_err(unprocessable)?;
    let (session, sequence) = (report.session.clone(), report.sequence);
    let deployments = &shared.state.deployments;
    let answer = |status: &str, sequence| {
        Ok(Json(ObservationAnswer { status: status.to_owned(), sequence }))
    };
    match deployments.deliver_report(&agent.cluster, report).await? {
        ReportVerdict::Accepted(sequence) => {
            if sequence == 1 {
                let ReportSession { agent: name, generation } = session;
                let cluster = &agent.cluster;
                tracing::info!(%cluster, agent = name, version, generation, "agent's session begun");
            }
            answer(ObservationAnswer::ACCEPTED, sequence)
        }
        ReportVerdict::Resync => answer(ObservationAnswer::RESYNC, 0),
        ReportVerdict::OtherAgent => {
            let detail = format!(
                "another agent reports for {}; when it is silent for 15 seconds, this one takes its place",
                agent.cluster
            );
            Err(Problem::new(ProblemKind::Conflict, detail).after(Duration::from_secs(5)))
        }
        ReportVerdict::Outdated => {
            let detail = format!("report {sequence} is of a session that the agent has ended");
            Err(Problem::new(ProblemKind::Conflict, detail))
        }
    }
}

impl From<InboxError> for Problem {
    fn from(error: InboxError) -> Self {
        match error {
            InboxError::NoAgent => Self::new(ProblemKind::NotFound, error.to_string()),
            InboxError::OtherReplica => Self::new(
                ProblemKind::Misdirected,
                format!("{error}, or begins to; send the report again on a new connection"),
            ),
            InboxError::Busy => {
                let detail = format!("{error}; send the report again in a moment");
                Self::new(ProblemKind::Overloaded, detail).after(Duration::from_secs(1))
            }
        }
    }
}

/// Reads a report, without what this version does not know.
fn read(report: ObservationReport) -> Result<ClusterReport, String> {
    let ObservationReport { agent, version, generation, sequence, changes, kinds, logs, last } =
        report;
    let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !(1..=LONGEST_NAME).contains(&agent.len()) || !agent.chars().all(is_inner) {
        return Err("`agent` is not 1 to 64 letters, digits and `-`".to_owned());
    }
    if version.len() > LONGEST_NAME || !version.chars().all(|c| c.is_ascii_graphic()) {
        return Err("`version` is not up to 64 visible characters".to_owned());
    }
    if generation == 0 || sequence == 0 {
        return Err("`generation` and `sequence` begin with 1".to_owned());
    }
    if changes.len() > MAX_CHANGES {
        return Err(format!("a report has at most {MAX_CHANGES} changes"));
    }
    if logs.as_ref().is_some_and(|logs| logs.len() > MAX_LOGS) {
        return Err(format!("a report has at most {MAX_LOGS} logs"));
    }
    Ok(ClusterReport {
        session: ReportSession { agent, generation },
        sequence,
        changes: changes.into_iter().filter_map(read_change).collect(),
        sights: kinds.map(read_kinds),
        logs: logs.map(|logs| logs.into_iter().filter_map(read_log).collect()),
        is_last: last,
    })
}

fn read_change(observed: ObservedChange) -> Option<ReportedChange> {
    let ObservedChange { change, kind, object, template } = observed;
    let kind = WatchedKind::parse(&kind)?;
    let object = move || Some(ReportedObject { kind, object: object?, template });
    Some(match change.as_str() {
        "list-begun" => ReportedChange::ListBegun(kind),
        "listed" => ReportedChange::Listed(object()?),
        "list-done" => ReportedChange::ListDone(kind),
        "applied" => ReportedChange::Applied(object()?),
        "deleted" => {
            let meta = ObjectMeta::read(&object()?.object)?;
            ReportedChange::Deleted(meta.key(kind), meta.uid.into_string())
        }
        _ => return None,
    })
}

/// Reads the end of a log, bounded and without secrets, whatever the agent has left in it.
fn read_log(observed: ObservedLog) -> Option<ReportedLog> {
    let ObservedLog { namespace, pod, container, lines } = observed;
    let is_name = |name: &String| (1..=LONGEST_OBJECT_NAME).contains(&name.len());
    if !is_name(&namespace) || !is_name(&pod) || !container.as_ref().is_none_or(is_name) {
        return None;
    }
    let tail = LogTail::of_lines(&lines.join("\n"), LOG_LINES);
    Some(ReportedLog { namespace, pod, container, tail })
}

fn read_kinds(kinds: Vec<ObservedKind>) -> BTreeMap<WatchedKind, ReportedSight> {
    let sight = |observed: ObservedKind| {
        let ObservedKind { kind, state, since, reason } = observed;
        let sight = match state.as_str() {
            "starting" => ReportedSight::Starting,
            "seen" => ReportedSight::Seen,
            "unseen" => ReportedSight::Unseen { since, reason },
            "hidden" => ReportedSight::Hidden { reason },
            "absent" => ReportedSight::Absent,
            _ => return None,
        };
        Some((WatchedKind::parse(&kind)?, sight))
    };
    kinds.into_iter().filter_map(sight).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(json: serde_json::Value) -> Result<ClusterReport, String> {
        read(serde_json::from_value(json).unwrap())
    }

    #[test]
    fn a_newer_agent_is_understood_as_far_as_it_goes() {
        let report = parse(json!({
            "agent": "a-1", "generation": 1, "sequence": 2, "mood": "good",
            "changes": [
                {"change": "list-begun", "kind": "Rollout"},
                {"change": "renamed", "kind": "Pod", "object": {}},
                {"change": "applied", "kind": "Pod"},
                {"change": "deleted", "kind": "Pod", "object": {"metadata": {"name": "a", "uid": "u"}}},
                {"change": "list-done", "kind": "Pod", "colour": "red"},
            ],
            "kinds": [
                {"kind": "Pod", "state": "seen"}, {"kind": "Rollout", "state": "seen"},
                {"kind": "Job", "state": "asleep"}, {"kind": "Canary", "state": "absent"},
            ],
        }));
        let report = report.unwrap();
        let key = crate::cluster::object::ObjectKey::new(WatchedKind::Pod, "", "a");
        let expected = [
            ReportedChange::Deleted(key, "u".to_owned()),
            ReportedChange::ListDone(WatchedKind::Pod),
        ];
        assert_eq!(report.changes, expected);
        let sights = report.sights.unwrap();
        assert_eq!(sights.len(), 2);
        assert_eq!(sights[&WatchedKind::Canary], ReportedSight::Absent);
        assert!(!report.is_last);
    }

    #[test]
    fn the_end_of_a_log_is_masked_and_bounded_again() {
        let log = |lines: &[&str]| {
            let end = json!({"namespace": "devx", "pod": "a", "container": "web", "lines": lines});
            parse(json!({"agent": "a", "generation": 1, "sequence": 1, "logs": [end]}))
                .unwrap()
                .logs
                .unwrap()
                .remove(0)
                .tail
                .lines()
                .to_vec()
        };
        let token = "login with token ghp_aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zaB3dE5";
        let shown = log(&[token, "no such\u{1b}[2J table"]);
        assert_eq!(shown.len(), 2);
        assert!(!shown[0].contains("ghp_a") && !shown[1].contains('\u{1b}'), "{shown:?}");
        let line = "x".repeat(10_000);
        let shown = log(&[&*line; 50]);
        assert!(shown.len() == 20 && shown.concat().len() < 20_000, "{}", shown.concat().len());
        let silent = json!({"agent": "a", "generation": 1, "sequence": 1});
        assert_eq!(parse(silent).unwrap().logs, None, "an older agent");
        let nameless =
            json!({"agent": "a", "generation": 1, "sequence": 1, "logs": [{"pod": "a"}]});
        assert_eq!(parse(nameless).unwrap().logs, Some(Vec::new()));
    }

    #[test]
    fn a_report_without_a_session_or_with_too_much_is_refused() {
        for (report, expected) in [
            (json!({}), "`agent`"),
            (json!({"agent": "a\n", "generation": 1, "sequence": 1}), "`agent`"),
            (json!({"agent": "a".repeat(65), "generation": 1, "sequence": 1}), "`agent`"),
            (json!({"agent": "a", "version": "1\n", "generation": 1, "sequence": 1}), "`version`"),
            (json!({"agent": "a", "generation": 1}), "begin with 1"),
            (json!({"agent": "a", "sequence": 1}), "begin with 1"),
            (
                json!({"agent": "a", "generation": 1, "sequence": 1, "changes": vec![json!({}); 2001]}),
                "at most 2000",
            ),
            (
                json!({"agent": "a", "generation": 1, "sequence": 1, "logs": vec![json!({}); 9]}),
                "at most 8 logs",
            ),
        ] {
            let message = parse(report).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
