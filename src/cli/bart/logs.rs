//! `bart logs` prints the log of a deployment, or those of an app's pods, and follows them.

mod pods; // logs of containers

use std::collections::BTreeSet;

use clap::Args;
use jiff::Timestamp;

use crate::api::deployments::{DeploymentLog, DeploymentPage, DeploymentSummary, LogLine};
use crate::cli::bart::logs::pods::PodLogs;
use crate::cli::client::ServiceEndpoint;
use crate::cli::context::{AppSelector, Context};
use crate::cli::deployment;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output::{self, DIM, Format};
use crate::cli::verbatim::Verbatim;
use crate::model::deployment::State;
use crate::model::id::{DeployId, TargetName};

/// Shows the log of a deployment, oldest line first; with --follow, until the deployment has ended. With --pods, the
/// logs of the app's containers: the pod, the container and the line; with --follow also those of pods that start later.
///
/// Without an id it is the newest deployment of the app in this folder. Times are in UTC.
///
/// With --follow the exit code is 0 when the deployment has succeeded, and 1 when it has not. The command only reads:
/// Ctrl-C does not stop the deployment, and the same command follows it again.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart logs                                  the newest deployment
  bart logs --follow --target dev            the newest one to a target, as it goes on
  bart logs 20261121-054812123-3f9a2c
  bart logs --follow --output json           a JSON object for each line
  bart logs --pods --target dev              the last lines of the app's pods
  bart logs --pods --follow                  the lines of its pods as they come
  bart logs --pods --container web --previous   of the containers before the last restart")]
pub(super) struct Logs {
    /// A deployment's id; without it, the newest one
    deployment: Option<DeployId>,
    /// The newest deployment to this target
    #[arg(long, short, conflicts_with = "deployment")]
    target: Option<TargetName>,
    /// Follow the log until the deployment has ended, or the containers have
    #[arg(long, short)]
    follow: bool,
    /// The logs of the app's pods, where the service watches the cluster
    #[arg(long, conflicts_with = "deployment")]
    pods: bool,
    /// Only containers of this name
    #[arg(long, value_name = "NAME", requires = "pods")]
    container: Option<String>,
    /// The containers that ran before the last restart
    #[arg(long, requires = "pods")]
    previous: bool,
    /// The number of last lines of each container
    #[arg(long, value_name = "N", requires = "pods", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(0..=10_000))]
    lines: u32,
    #[command(flatten)]
    context: Context,
}

/// The log of a deployment.
type Log = Verbatim<DeploymentLog<Verbatim<LogLine>>>;

/// The lines that were printed.
type Printed = BTreeSet<(Timestamp, String)>;

impl Logs {
    pub(super) async fn run(self) -> CommandOutcome {
        let Context { about, server, output } = &self.context;
        if self.follow && *output == Format::Yaml {
            return Err(CliError::usage("lines that come one by one are no YAML")
                .hint("follow with --output json"));
        }
        if self.pods {
            let logs = PodLogs {
                context: &self.context,
                target: self.target.as_ref(),
                container: self.container.as_deref(),
                previous: self.previous,
                follow: self.follow,
                lines: self.lines,
            };
            return logs.run().await;
        }
        let id = match &self.deployment {
            Some(id) => id.clone(),
            None => newest_id(server, about, self.target.as_ref()).await?,
        };
        if self.follow {
            return self.follow_log(&id).await;
        }
        let log = self.log(&id).await?;
        output.print(&log, || log.lines.iter().map(format_line).collect())
    }

    async fn follow_log(&self, id: &DeployId) -> CommandOutcome {
        let mut events = self.context.server.follow(id);
        let mut printed = Printed::new();
        let mut state = State::Queued;
        while let Some(now) = events.next().await? {
            state = now.summary.state;
            self.print_new(id, &mut printed).await?;
            if state.is_final() {
                break;
            }
        }
        if !self.context.output.is_data() {
            output::note(&format!("{} {id}\n", deployment::state(state)));
        }
        if state == State::Succeeded { Ok(()) } else { Err(CliError::rejected()) }
    }

    /// Prints new lines; a line with an earlier time may arrive later, when the service learned of it late.
    async fn print_new(&self, id: &DeployId, printed: &mut Printed) -> CommandOutcome {
        for line in self.log(id).await?.value.lines {
            if !printed.insert((line.at, line.text.clone())) {
                continue;
            }
            let text = match self.context.output {
                Format::Text => format_line(&line),
                Format::Json | Format::Yaml => {
                    serde_json::to_string(&line).map_err(CliError::failed)? + "\n"
                }
            };
            output::print(&text)?;
        }
        Ok(())
    }

    async fn log(&self, id: &DeployId) -> Result<Log, CliError> {
        self.context.server.get(&format!("/api/v1/deployments/{id}/log"), &[]).await
    }
}

/// Returns the newest deployment of an app in that state.
pub(super) async fn newest(
    server: &ServiceEndpoint,
    about: &AppSelector,
    target: Option<&TargetName>,
    state: Option<State>,
) -> Result<Option<DeploymentSummary>, CliError> {
    let mut query = vec![("limit", "1".to_owned()), server.find_parameter(about).await?];
    query.extend(target.map(|target| ("target", target.to_string())));
    query.extend(state.map(|state| ("state", state.as_str().to_owned())));
    let list: DeploymentPage = server.get("/api/v1/deployments", &query).await?;
    Ok(list.deployments.into_iter().next())
}

/// Returns the id of the newest deployment of an app.
pub(super) async fn newest_id(
    server: &ServiceEndpoint,
    about: &AppSelector,
    target: Option<&TargetName>,
) -> Result<DeployId, CliError> {
    let newest = newest(server, about, target, None).await?;
    match newest.map(|deployment| DeployId::parse(deployment.id)) {
        Some(Ok(id)) => Ok(id),
        Some(Err(error)) => {
            Err(CliError::io(format!("the service sent an invalid deploy id: {error}")))
        }
        None => {
            let error = CliError::refused("there is no such deployment yet")
                .hint("`bart history --all` shows those of every app");
            server.suggest(Err(error), &about.names(target)).await
        }
    }
}

fn format_line(line: &Verbatim<LogLine>) -> String {
    let at = line.at.strftime("%Y-%m-%d %H:%M:%S");
    let mut lines = line.text.lines();
    let first = lines.next().unwrap_or_default();
    let rest: String = lines.map(|line| format!("                     {line}\n")).collect();
    format!("{DIM}{at}{DIM:#}  {first}\n{rest}")
}
