//! Connects to the database of a URL: a pool of connections with the service's settings, and tables
//! that are up to date.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use sqlx::any::{AnyConnectOptions, AnyPoolOptions, install_default_drivers};
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{AnyConnection, AnyPool, Connection as _, Executor as _, SqlSafeStr as _};

use crate::store::error::StoreError;
use crate::support::ownership;
use crate::support::percent::encode_path;

/// The kind of the database; code where the SQL must differ matches on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DatabaseBackend {
    Sqlite,
    Postgres,
}

/// The connections of the pool: enough that readers never wait for one another. On SQLite there is
/// one writer at a time anyway; on PostgreSQL, writers that commit at the same time share one wait
/// for the disk.
const CONNECTIONS: u32 = 12;

/// The connections for `accept` on PostgreSQL: an event, whose sender waits, does not queue for a
/// connection behind all workers.
const DURABLE_CONNECTIONS: u32 = 4;

/// The idle time after which a connection is tested before use: a server closes idle connections,
/// and those of a network that is gone.
const TEST_AFTER: Duration = Duration::from_secs(1);

/// The time that an operation waits for a connection before it fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// WAL, so that readers do not wait for the writer. The busy timeout is for a second process on the
/// same file; within this one, writers wait for their turn. Each transaction sets, as it begins,
/// how far its commit waits for the disk.
macro_rules! sqlite {
    () => {
        "PRAGMA busy_timeout = 10000; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; \
         PRAGMA foreign_keys = ON;"
    };
}

const SQLITE: &str = sqlite!();

/// The same for the writer. What a savepoint needs for its undoing stays in memory: some hundred kilobytes, which
/// would be a file otherwise.
const SQLITE_WRITER: &str = concat!(sqlite!(), " PRAGMA temp_store = MEMORY;");

/// No statement of the service is long: a long one has met a fault, and must not block its lane.
const POSTGRES: &str = "SET statement_timeout = '30s'; SET lock_timeout = '10s'; \
     SET idle_in_transaction_session_timeout = '60s';";

/// The migrations. A number may be missing, and may come later: each is run once, whatever was run
/// after it.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "deployments", include_str!("../../migrations/0001_deployments.sql")),
    (2, "templates_commit", include_str!("../../migrations/0002_templates_commit.sql")),
    (3, "owners and locks", include_str!("../../migrations/0003_owners_and_locks.sql")),
    (4, "acts", include_str!("../../migrations/0004_acts.sql")),
    (5, "sinks of the outbox", include_str!("../../migrations/0005_outbox_sinks.sql")),
    (6, "people", include_str!("../../migrations/0006_people.sql")),
    (7, "failures to tell", include_str!("../../migrations/0007_outbox_failures.sql")),
    (10, "sweeps", include_str!("../../migrations/0010_sweeps.sql")),
    (11, "previews", include_str!("../../migrations/0011_previews.sql")),
    (13, "hand edits", include_str!("../../migrations/0013_hand_edits.sql")),
    (14, "audit", include_str!("../../migrations/0014_audit.sql")),
    (15, "rollbacks", include_str!("../../migrations/0015_rollbacks.sql")),
    (16, "holds", include_str!("../../migrations/0016_holds.sql")),
    (17, "answers", include_str!("../../migrations/0017_answers.sql")),
    (19, "api", include_str!("../../migrations/0019_api.sql")),
    (20, "health", include_str!("../../migrations/0020_health.sql")),
    (21, "violation counts", include_str!("../../migrations/0021_violation_counts.sql")),
    (22, "idempotent acts", include_str!("../../migrations/0022_idempotent_acts.sql")),
    (23, "claims", include_str!("../../migrations/0023_claims.sql")),
    (24, "foreign attempts", include_str!("../../migrations/0024_foreign_attempts.sql")),
    (25, "refusals", include_str!("../../migrations/0025_refusals.sql")),
    (28, "load of the outbox", include_str!("../../migrations/0028_outbox_load.sql")),
    (
        29,
        "people and repositories",
        include_str!("../../migrations/0029_people_and_repositories.sql"),
    ),
    (32, "object claims", include_str!("../../migrations/0032_object_claims.sql")),
    (34, "ends told again", include_str!("../../migrations/0034_retold_ends.sql")),
    (35, "names of repositories", include_str!("../../migrations/0035_repository_names.sql")),
    (36, "progress in clusters", include_str!("../../migrations/0036_clusters.sql")),
    (37, "deploy clock", include_str!("../../migrations/0037_deploy_clock.sql")),
    (39, "phases in the outbox", include_str!("../../migrations/0039_outbox_phases.sql")),
    (41, "preview environments", include_str!("../../migrations/0041_environments.sql")),
    (42, "rollouts", include_str!("../../migrations/0042_rollouts.sql")),
    (43, "requests for rollouts", include_str!("../../migrations/0043_rollout_requests.sql")),
    (44, "reports about rollouts", include_str!("../../migrations/0044_rollout_reports.sql")),
    (45, "outcomes for insights", include_str!("../../migrations/0045_insight_outcomes.sql")),
    (48, "deployments to fleets", include_str!("../../migrations/0048_fleets.sql")),
    (49, "insights of fleets", include_str!("../../migrations/0049_insights_of_fleets.sql")),
    (50, "answers of gates", include_str!("../../migrations/0050_gate_answers.sql")),
    (51, "events about rollouts", include_str!("../../migrations/0051_rollout_events.sql")),
    (52, "canaries and apps on pages", include_str!("../../migrations/0052_pages.sql")),
    (53, "sessions", include_str!("../../migrations/0053_sessions.sql")),
    (54, "lapses", include_str!("../../migrations/0054_lapses.sql")),
    (55, "unread WAMLs", include_str!("../../migrations/0055_unread_wamls.sql")),
    (56, "unread deployments", include_str!("../../migrations/0056_unread_deployments.sql")),
    (57, "apps of repositories", include_str!("../../migrations/0057_apps_of_repositories.sql")),
];

/// The connections to one database.
pub(super) struct Pools {
    pub(super) pool: AnyPool,
    /// The connections for writes. On SQLite one: a second one would read again from the file what
    /// the first has changed. On PostgreSQL those of operations that a caller waits for.
    pub(super) writers: AnyPool,
    pub(super) kind: DatabaseBackend,
}

pub(super) async fn pools(url: &SecretString) -> Result<Pools, StoreError> {
    install_default_drivers();
    let Place { kind, url, display_url } = match url.expose_secret().split_once(':') {
        Some(("sqlite", path)) => sqlite(path)?,
        Some(("postgres" | "postgresql", _)) => postgres(url)?,
        _ => {
            return Err(url_error(&redact_url(url.expose_secret()), "the scheme is not supported"));
        }
    };
    let open = |source| StoreError::open(display_url.clone(), source);
    let options = AnyConnectOptions::from_str(&url).map_err(&open)?;
    let settings = match kind {
        DatabaseBackend::Sqlite => SQLITE,
        DatabaseBackend::Postgres => POSTGRES,
    };
    migrate(&options, settings, &display_url).await?;
    let pool = connections(kind, settings, CONNECTIONS, TEST_AFTER);
    let pool = pool.connect_with(options.clone()).await.map_err(&open)?;
    let (settings, limit) = match kind {
        DatabaseBackend::Sqlite => (SQLITE_WRITER, 1),
        DatabaseBackend::Postgres => (POSTGRES, DURABLE_CONNECTIONS),
    };
    // An event that fails on a closed connection is not sent again.
    let writers = connections(kind, settings, limit, Duration::ZERO);
    let writers = writers.connect_with(options).await.map_err(&open)?;
    Ok(Pools { pool, writers, kind })
}

/// Brings the tables up to date, on a connection of its own: after a failed migration its state is
/// unknown.
///
/// A pool would retry until its time is over, and lose the cause; this returns the cause.
async fn migrate(
    options: &AnyConnectOptions,
    settings: &'static str,
    display_url: &str,
) -> Result<(), StoreError> {
    let open = |source| StoreError::open(display_url.to_owned(), source);
    let connect = async {
        let mut connection = AnyConnection::connect_with(options).await?;
        connection.execute(sqlx::raw_sql(settings)).await?;
        Ok(connection)
    };
    let connecting = tokio::time::timeout(PATIENCE, connect).await;
    let connecting = connecting.unwrap_or(Err(sqlx::Error::PoolTimedOut));
    let mut connection = connecting.map_err(open)?;
    let result = migrator(MIGRATIONS).run(&mut connection).await;
    let closing = connection.close().await;
    result.map_err(|source| match source {
        // An older version stops before it touches tables that it does not know.
        MigrateError::VersionMissing(migration) => {
            let newest_known = MIGRATIONS.last().map_or(0, |(version, _, _)| *version);
            StoreError::Newer { display_url: display_url.to_owned(), migration, newest_known }
        }
        source => StoreError::migrate(display_url.to_owned(), source),
    })?;
    closing.map_err(open)
}

/// Returns true if this version knows a migration.
pub(super) fn knows_migration(version: i64) -> bool {
    MIGRATIONS.iter().any(|(number, _, _)| *number == version)
}

/// Returns the file of a SQLite URL; `None` for another database.
pub(super) fn sqlite_file(url: &SecretString) -> Option<PathBuf> {
    let path = url.expose_secret().strip_prefix("sqlite:")?;
    std::path::absolute(path.strip_prefix("//").unwrap_or(path)).ok()
}

/// Returns true for a SQLite URL whose path depends on the working folder of the service.
pub(super) fn is_relative(url: &SecretString) -> bool {
    let path = url.expose_secret().strip_prefix("sqlite:");
    path.is_some_and(|path| Path::new(path.strip_prefix("//").unwrap_or(path)).is_relative())
}

/// Opens one connection to an existing SQLite file, with the service's settings or a reader's.
pub(super) async fn sqlite_connection(
    path: &Path,
    options: &str,
) -> Result<AnyConnection, sqlx::Error> {
    install_default_drivers();
    let url = format!("sqlite://{}?{options}", encode_path(path.as_os_str().as_encoded_bytes()));
    AnyConnection::connect_with(&AnyConnectOptions::from_str(&url)?).await
}

fn connections(
    kind: DatabaseBackend,
    settings: &'static str,
    limit: u32,
    idle_limit: Duration,
) -> AnyPoolOptions {
    AnyPoolOptions::new()
        .max_connections(limit)
        .acquire_timeout(PATIENCE)
        .test_before_acquire(false)
        // A file does not hang up; a server does, and a round trip finds it out.
        .before_acquire(move |connection, rest| {
            Box::pin(async move {
                if kind == DatabaseBackend::Postgres && rest.idle_for >= idle_limit {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .after_connect(move |connection, _| {
            Box::pin(async move { connection.execute(sqlx::raw_sql(settings)).await.map(drop) })
        })
}

fn migrator(migrations: &[(i64, &'static str, &'static str)]) -> Migrator {
    let migrations = migrations.iter().map(|(version, name, sql)| {
        let name = Cow::Borrowed(*name);
        Migration::new(*version, name, MigrationType::Simple, sql.into_sql_str(), false)
    });
    Migrator { migrations: Cow::Owned(migrations.collect()), ..Migrator::DEFAULT }
}

/// The place of a database: for the driver, and for people.
struct Place {
    kind: DatabaseBackend,
    url: String,
    display_url: String,
}

fn sqlite(path: &str) -> Result<Place, StoreError> {
    let path = path.strip_prefix("//").unwrap_or(path);
    let display_url = format!("sqlite:{path}");
    if path.is_empty() || path.contains('?') || path == ":memory:" {
        return Err(url_error(&display_url, "the path of a file is needed, without options"));
    }
    let to_error = |source| StoreError::File { path: PathBuf::from(path), source };
    let path = std::path::absolute(path).map_err(to_error)?;
    make_private(&path)?;
    let url = format!("sqlite://{}", encode_path(path.as_os_str().as_encoded_bytes()));
    Ok(Place { kind: DatabaseBackend::Sqlite, url, display_url })
}

/// Creates the file before SQLite does: its journal files take over its owner and permissions.
fn make_private(path: &Path) -> Result<(), StoreError> {
    let make = || {
        if let Some(folder) = path.parent() {
            ownership::create_folders(folder)?;
        }
        ownership::open_or_create(path, 0o600).map(drop)
    };
    make().map_err(|source| StoreError::File { path: path.to_owned(), source })
}

/// Returns a PostgreSQL URL for people, without its secrets.
pub(super) fn shown_url(url: &SecretString) -> String {
    redact_url(url.expose_secret())
}

fn postgres(url: &SecretString) -> Result<Place, StoreError> {
    let url = url.expose_secret();
    let display_url = redact_url(url);
    if AnyConnectOptions::from_str(url).is_err() {
        // The parser's message is left out, since it might quote a part of the URL.
        return Err(url_error(&display_url, "not a URL"));
    }
    Ok(Place { kind: DatabaseBackend::Postgres, url: url.to_owned(), display_url })
}

/// Removes from a URL all that may be secret: the user, the password, the options, and the whole
/// text of one that is no URL.
fn redact_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "(not shown)".to_owned() };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    format!("{scheme}://{}", place.trim_start_matches('/'))
}

fn url_error(display_url: &str, reason: &str) -> StoreError {
    StoreError::Url { display_url: display_url.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_url_keeps_its_place_and_nothing_secret() {
        for url in [
            "postgres://me:s3cret@db.example.com:5432/deployer?password=s3cret",
            "postgres://me:s3cret@x@db.example.com:5432/deployer",
        ] {
            assert_eq!(redact_url(url), "postgres://db.example.com:5432/deployer");
        }
    }

    #[test]
    fn each_migration_has_a_number_of_its_own_in_order() {
        assert!(MIGRATIONS.windows(2).all(|two| two[0].0 < two[1].0));
    }

    /// Two branches may each bring one: the lower number may reach a database after the higher one.
    #[tokio::test]
    async fn a_number_that_was_left_out_may_come_later() {
        install_default_drivers();
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}?mode=rwc", folder.path().join("a.db").display());
        let pool = AnyPoolOptions::new().max_connections(1).connect(&url).await.unwrap();
        let table = |version, name: &'static str, sql: &'static str| (version, name, sql);
        let first = table(1, "one", "CREATE TABLE one (a TEXT)");
        let second = table(2, "two", "CREATE TABLE two (a TEXT)");
        let fourth = table(4, "four", "CREATE TABLE four (a TEXT)");
        migrator(&[first, fourth]).run(&pool).await.unwrap();
        for _ in 0..2 {
            migrator(&[first, second, fourth]).run(&pool).await.unwrap();
        }
        for table in ["one", "two", "four"] {
            let count = format!("SELECT COUNT(*) FROM {table}");
            sqlx::query(sqlx::AssertSqlSafe(count)).execute(&pool).await.unwrap();
        }
    }
}
