//! `bart remove`: an app is taken off a target, on purpose and with a reason.

use std::io::{BufRead as _, IsTerminal as _};

use clap::Args;

use super::client::Server;
use super::error::{CliError, Outcome};
use super::here;
use super::names::Names;
use super::offline;
use super::output::{self, BOLD, DIM, Format, GOOD, NOTE};
use super::times::Times;
use super::verbatim::Verbatim;
use crate::api::apps::{RemovalAnswer, RemovalRequest};
use crate::model::facts::LiveObject;
use crate::model::id::{AppKey, TargetName};
use crate::model::removal;

/// Takes an app off a target: its Application and all its manifests, in one commit; Argo CD then
/// deletes what it deployed.
///
/// Nothing else ever removes an app: not a WAML without the target, not a deleted repository. An app
/// with objects that keep data (a volume claim, a database) is refused without --with-data. A
/// later deployment brings the app back, without the data.
#[derive(Debug, Args)]
pub(super) struct Remove {
    // With their places: completion takes arguments out and puts them back at the end.
    /// The target
    #[arg(index = 1, value_parser = offline::target)]
    target: TargetName,
    /// The app: NAMESPACE/SLUG, or SLUG with the namespace of the WAML that is here
    #[arg(index = 2, value_name = "APP", required_unless_present = "said")]
    app: Option<String>,
    /// The same, as other commands take it
    #[arg(id = "said", long = "app", value_name = "APP", conflicts_with = "app")]
    said: Option<String>,
    /// Why; it is kept with the commit and in the record
    #[arg(long, value_name = "TEXT", value_parser = removal::reason)]
    reason: String,
    /// Remove objects that keep data as well
    #[arg(long)]
    with_data: bool,
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    server: Server,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Remove {
    pub(super) async fn run(self) -> Outcome {
        // A removal takes no app from the working folder: it is named.
        let named = self.app.as_deref().or(self.said.as_deref()).unwrap_or_default();
        let app = here::key(named)?;
        if !self.dry_run && !self.yes {
            self.confirm(&app).await?;
        }
        let removed = self.ask(&app, self.dry_run).await?;
        match self.output {
            data @ (Format::Json | Format::Yaml) => output::data(data, &removed),
            Format::Text => output::print(&page(&removed)),
        }
    }

    async fn ask(&self, app: &AppKey, dry_run: bool) -> Result<Verbatim<RemovalAnswer>, CliError> {
        let AppKey { namespace, slug } = app;
        let path = format!("/api/v1/apps/{}/{namespace}/{slug}/remove", self.target);
        let ask =
            RemovalRequest { reason: self.reason.clone(), with_data: self.with_data, dry_run };
        let removed = self.server.post(&path, &ask).await;
        self.server.suggest(removed, &Names::target(&self.target).app(Some(app.clone()))).await
    }

    /// Shows what would go, and waits for the app's name.
    async fn confirm(&self, app: &AppKey) -> Outcome {
        if !std::io::stdin().is_terminal() {
            return Err(CliError::usage("this is no terminal to confirm a removal on")
                .hint("add --yes, or look at it first with --dry-run"));
        }
        let would = self.ask(app, true).await?;
        if would.outcome != "would-remove" {
            return Ok(());
        }
        output::note(&page(&would));
        output::note(&format!("Type {BOLD}{app}{BOLD:#} to remove it from {}: ", self.target));
        let mut typed = String::new();
        let read = std::io::stdin().lock().read_line(&mut typed);
        match read {
            Ok(_) if typed.trim() == app.to_string() => Ok(()),
            _ => Err(CliError::usage("not confirmed; nothing was removed")),
        }
    }
}

fn page(removed: &RemovalAnswer) -> String {
    let RemovalAnswer { target, app, files, objects, notes, .. } = removed;
    let mut text = match removed.outcome.as_str() {
        "removed" => format!(
            "{GOOD}removed{GOOD:#} {BOLD}{app}{BOLD:#} from {target}, commit {}\n",
            short(removed.commit.as_deref())
        ),
        "already-removed" => format!(
            "{BOLD}{app}{BOLD:#} was removed from {target} before, {} by {}, {} ({})\n",
            Times::system().ago(removed.asked_at),
            removed.actor,
            removed.commit.as_deref().map_or("by another's commit".to_owned(), |commit| format!(
                "commit {}",
                short(Some(commit))
            )),
            removed.reason,
        ),
        _ => format!("{NOTE}would remove{NOTE:#} {BOLD}{app}{BOLD:#} from {target}\n"),
    };
    if removed.outcome != "already-removed" {
        let keeps = |object: &LiveObject| removed.keeps_data.contains(object);
        for object in objects {
            let data = if keeps(object) { "  with its data" } else { "" };
            text += &format!("  {object}{data}\n");
        }
        text += &format!("  {DIM}{} files{DIM:#}\n", files.len());
        text +=
            &notes.iter().map(|note| format!("{NOTE}note{NOTE:#}: {note}\n")).collect::<String>();
    }
    text
}

fn short(commit: Option<&str>) -> &str {
    commit.map_or("unknown", |commit| commit.get(..8).unwrap_or(commit))
}
