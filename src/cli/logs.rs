//! `bart logs`: what happened to a deployment, in order, and as it happens.

use std::collections::BTreeSet;

use clap::Args;
use jiff::Timestamp;

use super::client::Server;
use super::deployment::colour;
use super::error::{CliError, Outcome};
use super::here::About;
use super::offline;
use super::output::{self, DIM, Format};
use super::verbatim::Verbatim;
use crate::api::deployments::{DeploymentLog, DeploymentPage, LogLine};
use crate::model::deployment::State;
use crate::model::id::{DeployId, TargetName};

/// Shows what happened to a deployment, in order; with --follow, until it has ended.
///
/// Without an id it is the newest deployment of the app in this folder. Times are in UTC.
///
/// With --follow it ends with 0 when the deployment has succeeded, and with 1 when it has not. It only
/// looks: Ctrl-C does nothing to the deployment, and the same command goes on with it.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart logs                                  the newest deployment
  bart logs --follow --target dev            the newest one to a target, as it goes on
  bart logs 20261121-054812123-3f9a2c
  bart logs --follow --output json           a JSON object for each line")]
pub(super) struct Logs {
    /// A deployment's id; without it, the newest one
    #[arg(value_parser = |text: &str| DeployId::parse(text).map_err(|e| e.to_string()))]
    deployment: Option<DeployId>,
    /// The newest one to this target
    #[arg(long, short, value_parser = offline::target, conflicts_with = "deployment")]
    target: Option<TargetName>,
    /// Go on until it has ended
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    server: Server,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// What happened.
type Log = Verbatim<DeploymentLog<Verbatim<LogLine>>>;

/// The lines that were printed.
type Printed = BTreeSet<(Timestamp, String)>;

impl Logs {
    pub(super) async fn run(self) -> Outcome {
        if self.follow && self.output == Format::Yaml {
            return Err(CliError::usage("lines that come one by one are no YAML")
                .hint("follow with --output json"));
        }
        let id = match &self.deployment {
            Some(id) => id.clone(),
            None => newest(&self.server, &self.about, self.target.as_ref()).await?,
        };
        if self.follow { self.following(&id).await } else { self.once(&id).await }
    }

    async fn once(&self, id: &DeployId) -> Outcome {
        let log = self.log(id).await?;
        if self.output.is_data() {
            return output::data(self.output, &log);
        }
        output::print(&log.lines.iter().map(shown).collect::<String>())
    }

    async fn following(&self, id: &DeployId) -> Outcome {
        let mut events = self.server.follow(id);
        let mut printed = Printed::new();
        let mut state = State::Queued;
        while let Some(now) = events.next().await? {
            state = now.state;
            self.print_new(id, &mut printed).await?;
            if state.is_final() {
                break;
            }
        }
        if !self.output.is_data() {
            let colour = colour(state);
            output::note(&format!("{colour}{}{colour:#} {id}\n", state.as_str()));
        }
        if state == State::Succeeded { Ok(()) } else { Err(CliError::rejected()) }
    }

    /// Prints what has come since; a line of earlier may come later, where somebody heard of it late.
    async fn print_new(&self, id: &DeployId, printed: &mut Printed) -> Outcome {
        for line in self.log(id).await?.value.lines {
            if !printed.insert((line.at, line.text.clone())) {
                continue;
            }
            match self.output {
                Format::Text => output::print(&shown(&line))?,
                Format::Json | Format::Yaml => {
                    let json = serde_json::to_string(&line);
                    let json = json.map_err(|error| CliError::io(error.to_string()))?;
                    output::print(&format!("{json}\n"))?;
                }
            }
        }
        Ok(())
    }

    async fn log(&self, id: &DeployId) -> Result<Log, CliError> {
        self.server.get(&format!("/api/v1/deployments/{id}/log"), &[]).await
    }
}

/// The newest deployment of an app.
pub(super) async fn newest(
    server: &Server,
    about: &About,
    target: Option<&TargetName>,
) -> Result<DeployId, CliError> {
    let mut query = vec![("limit", "1".to_owned()), server.find_parameter(about).await?];
    query.extend(target.map(|target| ("target", target.to_string())));
    let list: DeploymentPage = server.get("/api/v1/deployments", &query).await?;
    let id = list.deployments.into_iter().next().map(|one| DeployId::parse(one.id));
    match id {
        Some(Ok(id)) => Ok(id),
        Some(Err(error)) => {
            Err(CliError::io(format!("the service names a deployment oddly: {error}")))
        }
        None => {
            let none = CliError::refused("there is no such deployment yet")
                .hint("`bart history --all` shows those of every app");
            server.suggest(Err(none), &about.names(target)).await
        }
    }
}

fn shown(line: &Verbatim<LogLine>) -> String {
    let at = line.at.strftime("%Y-%m-%d %H:%M:%S");
    let mut lines = line.text.lines();
    let first = lines.next().unwrap_or_default();
    let rest: String = lines.map(|more| format!("                     {more}\n")).collect();
    format!("{DIM}{at}{DIM:#}  {first}\n{rest}")
}
