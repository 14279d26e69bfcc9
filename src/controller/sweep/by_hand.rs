//! What the loop does by itself, done when somebody says so.

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::controller::sweep::host::Host;
use crate::controller::sweep::{Scope, Sweeps, lock};
use crate::store::StoreError;

impl<H: Host> Sweeps<H> {
    /// Does the part of the round that is due, or as after a start the next part in any case; how
    /// many lost events were dealt with.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn sweep_if_due(&self, started: bool) -> Result<u64, StoreError> {
        let stop = CancellationToken::new();
        let mut found = 0;
        for kind in &self.0.settings.kinds {
            let report = self.0.sweep(*kind, Scope::Round, started, &stop).await?;
            found += report.map_or(0, |report| report.healed + report.refused);
        }
        Ok(found)
    }

    /// Looks where hints lead, if there are some; whether there were.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn follow_hints_if_any(&self) -> Result<bool, StoreError> {
        if lock(&self.0.hints.0.repositories).is_empty() {
            return Ok(false);
        }
        self.follow_hints().await.map(|_report| true)
    }

    /// When the next part of the round is due; none is before the first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn due(&self) -> Result<Option<Timestamp>, StoreError> {
        self.0.store.next_sweep().await
    }
}
