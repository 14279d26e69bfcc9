//! Deployments of 90 days, written into the database of a service as it would have them after years.

use std::fmt::Write as _;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use sqlx::Connection as _;

/// The number of deployments.
pub(crate) const ROWS: i64 = 100_000;
/// The rows of a statement.
const CHUNK: i64 = 500;

/// Measures with a database of SQLite, and with that of PostgreSQL which `POSTGRES` names, each in a folder of its own.
pub(crate) fn on_each_database(bench: &str, measure: &impl AsyncFn(&str, &str, &Path)) {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let home = std::env::temp_dir().join(format!("the-deployer-{bench}-{}", std::process::id()));
    std::fs::create_dir_all(&home).expect("a folder");
    let sqlite = format!("sqlite:{}", home.join("state.db").display());
    runtime.block_on(measure("SQLite", &sqlite, &home.join("sqlite")));
    if let Ok(postgres) = std::env::var("POSTGRES") {
        runtime.block_on(measure("PostgreSQL", &postgres, &home.join("postgres")));
    }
    std::fs::remove_dir_all(&home).expect("the folder is ours");
}

/// Apps on targets, whose deployments take turns.
#[derive(Clone, Copy)]
pub(crate) struct Fleet {
    pub(crate) apps: i64,
    pub(crate) targets: i64,
    /// The time of the newest deployment.
    pub(crate) now: Timestamp,
}

/// Writes the rows, and lets the database look at them, as it does by itself in time.
pub(crate) async fn fill(database: &str, fleet: Fleet) {
    let Fleet { apps, targets, .. } = fleet;
    sqlx::any::install_default_drivers();
    let mut connection = sqlx::AnyConnection::connect(database).await.expect("the database");
    let lanes = (0..apps).flat_map(|app| (0..targets).map(move |target| (app, target)));
    let lanes =
        lanes.map(|(app, target)| format!("('{}', 'prod-cluster-{target}')", repository(app)));
    let lanes = lanes.collect::<Vec<_>>().join(", ");
    execute(&mut connection, format!("INSERT INTO lanes (repository, target) VALUES {lanes}"))
        .await;
    for first in (0..ROWS).step_by(usize::try_from(CHUNK).expect("it is small")) {
        let mut sql = "INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, \
             actor, description, namespace, slug, state, received_at, finished_at, stages, summary, violations, pushed, \
             due_at, attempts, failures, rollback, errors, warnings, cluster_state, cluster_at, marks, lapses) VALUES "
            .to_owned();
        for n in first..first + CHUNK {
            sql.push_str(if n > first { ", " } else { "" });
            write_row(&mut sql, n, fleet);
        }
        execute(&mut connection, sql).await;
    }
    execute(
        &mut connection,
        "INSERT INTO owners (target, namespace, slug, repository, since) \
         SELECT target, namespace, slug, MIN(repository), MIN(received_at) FROM deployments \
         GROUP BY target, namespace, slug"
            .to_owned(),
    )
    .await;
    execute(&mut connection, "ANALYZE".to_owned()).await;
    if database.starts_with("postgres") {
        execute(&mut connection, "VACUUM deployments".to_owned()).await;
    }
}

async fn execute(connection: &mut sqlx::AnyConnection, sql: String) {
    sqlx::query(sqlx::AssertSqlSafe(sql)).execute(connection).await.expect("it is SQL");
}

pub(crate) fn app_name(app: i64) -> String {
    format!("customer-facing-app-{app}")
}

pub(crate) fn repository(app: i64) -> String {
    format!("acme/{}", app_name(app))
}

/// Returns the id of the newest deployment of an app to a target.
pub(crate) fn newest(fleet: Fleet, app: i64, target: i64) -> String {
    let Fleet { apps, targets, .. } = fleet;
    let is_of = |n: &i64| n % apps == app && n / apps % targets == target;
    let n = (0..ROWS).rev().find(is_of).expect("each has some");
    id(n, fleet.at(n))
}

impl Fleet {
    /// Returns the time of a deployment.
    fn at(self, n: i64) -> Timestamp {
        let whole = SignedDuration::from_secs(90 * 86_400);
        let left = i32::try_from(ROWS - n).expect("it is small");
        self.now - whole * left / i32::try_from(ROWS).expect("it is small")
    }
}

fn id(n: i64, at: Timestamp) -> String {
    let millis = at.as_millisecond().rem_euclid(1000);
    format!("{}{millis:03}-{n:06x}", at.strftime("%Y%m%d-%H%M%S"))
}

/// Of a hundred, two fail in their cluster and one is a rollback to the one before.
fn write_row(sql: &mut String, n: i64, fleet: Fleet) {
    let at = |n: i64| fleet.at(n);
    let Fleet { apps, targets, .. } = fleet;
    let (app, target) = (n % apps, n / apps % targets);
    let received = at(n).as_millisecond();
    let marks = [
        ("requested", -1_000, 'h'),
        ("received", 0, 's'),
        ("planned", 900, 's'),
        ("pushed", 1_400, 's'),
        ("argocd_notified", 1_500, 's'),
        ("commit_seen", 4_000, 'c'),
        ("sync_began", 5_000, 'c'),
        ("synced", 15_000, 'c'),
        ("rollout_began", 6_000, 'c'),
        ("finished", 60_000, 'c'),
    ];
    let marks = marks.map(|(mark, after, clock)| format!("{mark}={}{clock};", received + after));
    let before = n - apps * targets;
    let rollback = if n % 97 == 96 && before > 0 {
        let before = id(before, at(before));
        format!("'{{\"to\":\"{before}\",\"from\":\"{before}\"}}'")
    } else {
        "NULL".to_owned()
    };
    let outcome = if n % 50 == 49 { "failed" } else { "succeeded" };
    let files =
        ["deployment", "service", "ingress", "hpa", "pdb"].map(|file| format!("\"{file}.yaml\""));
    let pushed = format!(
        "{{\"commit\":\"{n:040x}\",\"changed\":true,\"digest\":\"sha256:{n:064x}\",\"files\":[{}]}}",
        files.join(",")
    );
    let (id, repository, app, marks) =
        (id(n, at(n)), repository(app), app_name(app), marks.concat());
    let _infallible = write!(
        sql,
        "('{id}', 'delivery-{n}', '{repository}', 'prod-cluster-{target}', {n}, '{n:040x}', 'v{n}', 'main', 'octocat', \
         '', 'shop', '{app}', 'succeeded', {received}, {}, '[{{\"stage\":\"push\",\"micros\":61000}}]', \
         'all pods run', '[]', '{pushed}', {received}, 1, 0, {rollback}, 0, 0, '{outcome}', {}, '{marks}', '1400,2500,6000,13500,16000,{}')",
        received + 1_400,
        received + 60_000,
        61_000 + n % 1_000,
    );
}
