//! Readiness checks: the database, the disk and the manifest repositories accept writes.
//!
//! Probes are anonymous, so any client may call them, as often as it likes; their calls must not
//! become as many requests to a code host, writes to a disk, or processes on this machine.
//!
//! Results are public: those of the database and the disk name neither hosts nor paths, and the log
//! has the rest. A manifest repository is named by its address, without the secrets in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;

use crate::git::error::WriteError;
use crate::git::writer::ManifestRepository;
use crate::store::Store;
use crate::support::clock::Clock;
use crate::support::disk;

/// One thing that must work before the service is ready for traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// Its name: `database`, `manifests`.
    pub name: String,
    /// The condition that it waits for; `None` when it works. Public: no secrets.
    pub waiting_for: Option<String>,
    /// A further remark, in both cases.
    pub note: Option<String>,
}

/// The cached checks of the database and the disk. Each manifest repository keeps its own.
pub(crate) struct Health {
    /// The name of this process, as other replicas know it.
    replica: String,
    folder: PathBuf,
    database: CachedCheck,
    disk: CachedCheck,
}

impl Health {
    pub(crate) fn new(replica: &str, folder: &Path) -> Self {
        let (replica, folder) = (replica.to_owned(), folder.to_owned());
        Self { replica, folder, database: CachedCheck::local(), disk: CachedCheck::local() }
    }

    /// Checks that events and their progress can be stored.
    pub(crate) async fn database(&self, store: &Store, clock: &Clock) -> CheckResult {
        let (store, replica, now) = (store.clone(), self.replica.clone(), clock.now());
        let ask = async move {
            store.ready(&replica, now).await.map_err(|error| ReadinessFailure {
                waiting_for: error.ailment().to_string(),
                cause: error.to_string(),
            })
        };
        self.database.get_or_check("database", clock.clone(), ask).await
    }

    /// Checks that clones and the embedded database can be written.
    pub(crate) async fn disk(&self, clock: &Clock) -> CheckResult {
        let folder = self.folder.clone();
        let ask = async move {
            let result = tokio::task::spawn_blocking(move || disk::try_write(&folder)).await;
            match result {
                Ok(result) => result.map_err(|error| ReadinessFailure {
                    waiting_for: disk::describe_io_error(&error).to_owned(),
                    cause: error.to_string(),
                }),
                Err(fault) => Err(ReadinessFailure::new(fault.to_string())),
            }
        };
        self.disk.get_or_check("disk", clock.clone(), ask).await
    }

    /// Checks that a change could be pushed.
    pub(crate) async fn repository(
        (name, repository): (&str, &ManifestRepository),
        readiness: &CachedCheck,
        clock: &Clock,
    ) -> CheckResult {
        let repository = repository.clone();
        let ask = async move { repository.ready().await.map_err(|error| not_ready(&error)) };
        readiness.get_or_check(name, clock.clone(), ask).await
    }
}

fn not_ready(error: &WriteError) -> ReadinessFailure {
    match error {
        WriteError::Disk { cause, .. } => ReadinessFailure {
            waiting_for: "its folder on this machine, which cannot be used; the log says why"
                .to_owned(),
            cause: cause.clone(),
        },
        error => ReadinessFailure::new(error.to_string()),
    }
}

/// The time for which a result about another machine is reused: no longer than the interval of
/// probes, so that the next probe sees a repository that came back.
const FRESH: SignedDuration = SignedDuration::from_secs(5);

/// The time for which a result about a disk or the database is reused, which are near.
const FRESH_NEARBY: SignedDuration = SignedDuration::from_secs(1);

/// The result of a check: ready, or the condition that it waits for.
pub(crate) type CheckResult = Result<(), ReadinessFailure>;

/// The reason why something is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadinessFailure {
    /// The condition that it waits for; public.
    pub(crate) waiting_for: String,
    /// The cause, for the log.
    pub(crate) cause: String,
}

impl ReadinessFailure {
    /// Uses the same text for both.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { waiting_for: text.clone(), cause: text }
    }
}

/// The cached result of one check. Clones share it.
#[derive(Clone)]
pub(crate) struct CachedCheck {
    fresh: SignedDuration,
    last: Arc<Mutex<Option<(Timestamp, CheckResult)>>>,
}

/// A check of something on another machine.
impl Default for CachedCheck {
    fn default() -> Self {
        Self { fresh: FRESH, last: Arc::default() }
    }
}

impl CachedCheck {
    /// Creates a check of something near.
    pub(crate) fn local() -> Self {
        Self { fresh: FRESH_NEARBY, ..Self::default() }
    }

    /// Returns the cached result while it is fresh, otherwise a new one. One caller runs the check
    /// at a time, to its end even if that caller has gone; all others wait for its result.
    pub(crate) async fn get_or_check(
        &self,
        name: &str,
        clock: Clock,
        ask: impl Future<Output = CheckResult> + Send + 'static,
    ) -> CheckResult {
        let mut last = Arc::clone(&self.last).lock_owned().await;
        // A result from the future is not fresh either: the clock may have been set back.
        let is_fresh = |at: Timestamp| clock.now().duration_since(at).abs() < self.fresh;
        if let Some((at, answer)) = &*last
            && is_fresh(*at)
        {
            return answer.clone();
        }
        let name = name.to_owned();
        let check = tokio::spawn(async move {
            let answer = ask.await;
            log(&name, last.as_ref().map(|(_, before)| before), &answer);
            *last = Some((clock.now(), answer.clone()));
            answer
        });
        check.await.unwrap_or_else(|fault| Err(ReadinessFailure::new(fault.to_string())))
    }
}

/// Logs a change of the result once: probes come again and again.
fn log(check: &str, before: Option<&CheckResult>, now: &CheckResult) {
    match now {
        _ if before == Some(now) => {}
        Err(ReadinessFailure { waiting_for, cause }) => {
            tracing::warn!(check, waiting_for, error = cause, "the service is not ready");
        }
        Ok(()) if before.is_some() => tracing::info!(check, "the service is ready again"),
        Ok(()) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn who_asks_again_at_once_gets_the_same_answer() {
        let (clock, count) = (Clock::manual(Timestamp::UNIX_EPOCH), Arc::new(AtomicU32::new(0)));
        let readiness = CachedCheck::default();
        let ask = async || {
            let count = Arc::clone(&count);
            let ask = async move {
                Err(ReadinessFailure::new(format!("no {}", count.fetch_add(1, Ordering::SeqCst))))
            };
            readiness.get_or_check("it", clock.clone(), ask).await.unwrap_err().waiting_for
        };
        assert_eq!((ask().await, ask().await), ("no 0".to_owned(), "no 0".to_owned()));
        clock.advance(Duration::from_secs(4));
        assert_eq!(ask().await, "no 0");
        clock.advance(Duration::from_secs(1));
        assert_eq!(ask().await, "no 1");
    }

    #[tokio::test]
    async fn a_question_is_heard_out_although_who_asked_it_has_gone() {
        let clock = Clock::manual(Timestamp::UNIX_EPOCH);
        let (readiness, signal) = (CachedCheck::default(), Arc::new(Notify::new()));
        let check = {
            let signal = Arc::clone(&signal);
            async move {
                signal.notified().await;
                Err(ReadinessFailure::new("slow"))
            }
        };
        let first = tokio::time::timeout(
            Duration::ZERO,
            readiness.get_or_check("it", clock.clone(), check),
        )
        .await;
        assert!(first.is_err());
        signal.notify_one();
        let second =
            readiness.get_or_check("it", clock, async { panic!("it is asked only once") }).await;
        assert_eq!(second, Err(ReadinessFailure::new("slow")));
    }
}
