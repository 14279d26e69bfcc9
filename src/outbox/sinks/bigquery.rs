//! Inserts the row of a deployment that has ended.
//!
//! A message in doubt is sent again: BigQuery drops a row whose id it had within the last minute. There is no cheap way to
//! look for one that came before.

use jiff::Timestamp;

use crate::notify::bigquery::row::{self, EndedDeployment};
use crate::outbox::delivery::{Delivered, DeliveryFailure};
use crate::outbox::sinks::{Sinks, not_configured};
use crate::store::OutboxMessage;

impl Sinks {
    /// Inserts the row of the message's deployment.
    pub(super) async fn table_row(
        &self,
        message: &OutboxMessage,
        now: Timestamp,
    ) -> Result<Delivered, DeliveryFailure> {
        let Some(table) = &self.bigquery else { return Ok(not_configured(message)) };
        let Some(deployment) = self.deployments.store.deployment(&message.deployment).await? else {
            return Ok(Delivered::Nothing("the deployment was deleted".to_owned()));
        };
        let row = row::build_row(EndedDeployment {
            deployment: &deployment,
            finished_at: deployment.finished_at.unwrap_or(message.at),
            service: &self.deployments.external_url,
        });
        table.insert(&row, now).await?;
        Ok(Delivered::Yes { reference: Some(row.insert_id) })
    }
}
