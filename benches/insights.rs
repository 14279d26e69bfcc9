//! Insights over 100,000 deployments of 90 days: how long the service takes to answer.
//!
//! `cargo bench --profile fast --bench insights`; with `POSTGRES=postgres://…` naming an empty database, on PostgreSQL, too.
//! The real program answers over HTTP. The rows are written beside it, as a service of years would have them.

#![allow(
    missing_docs,
    dead_code,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time, and may fail loudly"
)]

#[path = "support/deployments.rs"]
mod deployments;
#[path = "support/service.rs"]
mod service;

use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::deployments::{Fleet, app_name, fill, on_each_database};
use crate::service::RunningService;

const APPS: i64 = 100;
const TARGETS: i64 = 5;
const RUNS: usize = 11;

fn main() {
    println!("{:<12} {:<34} {:>10} {:>10}", "", "", "median", "longest");
    on_each_database("insights", &measure);
}

async fn measure(name: &str, database: &str, home: &Path) {
    let variables = [("THE_DEPLOYER_STORAGE_URL", database)];
    let service = RunningService::start(home, &variables).await;
    let address = service.address;
    fill(database, Fleet { apps: APPS, targets: TARGETS, now: Timestamp::now() }).await;
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
            assert!(count > 0, "{text}");
        }
        times.sort();
        let (median, longest): (Duration, Duration) = (times[RUNS / 2], times[RUNS - 1]);
        let what = format!("{what}: {count}");
        println!("{name:<12} {what:<34} {median:>10.1?} {longest:>10.1?}");
    }
    service.end().await;
}
