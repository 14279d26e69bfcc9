//! Rollouts over many targets, one after the other for each app: targets refuse the release, people lock, deploy and turn
//! back in the middle, and processes die, stand still or are cut off. At the end of each every target is where its
//! record says, byte for byte, and nothing was done twice.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value as Json, json};

use crate::chaos::fleet::{Fleet, Setting};
use crate::chaos::ledger::{Expectation, Ledger};
use crate::chaos::replicas::disturb_once;
use crate::chaos::senders::{Lane, commit_beside};
use crate::chaos::verdict::text;
use crate::chaos::{Size, finish};
use crate::harness::events::waml;
use crate::harness::postgres;
use crate::harness::random::Random;

/// No answer takes longer, and no rollout of one process stands still for longer, whatever is in its way.
const PATIENCE: Duration = Duration::from_secs(150);
/// No rollout of several processes stands still for longer. A removal whose process died is another's after five minutes,
/// which is looked for each minute; a process that is alone takes up its own at its start.
const STANDSTILL: Duration = Duration::from_mins(7);
const INTERVAL: Duration = Duration::from_millis(100);

type World<'w> = (&'w Fleet, &'w Ledger);

/// Returns how long something may stand still.
fn patience(fleet: &Fleet) -> Duration {
    if fleet.len() > 1 { STANDSTILL } else { PATIENCE }
}

/// The blobs, by path, of each revision on each target that has any; `latest` is what is live.
type RevisionTrees = BTreeMap<(String, String), BTreeMap<String, String>>;

pub(crate) async fn play(mut random: Random, size: Size, ledger: &Ledger) -> Option<Fleet> {
    let postgres = if random.percent(60) { Some(postgres::fresh_database().await?) } else { None };
    let members = if postgres.is_some() { 2 } else { 1 };
    let host = random.percent(50) || members > 1;
    let setting = Setting { members, postgres, github: false, host, pushes: None };
    let fleet = Fleet::start(setting).await;
    let world = (&fleet, ledger);
    let over = Cell::new(false);
    // From 3 to 100, and more often few.
    let targets = |random: &mut Random| {
        let most = random.below(size.of(4, 98));
        3 + random.below(1 + most)
    };
    let apps: Vec<App> =
        (0..size.of(2, 5)).map(|number| App::new(number, targets(&mut random))).collect();
    let rollouts = size.of(2, 5);
    let rolling = apps.iter().map(|app| app.roll_out(world, random.fork(), rollouts));
    let rolling: Vec<_> = rolling.collect();
    let mut troublemaker = random.fork();
    let acting = async {
        join_all(rolling).await;
        over.set(true);
    };
    let disturbing = async {
        while !over.get() {
            tokio::time::sleep(troublemaker.millis(300, size.of(1200, 4000))).await;
            disturb_once(world, &mut troublemaker, size).await;
        }
    };
    tokio::join!(acting, disturbing, commit_beside(world, random.fork(), &over));
    finish(&fleet, ledger).await;
    Some(fleet)
}

/// One app and its targets.
struct App {
    name: String,
    repository: String,
    targets: Vec<&'static str>,
}

/// One rollout, as it was asked for.
struct Attempt {
    tag: String,
    /// The targets whose section the rules refuse.
    refused: BTreeSet<String>,
    /// What was live before.
    before: RevisionTrees,
    /// The targets that people deployed to in the middle.
    others: BTreeSet<String>,
}

impl App {
    fn new(number: usize, targets: usize) -> Self {
        let targets = (0..targets).map(|at| &*Box::leak(format!("t{at:03}").into_boxed_str()));
        let name = format!("rolled-{number}");
        Self { repository: format!("example/{name}"), name, targets: targets.collect() }
    }

    /// The WAML; rules refuse the sections of those targets.
    fn waml(&self, refused: &BTreeSet<String>) -> String {
        let text = waml(&self.name);
        let (head, rest) = text.split_once("deploy:\n").expect("the example deploys");
        let rest: String = rest
            .lines()
            .skip_while(|line| line.starts_with(' '))
            .map(|line| format!("{line}\n"))
            .collect();
        let sections = self.targets.iter().map(|target| {
            let section = if refused.contains(*target) {
                "{autoscaling: {horizontal: {minReplicas: 9, maxReplicas: 2}}}"
            } else {
                "{}"
            };
            format!("  {target}: {section}\n")
        });
        format!("{head}deploy:\n{}{rest}", sections.collect::<String>())
    }

    /// Starts rollouts, one after the other, acts on them as people do, and judges each.
    async fn roll_out(&self, world: World<'_>, mut random: Random, rollouts: usize) {
        for number in 0..rollouts {
            let percent = *random.choose(&[0, 0, 3, 10]);
            let refused = self.targets.iter().filter(|_| random.percent(percent));
            let refused: BTreeSet<String> = refused.map(|one| (*one).to_owned()).collect();
            world.0.commit(&self.repository, &self.waml(&refused));
            let tag = format!("r{number}.{}", random.below(1_000_000));
            let before = self.revisions(world.0);
            let mut attempt = Attempt { tag, refused, before, others: BTreeSet::new() };
            let Some(id) = self.start(world, &mut random, &attempt).await else { return };
            world.1.count("events");
            world.1.count("rollouts");
            let Some(record) = self.follow(world, &mut random, &id, &mut attempt).await else {
                return;
            };
            self.judge(world, &record, &attempt).await;
        }
    }

    /// Starts one until it is accepted; two callers use the same key at the same moment.
    async fn start(
        &self,
        (fleet, ledger): World<'_>,
        random: &mut Random,
        attempt: &Attempt,
    ) -> Option<String> {
        let policy = *random.choose(&["undo", "undo", "continue", "pause"]);
        let body = json!({
            "repository": self.repository, "ref": "main", "tag": attempt.tag, "targets": ["t*"],
            "parallel": 1 + random.below(4), "on_failure": policy, "max_failures": random.below(2),
            "reason": "a release",
        });
        let deadline = Instant::now() + PATIENCE;
        let mut last = Json::Null;
        let mut keys = 0;
        while Instant::now() < deadline {
            let key = format!("{}-{}-{}", self.name, attempt.tag, keys / 20);
            let members = [random.below(fleet.len()), random.below(fleet.len())];
            let route = (Method::POST, "/api/v1/rollouts");
            let ask = |member| fleet.ask(member, route.clone(), Some(&body), Some(&key));
            let answers = join_all(members.map(ask)).await;
            let mut ids = BTreeSet::new();
            for answer in answers {
                match answer {
                    Some((200..=202, answer)) => {
                        ids.insert(text(&answer["id"]).to_owned());
                    }
                    Some((409, answer)) if text(&answer["type"]).ends_with(":conflict") => {
                        ids.extend(self.find(fleet, members[0], &attempt.tag).await);
                    }
                    Some((status, answer)) => {
                        // A process that died has its key for minutes.
                        keys +=
                            usize::from(text(&answer["type"]).ends_with(":idempotency-key-in-use"));
                        last = json!([status, answer]);
                    }
                    None => ledger.count("unanswered"),
                }
            }
            ledger.require(ids.len() < 2, || format!("one key began two rollouts: {ids:?}"));
            if let Some(id) = ids.pop_first() {
                return Some(id);
            }
            tokio::time::sleep(INTERVAL).await;
        }
        ledger.violation(format!("the rollout {} was not accepted: {last}", attempt.tag));
        None
    }

    /// The rollout of that tag, which was begun although no answer came.
    async fn find(&self, fleet: &Fleet, member: usize, tag: &str) -> Option<String> {
        let list = format!("/api/v1/rollouts?app=devx/{}", self.name);
        let (_, list) = fleet.ask(member, (Method::GET, &list), None, None).await?;
        let rollouts = list["rollouts"].as_array()?;
        let one = rollouts.iter().find(|one| one["tag"] == tag)?;
        one["id"].as_str().map(str::to_owned)
    }

    /// Follows one to its end, for as long as one of its targets moves now and again; people act in the middle.
    async fn follow(
        &self,
        world: World<'_>,
        random: &mut Random,
        id: &str,
        attempt: &mut Attempt,
    ) -> Option<Json> {
        let (fleet, ledger) = world;
        let mut moved = Instant::now();
        let mut last = Json::Null;
        let mut index = 0;
        while moved.elapsed() < patience(fleet) {
            tokio::time::sleep(INTERVAL).await;
            let member = random.below(fleet.len());
            let Some((200, record)) = fleet.ask(member, (Method::GET, &path(id)), None, None).await
            else {
                continue;
            };
            let next = record["index"].as_u64().unwrap_or_default();
            ledger.require(next >= index, || {
                format!("the index of {id} went back from {index} to {next}")
            });
            index = next;
            if has_ended(&record) && !has_open_target(&record) {
                return Some(record);
            }
            let act = match text(&record["state"]) {
                "undo_failed" => {
                    ledger.violation(format!("the way back of {id} needs a person: {record}"));
                    Some("retry")
                }
                _ if record["needs_person"] == true => {
                    Some(*random.choose(&["undo", "resume", "cancel", "undo"]))
                }
                _ if random.percent(2) => {
                    Some(*random.choose(&["pause", "undo", "cancel", "retry"]))
                }
                _ => None,
            };
            if let Some(act) = act {
                self.act(world, member, id, act).await;
            } else if random.percent(2) {
                self.intervene(world, random, attempt).await;
            }
            if record["targets"] != last["targets"] {
                moved = Instant::now();
            }
            last = record;
        }
        ledger.violation(format!("the rollout {id} stands still: {last}"));
        None
    }

    async fn act(&self, (fleet, ledger): World<'_>, member: usize, id: &str, act: &'static str) {
        let answer =
            fleet.post(member, &format!("{}/{act}", path(id)), &json!({"reason": "chaos"})).await;
        match answer {
            Some((200..=202, _)) => ledger.count("acts"),
            // The state does not allow it, or a process is cut off.
            Some((404 | 409 | 503, _)) | None => {}
            other => ledger.violation(format!("{act} of {id}: {other:?}")),
        }
    }

    /// A person deploys to one target, or locks it for a moment.
    async fn intervene(&self, world: World<'_>, random: &mut Random, attempt: &mut Attempt) {
        let target = *random.choose(&self.targets);
        if random.percent(50) {
            let lane = Lane::new(&self.name, target);
            lane.deploy(world, random, 1, Expectation::Contested).await;
            attempt.others.insert(target.to_owned());
        } else {
            let body = json!({"scope": {"target": target}, "reason": "chaos"});
            if let Some((201, lock)) = world.0.post(0, "/api/v1/locks", &body).await {
                world.1.count("locks");
                tokio::time::sleep(random.millis(100, 2000)).await;
                let remove = format!("/api/v1/locks/{}/remove", text(&lock["id"]));
                let deadline = Instant::now() + PATIENCE;
                while Instant::now() < deadline {
                    let answer = world.0.post(0, &remove, &json!({"reason": "it is over"})).await;
                    if matches!(answer, Some((200..=204 | 404 | 409, _))) {
                        return;
                    }
                    tokio::time::sleep(INTERVAL).await;
                }
                world.1.violation(format!("a lock of {target} could not be removed"));
            }
        }
    }

    /// Holds the record of a rollout that has ended against the repository.
    async fn judge(&self, (fleet, ledger): World<'_>, record: &Json, attempt: &Attempt) {
        // What people deployed in the middle ends, too.
        let all_over = |record: &Json| !record["finished_at"].is_null();
        fleet.until("an end", &ledger.ids(), (all_over, patience(fleet)), ledger).await;
        let trees = self.revisions(fleet);
        let none = BTreeMap::new();
        let targets = record["targets"].as_array().cloned().unwrap_or_default();
        ledger.require(targets.len() == self.targets.len(), || {
            format!("{record} has not all targets")
        });
        for one in &targets {
            let (target, state) = (text(&one["target"]), text(&one["state"]));
            let live = (target.to_owned(), "latest".to_owned());
            let now = trees.get(&live).unwrap_or(&none);
            let before = attempt.before.get(&live).unwrap_or(&none);
            let is_foreign = attempt.others.contains(target);
            let deployed = one["deployment"].as_str().map(str::to_owned);
            let deployed = deployed.and_then(|id| trees.get(&(target.to_owned(), id)));
            let deployed = deployed.unwrap_or(&none);
            let fits = match state {
                "complete" => now == deployed && !deployed.is_empty(),
                "undone" | "unchanged" | "pending" | "skipped" => now == before,
                // A deployment that was refused changed nothing; one that was pushed is there.
                "failed" => now == before || now == deployed,
                "superseded" => is_foreign,
                _ => false,
            };
            ledger.count("targets");
            ledger.require(fits || is_foreign, || {
                format!(
                    "{} on {target} is {state}, and git has something else: {one}, {now:?}",
                    attempt.tag
                )
            });
            let is_refused = attempt.refused.contains(target);
            ledger.require(!(is_refused && state == "complete"), || {
                format!("{target} took what the rules refuse: {one}")
            });
        }
    }

    /// The blobs of each revision on each target. One question to git for all: hundreds would hold up everybody else.
    fn revisions(&self, fleet: &Fleet) -> RevisionTrees {
        let mut trees = RevisionTrees::new();
        if !fleet.bare.0.join("refs").is_dir() || fleet.bare.commits() == 0 {
            return trees;
        }
        let list = fleet.bare.run(&["ls-tree", "-r", "main", "manifests/"]);
        let part = format!("/devx/{}/", self.name);
        for line in list.lines() {
            let Some((head, path)) = line.split_once('\t') else { continue };
            let Some((target, rest)) = path.split_once(&part) else { continue };
            let (target, rest) = (target.strip_prefix("manifests/"), rest.split_once('/'));
            let Some((target, (revision, file))) = target.zip(rest) else { continue };
            let key = (target.to_owned(), revision.to_owned());
            trees.entry(key).or_default().insert(file.to_owned(), head.to_owned());
        }
        trees
    }
}

fn path(id: &str) -> String {
    format!("/api/v1/rollouts/{id}")
}

fn has_ended(record: &Json) -> bool {
    matches!(text(&record["state"]), "done" | "undone" | "cancelled")
}

/// What was begun before a rollout was cancelled goes on to its end.
fn has_open_target(record: &Json) -> bool {
    let targets = record["targets"].as_array().into_iter().flatten();
    let mut states = targets.map(|one| text(&one["state"]));
    states.any(|state| matches!(state, "deploying" | "undoing" | "undo_pending"))
}
