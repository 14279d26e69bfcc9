//! Where lost events are looked for soon.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::model::id::RepoName;
use crate::support::sync::lock;

/// So many repositories are looked at out of turn; what is more is found in the round.
const MOST_HINTS: usize = 64;

/// Where to look soon. Hints are not kept: the round comes to every repository.
#[derive(Debug, Clone, Default)]
pub struct Hints(Arc<HintsInner>);

#[derive(Debug, Default)]
struct HintsInner {
    repositories: Mutex<BTreeSet<RepoName>>,
    wake: Notify,
}

impl Hints {
    /// One of the repository's deployments needs somebody to say something about it.
    pub(crate) fn look_at(&self, repository: &RepoName) {
        let mut hints = lock(&self.0.repositories);
        if hints.len() < MOST_HINTS && hints.insert(repository.clone()) {
            self.0.wake.notify_one();
        }
    }

    /// It was not looked at; the next run will.
    pub(crate) fn put_back(&self, repository: RepoName) {
        lock(&self.0.repositories).insert(repository);
    }

    pub(crate) fn take(&self) -> BTreeSet<RepoName> {
        std::mem::take(&mut *lock(&self.0.repositories))
    }

    /// Until there may be a new one.
    pub(crate) async fn wait(&self) {
        self.0.wake.notified().await;
    }
}
