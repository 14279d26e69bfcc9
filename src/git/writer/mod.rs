//! The writer of one manifest repository: each change becomes one commit on its branch.
//!
//! This is the entry of the module: settings in, typed outcomes out, git's blocking work beside the async workers. It
//! knows neither the meaning of the files nor the reason of a deployment.

pub(super) mod queue;
pub(super) mod batch;
pub mod push_limiter;
pub(super) mod push_attempt;
pub(super) mod push_loop;
pub(super) mod fence;
pub(super) mod outcome;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use git2::{Oid, Repository};
use jiff::Timestamp;
use tokio::sync::{Mutex, mpsc, oneshot};

pub use crate::git::author::CommitIdentity;
use crate::git::changes::ManifestChange;
pub use crate::git::changes::conditional_edit::{ConditionalEdit, Edit, Precondition};
pub use crate::git::changes::deployment::{DeploymentChange, ProjectFile};
pub use crate::git::changes::rollback::Restore;
use crate::git::clone::branch::Location;
use crate::git::clone::local;
pub use crate::git::clone::remove as remove_clone;
pub use crate::git::drift::DriftPolicy;
use crate::git::error::StepError;
pub use crate::git::error::WriteError;
use crate::git::layout;
pub use crate::git::message::{CommitMessage, Note, RemovalNote, RollbackNote};
use crate::git::signing::{CommitSigner, SigningKey};
pub use crate::git::transport::push::PushBy;
pub use crate::git::transport::remote::RemoteSettings;
use crate::git::transport::remote::{self, RemoteSource};
use crate::git::writer::batch::Committer;
pub use crate::git::writer::fence::Now;
pub use crate::git::writer::outcome::PushOutcome;
use crate::git::writer::push_attempt::Writer;
pub use crate::git::writer::push_limiter::PushAllowance;
use crate::git::writer::push_limiter::PushLimiter;
pub use crate::git::writer::push_loop::WriterCounts;
use crate::git::writer::push_loop::{Counters, PushLoop};
pub use crate::git::writer::queue::PendingRelease;
use crate::git::writer::queue::{Job, PendingReleases, Queue};
use crate::model::release::Release;
use crate::support::lease::Lease;

/// The location of the repository, and the settings of its writer.
#[derive(Debug, Clone)]
pub struct WriterSettings {
    /// The branch that Argo CD follows, and its credentials.
    pub remote: RemoteSettings,
    /// True if no other process writes to the repository at that path: then a stale lock is known as such after a
    /// second, and not after minutes.
    pub alone: bool,
    /// The committer.
    pub identity: CommitIdentity,
    /// The domain of the addresses that people have as authors whom the code host names:
    /// `users.noreply.github.com`.
    pub people: String,
    /// The key that commits are signed with, if they are.
    pub signing: Option<SigningKey>,
    /// The push budget for a server; a folder of this machine has none.
    pub budget: PushAllowance,
    /// The client that pushes to a server.
    pub push: PushBy,
    /// The clock for the budget and for leases.
    pub now: Now,
}

/// One manifest repository. Cheap to clone; all clones share the one writer.
#[derive(Clone)]
pub struct ManifestRepository {
    jobs: mpsc::Sender<Job>,
    coming: PendingReleases,
    counters: Arc<Counters>,
    writer: Arc<Mutex<Writer>>,
    signing: Option<Arc<CommitSigner>>,
    location: Location,
}

impl ManifestRepository {
    /// Opens the repository; for a server opens or begins the clone, and sends no request yet.
    pub async fn open(settings: WriterSettings) -> Result<Self, WriteError> {
        let (name, reference, source) = settings.remote.locate().map_err(WriteError::Invalid)?;
        batch::check(&settings.identity)?;
        let WriterSettings { remote, alone, identity, people, signing, budget, push, now } =
            settings;
        let RemoteSettings { branch, clone_dir: clone, .. } = remote;
        let location = match source {
            RemoteSource::Folder(path) => {
                Location::Local { path, reference: reference.clone(), alone }
            }
            RemoteSource::Server(remote) => Location::Server { remote, clone },
        };
        let opening = location.clone();
        let writer = blocking(move || {
            let home = opening.open(&reference, push)?;
            let signing = signing.map(|key| signing_by(&key, &name)).transpose()?;
            let committer = Committer { identity, people, signing };
            Ok(Writer { home, committer, branch, name, now })
        })
        .await?;
        Ok(Self::begin(writer, location, budget))
    }

    /// Starts the writer's loop; it ends with the last clone of the returned value.
    fn begin(writer: Writer, location: Location, budget: PushAllowance) -> Self {
        let (jobs, receiver) = mpsc::channel(queue::LONGEST);
        let (coming, counters) = (PendingReleases::default(), Arc::<Counters>::default());
        let (signing, now) = (writer.committer.signing.clone(), writer.now.clone());
        let writer = Arc::new(Mutex::new(writer));
        let budget = match location {
            Location::Local { .. } => PushAllowance { burst: u32::MAX, per_minute: u32::MAX },
            Location::Server { .. } => budget,
        };
        let rounds = PushLoop {
            writer: Arc::clone(&writer),
            queue: Queue { jobs: receiver, coming: coming.clone() },
            limiter: PushLimiter::new(budget),
            now,
            counters: Arc::clone(&counters),
            again: VecDeque::new(),
            alone: 0,
        };
        tokio::spawn(rounds.run());
        Self { jobs, coming, counters, writer, signing, location }
    }

    /// Removes the copies of keys on this disk. A process that ends calls it: the writer may not be dropped any more. A
    /// later write brings them back.
    pub async fn close(&self) {
        let (signing, location) = (self.signing.clone(), self.location.clone());
        let closing = move || {
            if let Some(signing) = signing {
                signing.close();
            }
            if let Location::Server { remote, .. } = location {
                remote.close();
            }
        };
        // Nothing of it can panic; and if the process is faster, the next one does it.
        let _ = tokio::task::spawn_blocking(closing).await;
    }

    /// Makes an empty bare repository at a local path; leaves an existing one alone.
    pub fn create_local(path: &Path, branch: &str) -> Result<(), WriteError> {
        remote::reference(branch).map_err(WriteError::Invalid)?;
        local::create(path, branch)
    }

    /// Announces that a deployment of the release is on its way, so that its other targets, if they come now, go in the
    /// same push.
    pub fn announce(&self, release: &Release) -> PendingRelease {
        self.coming.announce(release)
    }

    /// Writes one deployment; `at` is the time of its commit, and after the lease's end it is not pushed
    /// ([`WriteError::LeaseOver`]).
    ///
    /// If the caller stops waiting, it is not pushed either. A push that is under way is not undone: the repository
    /// shows if it got through.
    pub async fn write(
        &self,
        write: DeploymentChange,
        at: Timestamp,
        lease: &Lease,
    ) -> Result<PushOutcome, WriteError> {
        self.write_announced(write, at, lease, None).await
    }

    /// Writes a deployment that was announced.
    pub async fn write_announced(
        &self,
        write: DeploymentChange,
        at: Timestamp,
        lease: &Lease,
        pending: Option<PendingRelease>,
    ) -> Result<PushOutcome, WriteError> {
        layout::check_files(&write.revision).map_err(WriteError::Invalid)?;
        let hand_edits = write.hand_edits.clone();
        let change = ManifestChange::Deploy(Box::new(write));
        let result = self.change(change, (at, lease), pending).await;
        hand_edits.record_result(&result);
        result
    }

    /// Writes the deployments to the clusters of a fleet, each with a commit of its own, in one push: all of them or none.
    /// Returns the outcome of each, in order; `at`, `lease` and `pending` are as for [`ManifestRepository::write`].
    pub async fn write_together(
        &self,
        writes: Vec<DeploymentChange>,
        at: Timestamp,
        lease: &Lease,
        pending: Option<PendingRelease>,
    ) -> Result<Vec<PushOutcome>, WriteError> {
        for write in &writes {
            layout::check_files(&write.revision).map_err(WriteError::Invalid)?;
        }
        let edits: Vec<DriftPolicy> = writes.iter().map(|write| write.hand_edits.clone()).collect();
        let changes = writes.into_iter().map(|write| ManifestChange::Deploy(Box::new(write)));
        let result = self.changes(changes.collect(), (at, lease), pending).await;
        record_results(&edits, &result);
        result
    }

    /// Makes former revisions of an app live again on the clusters of a fleet, in one push: all of them or none.
    pub async fn roll_back_together(
        &self,
        restores: Vec<Restore>,
        at: Timestamp,
        lease: &Lease,
    ) -> Result<Vec<PushOutcome>, WriteError> {
        let edits: Vec<DriftPolicy> =
            restores.iter().map(|restore| restore.hand_edits.clone()).collect();
        let changes =
            restores.into_iter().map(|restore| ManifestChange::Restore(Box::new(restore)));
        let result = self.changes(changes.collect(), (at, lease), None).await;
        record_results(&edits, &result);
        result
    }

    /// Makes a change that was decided on before, if its paths still have the same content ([`WriteError::Moved`] if
    /// not); `at` and `lease` are as for [`ManifestRepository::write`].
    pub async fn amend(
        &self,
        conditional_edit: ConditionalEdit,
        at: Timestamp,
        lease: &Lease,
    ) -> Result<PushOutcome, WriteError> {
        self.change(ManifestChange::Amend(conditional_edit), (at, lease), None).await
    }

    /// Makes a former revision live again, if the state is still that of the decision ([`WriteError::Moved`] if not);
    /// `at` and `lease` are as for [`ManifestRepository::write`].
    pub async fn roll_back(
        &self,
        restore: Restore,
        at: Timestamp,
        lease: &Lease,
    ) -> Result<PushOutcome, WriteError> {
        let hand_edits = restore.hand_edits.clone();
        let result =
            self.change(ManifestChange::Restore(Box::new(restore)), (at, lease), None).await;
        hand_edits.record_result(&result);
        result
    }

    async fn change(
        &self,
        change: ManifestChange,
        when: (Timestamp, &Lease),
        pending: Option<PendingRelease>,
    ) -> Result<PushOutcome, WriteError> {
        let outcomes = self.changes(vec![change], when, pending).await?;
        outcomes.into_iter().next().ok_or_else(stopped_error)
    }

    /// Waits where the queue is full.
    async fn changes(
        &self,
        changes: Vec<ManifestChange>,
        (at, lease): (Timestamp, &Lease),
        pending: Option<PendingRelease>,
    ) -> Result<Vec<PushOutcome>, WriteError> {
        let (answer, receiver) = oneshot::channel();
        let lease = lease.clone();
        let job = Job { changes, at, lease, answer, lost: 0, tried_on: None, pending };
        let _until_answered = self.counters.one_waits();
        self.jobs.send(job).await.map_err(|_| stopped_error())?;
        self.coming.notify_arrival();
        receiver.await.unwrap_or_else(|_| Err(stopped_error()))
    }

    /// Returns the counters of the writer since it was opened.
    pub fn counts(&self) -> WriterCounts {
        self.counters.counts()
    }

    /// Checks that a write could begin: one small request, beside a push that is under way.
    pub async fn ready(&self) -> Result<(), WriteError> {
        let location = self.location.clone();
        blocking(move || location.ready()).await
    }

    /// Runs `read` on the repository and its tip of now.
    pub(super) async fn at_tip<T: Send + 'static>(
        &self,
        read_tip: impl Fn(&Repository, Option<Oid>) -> Result<T, git2::Error> + Send + 'static,
    ) -> Result<T, WriteError> {
        let mut writer = Arc::clone(&self.writer).lock_owned().await;
        blocking(move || {
            Ok(writer.with_repair(|writer| {
                let tip = writer.home.fetch_tip()?;
                Ok(read_tip(writer.home.repo(), tip)?)
            })?)
        })
        .await
    }

    /// Returns whether a change or a look is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.writer.try_lock().is_err()
    }

    pub(super) fn location(&self) -> &Location {
        &self.location
    }
}

/// Records the end of writes that were made together.
fn record_results(edits: &[DriftPolicy], result: &Result<Vec<PushOutcome>, WriteError>) {
    for (n, edit) in edits.iter().enumerate() {
        let result = result.as_ref().map(|outcomes| outcomes.get(n).cloned());
        match result {
            Ok(Some(outcome)) => edit.record_result(&Ok(outcome)),
            Ok(None) => {}
            Err(error) => edit.record_result(&Err(error.clone())),
        }
    }
}

fn signing_by(key: &SigningKey, repository: &str) -> Result<Arc<CommitSigner>, WriteError> {
    let signing = CommitSigner::open(key)
        .map_err(|why| WriteError::NotSigned { repository: repository.to_owned(), why })?;
    tracing::info!(repository, key = signing.fingerprint(), "commits are signed");
    Ok(Arc::new(signing))
}

/// Runs git's blocking work beside the async workers.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StepError> + Send + 'static,
) -> Result<T, WriteError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(StepError::Error(error))) => Err(error),
        Ok(Err(StepError::Damaged(error))) => Err(WriteError::Invalid(error.message().to_owned())),
        Err(_) => Err(stopped_error()),
    }
}

/// Builds the error of a writer that was dropped or panicked: the process is going down, or must be looked at.
fn stopped_error() -> WriteError {
    let cause = "the writer stopped in the middle; the next try finds what was pushed";
    WriteError::unreachable("the manifest repository", cause)
}
