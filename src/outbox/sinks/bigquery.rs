//! Inserts the row of a deployment that has ended.
//!
//! A message in doubt is sent again: BigQuery drops a row whose id it had within the last minute. There is no cheap way to
//! look for one that came before.

use jiff::Timestamp;

use crate::model::deploy_clock::{DeployMark, DeployMarks, MarkTime};
use crate::model::deployment::Deployment;
use crate::notify::bigquery::row::{self, EndedDeployment};
use crate::outbox::delivery::{Delivered, NotDelivered};
use crate::outbox::sinks::{Sinks, not_configured};
use crate::store::OutboxMessage;

impl Sinks {
    /// Inserts the row of the message's deployment.
    pub(super) async fn table_row(
        &self,
        message: &OutboxMessage,
        now: Timestamp,
    ) -> Result<Delivered, NotDelivered> {
        let Some(table) = &self.bigquery else { return Ok(not_configured(message)) };
        let Some(deployment) = self.deployments.store.deployment(&message.deployment).await? else {
            return Ok(Delivered::Nothing("the deployment was deleted".to_owned()));
        };
        let row = row::build_row(EndedDeployment {
            deployment: &deployment,
            finished_at: deployment.finished_at.unwrap_or(message.at),
            marks: &marks_of(&deployment),
            service: &self.deployments.external_url,
        });
        table.insert(&row, now).await?;
        Ok(Delivered::Yes { reference: Some(row.insert_id) })
    }
}

/// Returns the times of a deployment's steps by the service's own clock, as far as its record has them.
fn marks_of(deployment: &Deployment) -> DeployMarks {
    let times = [
        (DeployMark::Received, Some(deployment.received_at)),
        (DeployMark::Pushed, deployment.pushed_at),
        (DeployMark::Finished, deployment.finished_at),
    ];
    times.into_iter().filter_map(|(mark, at)| Some(MarkTime::of_service(mark, at?))).collect()
}
