//! Turns what was seen of workloads of others in a cluster into reports about the commits that they name. Pure but for
//! the log of those of which nothing is said.

use jiff::{SignedDuration, Timestamp};

use crate::cluster::object::ObjectKey;
use crate::cluster::record::{ProgressRecord, RecordState};
use crate::cluster::summary::describe_release;
use crate::cluster::view::ClusterNews;
use crate::model::environment::{
    EnvironmentAnnotations, EnvironmentChange, EnvironmentError, EnvironmentReport,
    EnvironmentRules, EnvironmentState, WorkloadName,
};
use crate::model::id::TargetName;
use crate::model::status::one_line;

/// The longest sentence, in characters.
const LONGEST_SENTENCE: usize = 500;
/// The interval at which refusals are logged: anybody can cause them.
const LOG_INTERVAL: SignedDuration = SignedDuration::from_mins(1);

/// A workload of others of which nothing is said, and why.
pub(super) type Refusal = (WorkloadName, EnvironmentError);

/// The log of refusals: one line a minute, however many there are.
#[derive(Debug, Default)]
pub(super) struct RefusalLog {
    logged_at: Option<Timestamp>,
    /// The number of those that were not logged yet.
    count: usize,
}

impl RefusalLog {
    /// Logs refusals, or counts them for the next line.
    pub(super) fn log(&mut self, cluster: &TargetName, refusals: &[Refusal], now: Timestamp) {
        let Some((workload, error)) = refusals.first() else { return };
        if let Some(count) = self.count(refusals.len(), now) {
            tracing::warn!(
                %cluster, %workload, %error, count, "annotations of workloads are refused, nothing is said of them"
            );
        }
    }

    /// Counts refusals; returns the number to log, if a line is due.
    fn count(&mut self, refusals: usize, now: Timestamp) -> Option<usize> {
        self.count = self.count.saturating_add(refusals);
        let is_due = self.logged_at.is_none_or(|at| {
            let since = now.duration_since(at);
            since >= LOG_INTERVAL || since < SignedDuration::ZERO
        });
        is_due.then(|| {
            self.logged_at = Some(now);
            std::mem::take(&mut self.count)
        })
    }
}

/// Returns the changes of workloads of others, those that are gone first, and the workloads of which nothing is said.
pub(super) fn environment_changes(
    cluster: &TargetName,
    news: &ClusterNews,
    rules: Option<&EnvironmentRules>,
) -> (Vec<EnvironmentChange>, Vec<Refusal>) {
    let gone = news.vanished.iter().map(|key| EnvironmentChange::Deleted(name_of(key)));
    let (mut changes, mut refusals): (Vec<EnvironmentChange>, _) = (gone.collect(), Vec::new());
    let Some(rules) = rules else { return (changes, refusals) };
    for record in &news.records {
        match report_of(cluster, record, rules) {
            None => {}
            Some(Ok(report)) => changes.push(EnvironmentChange::Report(Box::new(report))),
            Some(Err(error)) => {
                let workload = name_of(&record.key.workload);
                changes.push(EnvironmentChange::Withdrawn(workload.clone()));
                refusals.push((workload, error));
            }
        }
    }
    (changes, refusals)
}

/// Reports how a commit stands on a workload; `None` for a workload of ours, and where something else has ended the
/// release: the next one of the workload says so, or that it is gone.
fn report_of(
    cluster: &TargetName,
    record: &ProgressRecord,
    rules: &EnvironmentRules,
) -> Option<Result<EnvironmentReport, EnvironmentError>> {
    let annotations = record.commit.as_ref()?;
    let state = match &record.state {
        RecordState::Progressing => EnvironmentState::Waiting,
        RecordState::Finished { .. } => EnvironmentState::Ready,
        RecordState::Failed { .. } => EnvironmentState::Failed,
        RecordState::Superseded { .. } | RecordState::Removed { .. } => return None,
    };
    let annotations = EnvironmentAnnotations {
        repository: &annotations.repository,
        commit: &annotations.commit,
        pull_request: annotations.pull_request.as_deref(),
        link: annotations.link.as_deref(),
    };
    let workload = name_of(&record.key.workload);
    let commit = rules.read(cluster, &workload, annotations);
    Some(commit.map(|commit| EnvironmentReport {
        workload,
        commit,
        state,
        sentence: one_line(&describe_release(record), LONGEST_SENTENCE),
        causes: record.told_causes.len(),
        announced: record.announced,
    }))
}

fn name_of(key: &ObjectKey) -> WorkloadName {
    let (namespace, name) = (key.namespace.to_string(), key.name.to_string());
    WorkloadName { kind: key.kind.to_string(), namespace, name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_one_line_a_minute_with_their_number() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let mut log = RefusalLog::default();
        assert_eq!(log.count(3, at(0)), Some(3));
        assert_eq!((log.count(1000, at(1)), log.count(1000, at(59))), (None, None));
        assert_eq!(log.count(1, at(60)), Some(2001));
        assert_eq!(log.count(1, at(-1000)), Some(1), "the clock was set back");
    }
}
