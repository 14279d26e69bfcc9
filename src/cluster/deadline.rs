//! Deadlines of releases that are under way: only the time counts in which the service looks at them.
//!
//! It looks at each of them every second. What happened while it was stopped, held up, or without sight of the cluster
//! it learns only after its next look, so there is always the whole patience from then on.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use crate::cluster::failure::{CauseKind, FailureCause};
use crate::cluster::object::ObjectKey;
use crate::cluster::observation::ProgressObservation;
use crate::cluster::progress::ProgressStep;
use crate::cluster::record::{ClusterDrift, ProgressRecord};
use crate::cluster::transition::{fail, stand_still};
use crate::cluster::workload::PROGRESS_DEADLINE_SECONDS;
use crate::support::time::saturating_add;

/// The longest time between two looks in which nothing is missed.
pub(super) const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(5);

/// The times for which the tracker waits before it says that something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgressPatience {
    /// The time after the progress deadline for which a release may stand still before it has failed.
    pub after_deadline: SignedDuration,
    /// The time for which a digest may be there that no deployment has brought: word of the deployment may come after
    /// it.
    pub unattributed: SignedDuration,
    /// The time after the push that Argo CD may take to bring a revision to the cluster.
    pub sync: SignedDuration,
    /// The time after the first list of a kind that those of the others may take before the rules do without them.
    pub first_lists: SignedDuration,
}

impl Default for ProgressPatience {
    fn default() -> Self {
        Self {
            after_deadline: SignedDuration::from_mins(2),
            unattributed: SignedDuration::from_mins(1),
            sync: SignedDuration::from_mins(30),
            first_lists: SignedDuration::from_mins(2),
        }
    }
}

/// The last looks at workloads that wait for something.
#[derive(Debug, Default)]
pub(super) struct LastLooks {
    times: HashMap<ObjectKey, Timestamp>,
}

impl LastLooks {
    /// Returns the time before this look in which the workload was not seen; `None` where it was seen all the while.
    /// Before the first look that time is not known, and counts as nothing.
    pub(super) fn unseen_time(
        &self,
        workload: &ObjectKey,
        now: Timestamp,
        is_seen: bool,
    ) -> Option<SignedDuration> {
        let Some(last) = self.times.get(workload) else { return Some(SignedDuration::ZERO) };
        let pause = now.duration_since(*last).max(SignedDuration::ZERO);
        (pause > LONGEST_PAUSE || !is_seen).then_some(pause)
    }

    /// Takes note of a look at a workload.
    pub(super) fn note(&mut self, workload: &ObjectKey, now: Timestamp) {
        match self.times.get_mut(workload) {
            Some(time) => *time = now,
            None => {
                self.times.insert(workload.clone(), now);
            }
        }
    }

    /// Forgets a workload that waits for nothing.
    pub(super) fn forget(&mut self, workload: &ObjectKey) {
        self.times.remove(workload);
    }
}

/// Leaves the time out of a record's deadline in which its workload was not seen, and begins its patience anew.
pub(super) fn leave_out(record: &mut ProgressRecord, unseen: SignedDuration, now: Timestamp) {
    if !record.is_open() {
        return;
    }
    if record.step.as_ref().is_some_and(ProgressStep::ends_elsewhere) {
        record.deadline_from = Some(now);
    } else if !unseen.is_zero() {
        record.deadline_from = Some(saturating_add(record.deadline_start(), unseen));
    }
    if let Some(since) = &mut record.stalled_since {
        *since = now;
    }
}

/// Fails a release whose cause cannot pass, or that has stood still for longer than the patience.
pub(super) fn give_up(
    record: &mut ProgressRecord,
    patience: SignedDuration,
    now: Timestamp,
    out: &mut Vec<ProgressObservation>,
) {
    let cause = record.failing.as_ref().map(|failing| failing.cause.clone());
    let is_over = record.stalled_since.is_some_and(|since| now >= saturating_add(since, patience));
    match cause {
        Some(cause) if is_over || !cause.can_heal() => fail(record, cause, now, out),
        None if is_over => fail(record, stand_still(record), now, out),
        Some(_) | None => {}
    }
}

/// Fails a release that somebody changed in the cluster and nothing has put back.
pub(super) fn give_up_drifted(
    record: &mut ProgressRecord,
    patience: SignedDuration,
    now: Timestamp,
    out: &mut Vec<ProgressObservation>,
) {
    if !record.is_open() {
        return;
    }
    let seconds = SignedDuration::from_secs(i64::from(PROGRESS_DEADLINE_SECONDS));
    let deadline = saturating_add(record.deadline_start(), seconds);
    record.stalled_since = (now >= deadline).then(|| record.stalled_since.unwrap_or(now));
    let ends_at = saturating_add(record.stalled_since.unwrap_or(deadline), patience);
    record.gives_up_at = Some(ends_at);
    if now >= ends_at {
        let message = record.drift.as_ref().map_or(String::new(), ClusterDrift::sentence);
        fail(record, FailureCause::new(CauseKind::NoProgress, &message), now, out);
    }
}
