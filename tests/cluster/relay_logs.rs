//! Which containers an agent reads the log of, and how the ends of logs are reported.

use serde_json::{Value as Json, json};
use the_deployer::cluster::failure::LogTail;
use the_deployer::cluster::object::WatchedKind;
use the_deployer::cluster::relay::failing::FailingContainer;
use the_deployer::cluster::relay::report::{ReportVerdict, ReportedLog};
use the_deployer::cluster::relay::sender::{ReportLimits, ReportSender};
use the_deployer::cluster::watch::event::ClusterEvent;
use the_deployer::cluster::watch::health::ClusterHealth;
use the_deployer::cluster::watched::WatchedObject;
use the_deployer::model::id::TargetName;

use super::world::{Workload, time};

const IMAGE: &str = "registry.local/web:v1";

/// An agent that sends logs.
struct Agent {
    sender: ReportSender,
    health: ClusterHealth,
}

impl Agent {
    fn start() -> Self {
        let sender = ReportSender::new("a".to_owned(), ReportLimits::default()).with_logs();
        let health = ClusterHealth::new(TargetName::parse("prod-1").unwrap());
        let mut agent = Self { sender, health };
        for kind in WatchedKind::ALL {
            agent.sender.apply(ClusterEvent::RelistBegun(kind), &agent.health);
            agent.sender.apply(ClusterEvent::RelistDone(kind), &agent.health);
        }
        agent
    }

    fn apply(&mut self, kind: WatchedKind, json: &Json) {
        let object = WatchedObject::read(kind, json).unwrap();
        self.sender.apply(ClusterEvent::Applied(Box::new(object)), &self.health);
    }

    /// A workload with one pod of that status.
    fn brings(&mut self, web: &mut Workload, status: &Json) {
        let json = web.json();
        self.apply(WatchedKind::Deployment, &json);
        self.sets(web, status);
    }

    fn sets(&mut self, web: &mut Workload, status: &Json) {
        let set = web.replica_set(IMAGE, 1, 1);
        self.apply(WatchedKind::ReplicaSet, &set);
        let pod = web.pod(IMAGE, "a", status);
        self.apply(WatchedKind::Pod, &pod);
    }

    /// The pods of the containers that fail since the last look, with their restarts.
    fn failing(&mut self, is_timed: bool, second: i64) -> Vec<(String, u32)> {
        let failing = self.sender.failing_containers(is_timed, time(second));
        failing.into_iter().map(|FailingContainer { pod, restarts, .. }| (pod, restarts)).collect()
    }
}

fn crashing(restarts: u32) -> Json {
    json!({"phase": "Running", "containerStatuses": [{
        "name": "web", "image": IMAGE, "ready": false, "restartCount": restarts,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
    }]})
}

fn running(is_ready: bool) -> Json {
    json!({
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" }}],
        "containerStatuses": [{
            "name": "web", "image": IMAGE, "ready": is_ready, "restartCount": 0,
            "state": {"running": {}},
        }],
    })
}

fn log(pod: &str) -> ReportedLog {
    ReportedLog {
        namespace: "devx".to_owned(),
        pod: pod.to_owned(),
        container: None,
        tail: LogTail::of_lines("no such table", 20),
    }
}

#[test]
fn the_log_of_a_container_that_crashes_is_read_once_for_each_run() {
    let (mut agent, mut web) = (Agent::start(), Workload::finished("v1"));
    agent.brings(&mut web, &crashing(1));
    let first = ("web-v1-a".to_owned(), 1);
    assert_eq!(agent.failing(false, 0), [first]);
    agent.sets(&mut web, &crashing(1));
    assert_eq!(agent.failing(true, 1), [], "the same run");
    agent.sets(&mut web, &crashing(2));
    assert_eq!(agent.failing(false, 2), [("web-v1-a".to_owned(), 2)]);
    agent.sets(&mut web, &running(true));
    assert_eq!(agent.failing(true, 90), []);
}

#[test]
fn the_log_of_a_pod_that_does_not_become_ready_is_read_after_the_time_of_its_probe() {
    let (mut agent, mut web) = (Agent::start(), Workload::finished("v1"));
    agent.brings(&mut web, &running(false));
    assert_eq!(agent.failing(false, 0), []);
    assert_eq!(agent.failing(true, 29), []);
    assert_eq!(agent.failing(false, 31), [], "nothing has changed, and no time was looked at");
    assert_eq!(agent.failing(true, 31), [("web-v1-a".to_owned(), 0)]);
    assert_eq!(agent.failing(true, 32), []);
}

#[test]
fn no_log_is_read_of_what_the_service_has_not_deployed_or_of_an_agent_that_sends_none() {
    let (mut agent, mut web) = (Agent::start(), Workload::finished("v1"));
    let mut of_others = web.json();
    of_others["metadata"]["labels"] = json!({});
    of_others["metadata"]["annotations"] = json!({
        "the-deployer.dev/repository": "acme/web",
        "the-deployer.dev/commit": "0123456789abcdef0123456789abcdef01234567",
    });
    agent.apply(WatchedKind::Deployment, &of_others);
    agent.sets(&mut web, &crashing(1));
    assert_eq!(agent.failing(true, 0), []);
    let silent = ReportSender::new("a".to_owned(), ReportLimits::default());
    let mut silent = Agent { sender: silent, ..Agent::start() };
    silent.brings(&mut web, &crashing(1));
    assert_eq!(silent.failing(true, 0), []);
    assert_eq!(silent.sender.next_report(false).logs, None);
}

#[test]
fn logs_are_reported_until_they_are_taken_two_at_a_time_and_the_oldest_go_first() {
    let mut agent = Agent::start();
    while agent.sender.has_work() {
        let report = agent.sender.next_report(false);
        assert_eq!(report.logs, Some(Vec::new()));
        agent.sender.take_verdict(ReportVerdict::Accepted(report.sequence));
    }
    for n in 0..40 {
        agent.sender.add_log(log(&n.to_string()));
    }
    let pods = |agent: &mut Agent| {
        let report = agent.sender.next_report(false);
        let logs = report.logs.unwrap().into_iter().map(|log| log.pod).collect::<Vec<_>>();
        (report.sequence, logs)
    };
    let (sequence, first) = pods(&mut agent);
    assert_eq!(first, ["8", "9"], "there was room for 32");
    assert_eq!(pods(&mut agent), (sequence, first.clone()), "it was not answered");
    agent.sender.take_verdict(ReportVerdict::Resync);
    assert_eq!(pods(&mut agent), (1, first), "the service was started anew");
    let mut count = 0;
    while agent.sender.has_work() {
        let (sequence, logs) = pods(&mut agent);
        count += logs.len();
        agent.sender.take_verdict(ReportVerdict::Accepted(sequence));
    }
    assert_eq!(count, 32);
}
