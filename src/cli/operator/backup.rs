//! `the-deployer backup`, `restore` and `rebuild` copy the service's database, put a copy back, and rebuild it from
//! git.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::config::ConfigSource;
use crate::app::backup::{self, BackupError};
use crate::app::rebuild::{self, RebuildError, RebuildOptions, RebuildReport};
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output::{Format, GOOD, NOTE, note_line};
use crate::config::SettingsSources;
use crate::support::clock::Clock;

/// Copies the embedded database into a file, while the service runs on it.
///
/// The copy is of one moment, is verified before it gets its name, and is readable by its owner only. An existing file
/// is not replaced: put the date into the name. Keep backups on another disk than the database.
///
/// The backup does not have the webhook's secret and the embedded manifest repository, which lie beside the database in
/// the storage folder, nor the files that the configuration names. Copy a PostgreSQL database with `pg_dump`.
///
/// Exit codes: 0 copied, 1 the file exists, 2 it could not be copied.
///
/// Example, each night: the-deployer backup --config /etc/the-deployer.yaml /backup/$(date +%F).db
#[derive(Debug, Args)]
pub(super) struct Backup {
    #[command(flatten)]
    source: ConfigSource,
    /// The file to write; it must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// Replaces the embedded database by a backup.
///
/// The command does nothing while a service runs in the storage folder. It refuses a file that is damaged or that a
/// newer version made, and, unless --force is given, a backup that has less than the database. The former database is
/// kept beside the new one, with `.before-` and an id after its name.
///
/// The backup does not have what happened since. Before you start the service again, run `the-deployer rebuild
/// --merge`: it adds what the manifest repositories know. Without it, a deployment that waited at the time of the
/// backup could be made once more, over newer ones. The service checks whether messages that waited then have arrived
/// before it sends them.
///
/// Exit codes: 0 restored, 1 refused, 2 it could not be restored. After 1 and 2 the database is what
/// it was.
#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    #[command(flatten)]
    source: ConfigSource,
    /// The file that `backup` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace the database even if it has more than the backup, or cannot be read
    #[arg(long)]
    force: bool,
    /// The person who restores; for the audit log
    #[arg(long, value_name = "NAME", env = "USER", default_value = "somebody")]
    by: String,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// Rebuilds the service's database from the manifest repositories and GitHub.
///
/// From the manifest repositories come: each deployment that made a commit, with its release, actor, reason and time;
/// rollbacks, and the hold of each that is the newest of its app; removals; the owner of each app. From GitHub come its
/// numbers of those deployments, so that their lanes continue in order and GitHub shows which ones a newer one
/// replaces. Lost are the times of stages, deployments that made no commit, messages, locks, and the audit log.
///
/// The command fills an empty database. With --merge it adds to an existing one, changes no row in it, and adds nothing
/// when it runs again. The service supersedes overtaken deployments when it starts. No messages are sent about what is
/// rebuilt. Works for SQLite and PostgreSQL, whether the service runs or not; run it before the service starts, so that
/// nothing counts as new.
///
/// Exit codes: 0 done, 1 the database has deployments and --merge is not given, 2 something could not be read or
/// reached. After 1 and 2 nothing was written.
#[derive(Debug, Args)]
pub(super) struct Rebuild {
    #[command(flatten)]
    source: ConfigSource,
    /// Only print what would be added
    #[arg(long)]
    dry_run: bool,
    /// Add to a database that has deployments
    #[arg(long)]
    merge: bool,
    /// Work without GitHub's numbers
    #[arg(long)]
    offline: bool,
    /// The person who rebuilds; for the audit log
    #[arg(long, value_name = "NAME", env = "USER", default_value = "somebody")]
    by: String,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Backup {
    pub(super) async fn run(self) -> CommandOutcome {
        let storage = self.source.load_storage(self.output)?;
        let contents = backup::backup(&storage, &self.file).await.map_err(not_copied)?;
        let database = backup::display_place(&storage);
        // An absolute path, so that the file can be found from another folder.
        let file = std::path::absolute(&self.file).unwrap_or_else(|_| self.file.clone());
        let data = json!({
            "file": self.file, "database": database, "migration": contents.migration,
            "deployments": contents.deployments, "newest": contents.newest,
        });
        self.output.print(&data, || {
            format!("{GOOD}copied{GOOD:#} {contents}, from {database} to {}\n", file.display())
        })
    }
}

impl RestoreArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let storage = self.source.load_storage(self.output)?;
        let clock = Clock::system();
        let restored = backup::restore(&storage, &self.file, self.force, &self.by, &clock).await;
        let restored = restored.map_err(not_copied)?;
        let contents = &restored.contents;
        let data = json!({
            "database": restored.database, "kept": restored.former, "migration": contents.migration,
            "deployments": contents.deployments, "newest": contents.newest,
        });
        self.output.print(&data, || {
            let former = restored.former.as_ref();
            let former_note = former.map(|path| format!("the former database is kept as {}\n", path.display()));
            format!(
                "{GOOD}restored{GOOD:#} {contents}, into {}\n{}{NOTE}next{NOTE:#}: \
                 `the-deployer rebuild --merge{}` brings back what the manifest repositories know of \
                 the time since, before `serve`\n",
                restored.database.display(),
                former_note.unwrap_or_default(),
                self.source.argument()
            )
        })
    }
}

impl Rebuild {
    pub(super) async fn run(self) -> CommandOutcome {
        let settings =
            self.source.load_with(self.output, SettingsSources::load_for_rebuild)?.settings;
        let database = backup::display_place(&settings.storage);
        let Self { dry_run, merge, offline, by, output: format, .. } = self;
        let options = RebuildOptions { dry_run, merge, offline, by };
        let report = rebuild::rebuild(&settings, &options, &Clock::system()).await;
        let report = report.map_err(not_rebuilt)?;
        let RebuildReport { deployments, numbered, removals, apps, added, notes } = &report;
        let data = json!({
            "dry_run": dry_run,
            "database": database,
            "found": {
                "deployments": deployments, "numbered": numbered, "removals": removals, "apps": apps,
            },
            "added": {
                "deployments": added.deployments, "removals": added.removals, "owners": added.owners,
            },
            "notes": notes,
        });
        format.print(&data, || page(&report, &database, dry_run))
    }
}

fn page(report: &RebuildReport, database: &str, dry_run: bool) -> String {
    let RebuildReport { deployments, numbered, removals, apps, added, notes } = report;
    let verb = if dry_run { "would add" } else { "added" };
    let notes: String = notes.iter().map(note_line).collect();
    format!(
        "found {deployments} deployments ({numbered} of them with the code host's number), \
         {removals} removals, {apps} apps\n{GOOD}{verb}{GOOD:#} {} deployments, {} \
         removals, {} owners of apps, to {database}\n{notes}",
        added.deployments, added.removals, added.owners
    )
}

#[expect(clippy::needless_pass_by_value, reason = "taken by map_err")]
fn not_copied(error: BackupError) -> CliError {
    let text = error.to_string();
    match &error {
        BackupError::NotEmbedded { .. } => CliError::usage(text).hint(
            "use PostgreSQL's own commands: `pg_dump --format=custom --file=FILE DATABASE`, and \
             `pg_restore --clean --if-exists --dbname=DATABASE FILE` while no service runs; \
             docs/operations.md has both",
        ),
        error if error.is_refusal() => CliError::refused(text),
        BackupError::File(_) | BackupError::Start(_) | BackupError::Running { .. } => {
            CliError::io(text).hint("name the service's own configuration with --config")
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "taken by map_err")]
fn not_rebuilt(error: RebuildError) -> CliError {
    match &error {
        RebuildError::NotEmpty(_) | RebuildError::Elsewhere(_) => {
            CliError::refused(error.to_string())
        }
        RebuildError::Start(_) | RebuildError::Forge(_) => CliError::io(error.to_string()),
    }
}
