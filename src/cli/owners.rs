//! `the-deployer owners`: whose apps are, and giving one to another repository.

use clap::{Args, Subcommand};
use serde_json::json;

use super::config::Source;
use super::error::{CliError, Outcome};
use super::locks::Who;
use super::output::{self, Format, GOOD};
use super::table::{Column, table};
use super::times::{TimeHeader, Times};
use crate::deployments::ledger::{Ledger, check_target};
use crate::model::id::{AppKey, Namespace, RepoName, Slug, TargetName};
use crate::model::target::Clusters;
use crate::store::{Moved, Owned};
use crate::support::clock::Clock;

/// Shows whose apps are, and gives them to other repositories.
///
/// An app (its namespace and slug) belongs on each target to the repository that deployed it there
/// first; another one may not deploy over it. Works on the database of the configuration, beside a
/// service that is running or not.
#[derive(Debug, Subcommand)]
pub(super) enum Owners {
    List(List),
    Move(Move),
}

/// Lists apps, and whose they are.
#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    source: Source,
    /// Of this target only
    #[arg(long)]
    target: Option<TargetName>,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// Gives an app to another repository, which alone may deploy it from then on.
///
/// An app that nobody has deployed yet can be given, too: it is kept for that repository.
#[derive(Debug, Args)]
pub(super) struct Move {
    #[command(flatten)]
    source: Source,
    /// The app
    #[arg(value_name = "NAMESPACE/APP", value_parser = app)]
    app: AppKey,
    /// On which target
    #[arg(long)]
    target: TargetName,
    /// The repository that it is given to
    #[arg(long, value_name = "OWNER/REPO")]
    to: RepoName,
    #[command(flatten)]
    who: Who,
}

impl Owners {
    pub(super) async fn run(&self) -> Outcome {
        match self {
            Self::List(list) => list.run().await,
            Self::Move(moving) => moving.run().await,
        }
    }
}

impl List {
    async fn run(&self) -> Outcome {
        let ledger = open(&self.source).await?;
        let owned = ledger.owners(self.target.as_ref()).await.map_err(|error| unusable(&error))?;
        ledger.close().await;
        match self.output {
            data @ (Format::Json | Format::Yaml) => {
                output::data(data, &owned.iter().map(as_json).collect::<Vec<_>>())
            }
            Format::Text if owned.is_empty() => output::print("no app has been deployed yet\n"),
            Format::Text => output::print(&list(&owned, Times::system())),
        }
    }
}

impl Move {
    async fn run(&self) -> Outcome {
        let (by, reason) = self.who.act()?;
        let moved = Moved { by: by.name, reason };
        let ledger = open_for(&self.source, Some(&self.target)).await?;
        let from = ledger.move_owner(&self.target, &self.app, &self.to, &moved).await;
        let from =
            from.map_err(|error| unusable(&error))?.map_or("nobody".to_owned(), String::from);
        ledger.close().await;
        let Self { app, target, to, .. } = self;
        output::print(&format!("{GOOD}moved{GOOD:#} {app} on {target} from {from} to {to}\n"))
    }
}

/// The database of the configuration.
pub(super) async fn open(source: &Source) -> Result<Ledger, CliError> {
    open_for(source, None).await
}

/// The same, for an act on a target that the configuration must know: one on a mistyped target
/// would do nothing, and look as if it did.
pub(super) async fn open_for(
    source: &Source,
    target: Option<&TargetName>,
) -> Result<Ledger, CliError> {
    let (storage, clusters) = match target {
        None => (source.load_storage(Format::Text)?, Clusters::any()),
        Some(target) => {
            let settings = source.load_for_record(Format::Text)?.settings;
            check_target(&settings.clusters, target)
                .map_err(|(unknown, hint)| CliError::usage(unknown).hint(hint))?;
            (settings.storage, settings.clusters)
        }
    };
    Ledger::open(&storage.url, Clock::system(), clusters).await.map_err(|error| unusable(&error))
}

/// The database does not do what it should.
pub(super) fn unusable(error: &dyn std::error::Error) -> CliError {
    CliError::io(format!("cannot use the database: {error}"))
        .hint("name the service's own configuration with --config")
}

/// `NAMESPACE/APP`
pub(super) fn app(text: &str) -> Result<AppKey, String> {
    let (namespace, slug) = text.split_once('/').ok_or("write it as NAMESPACE/APP")?;
    let namespace = Namespace::parse(namespace).map_err(|error| error.to_string())?;
    let slug = Slug::parse(slug).map_err(|error| error.to_string())?;
    Ok(AppKey { namespace, slug })
}

fn as_json(owned: &Owned) -> serde_json::Value {
    let Owned { target, app, repository, since, moved } = owned;
    let moved = moved.as_ref().map(|moved| json!({"by": moved.by, "reason": moved.reason}));
    json!({
        "target": target, "app": app.to_string(), "repository": repository, "since": since,
        "moved": moved,
    })
}

fn list(all: &[Owned], times: Times) -> String {
    let row = |Owned { target, app, repository, since, moved }: &Owned| {
        let why = moved.as_ref().map_or_else(
            || "deployed it first".to_owned(),
            |moved| format!("moved by {}: {}", moved.by, moved.reason),
        );
        let [target, app] = [target.to_string(), app.to_string()];
        [target, app, repository.to_string(), times.past_cell(Some(*since)), why]
    };
    let columns = [
        Column::middle("TARGET", 8),
        Column::middle("APP", 12),
        Column::middle("REPOSITORY", 12),
        times.column(TimeHeader::Since),
        Column::fold("WHY", 17).drop(1),
    ];
    table(columns, all.iter().map(row).collect())
}
