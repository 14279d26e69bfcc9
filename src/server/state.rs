//! What the routes share: all use cases, who may call, and how much is taken at once.

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
use crate::server::limits::{RequestSlots, ServerLimits, StreamLimit};
use crate::support::telemetry;

/// Everything that the routes need; `app` builds it.
pub(crate) struct ServerState {
    /// All use cases.
    pub deployments: Deployments,
    /// Counts webhooks.
    pub deliveries: DeliveryCounter,
    /// All metrics of the process.
    pub metrics: telemetry::Metrics,
    /// What a webhook must satisfy.
    pub webhook: Webhook,
    /// Who may call, and what they may do.
    pub auth: Authenticator,
    /// Who may see the pages.
    pub pages: Pages,
    /// Bounds.
    pub limits: ServerLimits,
    /// Cancelled when the server stops: then what stays open is closed.
    pub closing: CancellationToken,
    /// Begins every request id: one for each start of the process, so that no id comes twice.
    pub instance: String,
}

/// What a webhook must satisfy.
#[derive(Debug)]
pub struct Webhook {
    /// Shared with GitHub.
    pub secret: SecretString,
    /// The secret before that one, which is taken too while it is being changed.
    pub previous: Option<SecretString>,
    /// Which events are for us.
    pub rules: Rules,
}

/// What the handlers share.
pub(super) struct Shared {
    pub(super) state: ServerState,
    pub(super) slots: RequestSlots,
    pub(super) bodies: Arc<BodyBudget>,
    /// All streams together.
    pub(super) streams: Arc<Semaphore>,
    /// Each caller's.
    pub(super) streams_of_callers: StreamLimit,
    /// How many have come.
    pub(super) requests: AtomicU64,
}

impl Shared {
    pub(super) fn new(state: ServerState) -> Self {
        let limits = &state.limits;
        Self {
            slots: RequestSlots::new(limits),
            bodies: Arc::new(BodyBudget::new(limits)),
            streams: Arc::new(Semaphore::new(limits.streams)),
            streams_of_callers: StreamLimit::default(),
            requests: AtomicU64::new(0),
            state,
        }
    }

    /// Counts a delivery of a webhook.
    pub(super) fn count(&self, delivery: WebhookOutcome) {
        self.state.deliveries.count(delivery);
    }
}
