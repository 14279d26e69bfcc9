//! The same test on SQLite and on PostgreSQL.

use std::io::Write as _;
use std::path::Path;

use secrecy::{ExposeSecret as _, SecretString};
use sqlx::{Connection as _, Row as _};
use tempfile::TempDir;
use the_deployer::model::id::DeployId;
use the_deployer::store::Store;
use tokio::sync::OnceCell;

use crate::harness::folder;
use crate::harness::postgres;

/// An empty database of one test.
pub(crate) struct Database {
    pub(crate) store: Store,
    url: String,
    _folder: TempDir,
}

impl Database {
    /// A fresh SQLite file.
    pub(crate) async fn sqlite() -> Self {
        let folder = folder::temporary();
        let file = folder.path().join("state/deployer.db");
        place_tables(&file).await;
        Self::open(format!("sqlite:{}", file.display()), folder).await
    }

    async fn open(url: String, folder: TempDir) -> Self {
        let store = Store::open(&SecretString::from(url.clone())).await.unwrap();
        Self { store, url, _folder: folder }
    }

    /// The same database, opened again: another process, or the same one restarted.
    pub(crate) async fn reopened(&self) -> Store {
        Store::open(&SecretString::from(self.url.clone())).await.unwrap()
    }

    /// Where it is.
    pub(crate) fn url(&self) -> Url {
        Url(self.url.clone())
    }

    /// What the audit log has, oldest first: who, what, on which target and app, about what, and why.
    pub(crate) async fn audited(&self) -> Vec<String> {
        let mut connection = sqlx::AnyConnection::connect(&self.url).await.unwrap();
        let sql = "SELECT name, act, COALESCE(target, '-'), COALESCE(namespace, '-'), \
             COALESCE(slug, '-'), subject, reason FROM audit ORDER BY at, id";
        let rows = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        let column = |row: &sqlx::any::AnyRow, n: usize| row.get::<String, _>(n);
        let line = |row| (0..7).map(|n| column(&row, n)).collect::<Vec<_>>().join(" ");
        rows.into_iter().map(line).collect()
    }

    /// Changes what is there by hand.
    pub(crate) async fn execute(&self, sql: &str) {
        let mut connection = sqlx::AnyConnection::connect(&self.url).await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    /// How SQLite runs a query; `None` on PostgreSQL.
    pub(crate) async fn sqlite_plan(&self, sql: &str) -> Option<String> {
        if !self.url.starts_with("sqlite") {
            return None;
        }
        let mut connection = sqlx::AnyConnection::connect(&self.url).await.unwrap();
        let sql = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
        let rows = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        let lines: Vec<String> = rows.iter().map(|row| row.get::<String, _>("detail")).collect();
        Some(lines.join("\n"))
    }

    /// When the lease on a deployment ends, or its retry is due; in milliseconds.
    pub(crate) async fn lease_end(&self, id: &DeployId) -> i64 {
        let mut connection = sqlx::AnyConnection::connect(&self.url).await.unwrap();
        let query = sqlx::query("SELECT due_at FROM deployments WHERE id = $1").bind(id.as_str());
        let due_at = query.fetch_one(&mut connection).await.unwrap().get(0);
        connection.close().await.unwrap();
        due_at
    }
}

/// Does the same where a URL says, unless it is PostgreSQL's.
pub(crate) async fn place_tables_at(url: &SecretString) {
    if let Some(file) = url.expose_secret().strip_prefix("sqlite:") {
        place_tables(Path::new(file)).await;
    }
}

static MIGRATED: OnceCell<Vec<u8>> = OnceCell::const_new();

/// Puts an SQLite file with all tables and no rows there, unless there is one.
///
/// It is a copy: to migrate each costs more than many tests do.
pub(crate) async fn place_tables(file: &Path) {
    let bytes = MIGRATED.get_or_init(|| Box::pin(migrated())).await;
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    // With the rights that the service gives its own.
    let mut options = std::fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(options.write(true).create_new(true), 0o600);
    match options.open(file) {
        Ok(mut file) => file.write_all(bytes).unwrap(),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists),
    }
}

async fn migrated() -> Vec<u8> {
    let folder = folder::temporary();
    let file = folder.path().join("migrated.db");
    let url = SecretString::from(format!("sqlite:{}", file.display()));
    Store::open(&url).await.unwrap().close().await;
    // What is written last is in the file once nobody has it open.
    assert!(!file.with_extension("db-wal").exists());
    std::fs::read(file).unwrap()
}

/// Where a database is.
#[derive(Debug, Clone)]
pub(crate) struct Url(String);

impl Url {
    pub(crate) fn of(url: String) -> Self {
        Self(url)
    }

    /// As our settings name it.
    pub(crate) fn for_us(&self) -> String {
        self.0.clone()
    }

    /// As the driver wants it; a file is made.
    pub(crate) fn for_driver(&self) -> String {
        sqlx::any::install_default_drivers();
        match self.0.strip_prefix("sqlite:") {
            Some(path) => format!("sqlite://{path}?mode=rwc"),
            None => self.0.clone(),
        }
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        self.0.starts_with("sqlite:")
    }
}

/// Runs the test on each database there is, while it has no tables yet.
pub(crate) async fn run_on_empty(test: impl AsyncFn(Url)) {
    let folder = folder::temporary();
    test(Url(format!("sqlite:{}", folder.path().join("deployer.db").display()))).await;
    if let Some(url) = postgres::empty_database().await {
        test(Url(url)).await;
    }
}

/// Runs the test on each database there is.
pub(crate) async fn run_on_both(test: impl AsyncFn(Database)) {
    test(Database::sqlite().await).await;
    if let Some(url) = postgres::fresh_database().await {
        test(Database::open(url, folder::temporary()).await).await;
    }
}

impl Url {
    /// Changes what is there by hand.
    pub(crate) async fn execute(&self, sql: &str) {
        let mut connection = self.connect().await;
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    /// How many rows a table has.
    pub(crate) async fn count(&self, table: &str) -> i64 {
        let mut connection = self.connect().await;
        let sql = sqlx::AssertSqlSafe(format!("SELECT COUNT(*) FROM {table}"));
        let count = sqlx::query(sql).fetch_one(&mut connection).await.unwrap().get(0);
        connection.close().await.unwrap();
        count
    }

    async fn connect(&self) -> sqlx::AnyConnection {
        sqlx::AnyConnection::connect(&self.for_driver()).await.unwrap()
    }
}
