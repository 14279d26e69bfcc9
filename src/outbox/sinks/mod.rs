//! Who is told what became of a deployment: each sink's adapter, behind one dispatch.

mod argocd; // a cluster's Argo CD: what was pushed for it
mod cloudevents; // programs: events of every change
mod github; // statuses of deployments and commits, check runs
mod slack; // people: the team's channel, and who started it

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::deployments::Deployments;
use crate::model::id::TargetName;
use crate::model::notice::Sink;
use crate::notify::argocd::Hook;
use crate::notify::slack::SlackClient;
use crate::notify::slack::address::Channel;
use crate::notify::slack::people::People;
use crate::notify::webhook::Receiver;
use crate::outbox::delivery::{Delivered, EndCheck, NotDelivered};
use crate::store::OutboxMessage;

/// A receiver only has to store an event, and Argo CD to queue it. Shorter than a lease: nobody else may take
/// the message meanwhile.
pub const LONGEST_CALL: Duration = Duration::from_secs(10);
/// Slack answers within a second. A message takes two calls or three, together less than half a lease.
pub const LONGEST_SLACK_CALL: Duration = Duration::from_secs(4);

/// Everybody who may be told, as configured.
pub struct Sinks {
    /// What there is to tell, and the code host.
    pub(crate) deployments: Deployments,
    /// Programs.
    pub(crate) receivers: Vec<Receiver>,
    /// The Argo CD of each cluster that is to be told.
    pub(crate) argocd: BTreeMap<TargetName, Hook>,
    /// People.
    pub(crate) slack: Option<SlackSink>,
}

/// Slack as this installation uses it.
pub(crate) struct SlackSink {
    pub(crate) slack: SlackClient,
    pub(crate) people: People,
    pub(crate) default_channel: Option<Channel>,
    pub(crate) direct_messages: bool,
}

impl Sinks {
    /// Tells somebody what became of a deployment. One that may have arrived before
    /// ([`OutboxMessage::unsure`]) is looked for first, and not sent a second time.
    pub(super) async fn deliver(
        &self,
        message: &OutboxMessage,
        now: Timestamp,
    ) -> Result<Delivered, NotDelivered> {
        let told = match &message.sink {
            Sink::Forge => self.deployment_status(message).await,
            Sink::Commit => self.commit_status(message).await,
            Sink::Check => self.check_run(message).await,
            Sink::Events(name) => return self.events(message, name, now).await,
            Sink::ArgoCd(cluster) => return self.push_event(message, cluster, now).await,
            Sink::Channel => return self.channel(message, now).await,
            Sink::Person => return self.person(message, now).await,
        };
        self.defer_limited_account(told, now, |at| Delivered::Later { at })
    }

    /// Looks whether an end that was told is what people see, and tells it again where something before it
    /// was applied late. Only what the forge shows of a deployment and a commit can be overtaken.
    pub(super) async fn confirm(
        &self,
        message: &OutboxMessage,
        now: Timestamp,
    ) -> Result<EndCheck, NotDelivered> {
        let checked = match &message.sink {
            Sink::Forge => self.confirm_deployment_status(message).await,
            Sink::Commit => self.confirm_commit_status(message).await,
            Sink::Check | Sink::Channel | Sink::Person | Sink::Events(_) | Sink::ArgoCd(_) => {
                return Ok(EndCheck::Shown);
            }
        };
        self.defer_limited_account(checked, now, |until| EndCheck::Deferred { until })
    }
}

/// Returns what is said of a message whose sink is in the configuration no more.
fn not_configured(message: &OutboxMessage) -> Delivered {
    Delivered::Nothing(format!("{} is not configured any more", message.sink))
}
