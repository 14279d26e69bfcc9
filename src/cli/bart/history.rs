//! `bart history` lists deployments, and the revisions that a rollback can restore.

mod export; // rows for analysis

use super::watch::WatchArgs;
use clap::Args;
use jiff::Timestamp;

use crate::api::deployments::{DeploymentPage, DeploymentSummary};
use crate::api::revisions::{RevisionFailure, RevisionList, RevisionRollback, RevisionSummary};
use crate::cli::bart::history::export::RowFormat;
use crate::cli::context::{AppSelector, ServiceArgs};
use crate::cli::deployment;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::local;
use crate::cli::output::{self, BOLD, NOTE, note_line, short};
use crate::cli::table::{Column, table, wrap};
use crate::cli::times::{self, TimeFormatter, WHEN};
use crate::cli::verbatim::Verbatim;
use crate::model::deployment::State;
use crate::model::id::{ImageTag, TargetName};
use crate::support::text::truncate_chars;

/// The most deployments of a page.
const MAX_LISTED: u32 = 200;
/// The most rows for analysis.
const MAX_ROWS: u32 = 100_000;

/// The longest reason that is shown, in characters: two lines. `--output json` has all of it.
const LONGEST_REASON: usize = 100;

/// Shows an app's deployments, newest first; with a target, the revisions on it.
///
/// A revision is what a deployment wrote into the manifest repository. It keeps five of each app on each target; one of
/// them is live, and `rollback` makes another live. A revision that was rolled back is marked, with the reason:
/// `rollback` restores it only by its id. `-` stands for what neither the service nor the commit knows.
///
/// `--format` prints rows for analysis, of all pages up to `--limit`: the facts of each deployment, the time of each step
/// with the clock that showed it (`mark_…`, `clock_…`), and the five intervals (`…_millis`, or `…_skew_millis` where the
/// clocks contradict each other). `csv` follows RFC 4180; a field that a spreadsheet would run as a formula (it begins
/// with `=`, `+`, `-`, `@` or a tab) gets an apostrophe in front. `jsonl` has each deployment as the service sent it, with
/// its `intervals`, and changes nothing.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart history                       deployments of the app in this folder
  bart history prod-cluster-1        revisions on a target
  bart history --target dev          deployments to one target
  bart history --state failed --since 2d
  bart history --since 2026-11-01 --until 2026-11-08
  bart history --all --limit 50      deployments of every app
  bart history --all --since 30d --format csv --limit 10000 > deployments.csv")]
pub(super) struct HistoryArgs {
    /// The target whose revisions are shown
    #[arg(id = "target", conflicts_with_all = ["all", "only", "state", "actor", "tag", "since", "until", "limit", "cursor", "format"])]
    kept_on: Option<TargetName>,
    #[command(flatten)]
    about: AppSelector,
    /// Show deployments of every app
    #[arg(long)]
    all: bool,
    /// Only deployments to this target
    #[arg(id = "only", long = "target", short = 't', alias = "to", value_name = "TARGET")]
    only: Option<TargetName>,
    /// Only deployments in this state: queued, running, pushing, syncing, progressing, succeeded, failed, superseded or cancelled
    #[arg(long, value_parser = state)]
    state: Option<State>,
    /// Only deployments that this person or program created
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Only deployments of this image tag
    #[arg(long)]
    tag: Option<ImageTag>,
    /// Only deployments received at this time or later: `2h`, `2d` (so long ago), 2026-11-21 (from its beginning, UTC),
    /// 2026-11-21T05:48:12Z
    #[arg(long, value_name = "TIME", value_parser = times::past)]
    since: Option<Timestamp>,
    /// Only deployments received before this time, written in the same way
    #[arg(long, value_name = "TIME", value_parser = times::past)]
    until: Option<Timestamp>,
    /// The largest number of deployments, up to 200; with --format up to 100000. Default: 20; with --format 1000
    #[arg(long, value_parser = local::count::<MAX_ROWS>)]
    limit: Option<u32>,
    /// The `next` of an earlier answer: lists the older deployments after it
    #[arg(long)]
    cursor: Option<String>,
    /// Print rows for analysis, of all pages
    #[arg(long, value_enum, conflicts_with_all = ["output", "watch"])]
    format: Option<RowFormat>,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    service: ServiceArgs,
}

fn state(text: &str) -> Result<State, String> {
    State::parse(text).ok_or_else(|| {
        let words: Vec<_> = State::ALL.iter().map(|state| state.as_str()).collect();
        format!("use one of {}", words.join(", "))
    })
}

impl HistoryArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        self.watch.show(async || self.show().await).await
    }

    async fn show(&self) -> CommandOutcome {
        match (&self.kept_on, self.format) {
            (Some(target), _) => self.revisions(target).await,
            (None, Some(format)) => self.rows(format).await,
            (None, None) => self.deployments().await,
        }
    }

    /// Prints page after page as rows. Each page is printed before the next one is read.
    async fn rows(&self, format: RowFormat) -> CommandOutcome {
        let server = &self.service.server;
        let mut left = self.limit.unwrap_or(1000);
        let (mut query, mut text) = (self.query(0).await?, format.header());
        while left > 0 {
            query.retain(|(name, _)| *name != "limit");
            query.push(("limit", left.min(MAX_LISTED).to_string()));
            let page: DeploymentPage<Verbatim<DeploymentSummary>> =
                server.get("/api/v1/deployments", &query).await?;
            let count = u32::try_from(page.deployments.len()).unwrap_or(u32::MAX);
            left = left.saturating_sub(count);
            text += &format.rows(page.deployments)?;
            output::document(&std::mem::take(&mut text))?;
            let Some(next) = page.next else { return Ok(()) };
            query.retain(|(name, _)| *name != "cursor");
            query.push(("cursor", next));
        }
        Ok(())
    }

    async fn deployments(&self) -> CommandOutcome {
        let ServiceArgs { server, output } = &self.service;
        let limit = self.limit.unwrap_or(20);
        if limit > MAX_LISTED {
            return Err(CliError::usage(format!("--limit is at most {MAX_LISTED}"))
                .hint("--format csv and --format jsonl read more pages"));
        }
        let list: Verbatim<DeploymentPage> =
            server.get("/api/v1/deployments", &self.query(limit).await?).await?;
        if list.deployments.is_empty() && self.cursor.is_none() {
            server.check_names(&self.about.names(self.only.as_ref())).await?;
        }
        output.print(&list, || match list.deployments.as_slice() {
            [] => "no such deployments\n".to_owned(),
            deployments => deployment::list(deployments, TimeFormatter::system(), output::width()),
        })?;
        if let Some(next) = list.next.as_ref().filter(|_| !output.is_data()) {
            output::note(&format!("{NOTE}older ones{NOTE:#}: add --cursor {next}\n"));
        }
        Ok(())
    }

    async fn query(&self, limit: u32) -> Result<Vec<(&'static str, String)>, CliError> {
        let mut query = vec![("limit", limit.to_string())];
        if !self.all {
            query.push(self.service.server.find_parameter(&self.about).await?);
        }
        query.extend(self.only.iter().map(|target| ("target", target.to_string())));
        query.extend(self.state.iter().map(|state| ("state", state.as_str().to_owned())));
        query.extend(self.actor.iter().map(|actor| ("actor", actor.clone())));
        query.extend(self.tag.iter().map(|tag| ("tag", tag.to_string())));
        query.extend(self.since.iter().map(|at| ("since", at.to_string())));
        query.extend(self.until.iter().map(|at| ("until", at.to_string())));
        query.extend(self.cursor.iter().map(|cursor| ("cursor", cursor.clone())));
        Ok(query)
    }

    async fn revisions(&self, target: &TargetName) -> CommandOutcome {
        let ServiceArgs { server, output } = &self.service;
        let app = server.find_app(&self.about).await?;
        let names = self.about.names(Some(target));
        let history = server.find(&format!("/api/v1/apps/{target}/{app}/revisions")).await;
        let history: Option<Verbatim<RevisionList>> = server.suggest(history, &names).await?;
        let Some(history) = history else {
            let never = CliError::refused(format!("{app} was never deployed to {target}"))
                .hint("`bart status` shows where it is");
            return server.suggest(Err(never), &names).await;
        };
        output.print(&history, || {
            format!(
                "{BOLD}{app}{BOLD:#} on {target}\n\n{}",
                list(&history, TimeFormatter::system())
            )
        })
    }
}

fn list(history: &RevisionList, times: TimeFormatter) -> String {
    let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let row = |revision: &RevisionSummary| {
        let commit = revision.commit.as_deref().map(|id| short(id).to_owned());
        [
            revision.id.clone(),
            match (&revision.rolled_back, &revision.failed) {
                _ if revision.live => "live".to_owned(),
                (Some(_), _) => "rolled back".to_owned(),
                (None, Some(_)) => "failed".to_owned(),
                (None, None) => String::new(),
            },
            or(&revision.tag),
            or(&commit),
            or(&revision.actor),
            times.past_cell(revision.at),
            or(&revision.reason),
        ]
    };
    let columns = [
        Column::whole("REVISION"),
        Column::whole(""),
        Column::middle("TAG", 8),
        Column::whole("COMMIT").drop(2),
        Column::cut("BY", 6).drop(1),
        times.column(WHEN),
        Column::cut("REASON", 12).drop(3),
    ];
    let mut text = table(columns, history.revisions.iter().map(row).collect());
    // Not in a column, which a narrow terminal might drop.
    for revision in history.revisions.iter().filter(|revision| !revision.live) {
        let id = &revision.id;
        let line = match (&revision.rolled_back, &revision.failed) {
            (Some(RevisionRollback { by, reason, .. }), _) => {
                let reason = truncate_chars(reason, LONGEST_REASON);
                format!("\n{NOTE}rolled back{NOTE:#} from {id} by {by}: {reason}\n")
            }
            (None, Some(RevisionFailure { summary, .. })) => {
                let summary = truncate_chars(summary, LONGEST_REASON);
                format!("\n{NOTE}failed{NOTE:#} in the cluster: {id}: {summary}\n")
            }
            (None, None) => continue,
        };
        text += &wrap(&line, output::width());
    }
    if history.hand_edited {
        text.push('\n');
        text += &note_line("none of them is live: the manifests were edited by hand");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::times::TimeStyle;

    #[test]
    fn a_revision_that_failed_in_its_cluster_is_marked_with_the_cause() {
        let revisions: RevisionList = serde_json::from_value(serde_json::json!({
            "hand_edited": false,
            "revisions": [{
                "id": "20261121-115900000-3f9a2c", "tree": "0", "live": false, "tag": "1.11",
                "commit": null, "repository": null, "actor": null, "reason": null, "at": null,
                "template": null, "digest": null, "rolled_back": null,
                "failed": {
                    "deployment": "20261121-115900000-3f9a2c", "summary": "no such image",
                    "at": "2026-11-21T12:00:00Z",
                },
            }],
        }))
        .unwrap();
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        let text = list(&revisions, TimeFormatter { now, style: TimeStyle::Relative });
        let text = anstream::adapter::strip_str(&text).to_string();
        let line = "failed in the cluster: 20261121-115900000-3f9a2c: no such image";
        assert!(text.contains("3f9a2c  failed") && text.contains(line), "{text}");
    }

    #[test]
    fn a_long_reason_is_cut_beside_the_table() {
        let reason = "it loses orders, ".repeat(30);
        let revisions: RevisionList = serde_json::from_value(serde_json::json!({
            "hand_edited": false,
            "revisions": [{
                "id": "20261121-115900000-3f9a2c", "tree": "0", "live": false, "tag": "1.11",
                "commit": null, "repository": null, "actor": null, "reason": null, "at": null,
                "template": null, "digest": null,
                "rolled_back": {
                    "rollback": "20261121-120000000-3f9a2c", "by": "ann", "reason": reason,
                    "at": "2026-11-21T12:00:00Z",
                },
            }],
        }))
        .unwrap();
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        let text = list(&revisions, TimeFormatter { now, style: TimeStyle::Relative });
        let text = anstream::adapter::strip_str(&text).to_string();
        assert!(text.contains("by ann: it loses orders") && text.ends_with("…\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() < 180), "{text}");
    }
}
