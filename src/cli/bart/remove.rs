//! `bart remove` takes an app off a target, with a reason.

use std::io::{BufRead as _, IsTerminal as _};

use clap::Args;

use crate::api::apps::{RemovalAnswer, RemovalRequest};
use crate::cli::context::{self, Names, ServiceArgs};
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::names::act_path;
use crate::cli::output::{self, BOLD, DIM, GOOD, NOTE, note_line, short};
use crate::cli::times::TimeFormatter;
use crate::cli::verbatim::Verbatim;
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
    #[arg(index = 1)]
    target: TargetName,
    /// The app: NAMESPACE/SLUG, or SLUG with the namespace of the WAML in the working folder
    #[arg(index = 2, value_name = "APP", required_unless_present = "said")]
    app: Option<String>,
    /// The same, as other commands take it
    #[arg(id = "said", long = "app", value_name = "APP", conflicts_with = "app")]
    app_option: Option<String>,
    /// The reason; it is stored with the commit and in the database
    #[arg(long, value_name = "TEXT", value_parser = removal::reason)]
    reason: String,
    /// Also remove objects that keep data
    #[arg(long)]
    with_data: bool,
    /// Only print what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Remove without a question
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

impl Remove {
    pub(super) async fn run(self) -> CommandOutcome {
        // A removal does not take the app of the working folder: an argument must name it.
        let name = self.app.as_deref().or(self.app_option.as_deref()).unwrap_or_default();
        let app = context::key(name)?;
        if !self.dry_run && !self.yes {
            self.confirm(&app).await?;
        }
        let answer = self.ask(&app, self.dry_run).await?;
        self.service.output.print(&answer, || page(&answer))
    }

    async fn ask(&self, app: &AppKey, dry_run: bool) -> Result<Verbatim<RemovalAnswer>, CliError> {
        let Self { target, reason, with_data, service: ServiceArgs { server, .. }, .. } = self;
        let request = RemovalRequest { reason: reason.clone(), with_data: *with_data, dry_run };
        let removed = server.post(&act_path(target, app, "remove"), &request).await;
        let (target, app) = (Some(target.clone()), Some(app.clone()));
        server.suggest(removed, &Names { target, app, ..Names::default() }).await
    }

    /// Shows what would be removed, and waits until the person types the app's name.
    async fn confirm(&self, app: &AppKey) -> CommandOutcome {
        if !std::io::stdin().is_terminal() {
            return Err(CliError::usage(
                "a removal needs confirmation, and standard input is not a terminal",
            )
            .hint("add --yes, or see what it would do with --dry-run"));
        }
        let would = self.ask(app, true).await?;
        if would.outcome != "would-remove" {
            return Ok(());
        }
        output::note(&page(&would));
        output::note(&format!("Type {BOLD}{app}{BOLD:#} to remove it from {}: ", self.target));
        let mut typed = String::new();
        match std::io::stdin().lock().read_line(&mut typed) {
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
            removed.commit.as_deref().map_or("unknown", short)
        ),
        "already-removed" => format!(
            "{BOLD}{app}{BOLD:#} was removed from {target} before, {} by {}, {} ({})\n",
            TimeFormatter::system().ago(removed.asked_at),
            removed.actor,
            removed.commit.as_deref().map_or(
                "by a commit of another program".to_owned(),
                |commit| format!("commit {}", short(commit))
            ),
            removed.reason,
        ),
        _ => format!("{NOTE}would remove{NOTE:#} {BOLD}{app}{BOLD:#} from {target}\n"),
    };
    if removed.outcome != "already-removed" {
        for object in objects {
            let data = if removed.keeps_data.contains(object) { "  with its data" } else { "" };
            text += &format!("  {object}{data}\n");
        }
        text += &format!("  {DIM}{} files{DIM:#}\n", files.len());
        text += &notes.iter().map(note_line).collect::<String>();
    }
    text
}
