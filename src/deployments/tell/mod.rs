//! Who is told what became of a deployment: each sink's adapter, behind one door.

pub(crate) mod events; // programs: events of every change
pub(crate) mod argocd; // a cluster's Argo CD: what was pushed for it
mod forge; // the forge: statuses of deployments and commits, check runs
pub(crate) mod slack; // people: the team's channel, and who started it

use jiff::Timestamp;

use crate::deployments::Deployments;
use crate::deployments::outcome::{Delivered, EndCheck, NotDelivered, Problem, Remedy};
use crate::model::notice::Sink;
use crate::notify::delivery::DeliveryError;
use crate::store::Message;

impl Deployments {
    /// Tells somebody what became of a deployment. One that may have arrived before
    /// ([`Message::unsure`]) is looked for first, and not sent a second time.
    pub(crate) async fn tell(
        &self,
        message: &Message,
        now: Timestamp,
    ) -> Result<Delivered, NotDelivered> {
        let told = match &message.sink {
            Sink::Forge => forge::status(self, message).await,
            Sink::Commit => forge::commit(self, message).await,
            Sink::Check => forge::check(self, message).await,
            Sink::Events(name) => return events::send(self, message, name, now).await,
            Sink::ArgoCd(cluster) => return argocd::send(self, message, cluster, now).await,
            Sink::Channel => return slack::channel(self, message, now).await,
            Sink::Person => return slack::person(self, message, now).await,
        };
        let later = |at| Delivered::Later { at };
        forge::defer_limited_account(self, told, now, later)
    }

    /// Looks whether an end that was told is what people see, and tells it again where something before it
    /// was applied late. Only what the forge shows of a deployment and a commit can be overtaken.
    pub(crate) async fn confirm(
        &self,
        message: &Message,
        now: Timestamp,
    ) -> Result<EndCheck, NotDelivered> {
        let checked = match &message.sink {
            Sink::Forge => forge::confirm_status(self, message).await,
            Sink::Commit => forge::confirm_commit(self, message).await,
            Sink::Check | Sink::Channel | Sink::Person | Sink::Events(_) | Sink::ArgoCd(_) => {
                return Ok(EndCheck::Shown);
            }
        };
        forge::defer_limited_account(self, checked, now, |until| EndCheck::Deferred { until })
    }
}

/// What a person must mend first is waited for like an outage, as long as for everything; only
/// what would be refused for ever is put aside at once.
fn not_delivered(error: &DeliveryError) -> NotDelivered {
    let (remedy, unsure) = match error {
        DeliveryError::Unreachable { .. } => (Remedy::Retry { after: None }, true),
        DeliveryError::Later { after, .. } => (Remedy::Retry { after: *after }, false),
        DeliveryError::Refused { .. } => (Remedy::GiveUp, false),
        DeliveryError::Unfit { .. } => (Remedy::Reject, false),
    };
    NotDelivered { problem: Problem { remedy, message: error.to_string() }, unsure }
}
