//! A manifest repository that apps are read from. Its server is asked what others have pushed, and
//! not more often than somebody wants to know it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;

use crate::git::writer::ManifestRepository;
use crate::model::facts::FactUnavailable;
use crate::support::globs::Globs;

/// A manifest repository, and which targets' manifests it has.
#[derive(Clone)]
pub struct IndexedRepository {
    /// What the configuration calls it.
    pub name: String,
    /// The repository.
    pub repository: ManifestRepository,
    /// For a target the first one counts that has it.
    pub targets: Globs,
}

/// A value, and when it was so.
pub(super) type Dated<T> = (T, Timestamp);

pub(super) fn not_known(error: &dyn std::error::Error) -> FactUnavailable {
    FactUnavailable::new(error.to_string())
}

/// Until then what is known counts, if the server does not answer.
const USABLE: SignedDuration = SignedDuration::from_mins(5);
/// A server that is slower is asked again by the next deployment.
const ASKING: Duration = Duration::from_secs(4);

/// A manifest repository, and when its server was asked last.
pub(super) struct IndexPlace {
    pub(super) repository: IndexedRepository,
    asked: Mutex<Option<SeenTip>>,
}

/// What a server said of the branch when it was asked last.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeenTip {
    pub(super) at: Timestamp,
    /// Whether it is there.
    pub(super) branch: bool,
}

impl IndexPlace {
    pub(super) fn new(repository: IndexedRepository) -> Self {
        Self { repository, asked: Mutex::default() }
    }

    /// Returns the name that the configuration calls it by.
    pub(super) fn name(&self) -> &str {
        &self.repository.name
    }

    /// Returns the reason why nothing is known of it.
    pub(super) fn silent(&self, patience: Duration) -> FactUnavailable {
        let name = self.name();
        FactUnavailable::new(format!(
            "the manifest repository {name} did not answer within {patience:?}"
        ))
    }

    /// Returns whether the server said, when it was asked last, that there is no branch.
    pub(super) async fn has_no_branch(&self) -> bool {
        self.asked.lock().await.is_some_and(|seen| !seen.branch)
    }

    /// Asks the server unless it was asked within that time; one asks for all that wait.
    pub(super) async fn freshen(
        &self,
        now: Timestamp,
        within: SignedDuration,
    ) -> Result<SeenTip, FactUnavailable> {
        self.freshen_in(ASKING, now, within).await
    }

    /// The same, for who has less time than a deployment. A folder of this machine is as it is.
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
        let mut asked = self.asked.lock().await;
        let age = |seen: SeenTip| now.duration_since(seen.at);
        if let Some(seen) = asked.filter(|seen| age(*seen) < within) {
            return Ok(seen);
        }
        let answer = tokio::time::timeout(asking, self.repository.repository.tip()).await;
        match (answer, *asked) {
            (Ok(Ok(tip)), _) => Ok(*asked.insert(SeenTip { at: now, branch: tip.is_some() })),
            (_, Some(seen)) if age(seen) < USABLE => Ok(seen),
            (Ok(Err(error)), _) => Err(not_known(&error)),
            (Err(_), _) => Err(self.silent(asking)),
        }
    }
}
