//! Checks the end of every event: the service's records beside the history of the manifest repository.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use crate::burst::service::Service;
use crate::generate::git;

/// What was found.
pub struct Outcome {
    pub pushed: usize,
    pub superseded: usize,
    pub failed: usize,
    /// From the first event received to the last success recorded.
    pub whole: Duration,
    /// Of each success, from its event to its record.
    pub each: Vec<Duration>,
    pub stages: BTreeMap<String, Vec<Duration>>,
    /// What must not be.
    wrong: Vec<String>,
}

#[derive(Deserialize)]
struct Record {
    id: String,
    state: String,
    target: String,
    repository: String,
    app: Option<String>,
    forge_id: i64,
    received_at: Timestamp,
    finished_at: Option<Timestamp>,
    summary: String,
    pushed: Option<Pushed>,
}

#[derive(Deserialize)]
struct Pushed {
    commit: String,
    changed: bool,
}

#[derive(Deserialize)]
struct Stages {
    stages: Vec<Stage>,
}

#[derive(Deserialize)]
struct Stage {
    stage: String,
    micros: u64,
}

/// So many records are asked for their stages.
const SAMPLES: usize = 200;

pub async fn check(service: &Service, repository: &Path, events: usize) -> Outcome {
    let mut records = records(service).await;
    // The one that warmed up is not counted.
    records.retain(|record| record.forge_id > 1);
    let with = |state: &str| records.iter().filter(|record| record.state == state).count();
    let received = records.iter().map(|record| record.received_at).min().unwrap_or_default();
    let ended = records.iter().filter_map(|record| record.finished_at).max().unwrap_or_default();
    let mut wrong = Vec::new();
    every_event_has_one(&records, events, &mut wrong);
    in_the_history_once_and_in_order(&records, repository, &mut wrong);
    latest_is_the_newest(&records, repository, &mut wrong);
    for record in records.iter().filter(|r| !matches!(r.state.as_str(), "succeeded" | "superseded"))
    {
        wrong.push(format!("{} is {}: {}", record.id, record.state, record.summary));
    }
    Outcome {
        pushed: with("succeeded"),
        superseded: with("superseded"),
        failed: with("failed"),
        whole: ended.duration_since(received).try_into().unwrap_or_default(),
        each: records.iter().filter_map(took).collect(),
        stages: stages(service, &records).await,
        wrong,
    }
}

fn took(record: &Record) -> Option<Duration> {
    let ended = record.finished_at.filter(|_| record.state == "succeeded")?;
    ended.duration_since(record.received_at).try_into().ok()
}

impl Outcome {
    /// Fails loudly if anything was lost, doubled or out of order.
    pub fn insist(&self) {
        for wrong in self.wrong.iter().take(20) {
            println!("WRONG: {wrong}");
        }
        assert!(self.wrong.is_empty(), "{} things are wrong", self.wrong.len());
        println!("every event has its deployment, once, in order per app and target");
    }
}

async fn records(service: &Service) -> Vec<Record> {
    let (mut records, mut cursor) = (Vec::new(), String::new());
    loop {
        let mut page = service.get(&format!("/api/v1/deployments?limit=200{cursor}")).await;
        let found: Vec<Record> =
            serde_json::from_value(page["deployments"].take()).expect("records");
        records.extend(found);
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return records,
        }
    }
}

async fn stages(service: &Service, records: &[Record]) -> BTreeMap<String, Vec<Duration>> {
    let mut stages: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    let pushed = records.iter().filter(|record| record.state == "succeeded");
    for record in pushed.step_by((records.len() / SAMPLES).max(1)) {
        let one = service.get(&format!("/api/v1/deployments/{}", record.id)).await;
        let one: Stages = serde_json::from_value(one).expect("a record");
        for Stage { stage, micros } in one.stages {
            stages.entry(stage).or_default().push(Duration::from_micros(micros));
        }
    }
    stages
}

fn every_event_has_one(records: &[Record], events: usize, wrong: &mut Vec<String>) {
    let mut seen: HashMap<i64, usize> = HashMap::new();
    for record in records {
        *seen.entry(record.forge_id).or_default() += 1;
    }
    for number in (2..).take(events) {
        match seen.remove(&number) {
            Some(1) => {}
            Some(n) => wrong.push(format!("event {number} has {n} deployments")),
            None => wrong.push(format!("event {number} is lost")),
        }
    }
    wrong.extend(seen.keys().map(|number| format!("nobody sent event {number}")));
}

fn in_the_history_once_and_in_order(
    records: &[Record],
    repository: &Path,
    wrong: &mut Vec<String>,
) {
    let format = "--format=%H %(trailers:key=Deploy-Id,valueonly,separator=%x2C)";
    let log = git(repository, &["log", "--reverse", format, "main"]);
    let mut commits: HashMap<&str, Vec<(usize, &str)>> = HashMap::new();
    for (place, line) in log.lines().enumerate() {
        if let Some((commit, id)) = line.split_once(' ').filter(|(_, id)| !id.is_empty()) {
            commits.entry(id).or_default().push((place, commit));
        }
    }
    let mut lanes: BTreeMap<(&str, &str), Vec<(i64, usize)>> = BTreeMap::new();
    for record in records {
        let found = commits.get(record.id.as_str()).map_or(&[][..], Vec::as_slice);
        match (&record.pushed, found) {
            (Some(pushed), [(place, commit)]) if pushed.changed && pushed.commit == *commit => {
                let lane = lanes.entry((&record.repository, &record.target)).or_default();
                lane.push((record.forge_id, *place));
            }
            (Some(pushed), []) if !pushed.changed => {}
            (None, []) => {}
            (_, found) => {
                wrong.push(format!("{} ({}) has {} commits", record.id, record.state, found.len()));
            }
        }
    }
    for ((repository, target), mut lane) in lanes {
        lane.sort_unstable();
        if lane.windows(2).any(|two| two[0].1 > two[1].1) {
            wrong.push(format!("{repository} on {target} is out of order: {lane:?}"));
        }
    }
}

fn latest_is_the_newest(records: &[Record], repository: &Path, wrong: &mut Vec<String>) {
    let mut newest: BTreeMap<(&str, &str), &Record> = BTreeMap::new();
    for record in records.iter().filter(|record| record.state == "succeeded") {
        let lane = newest.entry((&record.repository, &record.target)).or_insert(record);
        if lane.forge_id < record.forge_id {
            *lane = record;
        }
    }
    for record in newest.values() {
        let Some(app) = &record.app else { continue };
        let folder = format!("main:manifests/{}/{app}", record.target);
        let tree = |name: &str| git(repository, &["rev-parse", &format!("{folder}/{name}")]);
        if tree("latest") != tree(&record.id) {
            wrong.push(format!("latest of {folder} is not {}", record.id));
        }
    }
}
