//! The sinks: an adapter for each kind of receiver, behind one dispatch.

mod argocd; // push events to a cluster's Argo CD
mod bigquery; // rows of deployments that have ended
mod cloudevents; // CloudEvents to programs
pub(super) mod github; // statuses of deployments and commits, check runs
pub(super) mod slack; // messages to the team's channel and the actor
mod slack_canary; // the message about a canary

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::deployments::Deployments;
use crate::model::id::TargetName;
use crate::model::notice::Sink;
use crate::notify::argocd::Hook;
use crate::notify::bigquery::BigQueryTable;
use crate::notify::slack::SlackClient;
use crate::notify::slack::address::Channel;
use crate::notify::slack::people::PeopleDirectory;
use crate::notify::webhook::Receiver;
use crate::outbox::delivery::{Delivered, DeliveryFailure, EndCheck};
use crate::store::OutboxMessage;

/// The longest call to a receiver of events or to Argo CD: a receiver only has to store an event,
/// and Argo CD to queue it. Shorter than a lease, so that no other sender takes the message
/// meanwhile.
pub const LONGEST_CALL: Duration = Duration::from_secs(10);
/// The longest call to Slack, which answers within a second. A message takes two calls or three,
/// together less than half a lease.
pub const LONGEST_SLACK_CALL: Duration = Duration::from_secs(4);
/// The longest call to BigQuery, which answers within a second. A row takes one, and the first row of a process two or
/// three more, together about half a lease.
pub const LONGEST_BIGQUERY_CALL: Duration = Duration::from_secs(4);

/// All receivers, as configured.
pub struct Sinks {
    /// The use cases, which have the records and the code host.
    pub(crate) deployments: Deployments,
    /// The receivers of CloudEvents.
    pub(crate) receivers: Vec<Receiver>,
    /// The webhooks of the clusters' Argo CD.
    pub(crate) argocd: BTreeMap<TargetName, Hook>,
    /// The Slack workspace.
    pub(crate) slack: Option<SlackSink>,
    /// The table in BigQuery.
    pub(crate) bigquery: Option<BigQueryTable>,
}

/// Slack as this service uses it.
pub(crate) struct SlackSink {
    pub(crate) slack: SlackClient,
    pub(crate) people: PeopleDirectory,
    pub(crate) default_channel: Option<Channel>,
    pub(crate) direct_messages: bool,
    /// True if people can act from messages.
    pub(crate) acts: bool,
}

impl Sinks {
    /// Sends a message to its receiver. A message in doubt ([`OutboxMessage::unsure`]) is searched
    /// for first, and not sent a second time.
    pub(super) async fn deliver(
        &self,
        message: &OutboxMessage,
        now: Timestamp,
    ) -> Result<Delivered, DeliveryFailure> {
        let result = match &message.sink {
            Sink::Forge => self.deployment_status(message).await,
            Sink::Commit => self.commit_status(message).await,
            Sink::Check => self.check_run(message).await,
            Sink::Events(name) => return self.events(message, name, now).await,
            Sink::ArgoCd(cluster) => return self.push_event(message, cluster, now).await,
            Sink::Channel => return self.channel(message, now).await,
            Sink::Person => return self.person(message, now).await,
            Sink::BigQuery => return self.table_row(message, now).await,
        };
        self.defer_limited_account(result, now, |at| Delivered::Later { at })
    }

    /// Checks that people see the final status that was sent, and sends it again where an earlier
    /// status was applied late. Only statuses of deployments and commits at the code host can be
    /// overtaken.
    pub(super) async fn confirm(
        &self,
        message: &OutboxMessage,
        now: Timestamp,
    ) -> Result<EndCheck, DeliveryFailure> {
        let result = match &message.sink {
            Sink::Forge => self.confirm_deployment_status(message).await,
            Sink::Commit => self.confirm_commit_status(message).await,
            Sink::Check
            | Sink::Channel
            | Sink::Person
            | Sink::Events(_)
            | Sink::ArgoCd(_)
            | Sink::BigQuery => return Ok(EndCheck::Shown),
        };
        self.defer_limited_account(result, now, |until| EndCheck::Deferred { until })
    }
}

/// Returns the result for a message whose sink is not configured any more.
fn not_configured(message: &OutboxMessage) -> Delivered {
    Delivered::Nothing(format!("{} is not configured any more", message.sink))
}
