//! The workloads and pods of an app, as its cluster has them now. Pure.

use crate::deployments::live_state::{ClusterAppState, LivePod, LiveStateError, LiveWorkload};
use crate::server::pages::words::{self, RelativeTime};

/// The view of an app in its cluster.
#[derive(Debug, Default)]
pub(super) struct PodsView {
    /// The reason why there is nothing to see, or not everything.
    pub(super) note: Option<String>,
    pub(super) workloads: Vec<WorkloadLine>,
    pub(super) pods: Vec<PodLine>,
}

/// A workload.
#[derive(Debug)]
pub(super) struct WorkloadLine {
    pub(super) title: String,
    pub(super) state: &'static str,
    pub(super) look: &'static str,
    pub(super) counts: String,
    /// The sentence where it carries another revision than the live one.
    pub(super) revision: String,
}

/// A pod.
#[derive(Debug)]
pub(super) struct PodLine {
    pub(super) name: String,
    pub(super) images: String,
    pub(super) phase: &'static str,
    pub(super) look: &'static str,
    pub(super) restarts: u32,
    pub(super) reason: String,
    pub(super) created: Option<RelativeTime>,
}

impl PodsView {
    /// Makes the view of the cluster's answer.
    pub(super) fn new(state: Result<ClusterAppState, LiveStateError>) -> Self {
        match state {
            Ok(state) => view(state),
            Err(error) => Self { note: Some(sentence(&error.to_string())), ..Self::default() },
        }
    }
}

/// Makes a sentence of the text of an error.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().collect::<String>());
    format!("{}{}.", first.unwrap_or_default(), chars.as_str())
}

fn view(state: ClusterAppState) -> PodsView {
    let ClusterAppState { at: _, digest, workloads, pods, is_cut, missing } = state;
    let mut notes: Vec<String> =
        missing.iter().map(|(kind, reason)| format!("{kind} cannot be read: {reason}.")).collect();
    if is_cut {
        notes.push("There are more pods than are shown.".to_owned());
    }
    if workloads.is_empty() && missing.is_empty() {
        notes.push("The cluster has nothing of the app yet.".to_owned());
    }
    let workload = |workload: LiveWorkload| {
        let is_other = digest.is_some() && workload.digest.is_some() && workload.digest != digest;
        let revision = if is_other { "it carries another revision than the live one" } else { "" };
        let LiveWorkload { kind, name, counts, state, .. } = workload;
        WorkloadLine {
            title: format!("{kind} {name}"),
            look: match state {
                "complete" => "good",
                "failed" => "bad",
                _ => "going",
            },
            state,
            counts: format!(
                "{} of {} updated, {} available",
                counts.updated, counts.desired, counts.available
            ),
            revision: revision.to_owned(),
        }
    };
    PodsView {
        note: Some(notes.join(" ")).filter(|note| !note.is_empty()),
        workloads: workloads.into_iter().map(workload).collect(),
        pods: pods.into_iter().map(pod).collect(),
    }
}

fn pod(pod: LivePod) -> PodLine {
    let LivePod {
        name,
        phase,
        ready,
        restarts,
        reason,
        message,
        exit_code,
        created,
        containers,
        ..
    } = pod;
    let exit = exit_code.map(|code| format!("exit code {code}"));
    let parts: Vec<String> = [reason, exit, message].into_iter().flatten().collect();
    let images: Vec<String> = containers.into_iter().map(|(_, image)| image).collect();
    PodLine {
        name,
        images: images.join(", "),
        look: match phase {
            _ if ready => "good",
            "Succeeded" => "good",
            "Failed" => "bad",
            "Terminating" => "gone",
            _ if parts.is_empty() => "going",
            _ => "bad",
        },
        phase,
        restarts,
        reason: parts.join(": "),
        created: created.map(words::moment),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_is_not_seen_is_a_sentence() {
        let error = LiveStateError::NotFound("the service does not watch it".to_owned());
        let view = PodsView::new(Err(error));
        assert_eq!(view.note.as_deref(), Some("The service does not watch it."));
        assert!(view.pods.is_empty());
    }
}
