//! Events that did not arrive, by GitHub's account of what it delivered to our App.

use jiff::Timestamp;

use crate::forge::delivery::{DeliveryContent, HookDelivery};
use crate::forge::error::ForgeError;
use crate::forge::github::client::GitHub;

impl GitHub {
    /// Events since then of which no attempt arrived, newest first; each event once.
    ///
    /// # Errors
    /// [`ForgeError`]; without an App [`ForgeError::NeedsApp`].
    #[expect(clippy::unused_async, reason = "an App asks GitHub")]
    pub async fn failed_deliveries(
        &self,
        _since: Timestamp,
        _most: u32,
    ) -> Result<Vec<HookDelivery>, ForgeError> {
        Err(ForgeError::NeedsApp { what: "looking for lost events" })
    }

    /// What was delivered.
    ///
    /// # Errors
    /// [`ForgeError`]; without an App [`ForgeError::NeedsApp`].
    #[expect(clippy::unused_async, reason = "an App asks GitHub")]
    pub async fn delivery(&self, _id: i64) -> Result<DeliveryContent, ForgeError> {
        Err(ForgeError::NeedsApp { what: "reading a delivery" })
    }
}
