//! A branch that is followed and never written: where it is, and what lies in a folder at a commit.
//!
//! A bare clone of it is kept on our disk, so that it can be read while its host is down. The clone
//! also remembers one commit by name, for whoever has judged it good. Knows nothing of what the
//! files mean.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use git2::{ErrorCode, Oid, Repository};

use crate::git::address::Address;
use crate::git::clone::{self, MARKER, TRACKING};
use crate::git::error::WriteError;
use crate::git::fetch;
use crate::git::remote::{Remote, Way};
use crate::git::snapshot::{self, Entry, Failed, Limits};
use crate::git::ssh;
use crate::git::token::{NoToken, Tokens};
use crate::git::transport;
use crate::model::id::CommitSha;
use crate::support::disk;

/// The commit that was judged good last. A reference, so that its objects stay.
const GOOD: &str = "refs/the-deployer/good";

/// What to follow, and how to come in.
#[derive(Debug, Clone)]
pub struct Settings {
    /// A path, `file://`, `http://`, `https://` or ssh's, without credentials.
    pub url: String,
    /// The branch: `main`.
    pub branch: String,
    /// Where the bare clone is kept. Nobody else may use it.
    pub clone_dir: PathBuf,
    /// Asked before each exchange; sent as basic auth of the user `x-access-token`. For ssh its
    /// private key.
    pub tokens: Tokens,
    /// How to come in, where it is behind ssh.
    pub ssh: Option<ssh::Access>,
    /// The HTTP client of the process.
    pub client: reqwest::Client,
    /// The longest silence of the server.
    pub silence: Duration,
    /// The longest that one request may take in all.
    pub total: Duration,
}

/// Why a branch cannot be followed at the moment. Texts hold no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FollowError {
    /// The host cannot be talked to, or asks us to wait.
    #[error("{repository} cannot be reached: {cause}")]
    Unreachable {
        /// The repository.
        repository: String,
        /// What happened, in one sentence.
        cause: String,
    },
    /// The token is missing, wrong, or may not read.
    #[error("{repository} does not accept our token (HTTP {status}): {help}")]
    Unauthorized {
        /// The repository.
        repository: String,
        /// 401 or 403.
        status: u16,
        /// What to do, as the token's source needs it.
        help: String,
    },
    /// The source of its token has none.
    #[error("there is no token for {repository}: {why}")]
    NoToken {
        /// The repository.
        repository: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// Nothing is there, or the token may not see it.
    #[error(
        "there is no repository at {repository}: create it, correct its address in the configuration, \
         or let our token or key see it"
    )]
    NotFound {
        /// The address that was tried.
        repository: String,
    },
    /// The repository is there and the branch is not.
    #[error("{repository} has no branch {branch}: push it, or name another one")]
    NoBranch {
        /// The repository.
        repository: String,
        /// The branch.
        branch: String,
    },
    /// A folder holds more than the limits allow.
    #[error("{repository} has too much in {folder}: at most {files} files of {bytes} bytes each")]
    TooMuch {
        /// The repository.
        repository: String,
        /// Where it became too much.
        folder: String,
        /// The limit of files.
        files: usize,
        /// The limit of one file.
        bytes: usize,
    },
    /// Our own disk, or the clone on it, does not do what it must.
    #[error("the clone of {repository} in {folder} cannot be used: {cause}")]
    OnDisk {
        /// The repository.
        repository: String,
        /// Where it is.
        folder: String,
        /// What the system says.
        cause: String,
    },
    /// A setting cannot be used.
    #[error("{0}")]
    Invalid(String),
}

/// A branch that is followed. Clones share the one clone on disk.
#[derive(Clone)]
pub struct Followed {
    clone: Arc<Mutex<OnDisk>>,
    remote: Option<Remote>,
}

/// The clone, and where its content comes from.
struct OnDisk {
    source: Source,
    name: String,
    branch: String,
    folder: PathBuf,
    repo: Repository,
}

enum Source {
    Folder(PathBuf),
    Server(Remote),
}

impl Followed {
    /// Opens the clone or begins one; asks the host nothing yet.
    ///
    /// # Errors
    /// When a setting or the folder cannot be used.
    pub async fn open(settings: Settings) -> Result<Self, FollowError> {
        let address = Address::parse(&settings.url).map_err(FollowError::Invalid)?;
        let reference = format!("refs/heads/{}", settings.branch);
        if !git2::Reference::is_valid_name(&reference) {
            let message = format!("{reference:?} is not a branch name: write one like `main`");
            return Err(FollowError::Invalid(message));
        }
        let name = address.to_string();
        let source = match address {
            Address::Local(path) => Source::Folder(path),
            Address::Http(base) => Source::Server(settings.way().http(base)),
            Address::Ssh(address) => {
                Source::Server(settings.way().ssh(address).map_err(FollowError::Invalid)?)
            }
        };
        let remote = match &source {
            Source::Folder(_) => None,
            Source::Server(remote) => Some(remote.clone()),
        };
        let Settings { branch, clone_dir: folder, .. } = settings;
        let opened = blocking(move || {
            let repo = opened(&folder, &name, &branch)?;
            Ok(OnDisk { source, name, branch, folder, repo })
        });
        Ok(Self { clone: Arc::new(Mutex::new(opened.await?)), remote })
    }

    /// Takes away the copy of a key on this disk; the next look brings it back. A process that ends
    /// calls it: what it follows may not be dropped any more.
    pub async fn close(&self) {
        let remote = self.remote.clone();
        // Nothing of it can panic; and if the process is faster, the next one does it.
        let _ = tokio::task::spawn_blocking(move || remote.iter().for_each(Remote::close)).await;
    }

    /// Asks the host where the branch is, and gets what is new.
    ///
    /// # Errors
    /// Why it could not be had; what was had before is still there.
    pub async fn look(&self) -> Result<CommitSha, FollowError> {
        self.with(OnDisk::look).await
    }

    /// The commit that was judged good last; it can be read without the host.
    ///
    /// # Errors
    /// When the clone cannot be read.
    pub async fn good(&self) -> Result<Option<CommitSha>, FollowError> {
        self.with(|clone| match clone.repo.refname_to_id(GOOD) {
            Ok(id) => Ok(Some(sha(id))),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
            Err(error) => Err(clone.broken(&error)),
        })
        .await
    }

    /// Remembers a commit as good.
    ///
    /// # Errors
    /// When the clone cannot be written.
    pub async fn keep(&self, commit: &CommitSha) -> Result<(), FollowError> {
        let commit = commit.clone();
        self.with(move |clone| {
            let id = clone.id(&commit)?;
            let kept = clone.repo.reference(GOOD, id, true, "judged good");
            kept.map(drop).map_err(|error| clone.broken(&error))
        })
        .await
    }

    /// What lies in a folder of a commit, sorted by path; nothing where there is no such folder.
    /// Names that begin with a dot, and what lies deeper than the limit, are left out.
    ///
    /// # Errors
    /// When it is too much, or the clone cannot be read.
    pub async fn folder(
        &self,
        commit: &CommitSha,
        path: &str,
        limits: Limits,
    ) -> Result<Vec<Entry>, FollowError> {
        let (commit, path) = (commit.clone(), path.to_owned());
        self.with(move |clone| clone.folder(&commit, &path, limits)).await
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut OnDisk) -> Result<T, FollowError> + Send + 'static,
    ) -> Result<T, FollowError> {
        let clone = Arc::clone(&self.clone);
        blocking(move || work(&mut clone.lock().unwrap_or_else(PoisonError::into_inner))).await
    }
}

impl OnDisk {
    fn look(&mut self) -> Result<CommitSha, FollowError> {
        let tip = match self.fetch() {
            // Another clone would fare no better, and this one would be lost.
            Err(FollowError::OnDisk { cause, .. })
                if disk::shortage(&self.folder, &cause).is_none() =>
            {
                tracing::warn!(repository = %self.name, cause, "git failed; the clone is made again");
                self.renew()?;
                self.fetch()
            }
            other => other,
        };
        let no_branch =
            || FollowError::NoBranch { repository: self.name.clone(), branch: self.branch.clone() };
        let tip = tip?.ok_or_else(no_branch)?;
        self.repo.reference(TRACKING, tip, true, "seen").map_err(|error| self.broken(&error))?;
        Ok(sha(tip))
    }

    fn fetch(&self) -> Result<Option<Oid>, FollowError> {
        let reference = format!("refs/heads/{}", self.branch);
        match &self.source {
            Source::Folder(path) => self.fetch_folder(path, &reference),
            Source::Server(remote) => self.fetch_from(remote, &reference),
        }
    }

    fn fetch_folder(&self, path: &Path, reference: &str) -> Result<Option<Oid>, FollowError> {
        if Repository::open(path).is_err() {
            return Err(FollowError::NotFound { repository: self.name.clone() });
        }
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let path = path.to_string_lossy();
        transport::beside(|| fetch::fetch(&self.repo, &path, reference, 0))
            .map(|found| found.tip())
            .map_err(|error| self.broken(&error))
    }

    fn fetch_from(&self, remote: &Remote, reference: &str) -> Result<Option<Oid>, FollowError> {
        let found = fetch::newest(remote, &self.repo, reference);
        found.map(|found| found.tip()).map_err(|error| match error.failure {
            Some(failure) => told(remote.error(failure)),
            None => self.broken(&error.git),
        })
    }

    /// A clone that is damaged is thrown away; what was judged good is lost with it.
    fn renew(&mut self) -> Result<(), FollowError> {
        self.repo = begin(&self.folder, &self.name, &self.branch)?;
        Ok(())
    }

    fn id(&self, commit: &CommitSha) -> Result<Oid, FollowError> {
        Oid::from_str(commit.as_str()).map_err(|error| self.broken(&error))
    }

    fn folder(
        &self,
        commit: &CommitSha,
        path: &str,
        limits: Limits,
    ) -> Result<Vec<Entry>, FollowError> {
        let id = self.id(commit)?;
        snapshot::read(&self.repo, id, path, limits).map_err(|failed| match failed {
            Failed::TooMuch => FollowError::TooMuch {
                repository: self.name.clone(),
                folder: path.to_owned(),
                files: limits.files,
                bytes: limits.bytes,
            },
            Failed::Git(error) => self.broken(&error),
        })
    }

    fn broken(&self, error: &git2::Error) -> FollowError {
        FollowError::OnDisk {
            repository: self.name.clone(),
            folder: self.folder.display().to_string(),
            cause: error.message().to_owned(),
        }
    }
}

/// The clone in the folder if it is of that branch, else a new one.
fn opened(folder: &Path, name: &str, branch: &str) -> Result<Repository, FollowError> {
    let found = std::fs::read_to_string(folder.join(MARKER));
    let ours = found.is_ok_and(|found| found == marker(name, branch));
    match clone::usable(folder).filter(|_| ours) {
        Some((repo, _)) => Ok(repo),
        None => begin(folder, name, branch),
    }
}

fn begin(folder: &Path, name: &str, branch: &str) -> Result<Repository, FollowError> {
    clone::begin(folder, &marker(name, branch)).map_err(|error| FollowError::OnDisk {
        repository: name.to_owned(),
        folder: folder.display().to_string(),
        cause: error.to_string(),
    })
}

fn marker(name: &str, branch: &str) -> String {
    format!("follow {name} {branch}\n")
}

impl Settings {
    fn way(&self) -> Way<'_> {
        let Self { tokens, ssh, client, silence, total, .. } = self;
        Way { tokens, ssh, client, silence: *silence, total: *total }
    }
}

/// The transport's errors in our words.
fn told(error: WriteError) -> FollowError {
    match error {
        WriteError::Unauthorized { repository, status, help } => {
            FollowError::Unauthorized { repository, status, help }
        }
        WriteError::NoToken { repository, why: NoToken { why, next: _ } } => {
            FollowError::NoToken { repository, why }
        }
        WriteError::NotFound { repository } => FollowError::NotFound { repository },
        WriteError::Unreachable { repository, cause, wait: _ } => {
            FollowError::Unreachable { repository, cause }
        }
        other => FollowError::Invalid(other.to_string()),
    }
}

fn sha(id: Oid) -> CommitSha {
    CommitSha::parse(id.to_string()).expect("git prints an object id as hexadecimal digits")
}

/// Runs git's blocking work beside the async workers.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FollowError> + Send + 'static,
) -> Result<T, FollowError> {
    let stopped = |_| FollowError::Invalid("git stopped in the middle; it is tried again".into());
    tokio::task::spawn_blocking(work).await.map_err(stopped)?
}
