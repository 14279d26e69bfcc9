//! One writer for one manifest repository: each change becomes one commit on its branch.
//!
//! The door to the module: settings in, typed outcomes out, git's blocking work beside the async
//! workers. Knows neither what the files mean nor why they are deployed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use git2::{Oid, Repository};
use jiff::Timestamp;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::git::address::Address;
pub use crate::git::amendment::{Amendment, Edit, Seen};
use crate::git::apply::{self, Writer};
use crate::git::change::Change;
pub use crate::git::deployment::Write;
pub use crate::git::error::{Disposition, WriteError};
pub use crate::git::handedit::Watch;
use crate::git::home::{Home, Trouble};
use crate::git::kept::Kept;
use crate::git::layout;
use crate::git::local::{self, Local};
pub use crate::git::message::{Message, Note, RemovalNote};
use crate::git::signing::SigningKey;
use crate::git::token::Tokens;
use crate::git::transport::Wire;
use crate::model::id::CommitSha;

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a deployment is recorded with the commit that holds it"]
pub enum Written {
    /// A commit was made, and the branch is at it.
    Pushed {
        /// The new commit.
        commit: CommitSha,
    },
    /// The branch holds exactly this already; no commit was made.
    Unchanged {
        /// The tip that holds it.
        commit: CommitSha,
    },
    /// A former try of the same change got through; no second commit was made.
    AlreadyPushed {
        /// The commit of that try, or the tip if it is too far back.
        commit: CommitSha,
    },
}

/// Where the repository is and how to come in.
#[derive(Debug, Clone)]
pub struct Settings {
    /// A path, `file://`, `http://` or `https://`, without credentials.
    pub url: String,
    /// The branch that Argo CD follows: `main`.
    pub branch: String,
    /// Where the bare clone is kept; not used for a local path. Nobody else may use it.
    pub clone_dir: PathBuf,
    /// Whether nobody but this process writes to the repository at that path: then a lock that
    /// is left behind is known as such after a second, and not after minutes.
    pub alone: bool,
    /// Who commits.
    pub identity: Identity,
    /// The domain of the addresses that people have as authors: `users.noreply.github.com`.
    pub people: String,
    /// The key that commits are signed with, if they are.
    pub signing: Option<SigningKey>,
    /// Asked before each exchange; sent as basic auth of the user `x-access-token`.
    pub tokens: Tokens,
    /// The HTTP client of the process.
    pub client: reqwest::Client,
    /// The longest silence of the server.
    pub silence: Duration,
    /// The longest that one request may take in all.
    pub total: Duration,
}

/// Who commits, or has asked for what is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `the-deployer`
    pub name: String,
    /// `the-deployer@example.com`
    pub email: String,
}

/// One manifest repository. Cheap to clone; all clones share the one writer.
#[derive(Clone)]
pub struct ManifestRepository {
    writer: Arc<Mutex<Writer>>,
    door: Door,
}

/// How to see from outside whether the repository is there, while the writer is busy.
#[derive(Clone)]
pub(super) enum Door {
    Local { path: PathBuf, reference: String, alone: bool },
    Http { wire: Arc<Wire>, clone: PathBuf },
}

impl ManifestRepository {
    /// Opens the repository; for HTTP opens or begins the clone, and asks the server nothing yet.
    pub async fn open(settings: Settings) -> Result<Self, WriteError> {
        let address = Address::parse(&settings.url).map_err(WriteError::Invalid)?;
        let reference = reference(&settings.branch)?;
        apply::signature(&settings.identity, Timestamp::UNIX_EPOCH)?;
        let door = match address.clone() {
            Address::Local(path) => {
                Door::Local { path, reference: reference.clone(), alone: settings.alone }
            }
            Address::Http(base) => Door::Http {
                wire: Arc::new(wire(base, &settings)),
                clone: settings.clone_dir.clone(),
            },
        };
        let opening = door.clone();
        let writer = blocking(move || {
            let home = opening.enter(&reference)?;
            let Settings { identity, branch, .. } = settings;
            Ok(Writer { home, identity, branch, name: address.to_string() })
        })
        .await?;
        Ok(Self { writer: Arc::new(Mutex::new(writer)), door })
    }

    /// Makes an empty bare repository at a local path; leaves an existing one alone.
    pub fn create_local(path: &Path, branch: &str) -> Result<(), WriteError> {
        reference(branch)?;
        local::create(path, branch)
    }

    /// Writes one deployment; `at` is the time of its commit.
    ///
    /// Runs to its end even if the caller stops waiting, so that a push is never half known.
    pub async fn write(&self, write: Write, at: Timestamp) -> Result<Written, WriteError> {
        layout::check_files(&write.revision).map_err(WriteError::Invalid)?;
        self.change(Change::Deploy(Box::new(write)), at).await
    }

    /// Makes a change that was decided on after a look, if what was seen is still so
    /// ([`WriteError::Moved`] if not); `at` is the time of its commit. Runs to its end, as
    /// [`ManifestRepository::write`] does.
    pub async fn amend(&self, amendment: Amendment, at: Timestamp) -> Result<Written, WriteError> {
        self.change(Change::Amend(amendment), at).await
    }

    async fn change(&self, change: Change, at: Timestamp) -> Result<Written, WriteError> {
        let mut writer = self.exclusive().await;
        let (answer, answered) = tokio::sync::oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let written = writer.write(&change, at);
            // The caller has its answer before the housekeeping, which the next write waits for.
            let _ = answer.send(written);
            writer.home.keep_house();
        });
        answered.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Whether a write could begin: one small request, beside a push that is under way.
    pub async fn ready(&self) -> Result<(), WriteError> {
        let door = self.door.clone();
        blocking(move || match door {
            Door::Local { path, reference, alone } => {
                Local::open(&path, &reference, alone)?.look().map(drop)
            }
            Door::Http { wire, .. } => wire.probe().map_err(|failure| wire.error(failure).into()),
        })
        .await
    }

    /// Runs `read` on the repository and its tip of now.
    pub(super) async fn at_tip<T: Send + 'static>(
        &self,
        read: impl Fn(&Repository, Option<Oid>) -> Result<T, git2::Error> + Send + 'static,
    ) -> Result<T, WriteError> {
        let mut writer = self.exclusive().await;
        blocking(move || {
            Ok(writer.with_repair(|writer| {
                let tip = writer.home.look()?;
                Ok(read(writer.home.repo(), tip)?)
            })?)
        })
        .await
    }

    pub(super) fn door(&self) -> &Door {
        &self.door
    }

    async fn exclusive(&self) -> OwnedMutexGuard<Writer> {
        Arc::clone(&self.writer).lock_owned().await
    }
}

impl Door {
    fn enter(self, reference: &str) -> Result<Home, Trouble> {
        match self {
            Self::Local { path, alone, .. } => {
                Ok(Home::Local(Local::open(&path, reference, alone)?))
            }
            Self::Http { wire, clone } => Ok(Home::Kept(Kept::open(&clone, reference, wire)?)),
        }
    }
}

fn reference(branch: &str) -> Result<String, WriteError> {
    let reference = format!("refs/heads/{branch}");
    if git2::Reference::is_valid_name(&reference) && !branch.starts_with('-') {
        Ok(reference)
    } else {
        let shown: String = branch.chars().take(60).collect();
        Err(WriteError::Invalid(format!("{shown:?} is not a branch name: write one like `main`")))
    }
}

fn wire(base: reqwest::Url, settings: &Settings) -> Wire {
    let Settings { tokens, client, silence, total, .. } = settings;
    Wire {
        base,
        client: client.clone(),
        tokens: tokens.clone(),
        silence: *silence,
        total: *total,
        runtime: tokio::runtime::Handle::current(),
    }
}

/// Runs git's blocking work beside the async workers.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Trouble> + Send + 'static,
) -> Result<T, WriteError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(Trouble::Error(error))) => Err(error),
        Ok(Err(Trouble::Damaged(error))) => Err(WriteError::Invalid(error.message().to_owned())),
        Err(_) => Err(stopped()),
    }
}

/// The work was dropped or panicked: the process is going down, or must be looked at.
fn stopped() -> WriteError {
    let cause = "the writer stopped in the middle; what it did is seen at the next try".to_owned();
    WriteError::Unreachable { repository: "the manifest repository".to_owned(), cause, wait: None }
}
