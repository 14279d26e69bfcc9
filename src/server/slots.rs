//! How many requests of each kind are worked on at once: none takes the place of another.
//!
//! Following a deployment has bounds of its own; `/healthz` and `/metrics` have none, since they wait
//! for nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::server::Limits;
use crate::server::problem::{Kind, Problem};

/// Signed webhooks wait for so long for one another.
const WEBHOOKS_WAIT: Duration = Duration::from_secs(2);

/// What kind of request takes a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// A webhook whose signature is right.
    Webhook,
    /// `/api`, without streams.
    Api,
    /// The pages.
    Page,
    /// `/readyz`.
    Readiness,
}

/// The slots of each class.
#[derive(Debug)]
pub(super) struct Slots {
    webhooks: Arc<Semaphore>,
    api: Arc<Semaphore>,
    pages: Arc<Semaphore>,
    readiness: Arc<Semaphore>,
}

impl Slots {
    pub(super) fn new(limits: &Limits) -> Self {
        let slots = |count| Arc::new(Semaphore::new(count));
        let Limits { webhooks, api, pages, readiness, .. } = limits;
        Self {
            webhooks: slots(*webhooks),
            api: slots(*api),
            pages: slots(*pages),
            readiness: slots(*readiness),
        }
    }

    /// A slot of that class; else the caller is told to come again.
    pub(super) async fn take(&self, class: Class) -> Result<OwnedSemaphorePermit, Problem> {
        let (slots, wait) = match class {
            Class::Webhook => (&self.webhooks, WEBHOOKS_WAIT),
            Class::Api => (&self.api, Duration::ZERO),
            Class::Page => (&self.pages, Duration::ZERO),
            Class::Readiness => (&self.readiness, Duration::ZERO),
        };
        if let Ok(Ok(slot)) = timeout(wait, slots.clone().acquire_owned()).await {
            return Ok(slot);
        }
        tracing::warn!(?class, "too many requests at once");
        Err(Problem::new(Kind::Overloaded, "the server is busy; come again"))
    }
}
