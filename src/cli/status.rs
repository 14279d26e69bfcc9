//! `bart status`: what was deployed, and how it went.

use clap::Args;

use super::client::{Detail, List, Overview, Server};
use super::diagnostics::{self, Sources};
use super::error::Outcome;
use super::offline;
use super::output::{self, BAD, BOLD, DIM, Format, GOOD, NOTE};
use crate::model::deployment::{StageTime, State};
use crate::model::id::{DeployId, RepoName, TargetName};

/// Shows the newest deployments, or one of them with its stages, violations and statuses.
#[derive(Debug, Args)]
pub(super) struct Status {
    /// A deployment's id; without it, the newest ones
    #[arg(value_parser = |text: &str| DeployId::parse(text).map_err(|e| e.to_string()))]
    deployment: Option<DeployId>,
    /// Only to this target
    #[arg(long, short, value_parser = offline::target)]
    target: Option<TargetName>,
    /// Only of this repository, OWNER/NAME
    #[arg(long, value_parser = |text: &str| RepoName::parse(text).map_err(|e| e.to_string()))]
    repository: Option<RepoName>,
    /// At most so many
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,
    #[command(flatten)]
    server: Server,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Status {
    pub(super) async fn run(self) -> Outcome {
        match &self.deployment {
            Some(id) => self.one(id).await,
            None => self.list().await,
        }
    }

    async fn list(&self) -> Outcome {
        let mut query = vec![("limit", self.limit.to_string())];
        query.extend(self.target.iter().map(|target| ("target", target.to_string())));
        query.extend(self.repository.iter().map(|name| ("repository", name.to_string())));
        let list: List = self.server.get("/api/v1/deployments", &query).await?;
        match self.output {
            data @ (Format::Json | Format::Yaml) => output::data(data, &list),
            Format::Text if list.deployments.is_empty() => {
                output::print("no deployments yet; create one on the forge\n")
            }
            Format::Text => output::print(&table(&list.deployments)),
        }
    }

    async fn one(&self, id: &DeployId) -> Outcome {
        let detail: Detail = self.server.get(&format!("/api/v1/deployments/{id}"), &[]).await?;
        match self.output {
            data @ (Format::Json | Format::Yaml) => output::data(data, &detail),
            Format::Text => output::print(&page(&detail)),
        }
    }
}

fn table(deployments: &[Overview]) -> String {
    let row = |one: &Overview| {
        let app = one.app.as_deref().unwrap_or(&one.repository);
        let state = one.state.as_str();
        [&one.id, state, app, &one.target, &one.tag, &one.actor, &one.summary].map(str::to_owned)
    };
    let header = ["DEPLOYMENT", "STATE", "APP", "TARGET", "TAG", "BY", "SUMMARY"];
    output::table(header, deployments.iter().map(row).collect())
}

fn page(detail: &Detail) -> String {
    let Detail { overview, stages, violations, hand_edit, statuses } = detail;
    let colour = colour(overview.state);
    let mut text = format!(
        "{BOLD}{}{BOLD:#}  {colour}{}{colour:#}\n{}\n\n",
        overview.id,
        overview.state.as_str(),
        overview.summary
    );
    let app = overview.app.as_deref().unwrap_or("(not read yet)");
    for (name, value) in [
        ("app", app),
        ("target", &overview.target),
        ("tag", &overview.tag),
        ("repository", &overview.repository),
        ("by", &overview.actor),
        ("template", &template(overview)),
        ("received", &overview.received_at.to_string()),
    ] {
        text += &format!("  {DIM}{name:<10}{DIM:#} {value}\n");
    }
    if !stages.is_empty() {
        text += &format!("\n{BOLD}stages{BOLD:#}\n");
        text += &stages.iter().map(stage).collect::<String>();
    }
    if !violations.is_empty() {
        text += &format!("\n{}", diagnostics::render(violations, &Sources::default()));
    }
    if let Some(edit) = hand_edit {
        let became = match (edit.replaced, edit.push_failed) {
            (true, _) => "replaced",
            (false, true) => "not replaced, because the push failed",
            (false, false) => "in the way",
        };
        text += &format!("\n{BOLD}edited by hand, {became}{BOLD:#}\n  {edit}\n{}", edit.diff);
    }
    if !statuses.is_empty() {
        text += &format!("\n{BOLD}statuses{BOLD:#}\n");
        for status in statuses {
            text += &format!("  {}  {:<12} {}\n", status.at, status.state, status.description);
        }
    }
    text
}

/// `backend-default@latest (0f3a5c7d)`
fn template(overview: &Overview) -> String {
    let name = overview.template.as_deref().unwrap_or("-");
    let commit = overview.templates_commit.as_ref();
    commit.map_or_else(|| name.to_owned(), |commit| format!("{name} ({})", commit.short()))
}

/// One stage and its time, aligned.
pub(super) fn stage(time: &StageTime) -> String {
    let millis = format!("{}.{:02} ms", time.micros / 1000, time.micros % 1000 / 10);
    format!("  {:<9} {millis:>12}\n", time.stage.as_str())
}

pub(super) fn colour(state: State) -> anstyle::Style {
    match state {
        State::Succeeded => GOOD,
        State::Failed => BAD,
        State::Queued | State::Running | State::Pushing => NOTE,
        State::Superseded | State::Cancelled => DIM,
    }
}
