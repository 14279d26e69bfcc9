//! `bart logs --pods` prints the logs of an app's containers, one after another, or all as their lines come.

use futures::StreamExt as _;
use futures::stream::SelectAll;
use reqwest::header::ACCEPT;
use serde::Serialize;

use crate::api::pods::{ContainerLogLine, LiveStateAnswer, PodSummary};
use crate::cli::client::{self, ServiceEndpoint};
use crate::cli::context::Context;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::event_stream::Parser;
use crate::cli::output::{self, DIM, Format};
use crate::model::id::{AppKey, TargetName};
use crate::support::log_text::remove_controls;
use crate::support::percent::encode_query_value;

/// The largest number of containers that are read: a caller may have twenty streams.
const MOST_CONTAINERS: usize = 20;

/// The part of the logs that is shown.
pub(super) struct PodLogs<'a> {
    pub(super) context: &'a Context,
    pub(super) target: Option<&'a TargetName>,
    pub(super) container: Option<&'a str>,
    pub(super) previous: bool,
    pub(super) follow: bool,
    pub(super) lines: u32,
}

/// A container of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PodContainerName {
    pod: String,
    container: String,
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
        let (containers, left_out) = select_containers(&state.pods, self.container);
        if containers.is_empty() {
            let pods = state.pods.len();
            let error =
                CliError::refused(format!("no such container in {pods} pods of {app} on {target}"));
            return Err(error.hint("`bart status` shows the pods"));
        }
        if left_out > 0 {
            let text = format!("{left_out} more containers are left out");
            output::note(&output::note_line(text));
        }
        let mut failed = None;
        if self.follow {
            let mut opened = Vec::new();
            for name in containers {
                match self.open(&path, &name).await {
                    Ok(log) => opened.push(Box::pin(log.into_stream())),
                    Err(error) => failed = Some(report_error(&name, error)),
                }
            }
            let mut lines: SelectAll<_> = opened.into_iter().collect();
            while let Some((name, line)) = lines.next().await {
                failed = self.show(&name, line)?.or(failed);
            }
        } else {
            for name in containers {
                let log = match self.open(&path, &name).await {
                    Ok(log) => log,
                    Err(error) => {
                        failed = Some(report_error(&name, error));
                        continue;
                    }
                };
                let mut lines = Box::pin(log.into_stream());
                while let Some((name, line)) = lines.next().await {
                    failed = self.show(&name, line)?.or(failed);
                }
            }
        }
        failed.map_or(Ok(()), Err)
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

    async fn open(&self, path: &str, name: &PodContainerName) -> Result<OpenLog, CliError> {
        let PodContainerName { pod, container } = name;
        let query = [
            ("container", container.clone()),
            ("previous", self.previous.to_string()),
            ("follow", self.follow.to_string()),
            ("lines", self.lines.to_string()),
        ];
        let path = format!("{path}/{}/log", encode_query_value(pod));
        OpenLog::open(&self.context.server, &path, &query, name).await
    }

    /// Prints a line; returns the error of a log that broke off.
    fn show(
        &self,
        name: &PodContainerName,
        line: Result<String, CliError>,
    ) -> Result<Option<CliError>, CliError> {
        let line = match line {
            Ok(line) => remove_controls(&line).replace('\n', " "),
            Err(error) => return Ok(Some(report_error(name, error))),
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

/// Prints which log an error is about.
fn report_error(name: &PodContainerName, error: CliError) -> CliError {
    let PodContainerName { pod, container } = name;
    output::note(&output::note_line(format!("{pod} {container}: {error}")));
    error
}

/// Returns the containers that are shown, and the number of those that are too many.
fn select_containers(pods: &[PodSummary], only: Option<&str>) -> (Vec<PodContainerName>, usize) {
    let mut names: Vec<PodContainerName> = pods
        .iter()
        .flat_map(|pod| pod.containers.iter().map(move |container| (pod, container)))
        .filter(|(_, container)| only.is_none_or(|name| name == container.name))
        .map(|(pod, container)| PodContainerName {
            pod: pod.name.clone(),
            container: container.name.clone(),
        })
        .collect();
    let left_out = names.len().saturating_sub(MOST_CONTAINERS);
    names.truncate(MOST_CONTAINERS);
    (names, left_out)
}

/// An open stream of a container's log.
struct OpenLog {
    name: PodContainerName,
    response: reqwest::Response,
    parser: Parser,
    is_done: bool,
}

impl OpenLog {
    async fn open(
        server: &ServiceEndpoint,
        path: &str,
        query: &[(&str, String)],
        name: &PodContainerName,
    ) -> Result<Self, CliError> {
        let request = client::patient_client()?.get(server.address(path, query)?);
        let request = server.authorized(request.header(ACCEPT, "text/event-stream"))?;
        let response = request.send().await.map_err(|error| server.unreachable(&error))?;
        let status = response.status();
        if status.is_redirection() {
            return Err(server.redirect_error(&response));
        }
        if !status.is_success() {
            let body = client::read_body(server.url(), response).await?;
            return Err(server.refused(status, &body));
        }
        Ok(Self { name: name.clone(), response, parser: Parser::default(), is_done: false })
    }

    fn into_stream(
        self,
    ) -> impl futures::Stream<Item = (PodContainerName, Result<String, CliError>)> {
        futures::stream::unfold(self, async |mut log| {
            let line = log.next().await?;
            Some(((log.name.clone(), line), log))
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::pods::PodContainer;

    fn pod(name: &str, containers: &[&str]) -> PodSummary {
        let container =
            |name: &&str| PodContainer { name: (*name).to_owned(), image: String::new() };
        PodSummary {
            name: name.to_owned(),
            workload_kind: "Deployment".to_owned(),
            workload: "shop".to_owned(),
            phase: "Running".to_owned(),
            ready: true,
            restarts: 0,
            reason: None,
            message: None,
            exit_code: None,
            created_at: None,
            containers: containers.iter().map(container).collect(),
        }
    }

    #[test]
    fn a_container_is_chosen_by_its_name_and_twenty_are_read() {
        let pods = [pod("a", &["shop", "proxy"]), pod("b", &["shop"]), pod("c", &[])];
        let names = |wanted| {
            let (names, _) = select_containers(&pods, wanted);
            names.iter().map(|one| format!("{}/{}", one.pod, one.container)).collect::<Vec<_>>()
        };
        assert_eq!(names(None), ["a/shop", "a/proxy", "b/shop"]);
        assert_eq!(names(Some("shop")), ["a/shop", "b/shop"]);
        assert!(names(Some("none")).is_empty());
        let many: Vec<PodSummary> = (0..25).map(|n| pod(&n.to_string(), &["shop"])).collect();
        let (names, left_out) = select_containers(&many, None);
        assert_eq!((names.len(), left_out), (20, 5));
    }
}
