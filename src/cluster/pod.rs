//! Pods as rows: a cluster has ten thousand of them, and the rules need a few words of each.
//!
//! A row has the phase, and for each container its state, its restarts and how it last ended. Environment, volumes and
//! probes are not in it, but for the time that a container is given to become ready.

use serde_json::Value as Json;

use crate::cluster::fields::{
    MESSAGE_BYTES, condition_at, count_at, counter, flag_at, is_word, list_at, name_at, text_at,
    true_condition, value_at,
};
use crate::cluster::object::ObjectMeta;

/// The bytes of an image's name that are shown.
const IMAGE_BYTES: usize = 256;
/// The time that a container without a probe may take to become ready before it counts as failing.
const READY_SECONDS: u32 = 30;
/// A probe may be written to wait for days; nobody wants to hear of the failure after that.
const MAX_READY_SECONDS: u32 = 3600;

/// The part of a pod that the rules read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRow {
    /// Its metadata.
    pub meta: ObjectMeta,
    /// The hash of its template: `controller-revision-hash` or `pod-template-hash`.
    pub template: Option<Box<str>>,
    /// `pod-template-generation`, of a pod of a `DaemonSet`.
    pub template_generation: Option<u32>,
    /// `status.phase`
    pub phase: PodPhase,
    /// The condition `Ready`.
    pub ready: bool,
    /// The reason for which no node takes it, while the scheduler says so.
    pub unschedulable: Option<Box<str>>,
    /// The time that its containers may take to become ready, by their probes.
    pub ready_seconds: u32,
    /// Init containers first, in the order of the pod.
    pub containers: Box<[ContainerRow]>,
}

/// The phase of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodPhase {
    /// Not all containers have started.
    Pending,
    /// At least one container runs.
    Running,
    /// All containers have ended well.
    Succeeded,
    /// A container has ended badly, and none is started again.
    Failed,
    /// The node does not answer, or a word that is not known here.
    Unknown,
}

/// The part of a container that the rules read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRow {
    /// Its name in the pod.
    pub name: Box<str>,
    /// As the pod asks for it.
    pub image: Box<str>,
    /// It runs before the others and should end; a sidecar that goes on running is none.
    pub init: bool,
    /// It has passed its readiness probe.
    pub ready: bool,
    /// The number of times that it was started again.
    pub restarts: u32,
    /// Its present state.
    pub state: ContainerState,
    /// Its last end.
    pub last_end: Option<Box<ContainerEnd>>,
}

/// The present state of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerState {
    /// It does not run yet, or not again.
    Waiting {
        /// `ErrImagePull`, `CrashLoopBackOff`, `ContainerCreating` …
        reason: Box<str>,
        /// Kubernetes' own sentence.
        message: Box<str>,
    },
    /// It runs.
    Running,
    /// It has ended.
    Ended(Box<ContainerEnd>),
    /// Nothing is said.
    Unknown,
}

/// The end of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerEnd {
    /// Its exit code; 0 where there is none.
    pub exit_code: i64,
    /// `OOMKilled`, `Error`, `Completed`, `StartError` …
    pub reason: Box<str>,
    /// The termination message, or the runtime's sentence.
    pub message: Box<str>,
}

impl PodRow {
    /// Reads a pod; `None` where it has no name.
    pub fn read(json: &Json) -> Option<Self> {
        let label = |name: &str| text_at(json, &["metadata", "labels", name], 64);
        let scheduled = condition_at(json, "PodScheduled").filter(|one| is_unschedulable(one));
        Some(Self {
            meta: ObjectMeta::read(json)?,
            template: label("controller-revision-hash").or_else(|| label("pod-template-hash")),
            template_generation: label("pod-template-generation")
                .and_then(|text| text.parse().ok()),
            phase: PodPhase::parse(value_at(json, &["status", "phase"]).and_then(Json::as_str)),
            ready: true_condition(json, "Ready").is_some(),
            unschedulable: scheduled
                .map(|one| text_at(one, &["message"], MESSAGE_BYTES).unwrap_or_default()),
            ready_seconds: read_ready_seconds(json),
            containers: read_containers(json),
        })
    }

    /// Counts the restarts of all its containers.
    pub fn restarts(&self) -> u32 {
        self.containers.iter().fold(0, |sum, one| sum.saturating_add(one.restarts))
    }

    /// Checks that it is to run and has not been told to go.
    pub fn is_live(&self) -> bool {
        !self.meta.deleting
            && match self.phase {
                PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => true,
                PodPhase::Succeeded | PodPhase::Failed => false,
            }
    }

    /// Checks that all its containers run and it is not ready all the same.
    pub fn is_running_unready(&self) -> bool {
        let runs = |one: &ContainerRow| one.init || one.state == ContainerState::Running;
        self.is_live()
            && self.phase == PodPhase::Running
            && !self.ready
            && self.containers.iter().all(runs)
    }
}

impl PodPhase {
    /// Finds the phase of that word.
    pub fn parse(word: Option<&str>) -> Self {
        match word {
            Some("Pending") | None => Self::Pending,
            Some("Running") => Self::Running,
            Some("Succeeded") => Self::Succeeded,
            Some("Failed") => Self::Failed,
            Some(_) => Self::Unknown,
        }
    }
}

fn is_unschedulable(condition: &Json) -> bool {
    is_word(condition, &["status"], "False") && is_word(condition, &["reason"], "Unschedulable")
}

/// The longest of its containers' times: the delay of the readiness probe, and as many periods as it may fail. A
/// startup probe comes before it.
fn read_ready_seconds(json: &Json) -> u32 {
    let seconds = |container: &Json| {
        let probe_seconds = |probe: &str| {
            value_at(container, &[probe])?;
            let delay = counter(container, &[probe, "initialDelaySeconds"]);
            let period = count_at(container, &[probe, "periodSeconds"]).unwrap_or(10);
            let failures = count_at(container, &[probe, "failureThreshold"]).unwrap_or(3);
            Some(delay.saturating_add(period.saturating_mul(failures)))
        };
        let startup = probe_seconds("startupProbe").unwrap_or(0);
        startup.saturating_add(probe_seconds("readinessProbe").unwrap_or(0))
    };
    let containers = list_at(json, &["spec", "containers"]);
    let longest = containers.iter().map(seconds).max().unwrap_or(0);
    longest.clamp(READY_SECONDS, MAX_READY_SECONDS)
}

fn read_containers(json: &Json) -> Box<[ContainerRow]> {
    let init = list_at(json, &["status", "initContainerStatuses"]).iter().map(|one| (one, true));
    let others = list_at(json, &["status", "containerStatuses"]).iter().map(|one| (one, false));
    let row = |(status, init): (&Json, bool)| {
        let name = name_at(status, &["name"]);
        ContainerRow {
            image: text_at(status, &["image"], IMAGE_BYTES).unwrap_or_default(),
            init: init && !is_sidecar(json, &name),
            ready: flag_at(status, &["ready"]),
            restarts: counter(status, &["restartCount"]),
            state: ContainerState::read(status),
            last_end: value_at(status, &["lastState", "terminated"])
                .map(|end| Box::new(ContainerEnd::read(end))),
            name,
        }
    };
    init.chain(others).map(row).collect()
}

/// An init container that is always started again runs beside the others.
fn is_sidecar(json: &Json, name: &str) -> bool {
    list_at(json, &["spec", "initContainers"])
        .iter()
        .any(|one| is_word(one, &["name"], name) && is_word(one, &["restartPolicy"], "Always"))
}

impl ContainerState {
    fn read(status: &Json) -> Self {
        let Some(state) = value_at(status, &["state"]) else { return Self::Unknown };
        if let Some(waiting) = value_at(state, &["waiting"]) {
            return Self::Waiting {
                reason: text_at(waiting, &["reason"], MESSAGE_BYTES).unwrap_or_default(),
                message: text_at(waiting, &["message"], MESSAGE_BYTES).unwrap_or_default(),
            };
        }
        if let Some(end) = value_at(state, &["terminated"]) {
            return Self::Ended(Box::new(ContainerEnd::read(end)));
        }
        if value_at(state, &["running"]).is_some() { Self::Running } else { Self::Unknown }
    }
}

impl ContainerEnd {
    fn read(end: &Json) -> Self {
        Self {
            exit_code: value_at(end, &["exitCode"]).and_then(Json::as_i64).unwrap_or(0),
            reason: text_at(end, &["reason"], MESSAGE_BYTES).unwrap_or_default(),
            message: text_at(end, &["message"], MESSAGE_BYTES).unwrap_or_default(),
        }
    }
}
