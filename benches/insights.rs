//! Insights over 100,000 deployments of 90 days: how long the service takes to answer.
//!
//! `cargo bench --profile fast --bench insights`; with `POSTGRES=postgres://…` naming an empty database, on PostgreSQL, too.
//! The real program answers over HTTP. The rows are written beside it, as a service of years would have them.

#![allow(
    missing_docs,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time, and may fail loudly"
)]

#[path = "support/service.rs"]
mod service;

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use sqlx::Connection as _;

use crate::service::RunningService;

const ROWS: i64 = 100_000;
const APPS: i64 = 100;
const TARGETS: i64 = 5;
const RUNS: usize = 11;
/// The rows of a statement.
const CHUNK: i64 = 500;

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let home = std::env::temp_dir().join(format!("the-deployer-insights-{}", std::process::id()));
    std::fs::create_dir_all(&home).expect("a folder");
    let sqlite = format!("sqlite:{}", home.join("state.db").display());
    println!("{:<12} {:<34} {:>10} {:>10}", "", "", "median", "longest");
    runtime.block_on(measure("SQLite", &sqlite, &home.join("sqlite")));
    if let Ok(postgres) = std::env::var("POSTGRES") {
        runtime.block_on(measure("PostgreSQL", &postgres, &home.join("postgres")));
    }
    std::fs::remove_dir_all(&home).expect("the folder is ours");
}

async fn measure(name: &str, database: &str, home: &Path) {
    let variables = [("THE_DEPLOYER_STORAGE_DATABASE", database)];
    let service = RunningService::start(home, &variables).await;
    let address = service.address;
    fill(database).await;
    for (what, query) in [
        ("90 days", "window=90d".to_owned()),
        ("90 days, one target", "window=90d&target=prod-cluster-1".to_owned()),
        ("90 days, one app", format!("window=90d&target=prod-cluster-1&app=shop/{}", app_name(1))),
        ("6 hours", "window=6h".to_owned()),
    ] {
        let url = format!("http://{address}/api/v1/insights?{query}");
        let mut times = Vec::new();
        let mut count = 0;
        for _ in 0..RUNS {
            let begun = Instant::now();
            let answer = reqwest::get(&url).await.expect("an answer");
            let text = answer.text().await.expect("its body");
            times.push(begun.elapsed());
            let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            count = answer["intervals"][0]["count"].as_u64().unwrap_or_else(|| panic!("{text}"));
        }
        times.sort();
        let (median, longest): (Duration, Duration) = (times[RUNS / 2], times[RUNS - 1]);
        let what = format!("{what}: {count}");
        println!("{name:<12} {what:<34} {median:>10.1?} {longest:>10.1?}");
    }
    service.end().await;
}

/// Writes the rows, and lets the database look at them, as it does by itself in time.
async fn fill(database: &str) {
    sqlx::any::install_default_drivers();
    let mut connection = sqlx::AnyConnection::connect(database).await.expect("the database");
    let lanes = (0..APPS).flat_map(|app| (0..TARGETS).map(move |target| (app, target)));
    let lanes =
        lanes.map(|(app, target)| format!("('{}', 'prod-cluster-{target}')", repository(app)));
    let lanes = lanes.collect::<Vec<_>>().join(", ");
    execute(&mut connection, format!("INSERT INTO lanes (repository, target) VALUES {lanes}"))
        .await;
    let now = Timestamp::now();
    for first in (0..ROWS).step_by(usize::try_from(CHUNK).expect("it is small")) {
        let mut sql = "INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, \
             actor, description, namespace, slug, state, received_at, finished_at, stages, summary, violations, pushed, \
             due_at, attempts, failures, rollback, errors, warnings, cluster_state, cluster_at, marks) VALUES "
            .to_owned();
        for n in first..first + CHUNK {
            sql.push_str(if n > first { ", " } else { "" });
            write_row(&mut sql, n, now);
        }
        execute(&mut connection, sql).await;
    }
    execute(&mut connection, "ANALYZE".to_owned()).await;
    if database.starts_with("postgres") {
        execute(&mut connection, "VACUUM deployments".to_owned()).await;
    }
}

async fn execute(connection: &mut sqlx::AnyConnection, sql: String) {
    sqlx::query(sqlx::AssertSqlSafe(sql)).execute(connection).await.expect("it is SQL");
}

fn app_name(app: i64) -> String {
    format!("customer-facing-app-{app}")
}

fn repository(app: i64) -> String {
    format!("acme/{}", app_name(app))
}

fn id(n: i64, at: Timestamp) -> String {
    let millis = at.as_millisecond().rem_euclid(1000);
    format!("{}{millis:03}-{n:06x}", at.strftime("%Y%m%d-%H%M%S"))
}

/// Of a hundred, two fail in their cluster and one is a rollback to the one before.
fn write_row(sql: &mut String, n: i64, now: Timestamp) {
    let age = |n: i64| {
        SignedDuration::from_secs(90 * 86_400) * i32::try_from(ROWS - n).expect("it is small")
            / 100_000
    };
    let at = |n: i64| now - age(n);
    let (app, target) = (n % APPS, n / APPS % TARGETS);
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
    let before = n - APPS * TARGETS;
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
         'all pods run', '[]', '{pushed}', {received}, 1, 0, {rollback}, 0, 0, '{outcome}', {}, '{marks}')",
        received + 1_400,
        received + 60_000,
    );
}
