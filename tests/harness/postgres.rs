//! A PostgreSQL cluster of this test process: made in a temporary folder, reached over a socket
//! in it, gone with the process however that ends.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use secrecy::SecretString;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
use the_deployer::store::Store;
use tokio::sync::OnceCell;

use crate::harness::folder;

/// The cluster lives as long as its watchdog's standard input is open.
struct Cluster {
    folder: PathBuf,
    _alive: ChildStdin,
}

/// The cluster trusts everybody; this is there to be looked for where it must not be.
pub(crate) const PASSWORD: &str = "s3cret";

static CLUSTER: OnceLock<Option<Cluster>> = OnceLock::new();
static DATABASES: AtomicU32 = AtomicU32::new(0);
static MIGRATED: OnceCell<()> = OnceCell::const_new();
const MIGRATED_NAME: &str = "migrated";

/// The URL of a new, empty database; `None` where PostgreSQL is not installed.
pub(crate) async fn empty_database() -> Option<String> {
    Some(cluster().await?.create("template1").await)
}

/// The URL of a new database with all tables and no rows; `None` where PostgreSQL is not installed.
///
/// It is a copy: to migrate each costs more than most tests do.
pub(crate) async fn fresh_database() -> Option<String> {
    let cluster = cluster().await?;
    MIGRATED.get_or_init(|| cluster.migrate()).await;
    Some(cluster.create(MIGRATED_NAME).await)
}

async fn cluster() -> Option<&'static Cluster> {
    tokio::task::spawn_blocking(|| CLUSTER.get_or_init(start).as_ref()).await.unwrap()
}

impl Cluster {
    /// Copies a database that nobody is connected to; returns the copy's URL.
    async fn create(&self, template: &str) -> String {
        let name = format!("t{}", DATABASES.fetch_add(1, Ordering::SeqCst));
        self.create_named(&name, template).await;
        self.url(&name)
    }

    async fn create_named(&self, name: &str, template: &str) {
        sqlx::any::install_default_drivers();
        let mut admin = sqlx::AnyConnection::connect(&self.url("postgres")).await.unwrap();
        let sql = format!("CREATE DATABASE {name} TEMPLATE {template}");
        admin.execute(AssertSqlSafe(sql)).await.unwrap();
        admin.close().await.unwrap();
    }

    async fn migrate(&self) {
        self.create_named(MIGRATED_NAME, "template1").await;
        let url = SecretString::from(self.url(MIGRATED_NAME));
        Store::open(&url).await.unwrap().close().await;
    }

    fn url(&self, database: &str) -> String {
        let socket = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://deployer:{PASSWORD}@localhost/{database}?host={socket}")
    }
}

#[expect(clippy::print_stderr, reason = "who reads the tests' output must see what was left out")]
fn start() -> Option<Cluster> {
    let Some(bin) = programs() else {
        let required = std::env::var("THE_DEPLOYER_TEST_REQUIRE_ALL").is_ok_and(|v| v == "1");
        assert!(!required, "initdb and postgres are not installed, and all tests are required");
        eprintln!("SKIPPED: tests on PostgreSQL, because initdb and postgres are not installed");
        return None;
    };
    // A socket's path may not be longer than 107 bytes, so not in a long TMPDIR.
    let folder = folder::named("deployer-pg").keep();
    let user = unprivileged(&folder);
    let initdb = user
        .run(&bin.join("initdb"))
        .args(["--username=deployer", "--auth=trust", "--no-sync", "--encoding=UTF8", "-D"])
        .arg(folder.join("data"))
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(initdb.status.success(), "initdb: {}", String::from_utf8_lossy(&initdb.stderr));
    Some(Cluster { _alive: serve(&bin, &folder, &user), folder })
}

/// Nothing of it is there after a crash, and with hundreds of databases a vacuum would always be at one of them.
///
/// The shell outlives this process by a moment: its `read` ends when we do, killed or not.
#[expect(clippy::zombie_processes, reason = "the watchdog is there to outlive this process")]
fn serve(bin: &Path, folder: &Path, user: &User) -> ChildStdin {
    let script = r#"
        "$0" -D "$1/data" -k "$1" -c listen_addresses= -c fsync=off -c max_connections=300 \
            -c full_page_writes=off -c wal_level=minimal -c max_wal_senders=0 \
            -c checkpoint_timeout=1h -c max_wal_size=8GB -c autovacuum=off &
        read -r _
        kill -INT $!
        wait
        rm -rf "$1"
    "#;
    let mut shell = user
        .run(Path::new("/bin/sh"))
        .args(["-c", script])
        .arg(bin.join("postgres"))
        .arg(folder)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(shell.stderr.take().unwrap()).lines();
    let ready = |line: String| line.contains("ready to accept connections");
    assert!(log.by_ref().map_while(Result::ok).any(ready), "postgres did not start");
    // Read on, or it would block once the pipe is full.
    std::thread::spawn(move || log.for_each(drop));
    shell.stdin.take().unwrap()
}

fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut newest_first: Vec<_> = installed.map(|version| version.path().join("bin")).collect();
    newest_first.sort();
    newest_first.reverse();
    std::env::split_paths(&path)
        .chain(newest_first)
        .find(|bin| bin.join("initdb").exists() && bin.join("postgres").exists())
}

/// PostgreSQL refuses to run as root; then it runs as `nobody`.
struct User(Option<(u32, u32)>);

fn unprivileged(folder: &Path) -> User {
    if std::fs::metadata(folder).unwrap().uid() != 0 {
        return User(None);
    }
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let nobody = passwd.lines().find(|line| line.starts_with("nobody:"));
    let fields: Vec<_> = nobody.expect("there is a user nobody").split(':').collect();
    let (uid, gid) = (fields[2].parse().unwrap(), fields[3].parse().unwrap());
    chown(folder, Some(uid), Some(gid)).unwrap();
    User(Some((uid, gid)))
}

impl User {
    fn run(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Self(Some((uid, gid))) = self {
            std::os::unix::process::CommandExt::uid(&mut command, *uid);
            std::os::unix::process::CommandExt::gid(&mut command, *gid);
        }
        command
    }
}
