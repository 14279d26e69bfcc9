//! A manifest repository as the index reads it: its server is asked for pushes of others, no more
//! often than readers need.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;

use crate::git::writer::ManifestRepository;
use crate::model::facts::FactUnavailable;
use crate::support::globs::Globs;

/// A manifest repository, and the targets whose manifests it has.
#[derive(Clone)]
pub struct IndexedRepository {
    /// Its name in the configuration.
    pub name: String,
    /// The repository.
    pub repository: ManifestRepository,
    /// Its targets; the first repository that matches a target has it.
    pub targets: Globs,
}

/// A value with the time at which it was true.
pub(super) type Dated<T> = (T, Timestamp);

pub(super) fn not_known(error: &dyn std::error::Error) -> FactUnavailable {
    FactUnavailable::new(error.to_string())
}

/// The age up to which the last state counts, if the server does not answer.
const USABLE: SignedDuration = SignedDuration::from_mins(5);
/// The time for a fetch; a slower server is asked again by the next deployment.
const ASKING: Duration = Duration::from_secs(4);

/// A manifest repository, and the time of its last fetch.
pub(super) struct IndexPlace {
    pub(super) repository: IndexedRepository,
    last_seen: Mutex<Option<SeenTip>>,
}

/// The state of the branch at the last fetch.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeenTip {
    pub(super) at: Timestamp,
    /// True if the branch exists.
    pub(super) branch: bool,
}

impl IndexPlace {
    pub(super) fn new(repository: IndexedRepository) -> Self {
        Self { repository, last_seen: Mutex::default() }
    }

    /// Returns its name in the configuration.
    pub(super) fn name(&self) -> &str {
        &self.repository.name
    }

    /// Returns the error for a repository that did not answer.
    pub(super) fn silent(&self, patience: Duration) -> FactUnavailable {
        let name = self.name();
        FactUnavailable::new(format!(
            "the manifest repository {name} did not answer within {patience:?}"
        ))
    }

    /// Returns true if the server said at the last fetch that there is no branch.
    pub(super) async fn has_no_branch(&self) -> bool {
        self.last_seen.lock().await.is_some_and(|tip| !tip.branch)
    }

    /// Fetches from the server unless that was done `within` this time; one caller fetches for all
    /// that wait.
    pub(super) async fn freshen(
        &self,
        now: Timestamp,
        within: SignedDuration,
    ) -> Result<SeenTip, FactUnavailable> {
        self.freshen_in(ASKING, now, within).await
    }

    /// Does the same for a caller that has less time than a deployment. A folder of this machine needs
    /// no fetch.
    pub(super) async fn freshen_in(
        &self,
        asking: Duration,
        now: Timestamp,
        within: SignedDuration,
    ) -> Result<SeenTip, FactUnavailable> {
        if self.repository.repository.is_local() {
            return Ok(SeenTip { at: now, branch: true });
        }
        let asking = asking.min(ASKING);
        let mut last_seen = self.last_seen.lock().await;
        let age = |tip: SeenTip| now.duration_since(tip.at);
        if let Some(tip) = last_seen.filter(|seen| age(*seen) < within) {
            return Ok(tip);
        }
        let answer = tokio::time::timeout(asking, self.repository.repository.tip()).await;
        match (answer, *last_seen) {
            (Ok(Ok(tip)), _) => Ok(*last_seen.insert(SeenTip { at: now, branch: tip.is_some() })),
            (_, Some(tip)) if age(tip) < USABLE => Ok(tip),
            (Ok(Err(error)), _) => Err(not_known(&error)),
            (Err(_), _) => Err(self.silent(asking)),
        }
    }
}
