//! The state of a rollout, for those who tell of it.

use crate::deployments::rollouts::view::read_record;
use crate::deployments::{BackendError, Deployments};
use crate::model::id::RolloutId;
use crate::model::rollout_news::RolloutNews;

impl Deployments {
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
