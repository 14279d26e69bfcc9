//! What an agent reports and the service takes: whatever is lost, repeated or late on the way, and whoever is started
//! anew, the service comes to see what the agent sees, and takes each report once.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use the_deployer::cluster::index::ClusterIndex;
use the_deployer::cluster::object::WatchedKind;
use the_deployer::cluster::relay::receiver::ReportReceiver;
use the_deployer::cluster::relay::report::{
    ClusterReport, ReportVerdict, ReportedChange, ReportedSight,
};
use the_deployer::cluster::relay::sender::{ReportLimits, ReportSender};
use the_deployer::cluster::watch::event::ClusterEvent;
use the_deployer::cluster::watch::health::{ClusterHealth, KindSight};
use the_deployer::cluster::watched::WatchedObject;
use the_deployer::model::id::TargetName;

use super::recorded::{Owner, recordings};

const KINDS: [WatchedKind; 3] = [WatchedKind::Deployment, WatchedKind::Pod, WatchedKind::Canary];
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn health() -> ClusterHealth {
    ClusterHealth::new(TargetName::parse("prod-1").unwrap())
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_795_240_000 + second).unwrap()
}

fn object(kind: WatchedKind, name: &str, uid: u64, version: u64) -> WatchedObject {
    let labels =
        json!({"app.kubernetes.io/managed-by": "the-deployer", "app.kubernetes.io/name": name});
    let json = json!({
        "metadata": {
            "namespace": "n", "name": name, "uid": format!("{name}-{uid}"),
            "resourceVersion": version.to_string(), "labels": labels,
            "annotations": {"the-deployer.dev/digest": "sha256:1"},
        },
        "spec": {"template": {"spec": {"containers": [{"image": format!("a:{version}")}]}}},
    });
    WatchedObject::read(kind, &json).unwrap()
}

/// The objects of an index, by key, with uid and version.
fn contents(index: &ClusterIndex) -> BTreeMap<String, (String, String)> {
    let keys = WatchedKind::ALL.into_iter().flat_map(|kind| index.keys_of(kind));
    let entry = |key| {
        let meta = index.get(&key)?.meta();
        Some((key.to_string(), (meta.uid.to_string(), meta.resource_version.to_string())))
    };
    keys.filter_map(entry).collect()
}

/// The service: the receiver, and the index that its events go to.
struct Service {
    receiver: ReportReceiver,
    index: ClusterIndex,
    health: ClusterHealth,
    /// The events of changes, not of sights.
    changes: usize,
}

impl Service {
    fn start(now: Timestamp) -> Self {
        let (receiver, index) = (ReportReceiver::new(now), ClusterIndex::new());
        Self { receiver, index, health: health(), changes: 0 }
    }

    fn receive(&mut self, report: ClusterReport, now: Timestamp) -> ReportVerdict {
        let reception = self.receiver.receive(report, &self.health, now);
        assert_eq!(reception.unreadable, 0);
        self.apply(reception.events);
        reception.verdict
    }

    fn apply(&mut self, events: Vec<ClusterEvent>) {
        for event in events {
            self.changes += usize::from(!matches!(
                event,
                ClusterEvent::Seen(_) | ClusterEvent::Unseen { .. } | ClusterEvent::Unavailable(_)
            ));
            match event {
                ClusterEvent::Unavailable(kind)
                    if self.health.kinds()[&kind] != KindSight::Absent =>
                {
                    self.index.hide(kind);
                }
                event => drop(event.apply_to(&mut self.index)),
            }
        }
    }
}

/// The cluster as it is, and an agent in it.
struct Inside {
    objects: BTreeMap<(WatchedKind, &'static str), (u64, u64)>,
    version: u64,
    sender: ReportSender,
    /// The agent's own.
    health: ClusterHealth,
    agents: u32,
    /// The kinds that the agent cannot list.
    hidden: BTreeSet<WatchedKind>,
}

const LIMITS: ReportLimits = ReportLimits { changes: 5, bytes: 3_300, object_bytes: 100_000 };

impl Inside {
    fn new() -> Self {
        let sender = ReportSender::new("agent-0".to_owned(), LIMITS);
        let (objects, hidden) = (BTreeMap::new(), BTreeSet::new());
        Self { objects, version: 1, sender, health: health(), agents: 0, hidden }
    }

    fn change(&mut self, kind: WatchedKind, name: &'static str, what: u8) {
        self.version += 1;
        let version = self.version;
        match (self.objects.get(&(kind, name)).copied(), what) {
            (Some((uid, _)), 0) => {
                self.objects.remove(&(kind, name));
                let gone = object(kind, name, uid, version);
                self.tell(kind, ClusterEvent::Deleted(Box::new(gone)));
            }
            (before, what) => {
                // Another object of the name, whose end was not seen.
                let uid = match before {
                    Some((uid, _)) if what != 1 => uid,
                    _ => version,
                };
                self.objects.insert((kind, name), (uid, version));
                let new = object(kind, name, uid, version);
                self.tell(kind, ClusterEvent::Applied(Box::new(new)));
            }
        }
    }

    fn tell(&mut self, kind: WatchedKind, event: ClusterEvent) {
        if !self.hidden.contains(&kind) {
            self.sender.apply(event, &self.health);
        }
    }

    fn list(&mut self, kind: WatchedKind) {
        self.hidden.remove(&kind);
        self.sender.apply(ClusterEvent::RelistBegun(kind), &self.health);
        let listed: Vec<_> = self.objects.iter().filter(|((one, _), _)| *one == kind).collect();
        for ((_, name), (uid, version)) in listed {
            let listed = object(kind, name, *uid, *version);
            self.sender.apply(ClusterEvent::Listed(Box::new(listed)), &self.health);
        }
        self.sender.apply(ClusterEvent::RelistDone(kind), &self.health);
        self.sender.apply(ClusterEvent::Seen(kind), &self.health);
    }

    fn list_everything(&mut self) {
        for kind in WatchedKind::ALL {
            self.list(kind);
        }
    }

    fn hide(&mut self, kind: WatchedKind) {
        self.hidden.insert(kind);
        self.sender.apply(ClusterEvent::Unavailable(kind), &self.health);
    }

    /// The process is started anew, and has listed nothing yet.
    fn restart(&mut self) {
        self.agents += 1;
        self.hidden.clear();
        self.sender = ReportSender::new(format!("agent-{}", self.agents), LIMITS);
    }

    /// What the service should see: nothing of a kind that the agent does not see.
    fn contents(&self) -> BTreeMap<String, (String, String)> {
        let seen = self.objects.iter().filter(|((kind, _), _)| !self.hidden.contains(kind));
        let entry = |((kind, name), (uid, version)): (&(WatchedKind, &str), &(u64, u64))| {
            (format!("{kind} n/{name}"), (format!("{name}-{uid}"), version.to_string()))
        };
        seen.map(entry).collect()
    }
}

/// Sends reports until the service has everything.
fn drain(inside: &mut Inside, service: &mut Service, now: Timestamp) {
    for _ in 0..200 {
        let report = inside.sender.next_report(false);
        let is_whole = report.sights.is_some();
        let verdict = service.receive(report, now);
        inside.sender.take_verdict(verdict);
        if is_whole && matches!(verdict, ReportVerdict::Accepted(_)) && !inside.sender.has_work() {
            return;
        }
    }
    panic!("there is no end of reports");
}

#[derive(Debug, Clone)]
enum Step {
    Change {
        kind: usize,
        name: usize,
        what: u8,
    },
    /// A list with nothing new, and one after which nothing of the watch counts.
    List {
        kind: usize,
    },
    Hide {
        kind: usize,
    },
    /// A report, and whether its answer arrives.
    Report {
        is_answered: bool,
    },
    /// A report that does not arrive.
    Lose,
    /// A report of before arrives once more, so many back.
    Repeat {
        back: usize,
    },
    RestartAgent,
    RestartService,
    /// Nobody hears of the agent for a while.
    Pass {
        seconds: i64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let kind = 0..KINDS.len();
    let change = (kind.clone(), 0..NAMES.len(), 0..4_u8);
    prop_oneof![
        8 => change.prop_map(|(kind, name, what)| Step::Change { kind, name, what }),
        2 => kind.clone().prop_map(|kind| Step::List { kind }),
        1 => kind.prop_map(|kind| Step::Hide { kind }),
        6 => any::<bool>().prop_map(|is_answered| Step::Report { is_answered }),
        2 => Just(Step::Lose),
        2 => (0..12_usize).prop_map(|back| Step::Repeat { back }),
        1 => Just(Step::RestartAgent),
        1 => Just(Step::RestartService),
        1 => (1..40_i64).prop_map(|seconds| Step::Pass { seconds }),
    ]
}

#[test]
fn whatever_is_lost_repeated_or_started_anew_the_service_comes_to_see_what_the_agent_sees() {
    let strategy = proptest::collection::vec(step(), 0..160);
    let config = Config { cases: 1500, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&strategy, |steps| {
        let mut now = 0;
        let (mut inside, mut service) = (Inside::new(), Service::start(at(now)));
        let mut sent: Vec<ClusterReport> = Vec::new();
        inside.list_everything();
        // The newest state of each object that the service has seen since one of both was started.
        let mut newest: BTreeMap<String, u64> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Change { kind, name, what } => inside.change(KINDS[kind], NAMES[name], what),
                Step::List { kind } => inside.list(KINDS[kind]),
                Step::Hide { kind } => inside.hide(KINDS[kind]),
                Step::Report { is_answered } => {
                    let report = inside.sender.next_report(false);
                    sent.push(report.clone());
                    let verdict = service.receive(report, at(now));
                    if is_answered {
                        inside.sender.take_verdict(verdict);
                    }
                }
                Step::Lose => {
                    // It may arrive later.
                    sent.push(inside.sender.next_report(false));
                }
                Step::Repeat { back } => {
                    let repeated = sent.iter().rev().nth(back).cloned();
                    if let Some(repeated) = repeated {
                        // One of an agent that is gone counts while no other has come.
                        let _answer = service.receive(repeated, at(now));
                    }
                }
                Step::RestartAgent => {
                    inside.restart();
                    inside.list_everything();
                }
                Step::RestartService => {
                    service = Service::start(at(now));
                    newest.clear();
                }
                Step::Pass { seconds } => {
                    now += seconds;
                    let events = service.receiver.tick(&service.health, at(now));
                    service.apply(events);
                }
            }
            for (key, (_, version)) in contents(&service.index) {
                let version: u64 = version.parse().unwrap();
                prop_assert!(version <= inside.version, "nothing is made up");
                let before = newest.entry(key).or_insert(version);
                // A late report of an agent that was killed may be of before.
                prop_assert!(version >= *before || inside.agents > 0, "nothing goes back");
                *before = version.max(*before);
            }
        }
        // The agent before may have been heard a moment ago.
        now += 15;
        drain(&mut inside, &mut service, at(now));
        prop_assert_eq!(contents(&service.index), inside.contents());
        for kind in WatchedKind::ALL {
            let is_seen = service.health.kinds()[&kind] == KindSight::Seen;
            prop_assert_eq!(is_seen, !inside.hidden.contains(&kind), "{}", kind);
        }
        // What is told again changes nothing.
        let changes = service.changes;
        for repeated in sent {
            let is_of_now = repeated.session.agent == format!("agent-{}", inside.agents);
            if is_of_now {
                let _answer = service.receive(repeated, at(now));
            }
        }
        prop_assert_eq!(service.changes, changes);
        prop_assert_eq!(contents(&service.index), inside.contents());
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn an_object_of_a_recording_is_read_as_it_was() {
    let mut count = 0;
    for owner in [Owner::Us, Owner::Anybody] {
        for recording in recordings(owner) {
            for event in recording.initial.iter().chain(&recording.events) {
                let object = &event.object;
                let json = object.to_json();
                let read = WatchedObject::read_reported(object.kind(), &json, &object.template().0);
                assert_eq!(read.as_ref(), Ok(object), "{}: {json:#}", recording.file);
                count += 1;
            }
        }
    }
    assert!(count > 500, "{count}");
}

#[test]
fn a_list_that_changes_nothing_is_not_reported_and_a_cluster_whose_numbers_went_back_is() {
    let (mut inside, mut service) = (Inside::new(), Service::start(at(0)));
    inside.change(KINDS[0], "a", 2);
    inside.list_everything();
    drain(&mut inside, &mut service, at(0));
    inside.list_everything();
    let report = inside.sender.next_report(false);
    assert!(report.changes.is_empty() && report.sights.is_some(), "{report:?}");
    inside.sender.take_verdict(service.receive(report, at(0)));
    assert!(!inside.sender.has_work());
    // A backup was restored: the same object, with a version of long ago.
    let (uid, _) = inside.objects[&(KINDS[0], "a")];
    inside.objects.insert((KINDS[0], "a"), (uid, 1));
    inside.list(KINDS[0]);
    drain(&mut inside, &mut service, at(1));
    assert_eq!(contents(&service.index), inside.contents());
}

#[test]
fn an_outage_of_any_length_takes_no_more_memory_than_the_objects_and_is_told_by_their_last_states()
{
    let (mut inside, mut service) = (Inside::new(), Service::start(at(0)));
    inside.list_everything();
    drain(&mut inside, &mut service, at(0));
    let report = inside.sender.next_report(false);
    for round in 0..5_000 {
        for name in NAMES {
            inside.change(KINDS[round % 2], name, 2);
        }
    }
    assert_eq!(inside.sender.next_report(false).sequence, report.sequence, "the same again");
    let changes = service.changes;
    drain(&mut inside, &mut service, at(3600));
    assert_eq!(contents(&service.index), inside.contents());
    assert!(service.changes - changes <= 2 * NAMES.len() + 1, "{}", service.changes);
}

#[test]
fn a_second_agent_waits_until_the_first_is_silent_or_says_goodbye() {
    let (mut first, mut second) = (Inside::new(), Inside::new());
    second.restart();
    first.list_everything();
    second.list_everything();
    let mut service = Service::start(at(0));
    drain(&mut first, &mut service, at(0));
    let report = second.sender.next_report(false);
    assert_eq!(service.receive(report.clone(), at(14)), ReportVerdict::OtherAgent);
    second.sender.take_verdict(ReportVerdict::OtherAgent);
    assert_eq!(service.receive(report.clone(), at(15)), ReportVerdict::Accepted(1));
    let verdict = service.receive(first.sender.next_report(false), at(16));
    assert_eq!(verdict, ReportVerdict::OtherAgent, "it is replaced");

    let mut service = Service::start(at(0));
    drain(&mut first, &mut service, at(0));
    let last = first.sender.next_report(true);
    first.sender.take_verdict(service.receive(last, at(1)));
    assert_eq!(service.receive(report, at(1)), ReportVerdict::Accepted(1));
}

#[test]
fn the_service_asks_for_everything_when_it_does_not_know_the_session() {
    let (mut inside, mut service) = (Inside::new(), Service::start(at(0)));
    inside.change(KINDS[0], "a", 2);
    inside.list_everything();
    drain(&mut inside, &mut service, at(0));
    let generation = inside.sender.generation();
    let mut service = Service::start(at(1));
    inside.change(KINDS[0], "b", 2);
    let report = inside.sender.next_report(false);
    assert_eq!(service.receive(report.clone(), at(1)), ReportVerdict::Resync);
    inside.sender.take_verdict(ReportVerdict::Resync);
    assert_eq!(inside.sender.generation(), generation + 1);
    drain(&mut inside, &mut service, at(1));
    assert_eq!(contents(&service.index).len(), 2);
    assert_eq!(service.receive(report, at(1)), ReportVerdict::Outdated);
    // A gap cannot come from an agent that waits for answers.
    let mut gap = inside.sender.next_report(false);
    gap.sequence += 1;
    assert_eq!(service.receive(gap, at(1)), ReportVerdict::Resync);
}

#[test]
fn silence_hides_everything_until_the_agent_has_told_all_that_it_has() {
    let (mut inside, mut service) = (Inside::new(), Service::start(at(0)));
    assert!(service.receiver.tick(&service.health, at(29)).is_empty());
    let events = service.receiver.tick(&service.health, at(30));
    assert_eq!(events.len(), WatchedKind::ALL.len());
    assert!(service.health.unseen().unwrap().reason.contains("no agent has reported yet"));
    assert!(service.receiver.tick(&service.health, at(60)).is_empty(), "it is said once");
    inside.list_everything();
    drain(&mut inside, &mut service, at(60));
    assert_eq!((service.health.unseen(), service.health.is_complete()), (None, true));

    assert!(service.receiver.tick(&service.health, at(89)).is_empty());
    assert!(!service.receiver.tick(&service.health, at(90)).is_empty());
    let unseen = service.health.unseen().unwrap();
    assert_eq!(unseen.since, Some(at(60)));
    assert_eq!(unseen.reason, format!("the agent has not reported since {:.0}", at(60)));
    for name in NAMES {
        inside.change(KINDS[0], name, 2);
    }
    let part = inside.sender.next_report(false);
    assert_eq!((part.changes.len(), &part.sights), (5, &None));
    inside.sender.take_verdict(service.receive(part, at(91)));
    assert!(service.health.unseen().is_some(), "there is more");
    drain(&mut inside, &mut service, at(91));
    assert_eq!((service.health.unseen(), service.health.is_complete()), (None, true));
}

#[test]
fn what_the_agent_does_not_see_the_service_does_not_see_either() {
    let (mut inside, mut service) = (Inside::new(), Service::start(at(0)));
    inside.change(KINDS[1], "a", 2);
    inside.list_everything();
    drain(&mut inside, &mut service, at(0));
    let (since, reason) = (Some(at(-5)), "connection refused".to_owned());
    let unseen = |kind| ClusterEvent::Unseen { kind, since, reason: reason.clone() };
    assert!(!inside.sender.has_work());
    for kind in WatchedKind::ALL {
        inside.sender.apply(unseen(kind), &inside.health);
    }
    assert!(inside.sender.has_work(), "that is told at once");
    drain(&mut inside, &mut service, at(1));
    let unseen = service.health.unseen().unwrap();
    assert_eq!((unseen.since, unseen.reason.as_str()), (since, "connection refused"));
    assert_eq!(contents(&service.index), inside.contents(), "the objects stay");
    // An agent that is started anew says what it does not know yet.
    inside.restart();
    let later = at(1) + SignedDuration::from_secs(15);
    let first = inside.sender.next_report(false);
    inside.sender.take_verdict(service.receive(first, later));
    let unseen = service.health.unseen().unwrap();
    assert!(unseen.reason.contains("started anew"), "{unseen:?}");
    inside.list_everything();
    drain(&mut inside, &mut service, later);
    assert_eq!((service.health.unseen(), service.health.is_complete()), (None, true));
}

#[test]
fn an_older_agent_reports_fewer_kinds_and_a_hostile_one_takes_no_room() {
    let (mut inside, mut service) = (Inside::new(), Service::start(at(0)));
    inside.list_everything();
    let mut report = inside.sender.next_report(false);
    while report.sights.is_none() {
        inside.sender.take_verdict(service.receive(report, at(0)));
        report = inside.sender.next_report(false);
    }
    let sights = report.sights.as_mut().unwrap();
    sights.remove(&WatchedKind::Canary);
    let reason = "x".repeat(1_000_000);
    sights.insert(WatchedKind::Job, ReportedSight::Hidden { reason });
    let _answer = service.receive(report, at(0));
    let unseen = service.health.unseen().unwrap();
    assert!(unseen.reason.contains("the agent does not know the kind: upgrade it"));
    assert!(unseen.reason.len() < 1000, "{}", unseen.reason.len());
    assert!(service.index.is_unavailable(WatchedKind::Canary));
}

#[test]
fn an_object_that_is_too_large_is_left_out_and_one_that_grows_is_gone() {
    let limits = ReportLimits { object_bytes: 2_000, ..LIMITS };
    let mut sender = ReportSender::new("a".to_owned(), limits);
    let pod = |containers: usize| {
        let status = json!({"name": "c", "image": "i".repeat(200)});
        let json = json!({
            "metadata": {"name": "p", "uid": "u", "resourceVersion": containers.to_string()},
            "status": {"containerStatuses": vec![status; containers]},
        });
        Box::new(WatchedObject::read(WatchedKind::Pod, &json).unwrap())
    };
    sender.apply(ClusterEvent::RelistBegun(WatchedKind::Pod), &health());
    sender.apply(ClusterEvent::Listed(pod(1)), &health());
    sender.apply(ClusterEvent::RelistDone(WatchedKind::Pod), &health());
    assert_eq!(sender.next_report(false).changes.len(), 3);
    sender.take_verdict(ReportVerdict::Accepted(1));
    sender.apply(ClusterEvent::Applied(pod(40)), &health());
    let changes = sender.next_report(false).changes;
    assert!(
        matches!(&changes[..], [ReportedChange::Deleted(key, uid)] if &*key.name == "p" && uid == "u")
    );
    sender.take_verdict(ReportVerdict::Accepted(2));
    sender.apply(ClusterEvent::Applied(pod(41)), &health());
    assert!(sender.next_report(false).changes.is_empty());
}
