//! `the-deployer owners` lists the owners of apps, and moves an app to another repository.

use clap::{Args, Subcommand};
use serde_json::json;

use super::config::ConfigSource;
use super::ledger::{OperatorIdentity, app, open, open_for, unusable};
use crate::cli::error::CommandOutcome;
use crate::cli::output::{self, Format, GOOD};
use crate::cli::table::{Column, table};
use crate::cli::times::{SINCE, TimeFormatter};
use crate::model::id::{AppKey, RepoName, TargetName};
use crate::store::{OwnerMove, OwnerRecord};

/// Shows the owners of apps, and moves apps to other repositories.
///
/// The owner of an app (its namespace and slug) on a target is the repository that deployed it there first; no other
/// repository can deploy over it. Works on the database of the configuration, whether the service runs or not.
#[derive(Debug, Subcommand)]
pub(super) enum Owners {
    List(List),
    Move(Move),
}

/// Lists apps with their owners.
#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    source: ConfigSource,
    /// Only apps of this target
    #[arg(long)]
    target: Option<TargetName>,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// Moves an app to another repository, which alone can deploy it from then on.
///
/// An app that was never deployed can be moved, too: it is reserved for that repository.
#[derive(Debug, Args)]
pub(super) struct Move {
    #[command(flatten)]
    source: ConfigSource,
    /// The app
    #[arg(value_name = "NAMESPACE/APP", value_parser = app)]
    app: AppKey,
    /// The target
    #[arg(long)]
    target: TargetName,
    /// The new owner
    #[arg(long, value_name = "OWNER/REPO")]
    to: RepoName,
    #[command(flatten)]
    who: OperatorIdentity,
}

impl Owners {
    pub(super) async fn run(&self) -> CommandOutcome {
        match self {
            Self::List(list) => list.run().await,
            Self::Move(moving) => moving.run().await,
        }
    }
}

impl List {
    async fn run(&self) -> CommandOutcome {
        let ledger = open(&self.source).await?;
        let owners = ledger.owners(self.target.as_ref()).await.map_err(unusable)?;
        ledger.close().await;
        let data: Vec<_> = owners.iter().map(as_json).collect();
        self.output.print(&data, || match owners.as_slice() {
            [] => "no app has been deployed yet\n".to_owned(),
            owners => list(owners, TimeFormatter::system()),
        })
    }
}

impl Move {
    async fn run(&self) -> CommandOutcome {
        let (by, reason) = self.who.act()?;
        let moved = OwnerMove { by: by.name, reason };
        let ledger = open_for(&self.source, Some(&self.target)).await?;
        let from = ledger.move_owner(&self.target, &self.app, &self.to, &moved).await;
        let from = from.map_err(unusable)?.map_or("nobody".to_owned(), String::from);
        ledger.close().await;
        let Self { app, target, to, .. } = self;
        output::print(&format!("{GOOD}moved{GOOD:#} {app} on {target} from {from} to {to}\n"))
    }
}

fn as_json(owner: &OwnerRecord) -> serde_json::Value {
    let OwnerRecord { target, app, repository, since, moved } = owner;
    let moved = moved.as_ref().map(|moved| json!({"by": moved.by, "reason": moved.reason}));
    json!({
        "target": target, "app": app.to_string(), "repository": repository, "since": since,
        "moved": moved,
    })
}

fn list(owners: &[OwnerRecord], times: TimeFormatter) -> String {
    let row = |OwnerRecord { target, app, repository, since, moved }: &OwnerRecord| {
        let origin = moved.as_ref().map_or_else(
            || "deployed it first".to_owned(),
            |moved| format!("moved by {}: {}", moved.by, moved.reason),
        );
        let [target, app] = [target.to_string(), app.to_string()];
        [target, app, repository.to_string(), times.past_cell(Some(*since)), origin]
    };
    let columns = [
        Column::middle("TARGET", 8),
        Column::middle("APP", 12),
        Column::middle("REPOSITORY", 12),
        times.column(SINCE),
        Column::fold("WHY", 17).drop(1),
    ];
    table(columns, owners.iter().map(row).collect())
}
