//! What is where, read from the manifest repositories.

use crate::app::backend::Backend;
use crate::facts::NotKnown;
use crate::model::placed::Listed;
use crate::server::ports::{self, AppsPage, AppsQuery};

impl ports::Apps for Backend {
    async fn apps(&self, query: &AppsQuery) -> Result<AppsPage, String> {
        let AppsQuery { target, after, limit } = query;
        let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
        // One more tells whether there is another page.
        let found = self.world.facts.apps(target.as_ref(), after.as_ref(), limit + 1).await;
        let Listed { mut apps, missing } = found.map_err(|NotKnown(why)| why)?;
        let more = apps.len() > limit;
        apps.truncate(limit);
        let next = apps.last().filter(|_| more).map(|last| last.spot.clone());
        Ok(AppsPage { apps, next, missing })
    }
}
