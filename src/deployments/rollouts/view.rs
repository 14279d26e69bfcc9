//! Rollouts as they are shown, and as programs are told of them.

use jiff::Timestamp;

use crate::deployments::rollouts::{RolloutPage, RolloutView};
use crate::deployments::{BackendError, Deployments};
use crate::model::announcement::Announcement;
use crate::model::id::RolloutId;
use crate::model::rollout_news::RolloutNews;
use crate::notify::events::rollout::build_rollout_event;
use crate::rollout::record::RolloutRecord;
use crate::store::{GateAnswers, RolloutEvent, RolloutFilter, StoredRollout};

impl Deployments {
    /// Returns the rollout of an id; that of its undo does as well.
    pub async fn rollout(&self, id: &RolloutId) -> Result<Option<RolloutView>, BackendError> {
        let rollout = self.store.rollout(id).await.map_err(BackendError::new)?;
        rollout.map(view).transpose()
    }

    /// Returns the answers of the gates of a rollout, each gate's in the order in which they came.
    pub async fn gate_answers(&self, id: &RolloutId) -> Result<Vec<GateAnswers>, BackendError> {
        self.store.gate_answers(id).await.map_err(BackendError::new)
    }

    /// Returns the newest rollouts that pass the filter.
    pub async fn rollouts(
        &self,
        filter: &RolloutFilter,
        before: Option<&RolloutId>,
        limit: u32,
    ) -> Result<RolloutPage, BackendError> {
        let page = self.store.rollouts(filter, before, limit).await;
        let (rollouts, next) = page.map_err(BackendError::new)?;
        let views = rollouts.into_iter().map(view);
        Ok(RolloutPage { rollouts: views.collect::<Result<_, _>>()?, next })
    }

    /// Builds the events about a change of a rollout; none where no program subscribes to events.
    pub(super) fn rollout_events(
        &self,
        rollout: &StoredRollout,
        (before, after): (&RolloutRecord, &RolloutRecord),
        now: Timestamp,
    ) -> Vec<RolloutEvent> {
        if self.store.subscriptions().events.is_empty() {
            return Vec::new();
        }
        let news = after.news(rollout.name.as_ref(), &rollout.creator);
        let number = (after.version, &after.undo_id);
        let event = |kind: Announcement| {
            let event = build_rollout_event(kind, &news, number, &self.external_url, now);
            RolloutEvent { id: event.id, kind, body: event.body }
        };
        after.announcements_since(before).into_iter().map(event).collect()
    }

    /// Returns the state of a rollout as people are told of it; `None` where it is not on record any more.
    pub(crate) async fn rollout_news(
        &self,
        id: &RolloutId,
    ) -> Result<Option<RolloutNews>, BackendError> {
        let Some(rollout) = self.store.rollout(id).await.map_err(BackendError::new)? else {
            return Ok(None);
        };
        let mut news = read_record(&rollout)?.news(rollout.name.as_ref(), &rollout.creator);
        if !rollout.is_claimed && rollout.progress.ended_at.is_none() {
            news.wait = Some("the end of another rollout".to_owned());
        }
        Ok(Some(news))
    }
}

/// Reads the record of a stored rollout. Its repository may have another name by now.
pub(super) fn read_record(rollout: &StoredRollout) -> Result<RolloutRecord, BackendError> {
    let record: Result<RolloutRecord, _> = serde_json::from_str(&rollout.progress.record);
    let mut record = record.map_err(|error| {
        BackendError::new(format!("the record of rollout {} cannot be read: {error}", rollout.id))
    })?;
    record.release.repository = rollout.repository.clone();
    Ok(record)
}

/// Shows a rollout.
pub(super) fn view(rollout: StoredRollout) -> Result<RolloutView, BackendError> {
    let record = read_record(&rollout)?;
    // They are for people: a form of an older version is not worth an error.
    let waits = serde_json::from_str(&rollout.progress.waits).unwrap_or_default();
    let StoredRollout { name, origin, creator, reason, created_at, is_claimed, progress, .. } =
        rollout;
    let is_queued = !is_claimed && progress.ended_at.is_none();
    let (created_by, ended_at) = (creator, progress.ended_at);
    Ok(RolloutView {
        record,
        name,
        origin,
        created_by,
        reason,
        created_at,
        ended_at,
        is_queued,
        waits,
    })
}
