//! THE LOOPS: events come in, deployments are worked off, the forge is told.
//!
//! ```text
//! webhook ─► inbox ─► store ◄─ worker ─► jobs/deploy: fetch → plan → push
//!                       ▲                    └─ outcome: end it, or try again when
//!                       └─ outbox ─► forge, Slack, webhooks: a sender each
//! ```
//!
//! Everything durable is in the store; a loop that dies loses nothing. Loops wake one another
//! by signals without data, and by a timer where a signal is lost. Knows neither the forge nor the
//! templates nor git: they are handed in as [`outside::Outside`].

pub mod inbox; // an event becomes a deployment
pub mod job; // one claimed deployment: lease, panic, shutdown
mod jobs; // what is done with it
pub mod metrics;
pub mod outbox; // everybody is told
pub mod outcome; // every end and every failure: what happens next, pure
pub mod outside; // what a job needs of the world
pub mod previews; // pull requests are previewed, beside the deployments
pub mod stages; // how long each stage took, and its log lines
pub mod sweep; // events that were lost are found
mod worker; // the loops

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};

use crate::clock::Clock;
use crate::controller::inbox::Inbox;
use crate::controller::metrics::Metrics;
use crate::controller::outbox::answer::OutboxRetryPolicies;
use crate::controller::outbox::rates::Rates;
use crate::controller::outbox::{HOUR_HAS_ROOM, Senders};
use crate::controller::outside::Outside;
use crate::store::Store;
use crate::support::retry::RetryPolicy;

/// How the loops behave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// This process, for people who look into the database: `host:pid`.
    pub name: String,
    /// How many deployments are worked on at once.
    pub workers: usize,
    /// After how long without a sign of life another worker takes over. Much longer than the
    /// clocks of two replicas can differ.
    pub lease: Duration,
    /// How long an act beside deploying has its app to itself.
    pub act: Duration,
    /// After how long an attempt is ended, whatever it is at.
    pub longest_job: Duration,
    /// How often a loop looks without having been woken: for retries, and other replicas' events.
    pub poll: Duration,
    /// How long running deployments may go on after a shutdown was asked for.
    pub grace: Duration,
    /// How often a deployment is tried.
    pub patience: RetryPolicy,
    /// How often a message is tried.
    pub report_patience: OutboxRetryPolicies,
    /// How fast everybody is told.
    pub rates: Rates,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "the-deployer".to_owned(),
            workers: 8,
            lease: Duration::from_mins(1),
            act: Duration::from_mins(5),
            longest_job: Duration::from_mins(10),
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(20),
            patience: RetryPolicy::default(),
            report_patience: OutboxRetryPolicies::default(),
            rates: Rates::default(),
        }
    }
}

/// All loops of this process. Clones share them.
pub struct Controller<O: Outside>(Arc<Parts<O>>);

struct Parts<O> {
    store: Store,
    clock: Clock,
    outside: O,
    settings: Settings,
    metrics: Metrics,
    wake: Arc<Wake>,
    /// Held by who works on a deployment whose attempt died: one at a time, so that it is known of
    /// which the process dies.
    suspect: Semaphore,
    /// Until when the forge's hour is used up, in milliseconds since the epoch, as it was counted last.
    hour_used_up_until: AtomicI64,
}

/// Signals that there may be something to do; which, is in the store.
#[derive(Debug, Default)]
struct Wake {
    workers: Notify,
    outbox: Senders,
}

impl<O: Outside> Controller<O> {
    /// Loops over this store and this world; nothing runs before [`Controller::run`].
    pub fn new(
        store: Store,
        clock: Clock,
        outside: O,
        settings: Settings,
        metrics: Metrics,
    ) -> Self {
        let (wake, suspect) = (Arc::default(), Semaphore::new(1));
        let hour_used_up_until = AtomicI64::new(HOUR_HAS_ROOM);
        Self(Arc::new(Parts {
            store,
            clock,
            outside,
            settings,
            metrics,
            wake,
            suspect,
            hour_used_up_until,
        }))
    }

    /// Where events are handed in.
    pub fn inbox(&self) -> Inbox {
        let parts = &self.0;
        Inbox::new(parts.store.clone(), parts.clock.clone(), Arc::clone(&parts.wake))
    }
}

impl<O: Outside> Clone for Controller<O> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
