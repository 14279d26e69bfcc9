//! Causes of failures: the reasons for which the pods of a release do not run, read from the pods themselves, within
//! seconds of the first bad one and long before any deadline.
//!
//! A cause is what a person would look for with `kubectl describe`: it names the pod, the container, the image or the
//! exit code, and says what to do. Kubernetes' two words for one thing (`ErrImagePull`, `ImagePullBackOff`) are one
//! cause, so that it does not come and go with them. Pods of a former template and pods that were told to go do not
//! count.

use serde::{Deserialize, Serialize};

use crate::cluster::index::ClusterIndex;
use crate::cluster::object::WatchedKind;
use crate::cluster::pod::{ContainerEnd, ContainerRow, ContainerState, PodPhase, PodRow};
use crate::cluster::watched::WatchedObject;
use crate::model::status::one_line;
use crate::model::words::words;
use crate::support::log_text::{mask_log, remove_controls};
use crate::support::secret_mask::mask_secrets;
use crate::support::text::truncate_chars;

/// The longest message of the cluster in a cause, in characters.
const MESSAGE_CHARS: usize = 300;
/// The number of lines of a log that are shown: the end of a stack trace, and what led to it.
pub const LOG_LINES: usize = 20;
/// The length of each of them, in characters.
const LOG_LINE_CHARS: usize = 400;
/// The number of lines before them that are searched for secrets, too: a private key has up to 100 lines.
pub(super) const MASKED_LINES: usize = 100;
/// The bytes of each line that are searched for secrets.
const MASKED_LINE_BYTES: usize = 16 * 1024;

words! {
    /// A kind of cause. Of several the first one here is shown: it explains those that follow.
    pub enum CauseKind {
        /// The image has no legal name, or must not be pulled.
        InvalidImage = "invalid-image",
        /// The image cannot be pulled.
        ImagePull = "image-pull",
        /// A secret or a `ConfigMap` that the container needs is missing.
        ConfigError = "config-error",
        /// The program cannot be started.
        CannotStart = "cannot-start",
        /// The container needs more memory than it may have.
        OutOfMemory = "out-of-memory",
        /// The container ends again and again.
        CrashLoop = "crash-loop",
        /// The namespace's quota has no room.
        Quota = "quota",
        /// The cluster does not admit the pods.
        Refused = "refused",
        /// No node takes the pod.
        Unschedulable = "unschedulable",
        /// The container runs and does not become ready.
        Readiness = "readiness",
        /// The Job gave up.
        JobFailed = "job-failed",
        /// Flagger rolled the canary back.
        CanaryFailed = "canary-failed",
        /// Argo CD cannot sync the commit.
        SyncFailed = "sync-failed",
        /// Argo CD has not synced the commit.
        NotSynced = "not-synced",
        /// Nothing has changed for longer than the deadline, and no pod says why.
        NoProgress = "no-progress",
    }
}

/// The reason for which a release does not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureCause {
    /// Its kind.
    pub kind: CauseKind,
    /// The first pod that has it.
    pub pod: Option<String>,
    /// The container in it.
    pub container: Option<String>,
    /// The image that it asks for.
    pub image: Option<String>,
    /// The exit code of the container, if it ended.
    pub exit_code: Option<i64>,
    /// The number of times that the container was started again.
    pub restarts: u32,
    /// The cluster's own sentence, on one line, without secrets.
    pub message: String,
}

impl FailureCause {
    /// Makes a cause that is no pod's.
    pub fn new(kind: CauseKind, message: &str) -> Self {
        Self {
            kind,
            pod: None,
            container: None,
            image: None,
            exit_code: None,
            restarts: 0,
            message: one_line(&mask_secrets(message), MESSAGE_CHARS),
        }
    }

    fn of_pod(kind: CauseKind, pod: &PodRow, message: &str) -> Self {
        Self { pod: Some(pod.meta.name.to_string()), ..Self::new(kind, message) }
    }

    fn of_container(kind: CauseKind, pod: &PodRow, row: &ContainerRow, message: &str) -> Self {
        Self {
            container: Some(row.name.to_string()),
            image: Some(row.image.to_string()),
            restarts: row.restarts,
            ..Self::of_pod(kind, pod, message)
        }
    }

    /// Checks that the same release can come to run without another deployment: a registry answers again, a node
    /// comes, a secret is made.
    pub fn can_heal(&self) -> bool {
        match self.kind {
            CauseKind::InvalidImage | CauseKind::JobFailed | CauseKind::CanaryFailed => false,
            CauseKind::CannotStart => {
                let words =
                    ["executable file not found", "no such file or directory", "exec format error"];
                !words.iter().any(|word| self.message.contains(word))
            }
            CauseKind::Refused => !self.message.contains("violates PodSecurity"),
            CauseKind::ImagePull
            | CauseKind::ConfigError
            | CauseKind::OutOfMemory
            | CauseKind::CrashLoop
            | CauseKind::Quota
            | CauseKind::Unschedulable
            | CauseKind::Readiness
            | CauseKind::SyncFailed
            | CauseKind::NotSynced
            | CauseKind::NoProgress => true,
        }
    }

    /// Checks that the last lines of the container's log tell more.
    pub fn has_log(&self) -> bool {
        match self.kind {
            CauseKind::CrashLoop
            | CauseKind::OutOfMemory
            | CauseKind::Readiness
            | CauseKind::JobFailed => self.pod.is_some(),
            CauseKind::InvalidImage
            | CauseKind::ImagePull
            | CauseKind::ConfigError
            | CauseKind::CannotStart
            | CauseKind::Quota
            | CauseKind::Refused
            | CauseKind::Unschedulable
            | CauseKind::CanaryFailed
            | CauseKind::SyncFailed
            | CauseKind::NotSynced
            | CauseKind::NoProgress => false,
        }
    }

    /// Says what is wrong, for people.
    pub fn sentence(&self) -> String {
        let pod = self.pod.as_deref().unwrap_or("a pod");
        let container = self.container.as_deref().unwrap_or("a container");
        let image = self.image.as_deref().unwrap_or("its image");
        let reason =
            if self.message.is_empty() { String::new() } else { format!(": {}", self.message) };
        match self.kind {
            CauseKind::InvalidImage => format!("{pod} cannot have the image {image}{reason}"),
            CauseKind::ImagePull => format!("{pod} cannot pull the image {image}{reason}"),
            CauseKind::ConfigError => format!("{pod} lacks a part of its configuration{reason}"),
            CauseKind::CannotStart => {
                format!("{pod}: the container {container} cannot be started{reason}")
            }
            CauseKind::OutOfMemory => format!(
                "{pod}: the container {container} used more memory than its limit and was killed{}",
                self.restart_count()
            ),
            CauseKind::CrashLoop => {
                let code =
                    self.exit_code.map_or(String::new(), |code| format!(" with exit code {code}"));
                format!(
                    "{pod}: the container {container} ended{code}{}{reason}",
                    self.restart_count()
                )
            }
            CauseKind::Quota => format!("no pod can be created, the quota is used up{reason}"),
            CauseKind::Refused => format!("the cluster refuses to create the pods{reason}"),
            CauseKind::Unschedulable => format!("no node takes {pod}{reason}"),
            CauseKind::Readiness => format!("{pod} runs and does not become ready{reason}"),
            CauseKind::JobFailed => format!("the Job failed{reason}"),
            CauseKind::CanaryFailed => format!("Flagger rolled the canary back{reason}"),
            CauseKind::SyncFailed => format!("Argo CD cannot sync the commit{reason}"),
            CauseKind::NotSynced => format!("Argo CD has not synced the commit{reason}"),
            CauseKind::NoProgress => {
                format!("nothing has changed for longer than the deadline{reason}")
            }
        }
    }

    /// Finds the kind of the cause that a sentence is about, as [`FailureCause::sentence`] writes it; `None` for others.
    pub fn kind_of_sentence(sentence: &str) -> Option<CauseKind> {
        const WORDS: [(&str, CauseKind); CauseKind::ALL.len()] = [
            (" cannot have the image ", CauseKind::InvalidImage),
            (" cannot pull the image ", CauseKind::ImagePull),
            (" lacks a part of its configuration", CauseKind::ConfigError),
            (" cannot be started", CauseKind::CannotStart),
            (" used more memory than its limit", CauseKind::OutOfMemory),
            ("the quota is used up", CauseKind::Quota),
            ("the cluster refuses to create", CauseKind::Refused),
            ("no node takes ", CauseKind::Unschedulable),
            (" does not become ready", CauseKind::Readiness),
            ("the Job failed", CauseKind::JobFailed),
            ("Flagger rolled the canary back", CauseKind::CanaryFailed),
            ("Argo CD cannot sync", CauseKind::SyncFailed),
            ("Argo CD has not synced", CauseKind::NotSynced),
            ("nothing has changed for longer", CauseKind::NoProgress),
            // After the others, whose sentences may quote such a message.
            (": the container ", CauseKind::CrashLoop),
        ];
        WORDS.into_iter().find(|(words, _)| sentence.contains(words)).map(|(_, kind)| kind)
    }

    fn restart_count(&self) -> String {
        match self.restarts {
            0 => String::new(),
            1 => " (1 restart)".to_owned(),
            many => format!(" ({many} restarts)"),
        }
    }

    /// Says what to do about it.
    pub fn help(&self) -> &'static str {
        match self.kind {
            CauseKind::InvalidImage => "correct `image` in the WAML and deploy again",
            CauseKind::ImagePull => {
                "check that the tag is in the registry, and that the cluster's pull secret may read the repository"
            }
            CauseKind::ConfigError => {
                "make the secret, the ConfigMap or the key that the message names, or take the variable out of the WAML"
            }
            CauseKind::CannotStart => {
                "check `command` and `args` in the WAML and the image's entry point"
            }
            CauseKind::OutOfMemory => {
                "raise `resources.limits.memory` in the WAML, or use less memory"
            }
            CauseKind::CrashLoop => {
                "read the last lines of the log; roll back if the release before was good"
            }
            CauseKind::Quota => {
                "ask the platform team for a larger quota, or lower `resources.requests` or replicas"
            }
            CauseKind::Refused => {
                "the message names the rule: change the WAML so that the pods keep it"
            }
            CauseKind::Unschedulable => {
                "lower `resources.requests`, or ask the platform team for nodes that fit"
            }
            CauseKind::Readiness => {
                "check `probes` in the WAML and what the readiness endpoint answers"
            }
            CauseKind::JobFailed => "read the last lines of the log of its pods",
            CauseKind::CanaryFailed => {
                "look at the metric that failed; change the release, or an annotation of its pods to try again"
            }
            CauseKind::SyncFailed | CauseKind::NotSynced => "look at the Application in Argo CD",
            CauseKind::NoProgress => "look at the events of the workload: `kubectl describe`",
        }
    }
}

/// Finds the cause that explains best why a workload is not finished.
///
/// `is_overdue` says of a pod that runs whether it should have become ready by now: only its caller knows the time.
pub fn workload_cause(
    object: &WatchedObject,
    index: &ClusterIndex,
    is_overdue: &dyn Fn(&PodRow) -> bool,
) -> Option<FailureCause> {
    let runs_to_end = object.kind() == WatchedKind::Job;
    let of_pods = present_pods(object, index).into_iter().filter_map(|pod| {
        pod_cause(pod, runs_to_end).or_else(|| readiness_cause(pod, is_overdue(pod)))
    });
    let of_object = replica_failure(object, index).map(|message| {
        let is_quota = message.contains("exceeded quota");
        FailureCause::new(if is_quota { CauseKind::Quota } else { CauseKind::Refused }, message)
    });
    of_pods.chain(of_object).min_by_key(|cause| (cause.kind, cause.pod.clone()))
}

/// Lists the pods of the present template that are to run; of a Job also those that failed.
fn present_pods<'a>(object: &WatchedObject, index: &'a ClusterIndex) -> Vec<&'a PodRow> {
    let pods = match object {
        WatchedObject::Deployment(deployment) => index
            .current_replica_set(deployment)
            .map(|current| index.pods_owned_by(&current.meta.uid))
            .unwrap_or_default(),
        WatchedObject::StatefulSet(set) => {
            let mut pods = index.pods_of(object);
            pods.retain(|pod| pod.template.as_ref() == Some(&set.update_revision));
            pods
        }
        WatchedObject::DaemonSet(set) => {
            let mut pods = index.pods_of(object);
            pods.retain(|pod| set.has_made(pod));
            pods
        }
        // The template of a Job cannot be changed: another release of it is another Job.
        WatchedObject::Job(_) => index.pods_of(object),
        // Jobs that the clock starts later are no part of a deployment.
        WatchedObject::CronJob(_)
        | WatchedObject::ReplicaSet(_)
        | WatchedObject::Pod(_)
        | WatchedObject::Application(_)
        | WatchedObject::Canary(_) => Vec::new(),
    };
    let is_job = object.kind() == WatchedKind::Job;
    let counts = |pod: &&PodRow| pod.is_live() || (is_job && pod.phase == PodPhase::Failed);
    pods.into_iter().filter(counts).collect()
}

fn replica_failure<'a>(object: &'a WatchedObject, index: &'a ClusterIndex) -> Option<&'a str> {
    let deployment = object.deployment()?;
    let current = index.current_replica_set(deployment);
    current
        .and_then(|current| current.replica_failure.as_deref())
        .or(deployment.replica_failure.as_deref())
}

/// Finds the cause that a pod shows by itself.
pub fn pod_cause(pod: &PodRow, runs_to_end: bool) -> Option<FailureCause> {
    let of_containers =
        pod.containers.iter().filter_map(|row| container_cause(pod, row, runs_to_end));
    let unschedulable = pod
        .unschedulable
        .as_ref()
        .map(|message| FailureCause::of_pod(CauseKind::Unschedulable, pod, message));
    of_containers.chain(unschedulable).min_by_key(|cause| cause.kind)
}

fn readiness_cause(pod: &PodRow, is_overdue: bool) -> Option<FailureCause> {
    (is_overdue && pod.is_running_unready()).then(|| {
        let row = pod.containers.iter().find(|row| !row.ready && !row.init);
        match row {
            Some(row) => FailureCause::of_container(CauseKind::Readiness, pod, row, ""),
            None => FailureCause::of_pod(CauseKind::Readiness, pod, ""),
        }
    })
}

fn container_cause(pod: &PodRow, row: &ContainerRow, runs_to_end: bool) -> Option<FailureCause> {
    let cause_of = |kind, message: &str| Some(FailureCause::of_container(kind, pod, row, message));
    // A container that was started again stays a bad one until it is ready: it runs for a moment between two crashes.
    let earlier_crash = || {
        let end = row.last_end.as_deref().filter(|end| end.exit_code != 0)?;
        (row.restarts > 0 && !row.ready).then(|| crash(pod, row, end))
    };
    match &row.state {
        ContainerState::Waiting { reason, message } => match &**reason {
            "InvalidImageName" | "ErrImageNeverPull" => cause_of(CauseKind::InvalidImage, message),
            "ErrImagePull"
            | "ImagePullBackOff"
            | "ImageInspectError"
            | "RegistryUnavailable"
            | "SignatureValidationFailed" => cause_of(CauseKind::ImagePull, message),
            "CreateContainerConfigError" => cause_of(CauseKind::ConfigError, message),
            "CreateContainerError"
            | "RunContainerError"
            | "PostStartHookError"
            | "PreStartHookError"
            | "PreCreateHookError" => cause_of(CauseKind::CannotStart, message),
            "CrashLoopBackOff" => match &row.last_end {
                Some(end) => Some(crash(pod, row, end)),
                None => cause_of(CauseKind::CrashLoop, message),
            },
            _ => earlier_crash(),
        },
        ContainerState::Ended(end) => {
            let is_done = end.exit_code == 0 && (row.init || runs_to_end);
            (!is_done).then(|| crash(pod, row, end))
        }
        ContainerState::Running | ContainerState::Unknown => earlier_crash(),
    }
}

/// Makes the cause of a container that ended. The message of the back-off says nothing; that of the end may.
fn crash(pod: &PodRow, row: &ContainerRow, end: &ContainerEnd) -> FailureCause {
    let kind = match &*end.reason {
        "OOMKilled" => CauseKind::OutOfMemory,
        "StartError" | "ContainerCannotRun" => CauseKind::CannotStart,
        _ => CauseKind::CrashLoop,
    };
    let cause = FailureCause::of_container(kind, pod, row, &end.message);
    FailureCause { exit_code: Some(end.exit_code), ..cause }
}

/// The last lines of a container's log, without secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogTail {
    lines: Vec<String>,
}

impl LogTail {
    /// Takes at most so many lines of the end of a log. Secrets are masked in a larger part of it and in longer lines
    /// than are shown, so that no cut hides the beginning of one; control characters, which could split one, go first.
    pub fn of_lines(log: &str, most: usize) -> Self {
        let is_blank = |line: &&str| line.trim().is_empty();
        let last = log.lines().rev().filter(|line| !is_blank(line));
        let last = last.take(most.saturating_add(MASKED_LINES));
        let cut = |line: &'_ str| line.floor_char_boundary(MASKED_LINE_BYTES);
        let mut last: Vec<&str> =
            last.map(|line| line.get(..cut(line)).unwrap_or_default()).collect();
        last.reverse();
        let masked = mask_log(&remove_controls(&last.join("\n")));
        let last_lines = masked.lines().rev().filter(|line| !is_blank(line)).take(most);
        let mut lines: Vec<String> =
            last_lines.map(|line| truncate_chars(line, LOG_LINE_CHARS).into_owned()).collect();
        lines.reverse();
        Self { lines }
    }

    /// Returns the lines, oldest first.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }
}
