//! The state that the routes share: the use cases, authentication, and limits.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use secrecy::SecretString;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::deployments::Deployments;
use crate::forge::github::webhook::rules::Rules;
use crate::model::callers::Pages;
use crate::server::auth::Authenticator;
use crate::server::body_budget::BodyBudget;
use crate::server::deliveries::{DeliveryCounter, WebhookOutcome};
use crate::server::limits::{LargeBodies, RequestSlots, ServerLimits, StreamLimit};
use crate::server::pages::live::feeds::LiveFeeds;
use crate::server::slack_buttons::SlackButtons;
use crate::support::telemetry;

/// The dependencies of the routes; `app` builds them.
pub(crate) struct ServerState {
    /// All use cases.
    pub deployments: Deployments,
    /// Counts webhooks.
    pub deliveries: DeliveryCounter,
    /// All metrics of the process.
    pub metrics: telemetry::Metrics,
    /// The conditions for a webhook.
    pub webhook: Webhook,
    /// What Slack's requests need; `None` where no button acts.
    pub slack: Option<SlackButtons>,
    /// Authentication and authorization.
    pub auth: Authenticator,
    /// The configuration of the pages: who may see them.
    pub pages: Pages,
    /// The limits.
    pub limits: ServerLimits,
    /// Cancelled when the server stops, to close open streams.
    pub closing: CancellationToken,
    /// The prefix of all request ids: one for each start of the process, so that no id occurs twice.
    pub instance: String,
}

/// The conditions for a webhook.
#[derive(Debug)]
pub struct Webhook {
    /// The secret shared with GitHub.
    pub secret: SecretString,
    /// The former secret, which is accepted too while the secret is being changed.
    pub previous: Option<SecretString>,
    /// The rules by which events are selected.
    pub rules: Rules,
}

/// The state that the handlers share.
pub(super) struct Shared {
    pub(super) state: ServerState,
    pub(super) slots: RequestSlots,
    pub(super) bodies: Arc<BodyBudget>,
    pub(super) large_bodies: LargeBodies,
    /// The slots of all streams.
    pub(super) streams: Arc<Semaphore>,
    /// The streams of each caller.
    pub(super) streams_of_callers: StreamLimit,
    /// The slots of logs among the streams: they leave half of these to deployments.
    pub(super) logs: Arc<Semaphore>,
    /// The logs of each caller.
    pub(super) logs_of_callers: StreamLimit,
    /// The questions of each caller to a cluster that are not answered yet.
    pub(super) reads_of_callers: StreamLimit,
    /// What all open pages share.
    pub(super) feeds: LiveFeeds,
    /// The number of requests so far.
    pub(super) requests: AtomicU64,
}

impl Shared {
    pub(super) fn new(state: ServerState) -> Self {
        let limits = &state.limits;
        Self {
            slots: RequestSlots::new(limits),
            bodies: Arc::new(BodyBudget::new(limits)),
            large_bodies: LargeBodies::new(),
            streams: Arc::new(Semaphore::new(limits.streams)),
            streams_of_callers: StreamLimit::default(),
            logs: Arc::new(Semaphore::new(limits.streams.div_ceil(2))),
            logs_of_callers: StreamLimit::default(),
            reads_of_callers: StreamLimit::default(),
            feeds: LiveFeeds::new(limits),
            requests: AtomicU64::new(0),
            state,
        }
    }

    /// Counts a delivery of a webhook.
    pub(super) fn count(&self, delivery: WebhookOutcome) {
        self.state.deliveries.count(delivery);
    }
}
