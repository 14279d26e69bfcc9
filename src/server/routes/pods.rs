//! `/api/v1/apps/{target}/{namespace}/{app}/pods`: an app in its cluster, and the logs of its containers as
//! server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::api::pods::{
    ContainerLogLine, LiveStateAnswer, PodContainer, PodSummary, UnreadObjects, WorkloadSummary,
};
use crate::deployments::container_log::{ContainerLog, LogRequest, MAX_LOG_LINES};
use crate::deployments::live_state::{ClusterAppState, LivePod, LiveStateError, LiveWorkload};
use crate::model::app_instance::AppInstance;
use crate::model::audit::AuthMethod;
use crate::model::callers::Scope;
use crate::model::id::IdError;
use crate::model::revision::Digest;
use crate::server::call::{AuthenticatedRequest, PathParam, PathParameter, QueryPairs, bad};
use crate::server::openapi::{Form, Parameter, ParameterForm};
use crate::server::problem::{Problem, ProblemKind};
use crate::server::query::{Params, quote_value};
use crate::server::routes::events::{
    HEARTBEAT, PERMISSION_LIFETIME, StreamKind, StreamSlots, take_stream_slots,
};

/// The number of last lines with which a log begins.
const LINES: usize = 100;

/// The number of questions to a cluster that one caller may have open at the same time.
const READS_OF_ONE: usize = 2;

/// The parameters of a log.
pub(super) const LOG: &[Parameter] = &[
    Parameter::text("container", Form::SLUG, "The container; the pod's first one by default."),
    Parameter::new(
        "previous",
        ParameterForm::Words(FLAG),
        "`true` for the log of the container that ran before it was started again.",
    ),
    Parameter::new(
        "lines",
        ParameterForm::Number(0, 10_000),
        "The number of last lines with which it begins; 100 by default.",
    ),
    Parameter::new("follow", ParameterForm::Words(FLAG), "`true` for lines as they come."),
];

const FLAG: &[&str] = &["true", "false"];

/// A pod of an app, as a path names it.
pub(super) struct PodPath {
    instance: AppInstance,
    pod: String,
}

/// `/apps/{target}/{namespace}/{app}/pods/{pod}`.
impl PathParameter for PodPath {
    type Parts = (String, String, String, String);

    fn read((target, namespace, slug, pod): Self::Parts) -> Result<Self, IdError> {
        let instance = AppInstance::read((target, namespace, slug))?;
        let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        let is_name = (1..=253).contains(&pod.len())
            && pod.chars().all(is_inner)
            && !pod.starts_with(['-', '.'])
            && !pod.ends_with(['-', '.']);
        if is_name {
            Ok(Self { instance, pod })
        } else {
            let rule = "lower-case letters, digits, `-` and `.`, at most 253";
            Err(IdError { what: "pod", value: pod, rule })
        }
    }
}

/// Shows the workloads and pods of an app.
pub(super) async fn list(
    call: AuthenticatedRequest,
    PathParam(instance): PathParam<AppInstance>,
) -> Result<Json<LiveStateAnswer>, Problem> {
    call.authorize(Scope::Read, &instance).await?;
    let _place = open_read(&call, &instance)?;
    let state = call.deployments().live_state(&instance).await?;
    Ok(Json(state.into()))
}

/// Takes a place among the caller's questions to a cluster, which has few turns for all callers.
fn open_read(
    call: &AuthenticatedRequest,
    instance: &AppInstance,
) -> Result<Option<Arc<()>>, Problem> {
    if call.caller.via == AuthMethod::Loopback {
        return Ok(None);
    }
    let account = format!("{} {}", call.caller.account(), instance.target);
    let place = call.shared.reads_of_callers.open(account, READS_OF_ONE).ok_or_else(|| {
        let detail = format!(
            "{} asks the cluster of {} {READS_OF_ONE} times at once already; wait for the answers",
            call.caller.name, instance.target
        );
        Problem::new(ProblemKind::TooMany, detail).after(Duration::from_secs(1))
    });
    place.map(Some)
}

/// Streams the log of a container.
pub(super) async fn log(
    call: AuthenticatedRequest,
    PathParam(PodPath { instance, pod }): PathParam<PodPath>,
    QueryPairs(pairs): QueryPairs,
) -> Result<Response, Problem> {
    call.authorize(Scope::Read, &instance).await?;
    let request = read(&pairs).map_err(bad)?;
    // Before the cluster is asked: whoever has too many streams asks it nothing.
    let slots = take_stream_slots(&call, StreamKind::Log)?;
    let closing = call.shared.state.closing.clone();
    let opening = call.deployments().container_log(&instance, &pod, request);
    let log = tokio::select! {
        log = opening => log?,
        () = closing.cancelled() => return Err(stopping()),
    };
    let stream = LogStream {
        until: Instant::now() + call.shared.state.limits.open_for,
        checked_at: call.deployments().clock.now(),
        call,
        instance,
        log,
        _slots: slots,
    };
    let events = futures::stream::unfold(Some(stream), |stream| async {
        let (event, stream) = stream?.next().await;
        Some((Ok::<_, Infallible>(event), stream))
    });
    let alive = KeepAlive::new().interval(HEARTBEAT).text("still here");
    Ok(Sse::new(events).keep_alive(alive).into_response())
}

fn stopping() -> Problem {
    Problem::new(ProblemKind::Unavailable, "the service stops; try again in a moment")
}

/// An open log.
struct LogStream {
    call: AuthenticatedRequest,
    instance: AppInstance,
    log: ContainerLog,
    until: Instant,
    /// The time of the last check of the caller's permission.
    checked_at: Timestamp,
    _slots: StreamSlots,
}

impl LogStream {
    /// Returns the next event, and the stream after it unless it ends.
    async fn next(mut self) -> (Event, Option<Self>) {
        let closing = self.call.shared.state.closing.clone();
        let line = tokio::select! {
            line = self.log.next() => line,
            () = closing.cancelled() => return self.end(Some("the service stops".to_owned())),
            () = tokio::time::sleep_until(self.until) => {
                return self.end(Some("the stream was open for too long; ask again".to_owned()));
            }
        };
        // A log can be quiet for a long time, in which permissions change.
        if let Err(reason) = self.check_permission().await {
            return self.end(Some(reason));
        }
        match line {
            Some(Ok(line)) => {
                let event = self.event("line", Some(line), None);
                (event, Some(self))
            }
            Some(Err(error)) => self.end(Some(error.to_string())),
            None => self.end(None),
        }
    }

    /// Checks the caller's permission again after a while.
    async fn check_permission(&mut self) -> Result<(), String> {
        let now = self.call.deployments().clock.now();
        if now.duration_since(self.checked_at) < PERMISSION_LIFETIME {
            return Ok(());
        }
        self.checked_at = now;
        let permission = self.call.authorize(Scope::Read, &self.instance).await;
        permission.map_err(|problem| match problem.kind() {
            ProblemKind::Forbidden | ProblemKind::NotFound => {
                "you may not read the app any more".to_owned()
            }
            _ => format!("your permission cannot be checked now ({}); ask again", problem.detail()),
        })
    }

    fn end(self, error: Option<String>) -> (Event, Option<Self>) {
        (self.event("end", None, error), None)
    }

    fn event(&self, name: &str, line: Option<String>, error: Option<String>) -> Event {
        let data = ContainerLogLine { container: self.log.container.clone(), line, error };
        Event::default().event(name).data(serde_json::to_string(&data).unwrap_or_default())
    }
}

/// Reads the parameters; the message says which one is wrong.
fn read(pairs: &[(String, String)]) -> Result<LogRequest, String> {
    let params = Params::of(pairs, LOG)?;
    let flag = |name: &str| {
        let flag = params.read(name, |value| match value {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(format!("{name}: {} is neither true nor false", quote_value(value))),
        });
        flag.map(Option::unwrap_or_default)
    };
    let lines = |value: &str| {
        let number = value.parse().ok().filter(|number| *number <= MAX_LOG_LINES);
        number.ok_or_else(|| {
            format!("lines: {} is not a number from 0 to {MAX_LOG_LINES}", quote_value(value))
        })
    };
    Ok(LogRequest {
        container: params.text("container"),
        previous: flag("previous")?,
        lines: params.read("lines", lines)?.unwrap_or(LINES),
        follow: flag("follow")?,
    })
}

impl From<LiveStateError> for Problem {
    fn from(error: LiveStateError) -> Self {
        match error {
            LiveStateError::NotFound(detail) => Self::new(ProblemKind::NotFound, detail),
            LiveStateError::Refused(detail) => Self::new(ProblemKind::Forbidden, detail),
            LiveStateError::Unavailable(detail) => Self::new(ProblemKind::Unavailable, detail),
            LiveStateError::Misdirected(detail) => Self::new(ProblemKind::Misdirected, detail),
        }
    }
}

/// Names every field, so that a new field asks here whether to be shown.
impl From<ClusterAppState> for LiveStateAnswer {
    fn from(app: ClusterAppState) -> Self {
        let ClusterAppState { at, digest, workloads, pods, is_cut, missing } = app;
        let unread = |(kind, why)| UnreadObjects { kind, why };
        Self {
            at,
            workloads: workloads
                .into_iter()
                .map(|workload| WorkloadSummary::new(workload, digest.as_ref()))
                .collect(),
            pods: pods.into_iter().map(Into::into).collect(),
            truncated: is_cut,
            missing: missing.into_iter().map(unread).collect(),
            digest: digest.map(|digest| digest.0),
        }
    }
}

impl WorkloadSummary {
    fn new(workload: LiveWorkload, live: Option<&Digest>) -> Self {
        let LiveWorkload { kind, name, counts, state, digest } = workload;
        Self {
            kind,
            name,
            wanted: counts.desired,
            updated: counts.updated,
            available: counts.available,
            state: state.to_owned(),
            live: digest.and_then(|digest| Some(digest == *live?)),
        }
    }
}

impl From<LivePod> for PodSummary {
    fn from(pod: LivePod) -> Self {
        let LivePod {
            name,
            workload,
            phase,
            ready,
            restarts,
            reason,
            message,
            exit_code,
            created,
            containers,
        } = pod;
        let container = |(name, image)| PodContainer { name, image };
        Self {
            name,
            workload_kind: workload.0,
            workload: workload.1,
            phase: phase.to_owned(),
            ready,
            restarts,
            reason,
            message,
            exit_code,
            created_at: created,
            containers: containers.into_iter().map(container).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::forms::tests::hold;

    fn path(pod: &str) -> Result<PodPath, IdError> {
        let part = |text: &str| text.to_owned();
        PodPath::read((part("prod"), part("devx"), part("shop"), part(pod)))
    }

    #[test]
    fn a_pod_of_the_contract_is_taken_and_no_other() {
        hold(Form::POD, |text| path(&text).is_ok());
        for wrong in ["", ".", "..", "../secrets", "a/b", "-a", "a-", "A", "ä", "a b", "a%2f"] {
            assert!(path(wrong).is_err(), "{wrong}");
        }
        assert!(path(&"a".repeat(254)).is_err());
    }

    #[test]
    fn a_log_has_a_hundred_lines_unless_the_query_says_otherwise() {
        let read = |pairs: &[(&str, &str)]| {
            let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            read(&pairs.iter().map(pair).collect::<Vec<_>>())
        };
        let request = read(&[]).unwrap();
        assert_eq!((request.lines, request.follow, request.previous), (100, false, false));
        let request = read(&[("lines", "0"), ("follow", "true"), ("container", "web")]).unwrap();
        assert_eq!((request.lines, request.follow), (0, true));
        assert_eq!(request.container.as_deref(), Some("web"));
        for wrong in [("lines", "10001"), ("lines", "x"), ("follow", "1"), ("since", "1h")] {
            assert!(read(&[wrong]).is_err(), "{wrong:?}");
        }
    }
}
