//! Signals that there may be something to do; which, is in the store.

use tokio::sync::{Notify, watch};

/// Signals without data: one that is lost costs the time until the loops' timer.
#[derive(Debug, Default)]
pub struct Wake {
    /// Deployments wait, or their lanes are free.
    pub(crate) workers: Notify,
    /// Messages wait.
    outbox: watch::Sender<()>,
    /// Previews wait.
    pub(crate) previews: Notify,
}

impl Wake {
    /// There may be a deployment to work on, and something to tell of it.
    pub(crate) fn all(&self) {
        self.workers.notify_one();
        self.outbox();
    }

    /// There may be something to tell; to whom, is in the store.
    pub(crate) fn outbox(&self) {
        self.outbox.send_replace(());
    }

    /// Changes whenever there may be something to tell.
    pub(crate) fn messages(&self) -> watch::Receiver<()> {
        self.outbox.subscribe()
    }
}
