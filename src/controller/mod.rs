//! THE LOOPS: events come in, deployments are worked off, the forge is told.
//!
//! ```text
//! webhook ─► accept ─► store ◄─ worker ─► jobs/deploy: fetch → plan → push
//!                       ▲                    └─ outcome: end it, or try again when
//!                       └─ outbox ─► forge, Slack, webhooks: a sender each
//! ```
//!
//! Everything durable is in the store; a loop that dies loses nothing. Loops wake one another
//! by signals without data, and by a timer where a signal is lost. What a step does is a use case of
//! [`Deployments`].

pub mod job; // one claimed deployment: lease, panic, shutdown
mod jobs; // what is done with it
pub mod metrics;
pub mod outbox; // everybody is told
pub mod outcome; // every end and every failure: what happens next, pure
pub mod previews; // pull requests are previewed, beside the deployments
pub mod sweep; // events that were lost are found
mod worker; // the loops

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::controller::metrics::Metrics;
use crate::controller::outbox::Senders;
use crate::controller::outbox::answer::OutboxRetryPolicies;
use crate::controller::outbox::rates::Rates;
use crate::deployments::Deployments;
use crate::store::Store;
use crate::support::clock::Clock;
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
pub struct Controller(Arc<Parts>);

struct Parts {
    store: Store,
    clock: Clock,
    deployments: Deployments,
    settings: Settings,
    metrics: Metrics,
    senders: Senders,
    /// Held by who works on a deployment whose attempt died: one at a time, so that it is known of
    /// which the process dies.
    suspect: Semaphore,
}

impl Controller {
    /// Loops over these use cases; nothing runs before [`Controller::run`].
    pub fn new(deployments: Deployments, settings: Settings, metrics: Metrics) -> Self {
        let (store, clock) = (deployments.store.clone(), deployments.clock.clone());
        let (senders, suspect) = (Senders::default(), Semaphore::new(1));
        Self(Arc::new(Parts { store, clock, deployments, settings, metrics, senders, suspect }))
    }
}

impl Clone for Controller {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
