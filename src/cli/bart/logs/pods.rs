//! `bart logs --pods` prints the logs of an app's containers, one after another, or all as their lines come. Then it asks
//! for the pods again and again, and takes up containers that start later.

mod followed; // the containers that are followed, and those to take up. Pure

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{BoxStream, SelectAll};
use reqwest::header::ACCEPT;
use serde::Serialize;

use crate::api::pods::{ContainerLogLine, LiveStateAnswer};
use crate::cli::bart::logs::pods::followed::{
    FollowedContainers, MAX_CONTAINERS, PodContainerName, list_containers,
};
use crate::cli::client::{self, ServiceEndpoint};
use crate::cli::context::Context;
use crate::cli::error::{CliError, CliErrorKind, CommandOutcome};
use crate::cli::event_stream::Parser;
use crate::cli::output::{self, DIM, Format};
use crate::model::id::{AppKey, TargetName};
use crate::support::log_text::remove_controls;
use crate::support::percent::encode_query_value;

/// The pause between two looks at the pods while their logs are followed.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// The number of looks in a row that may fail, or show no pod, once no log is open any more.
const MAX_BLANK_LOOKS: u32 = 3;

/// The part of the logs that is shown.
pub(super) struct PodLogs<'a> {
    pub(super) context: &'a Context,
    pub(super) target: Option<&'a TargetName>,
    pub(super) container: Option<&'a str>,
    pub(super) previous: bool,
    pub(super) follow: bool,
    pub(super) lines: u32,
}

/// A line of a container's log, for programs.
#[derive(Serialize)]
struct PodLine<'a> {
    pod: &'a str,
    container: &'a str,
    line: &'a str,
}

impl PodLogs<'_> {
    pub(super) async fn run(self) -> CommandOutcome {
        let Context { about, server, .. } = self.context;
        let app = server.find_app(about).await?;
        let target = self.find_target(&app).await?;
        let path = format!("/api/v1/apps/{target}/{app}/pods");
        let state: Result<LiveStateAnswer, _> = server.get(&path, &[]).await;
        let names = about.names(self.target);
        let state = match state {
            Ok(state) => state,
            state => server.suggest(state, &names).await?,
        };
        let containers = list_containers(&state.pods, self.container);
        if containers.is_empty() {
            let error = CliError::refused(format!("{app} has no container on {target} now"));
            return Err(error.hint("`bart status` shows the pods"));
        }
        if self.follow {
            return self.follow_all(&path, &state).await;
        }
        let left_out = containers.len().saturating_sub(MAX_CONTAINERS);
        if left_out > 0 {
            let text = format!("{left_out} more containers are left out");
            output::note(&output::note_line(text));
        }
        let mut failed = None;
        for (name, _) in containers.into_iter().take(MAX_CONTAINERS) {
            let mut events = self.stream(&path, name, self.lines);
            while let Some((name, event)) = events.next().await {
                failed = self.show(&name, event)?.or(failed);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Prints lines as they come, also of containers that start later, until all pods have ended.
    async fn follow_all(&self, path: &str, state: &LiveStateAnswer) -> CommandOutcome {
        let mut containers = FollowedContainers::new(self.container, self.lines);
        let mut logs: SelectAll<BoxStream<'_, (PodContainerName, LogEvent)>> = SelectAll::new();
        self.take_up(path, state, (&mut containers, &mut logs));
        let mut looks = self.poll_pods(path);
        let (mut failed, mut blank_looks, mut is_any_read) = (None, 0, false);
        let mut is_over = self.previous;
        while !(logs.is_empty() && (is_over || !(is_any_read || containers.are_awaited()))) {
            tokio::select! {
                Some((name, event)) = logs.next(), if !logs.is_empty() => {
                    let is_shown = match &event {
                        LogEvent::Line(_) => {
                            is_any_read = true;
                            containers.mark_read(&name);
                            true
                        }
                        LogEvent::Ended => {
                            is_any_read = true;
                            containers.end(&name);
                            true
                        }
                        LogEvent::Failed(error) => containers.fail(&name, may_pass(error)),
                    };
                    if is_shown {
                        failed = self.show(&name, event)?.or(failed);
                    }
                }
                Some(look) = looks.next(), if !self.previous => match look {
                    Ok(state) => {
                        blank_looks = if state.pods.is_empty() { blank_looks + 1 } else { 0 };
                        let has_ended = |phase: &str| matches!(phase, "Succeeded" | "Failed");
                        let is_done = state.pods.iter().all(|pod| has_ended(&pod.phase));
                        is_over = is_done && (!state.pods.is_empty() || blank_looks >= MAX_BLANK_LOOKS);
                        self.take_up(path, &state, (&mut containers, &mut logs));
                    }
                    Err(error) => {
                        blank_looks += 1;
                        is_over = blank_looks >= MAX_BLANK_LOOKS;
                        if logs.is_empty() && is_over {
                            return Err(error);
                        }
                    }
                },
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Opens the logs of containers that are not followed yet, and says so of those that started later.
    fn take_up<'a>(
        &'a self,
        path: &'a str,
        state: &LiveStateAnswer,
        (containers, logs): (
            &mut FollowedContainers<'_>,
            &mut SelectAll<BoxStream<'a, (PodContainerName, LogEvent)>>,
        ),
    ) {
        let update = containers.take_up(&state.pods);
        for note in update.notes {
            output::note(&output::note_line(note));
        }
        for (name, lines) in update.opened {
            logs.push(self.stream(path, name, lines));
        }
    }

    /// Asks for the pods again and again.
    fn poll_pods<'a>(&'a self, path: &'a str) -> BoxStream<'a, Result<LiveStateAnswer, CliError>> {
        let look = move |()| async move {
            tokio::time::sleep(POLL_INTERVAL).await;
            let state = self.context.server.get(path, &[]).await;
            Some((state, ()))
        };
        futures::stream::unfold((), look).boxed()
    }

    /// Returns the target: the only one of the app where none is named.
    async fn find_target(&self, app: &AppKey) -> Result<String, CliError> {
        if let Some(target) = self.target {
            return Ok(target.to_string());
        }
        let pages = self.context.server.apps(&[("app", app.to_string())], usize::MAX).await?;
        let targets: Vec<String> = pages.apps.into_iter().map(|app| app.value.target).collect();
        match targets.as_slice() {
            [target] => Ok(target.clone()),
            [] => Err(CliError::refused(format!("{app} is on no target"))),
            _ => Err(CliError::usage(format!("{app} is on several targets"))
                .hint(format!("name one with --target: {}", targets.join(", ")))),
        }
    }

    /// Opens the log of a container and reads it to its end.
    fn stream<'a>(
        &'a self,
        path: &'a str,
        name: PodContainerName,
        lines: u32,
    ) -> BoxStream<'a, (PodContainerName, LogEvent)> {
        let read = move |(name, log): (PodContainerName, Option<LogState>)| async move {
            let opened = match log? {
                LogState::Unopened => self.open(path, &name, lines).await.map(Box::new),
                LogState::Open(log) => Ok(log),
            };
            let (event, log) = match opened {
                Ok(mut log) => match log.next().await {
                    Some(Ok(line)) => (LogEvent::Line(line), Some(LogState::Open(log))),
                    Some(Err(error)) => (LogEvent::Failed(error), None),
                    None => (LogEvent::Ended, None),
                },
                Err(error) => (LogEvent::Failed(error), None),
            };
            Some(((name.clone(), event), (name, log)))
        };
        futures::stream::unfold((name, Some(LogState::Unopened)), read).boxed()
    }

    async fn open(
        &self,
        path: &str,
        name: &PodContainerName,
        lines: u32,
    ) -> Result<OpenLog, CliError> {
        let PodContainerName { pod, container } = name;
        let query = [
            ("container", container.clone()),
            ("previous", self.previous.to_string()),
            ("follow", self.follow.to_string()),
            ("lines", lines.to_string()),
        ];
        let path = format!("{path}/{}/log", encode_query_value(pod));
        OpenLog::open(&self.context.server, &path, &query).await
    }

    /// Prints a line; returns the error of a log that broke off.
    fn show(&self, name: &PodContainerName, event: LogEvent) -> Result<Option<CliError>, CliError> {
        let line = match event {
            LogEvent::Line(line) => remove_controls(&line).replace('\n', " "),
            LogEvent::Ended => return Ok(None),
            LogEvent::Failed(error) => return Ok(Some(report_error(name, error))),
        };
        let PodContainerName { pod, container } = name;
        output::print(&match self.context.output {
            Format::Text => format!("{DIM}{pod} {container}{DIM:#} {line}\n"),
            Format::Json | Format::Yaml => {
                let line = PodLine { pod, container, line: &line };
                serde_json::to_string(&line).map_err(CliError::failed)? + "\n"
            }
        })?;
        Ok(None)
    }
}

/// What comes of a container's log.
enum LogEvent {
    Line(String),
    /// The log has ended: the container has.
    Ended,
    Failed(CliError),
}

/// A container's log.
enum LogState {
    Unopened,
    Open(Box<OpenLog>),
}

/// Returns true if another attempt may open the log: its container may start later.
fn may_pass(error: &CliError) -> bool {
    matches!(error.kind, CliErrorKind::Refused | CliErrorKind::Passing | CliErrorKind::Io)
}

/// Prints which log an error is about.
fn report_error(name: &PodContainerName, error: CliError) -> CliError {
    let PodContainerName { pod, container } = name;
    output::note(&output::note_line(format!("{pod} {container}: {error}")));
    error
}

/// An open stream of a container's log.
struct OpenLog {
    response: reqwest::Response,
    parser: Parser,
    is_done: bool,
}

impl OpenLog {
    async fn open(
        server: &ServiceEndpoint,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<Self, CliError> {
        let address = server.address(path, query)?;
        let request = || {
            let request = client::patient_client()?.get(address.clone());
            Ok(request.header(ACCEPT, "text/event-stream"))
        };
        let response = server.ask_replicas(request).await?;
        let status = response.status();
        if !status.is_success() {
            let body = client::read_body(server.url(), response).await?;
            return Err(server.problem_error(status, &body));
        }
        Ok(Self { response, parser: Parser::default(), is_done: false })
    }

    /// Reads the next line; `None` after the end of the log.
    async fn next(&mut self) -> Option<Result<String, CliError>> {
        if self.is_done {
            return None;
        }
        loop {
            if let Some(event) = self.parser.next() {
                let line = serde_json::from_str(&event.data);
                let ContainerLogLine { line, error, .. } = match line {
                    Ok(line) => line,
                    Err(error) => return self.fail(format!("an event cannot be read: {error}")),
                };
                match (line, error) {
                    (Some(line), _) => return Some(Ok(line)),
                    (None, Some(error)) => return self.fail(error),
                    (None, None) => return None,
                }
            }
            match self.response.chunk().await {
                Ok(Some(bytes)) if self.parser.take(&bytes) => {}
                Ok(Some(_)) => return self.fail("a line is too long".to_owned()),
                Ok(None) | Err(_) => return self.fail("the connection broke off".to_owned()),
            }
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "it is the last item")]
    fn fail(&mut self, reason: String) -> Option<Result<String, CliError>> {
        self.is_done = true;
        Some(Err(CliError::io(reason)))
    }
}
