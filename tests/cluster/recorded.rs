//! Recorded watches of real control planes: each gives exactly its starts, finishes and failures, however its events
//! come.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use serde_json::{Value as Json, json};
use the_deployer::cluster::object::WatchedKind;
use the_deployer::cluster::watched::WatchedObject;

use super::world::{World, deploy_id, revision, time};

/// One recorded event.
#[derive(Clone)]
pub(super) struct Event {
    pub(super) at: Timestamp,
    pub(super) object: WatchedObject,
    pub(super) is_deletion: bool,
    /// As it came, for what the rules do not read.
    json: Json,
}

/// A recording: what was there before, and what happened.
pub(super) struct Recording {
    pub(super) file: &'static str,
    /// What people hear, in this order.
    pub(super) told: &'static [&'static str],
    /// What they hear an hour later, when nothing more has happened.
    pub(super) told_late: &'static [&'static str],
    pub(super) initial: Vec<Event>,
    pub(super) events: Vec<Event>,
}

/// Who made the Deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// The service: it carries a digest, and deployments are expected.
    Us,
    /// Somebody else, who names a commit.
    Anybody,
}

const RECORDINGS: [(&str, &[&str], &[&str]); 9] = [
    ("01_first_rollout", &["started v1", "finished v1"], &[]),
    ("02_image_update_last_event_old_pod_gone", &["started v2", "finished v2"], &[]),
    ("03_image_update_last_event_new_pod_available", &["started v2", "finished v2"], &[]),
    ("04_scale_up_unchanged_template", &[], &[]),
    (
        "05_stuck_progress_deadline_exceeded",
        &["started v2-neverready", "failing readiness v2-neverready"],
        &["failed readiness v2-neverready"],
    ),
    (
        "05b_first_rollout_stuck_pull_error",
        &["started v1-pullfail", "failing image-pull v1-pullfail"],
        &["failed image-pull v1-pullfail"],
    ),
    ("06_superseded_midway", &["started v2", "superseded v2", "started v3", "finished v3"], &[]),
    ("08_pause_change_resume", &["started v2", "finished v2"], &[]),
    ("09_metadata_only_change", &[], &[]),
];

/// Reads all recordings, as if that owner had made the Deployment.
pub(super) fn recordings(owner: Owner) -> Vec<Recording> {
    RECORDINGS.iter().map(|(file, told, late)| read(file, told, late, owner)).collect()
}

fn read(
    file: &'static str,
    told: &'static [&'static str],
    told_late: &'static [&'static str],
    owner: Owner,
) -> Recording {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/recordings");
    let text = fs::read_to_string(folder.join(format!("{file}.jsonl"))).unwrap();
    let (mut initial, mut events, mut has_begun) = (Vec::new(), Vec::new(), false);
    for line in text.lines() {
        let mut line: Json = serde_json::from_str(line).unwrap();
        if let Some(step) = line["step"].as_str() {
            has_begun |= step.starts_with("kubectl");
            continue;
        }
        let kind = match line["resource"].as_str().unwrap() {
            "deployments.apps" => WatchedKind::Deployment,
            "replicasets.apps" => WatchedKind::ReplicaSet,
            "pods" => WatchedKind::Pod,
            other => panic!("{other}"),
        };
        let mut json = line["object"].take();
        json["metadata"]["namespace"] = json!("devx");
        let json = if kind == WatchedKind::Deployment { mark(json, owner) } else { json };
        let event = Event {
            at: line["ts"].as_str().unwrap().parse().unwrap(),
            object: WatchedObject::read(kind, &json).unwrap(),
            is_deletion: line["type"] == "DELETED",
            json,
        };
        if has_begun { events.push(event) } else { initial.push(event) }
    }
    Recording { file, told, told_late, initial, events }
}

/// The tag of the image stands for the release.
fn tag_of(json: &Json) -> &str {
    let containers =
        json.pointer("/spec/template/spec/containers").or(json.pointer("/spec/containers"));
    containers.unwrap()[0]["image"].as_str().unwrap().rsplit(':').next().unwrap()
}

fn mark(mut json: Json, owner: Owner) -> Json {
    let tag = tag_of(&json).to_owned();
    let meta = &mut json["metadata"];
    match owner {
        Owner::Us => {
            meta["labels"]["app.kubernetes.io/managed-by"] = json!("the-deployer");
            meta["labels"]["app.kubernetes.io/name"] = json!("web");
            meta["annotations"]["the-deployer.dev/digest"] = json!(format!("sha256:{tag}"));
        }
        Owner::Anybody => {
            meta["annotations"]["the-deployer.dev/repository"] = json!("wantedly/web");
            meta["annotations"]["the-deployer.dev/commit"] = json!(tag);
        }
    }
    json
}

impl Recording {
    /// A process that has listed the state before the change, with word of every revision that comes.
    pub(super) fn world(&self, owner: Owner) -> World {
        self.late_world(owner, 0)
    }

    /// A process that starts when so many events have come and gone.
    pub(super) fn late_world(&self, owner: Owner, missed: usize) -> World {
        let mut world = World::unlisted();
        if owner == Owner::Us {
            let initial: Vec<String> = self.initial.iter().filter_map(Event::tag).collect();
            let mut tags = initial.clone();
            tags.extend(self.events.iter().filter_map(Event::tag));
            tags.dedup();
            for (n, tag) in (1..).zip(tags) {
                let awaiting = !initial.contains(&tag);
                world.expect(the_deployer::cluster::expected::ExpectedRevision {
                    awaiting,
                    ..revision(n, &tag, &["web"])
                });
            }
        }
        for event in self.initial.iter().chain(&self.events[..missed]) {
            event.miss(&mut world);
        }
        world.list_everything();
        world
    }

    /// Replays events; `after` does something behind each of them.
    pub(super) fn replay(
        &self,
        world: &mut World,
        events: &[Event],
        mut after: impl FnMut(usize, &mut World),
    ) {
        for (at, event) in events.iter().enumerate() {
            let before = world.told_count();
            event.bring(world);
            after(at, world);
            if world.told_count() != before {
                self.check_finish(world);
            }
        }
    }

    /// Checks what was told at the end, and an hour later.
    pub(super) fn check(&self, mut world: World, how: &str) {
        let told = world.told();
        assert_eq!(told, self.told, "{}: {how}", self.file);
        world.pass(1);
        world.pass(3600);
        world.pass(3600);
        assert_eq!(world.told(), self.told_late, "{}: {how}, an hour later", self.file);
    }

    /// Checks what a process tells that started while it happened: what was over before is silent, and a deployment of
    /// ours that waits for its end gets it.
    pub(super) fn check_late(&self, told: &[String], owner: Owner, how: &str) {
        let mut whole = self.told.iter();
        assert!(told.iter().all(|one| whole.any(|other| one == other)), "{how}");
        if owner == Owner::Us {
            assert_eq!(told.last().map(String::as_str), self.told.last().copied(), "{how}");
        }
    }

    /// Whatever the rules read: when a finish was told, as many pods of its image were ready in the server's order of
    /// events as the Deployment that was seen asks for, and no other pods were left that had not been told to go.
    pub(super) fn check_finish(&self, world: &World) {
        let finished =
            world.told_since(0).iter().rev().find_map(|one| one.strip_prefix("finished "));
        let Some(tag) = finished else { return };
        let seen =
            world.present.values().find(|object| object.kind() == WatchedKind::Deployment).unwrap();
        let version =
            |object: &WatchedObject| -> u64 { object.meta().resource_version.parse().unwrap() };
        let upto = version(seen);
        let mut pods = std::collections::BTreeMap::new();
        for event in self.initial.iter().chain(&self.events) {
            if event.object.kind() != WatchedKind::Pod || version(&event.object) > upto {
                continue;
            }
            let key = event.object.key();
            if event.is_deletion {
                pods.remove(&key);
            } else {
                let is_newer = |old: &&Event| version(&old.object) < version(&event.object);
                if pods.get(&key).is_none_or(is_newer) {
                    pods.insert(key, event);
                }
            }
        }
        let live = pods.values().filter(|event| !event.object.meta().deleting);
        let (ready, others): (Vec<&&Event>, Vec<&&Event>) =
            live.partition(|event| event.object.pod().unwrap().ready && tag_of(&event.json) == tag);
        let wanted = seen.replicas().unwrap() as usize;
        assert!(
            ready.len() >= wanted && others.is_empty(),
            "{}: finished {tag} with {} of {wanted} pods, {} others, at version {upto}",
            self.file,
            ready.len(),
            others.len()
        );
    }
}

impl Event {
    pub(super) fn new(object: WatchedObject, is_deletion: bool) -> Self {
        Self { at: time(0), object, is_deletion, json: Json::Null }
    }

    /// Happens in the cluster, and is not seen.
    pub(super) fn miss(&self, world: &mut World) {
        world.now = world.now.max(self.at);
        if self.is_deletion {
            world.present.remove(&self.object.key());
        } else {
            world.present.insert(self.object.key(), self.object.clone());
        }
    }

    fn tag(&self) -> Option<String> {
        (self.object.kind() == WatchedKind::Deployment).then(|| tag_of(&self.json).to_owned())
    }

    pub(super) fn bring(&self, world: &mut World) {
        world.now = world.now.max(self.at);
        if self.is_deletion {
            world.delete(&self.object);
        } else {
            world.bring(self.object.clone());
        }
    }
}

fn for_each(mut test: impl FnMut(&Recording, Owner)) {
    for owner in [Owner::Us, Owner::Anybody] {
        for recording in recordings(owner) {
            test(&recording, owner);
        }
    }
}

#[test]
fn in_order() {
    for_each(|recording, owner| {
        let mut world = recording.world(owner);
        assert_eq!(world.told_count(), 0, "{}: the state before", recording.file);
        recording.replay(&mut world, &recording.events, |_, _| {});
        recording.check(world, "in order");
    });
}

#[test]
fn with_every_watch_behind_the_others() {
    let delays = [0, 3, 12, 1000];
    for_each(|recording, owner| {
        for of_deployments in delays {
            for of_replica_sets in delays {
                for of_pods in delays {
                    let delay = |event: &Event| match event.object.kind() {
                        WatchedKind::Deployment => of_deployments,
                        WatchedKind::ReplicaSet => of_replica_sets,
                        _ => of_pods,
                    };
                    let mut events: Vec<(usize, &Event)> = recording
                        .events
                        .iter()
                        .enumerate()
                        .map(|(at, event)| (at + delay(event), event))
                        .collect();
                    events.sort_by_key(|(at, _)| *at);
                    let events: Vec<Event> =
                        events.into_iter().map(|(_, one)| one.clone()).collect();
                    let mut world = recording.world(owner);
                    recording.replay(&mut world, &events, |_, _| {});
                    let delays = [of_deployments, of_replica_sets, of_pods];
                    recording.check(world, &format!("delayed by {delays:?}"));
                }
            }
        }
    });
}

#[test]
fn with_every_event_twice_and_older_ones_again() {
    for_each(|recording, owner| {
        let mut world = recording.world(owner);
        let events = &recording.events;
        recording.replay(&mut world, events, |at, world| {
            for event in events[..=at].iter().rev().take(6) {
                // A deleted object does not come again.
                if world.present.contains_key(&event.object.key()) && !event.is_deletion {
                    world.repeat(event.object.clone());
                }
            }
        });
        recording.check(world, "with duplicates");
    });
}

#[test]
fn with_a_list_at_every_position() {
    for_each(|recording, owner| {
        for place in 0..recording.events.len() {
            let mut world = recording.world(owner);
            recording.replay(&mut world, &recording.events, |at, world| {
                if at == place {
                    world.list_everything();
                }
            });
            recording.check(world, &format!("listed again after event {place}"));
        }
    });
}

#[test]
fn with_a_list_that_breaks_off_at_every_position() {
    for_each(|recording, owner| {
        for place in 0..recording.events.len() {
            let mut world = recording.world(owner);
            recording.replay(&mut world, &recording.events, |at, world| {
                if at == place {
                    for kind in WatchedKind::ALL {
                        world.index.begin_list(kind);
                    }
                    if let Some(object) = world.present.values().next().cloned() {
                        world.repeat(object);
                    }
                    world.list_everything();
                }
            });
            recording.check(world, &format!("a list broke off after event {place}"));
        }
    });
}

#[test]
fn with_a_restart_at_every_position() {
    for_each(|recording, owner| {
        for place in 0..recording.events.len() {
            let mut world = recording.world(owner);
            recording.replay(&mut world, &recording.events, |at, world| {
                if at == place {
                    world.restart();
                }
            });
            recording.check(world, &format!("restarted after event {place}"));
        }
    });
}

#[test]
fn with_a_restart_after_every_event() {
    for_each(|recording, owner| {
        let mut world = recording.world(owner);
        recording.replay(&mut world, &recording.events, |_, world| world.restart());
        recording.check(world, "restarted after every event");
    });
}

/// The watch is cut, and the server has forgotten what came in between: only the state after it is seen.
#[test]
fn with_a_gap_at_every_position() {
    for_each(|recording, owner| {
        let events = &recording.events;
        for from in 0..events.len() {
            for length in [1, 7, 1000] {
                let to = (from + length).min(events.len());
                let mut world = recording.world(owner);
                recording.replay(&mut world, &events[..from], |_, _| {});
                for event in &events[from..to] {
                    event.miss(&mut world);
                }
                world.list_everything();
                recording.check_finish(&world);
                recording.replay(&mut world, &events[to..], |_, _| {});
                let told = world.told();
                let how = format!("{}: events {from} to {to} were lost: {told:?}", recording.file);
                // A release that came and went in the gap is not heard of. All others are, as they were.
                let is_lost = |one: &&&str| !told.iter().any(|told| told == **one);
                let lost: Vec<_> = recording.told.iter().filter(is_lost).collect();
                let may_be_lost = |one: &&&str| one.ends_with("v2") && recording.told.len() == 4;
                assert!(lost.iter().all(may_be_lost), "{how}");
                assert_eq!(told.len() + lost.len(), recording.told.len(), "{how}");
            }
        }
    });
}

#[test]
fn with_a_first_start_at_every_position() {
    for_each(|recording, owner| {
        for missed in 0..=recording.events.len() {
            let mut world = recording.late_world(owner, missed);
            recording.replay(&mut world, &recording.events[missed..], |_, _| {});
            let told = world.told();
            let how =
                format!("{} {owner:?}: started after event {missed}: {told:?}", recording.file);
            recording.check_late(&told, owner, &how);
        }
    });
}

/// The service was down while everything happened.
#[test]
fn after_a_downtime() {
    for_each(|recording, owner| {
        let events = &recording.events;
        for from in 0..events.len() {
            let mut world = recording.world(owner);
            recording.replay(&mut world, &events[..from], |_, _| {});
            for event in &events[from..] {
                event.miss(&mut world);
            }
            world.restart();
            recording.check_finish(&world);
            let told = world.told();
            let how = format!("{} {owner:?}: down from event {from} on: {told:?}", recording.file);
            let is_expected = |one: &String| recording.told.contains(&one.as_str());
            assert!(told.iter().all(is_expected), "{how}");
            let unique: std::collections::BTreeSet<&String> = told.iter().collect();
            assert_eq!(unique.len(), told.len(), "{how}");
            // A deployment of ours that waits for its end gets it.
            if owner == Owner::Us {
                assert_eq!(
                    told.last().map(String::as_str),
                    recording.told.last().copied(),
                    "{how}"
                );
            }
        }
    });
}

#[test]
fn the_start_has_the_time_of_its_replica_set() {
    let all = recordings(Owner::Us);
    let update = &all[1];
    let mut world = update.world(Owner::Us);
    update.replay(&mut world, &update.events, |_, _| {});
    let record = world.store.values().find(|one| one.key.deploy_id == Some(deploy_id(2))).unwrap();
    // The Deployment was seen before its ReplicaSet here, by the service's clock.
    let second = "2026-11-21T01:07:27Z".parse::<Timestamp>().unwrap();
    assert_eq!(record.started.at.as_second(), second.as_second());
}
