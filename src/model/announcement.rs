//! The kinds of events that other programs get: in the words of CDEvents, and for rollouts, of which it has none, in
//! similar ones.

use crate::model::words::words;

words! {
    /// A kind of event.
    ///
    /// The words are CDEvents' subject and predicate: <https://cdevents.dev>.
    pub enum Announcement {
        /// A deployment was requested, and waits.
        Queued = "pipelinerun.queued",
        /// A worker has begun on it.
        Started = "pipelinerun.started",
        /// The deployment has ended: it succeeded, was rejected, failed, or a newer one came.
        Finished = "pipelinerun.finished",
        /// A part of the deployment has begun in a watched cluster, after the push.
        TaskStarted = "taskrun.started",
        /// That part has ended.
        TaskFinished = "taskrun.finished",
        /// An app is on a target where it was not before.
        Deployed = "service.deployed",
        /// An app that was on the target is another there now.
        Upgraded = "service.upgraded",
        /// An app went back to a former revision.
        RolledBack = "service.rolledback",
        /// An app was taken off a target.
        Removed = "service.removed",
        /// A rollout has begun with its first step.
        RolloutStarted = "rollout.started",
        /// A step of a rollout, with targets or a gate, is complete.
        RolloutStep = "rollout.step",
        /// A rollout was paused: by a person, by a failure, or by a lock or window.
        RolloutPaused = "rollout.paused",
        /// A rollout has begun to give changed targets their former revision back.
        RolloutUndoing = "rollout.undoing",
        /// A rollout has ended: it is done, undone or cancelled, or its undo failed.
        RolloutFinished = "rollout.finished",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_in_a_configuration_as_it_is_called() {
        for kind in Announcement::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
