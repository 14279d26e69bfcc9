//! `bart traffic` shows who gets which requests, edits the weights of a WAML, and shifts them in steps.

mod live; // what is live on each cluster of a target
mod proposal; // a pull request with other weights
mod shift;

use std::fs;

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};

use super::deploy;
use crate::cli::bart::traffic::live::{LiveTraffic, clusters_of, read_live, version_of};
use crate::cli::bart::traffic::proposal::{Proposed, WeightProposal};
use crate::cli::context::{self, Context, RepositorySelector, ServiceArgs};
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output::{self, BOLD, GOOD, note_line};
use crate::cli::repository_apps::{AppChoiceArg, AppFile};
use crate::cli::table::{Column, table};
use crate::manifests::parse::shares::RouteShares;
use crate::manifests::parse::versions::LiveVersionManifest;
use crate::model::id::{AppKey, TargetName};
use crate::model::removal;
use crate::pipeline::weights::{EditedLine, VersionWeight, set_weights};

/// Shows who gets which requests, edits the weights of versions, and shifts them in steps.
#[derive(Debug, Subcommand)]
pub(super) enum TrafficArgs {
    Show(ShowArgs),
    Set(SetArgs),
    Shift(Box<shift::ShiftArgs>),
}

/// Shows an app's live versions on a target, and how each route shares its requests between them; of a fleet, on each of its
/// clusters.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart traffic show prod-cluster-1
  bart traffic show prod --output json")]
pub(super) struct ShowArgs {
    /// The target
    target: TargetName,
    #[command(flatten)]
    context: Context,
}

/// Sets the weights of versions in the WAML of the working folder; the WAML stays the truth.
///
/// Only the numbers change, in `traffic` or else in `versions`, and only where they are written for this target.
/// Versions that are not named get 0. Rules that lead to none of the named versions stay. Nothing is deployed: commit
/// the change, and let it be reviewed as any other. With --pull-request bart opens the pull request itself, from the
/// WAML of the default branch and with your own GitHub token; the working folder stays as it is.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart traffic set v1=90 v2=10 --target prod
  bart traffic set v2=100 --target prod --dry-run
  bart traffic set v1=50 v2=50 --target prod --pull-request --reason 'v2 is as fast'")]
pub(super) struct SetArgs {
    /// Versions with their percents, 100 together
    #[arg(value_name = "VERSION=PERCENT", required = true, num_args = 1..)]
    weights: Vec<VersionWeight>,
    /// The target under `deploy`
    #[arg(long, short)]
    target: TargetName,
    /// Print the lines that would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Open a pull request with the change, and leave the working folder as it is
    #[arg(long)]
    pull_request: bool,
    /// The reason, for who reviews the pull request
    #[arg(long, value_name = "TEXT", requires = "pull_request", value_parser = removal::reason)]
    reason: Option<String>,
    #[command(flatten)]
    app: AppChoiceArg,
    #[command(flatten)]
    selector: RepositorySelector,
    #[command(flatten)]
    service: ServiceArgs,
}

impl TrafficArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        match self {
            Self::Show(args) => args.run().await,
            Self::Set(args) if args.pull_request => args.propose().await,
            Self::Set(args) => args.run(),
            Self::Shift(args) => args.run().await,
        }
    }
}

impl ShowArgs {
    async fn run(self) -> CommandOutcome {
        let Self { target, context: Context { about, server, output } } = self;
        let app = server.find_app(&about).await?;
        let names = about.names(Some(&target));
        let clusters = clusters_of(&server, &target).await;
        let mut all = Vec::new();
        for cluster in &clusters {
            let live = server.suggest(read_live(&server, cluster, &app).await, &names).await?;
            all.push((cluster, live));
        }
        if all.iter().all(|(_, live)| live.is_none()) {
            return server.suggest(Err(nothing_live(&target, &app)), &names).await;
        }
        let data = match &all[..] {
            [(cluster, Some(live))] if **cluster == target => live.data(&app, cluster),
            all => {
                let of_cluster = |(cluster, live): &(&TargetName, Option<LiveTraffic>)| {
                    live.as_ref().map(|live| live.data(&app, cluster))
                };
                json!({
                    "app": app.to_string(), "target": target,
                    "clusters": all.iter().filter_map(of_cluster).collect::<Vec<_>>(),
                })
            }
        };
        output.print(&data, || {
            let of_cluster = |(cluster, live): &(&TargetName, Option<LiveTraffic>)| match live {
                Some(LiveTraffic { revision, versions, routes, .. }) => format!(
                    "{BOLD}{app}{BOLD:#} on {cluster}, revision {revision}\n\n{}",
                    page(versions, routes)
                ),
                None => format!("{BOLD}{app}{BOLD:#} on {cluster}: nothing is live\n"),
            };
            all.iter().map(of_cluster).collect::<Vec<_>>().join("\n")
        })
    }
}

fn nothing_live(target: &TargetName, app: &AppKey) -> CliError {
    CliError::refused(format!("no revision of {app} is live on {target}"))
        .hint("`bart status` shows where it is, and `bart history` what happened")
}

/// Formats the versions and routes of a revision. Pure.
fn page(versions: &[LiveVersionManifest], routes: &[RouteShares]) -> String {
    if versions.is_empty() {
        return note_line("it has no versions: all requests go to its only release");
    }
    let pods = |pods: Option<u32>| pods.map_or_else(|| "by load".to_owned(), |n| n.to_string());
    let row =
        |one: &LiveVersionManifest| [one.version.clone(), pods(one.replicas), one.image.clone()];
    let columns = [Column::whole("VERSION"), Column::whole("PODS"), Column::middle("IMAGE", 12)];
    let mut text = table(columns, versions.iter().map(row).collect());
    let share = |(service, weight): &(String, Option<u64>)| {
        let name = version_of(service, versions).unwrap_or("all pods");
        weight.map_or_else(|| name.to_owned(), |weight| format!("{name} {weight} %"))
    };
    let row = |one: &RouteShares| {
        [one.route.clone(), one.shares.iter().map(share).collect::<Vec<_>>().join(", ")]
    };
    if !routes.is_empty() {
        text.push('\n');
        let columns = [Column::fold("ROUTE", 16), Column::fold("REQUESTS", 12)];
        text += &table(columns, routes.iter().map(row).collect());
    }
    text
}

impl SetArgs {
    /// Opens a pull request with the weights.
    async fn propose(&self) -> CommandOutcome {
        let ServiceArgs { server, output } = &self.service;
        let repository = self.selector.repository()?;
        let github = deploy::github_session(server).await?;
        let app = context::request_app(&self.app, &repository)?;
        let proposal = WeightProposal {
            repository: &repository,
            app: app.as_ref(),
            target: &self.target,
            weights: &self.weights,
            reason: self.reason.as_deref(),
        };
        let Proposed { lines, path, url } = proposal.open(&github, self.dry_run).await?;
        let data = json!({"file": path, "pull_request": url, "lines": lines_data(&lines)});
        output.print(&data, || match &url {
            Some(url) => format!("{}{GOOD}opened{GOOD:#} {url}\n", list_lines(&path, &lines)),
            None => list_lines(&path, &lines),
        })
    }

    fn run(&self) -> CommandOutcome {
        let waml = context::waml_of(&self.app)?;
        let (AppFile { path: file, .. }, bytes) = context::waml_text(&self.app)?;
        let name = file.display().to_string();
        let text = String::from_utf8(bytes)
            .map_err(|_| CliError::usage(format!("{name} is not UTF-8 text")))?;
        let edit = set_weights(&text, &waml, &self.target, &self.weights)
            .map_err(|error| CliError::refused(error.message).hint(error.help))?;
        if !self.dry_run && !edit.lines.is_empty() {
            fs::write(&file, &edit.text).map_err(CliError::file("write", &file))?;
        }
        let lines = lines_data(&edit.lines);
        let data = json!({"file": name, "written": !self.dry_run, "lines": lines});
        let output = self.service.output;
        output.print(&data, || list_lines(&name, &edit.lines))?;
        if !output.is_data() && !self.dry_run && !edit.lines.is_empty() {
            let target = &self.target;
            output::note(&note_line(format!(
                "nothing is deployed yet: `bart plan --live {target}` shows what it changes; commit it for review"
            )));
        }
        Ok(())
    }
}

fn lines_data(lines: &[EditedLine]) -> Vec<Json> {
    let line = |line: &EditedLine| json!({"line": line.number, "before": line.before, "after": line.after});
    lines.iter().map(line).collect()
}

/// Formats the lines that change, before and after.
fn list_lines(name: &str, lines: &[EditedLine]) -> String {
    if lines.is_empty() {
        return format!("{GOOD}nothing to change{GOOD:#} in {name}\n");
    }
    let listed = lines
        .iter()
        .map(|line| format!("{name}:{}\n  - {}\n  + {}\n", line.number, line.before, line.after));
    listed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_routes_are_listed_with_their_shares() {
        let version = |name: &str, replicas| LiveVersionManifest {
            name: format!("shop-{name}"),
            version: name.to_owned(),
            image: format!("shop:{name}"),
            replicas,
        };
        let versions = [version("v1", Some(5)), version("v2", None)];
        let shares = vec![("shop-v1".to_owned(), Some(90)), ("shop-v2".to_owned(), Some(10))];
        let all =
            RouteShares { route: "b.io/".to_owned(), shares: vec![("shop".to_owned(), None)] };
        let routes = [RouteShares { route: "a.io/".to_owned(), shares }, all];
        let text = anstream::adapter::strip_str(&page(&versions, &routes)).to_string();
        for part in ["v1       5", "v2       by load", "v1 90 %, v2 10 %", "b.io/", "all pods"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(page(&[], &routes).contains("it has no versions"));
    }
}
