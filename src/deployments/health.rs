//! Whether the service can do what it is for: what it writes to takes writes.
//!
//! Answers are shown to anybody: those of the database and the disk name neither hosts nor paths, and the log
//! has the rest. A manifest repository is named by its address, without what is secret in it.

use std::path::{Path, PathBuf};

use crate::deployments::readiness::{Answer, NotReady, Readiness};
use crate::git::error::WriteError;
use crate::git::writer::ManifestRepository;
use crate::store::Store;
use crate::support::clock::Clock;
use crate::support::disk;

/// One thing that must work before traffic makes sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its name: `database`, `manifests`.
    pub name: String,
    /// What it is waiting for; `None` when it works. Shown to anybody: no secrets.
    pub waiting_for: Option<String>,
    /// What else there is to say, in both cases.
    pub note: Option<String>,
}

/// What is remembered of the database and the disk. That of a repository is the repository's.
pub(crate) struct Health {
    /// This process, as other replicas know it.
    replica: String,
    folder: PathBuf,
    database: Readiness,
    disk: Readiness,
}

impl Health {
    pub(crate) fn new(replica: &str, folder: &Path) -> Self {
        let (replica, folder) = (replica.to_owned(), folder.to_owned());
        Self { replica, folder, database: Readiness::nearby(), disk: Readiness::nearby() }
    }

    /// Whether events and their progress can be stored.
    pub(crate) async fn database(&self, store: &Store, clock: &Clock) -> Answer {
        let (store, replica, now) = (store.clone(), self.replica.clone(), clock.now());
        let ask = async move {
            store.ready(&replica, now).await.map_err(|error| NotReady {
                waiting_for: error.ailment().to_string(),
                cause: error.to_string(),
            })
        };
        self.database.or("database", clock.clone(), ask).await
    }

    /// Whether clones and what is embedded can be written.
    pub(crate) async fn disk(&self, clock: &Clock) -> Answer {
        let folder = self.folder.clone();
        let ask = async move {
            let tried = tokio::task::spawn_blocking(move || disk::try_write(&folder)).await;
            match tried {
                Ok(tried) => tried.map_err(|error| NotReady {
                    waiting_for: disk::wanted(&error).to_owned(),
                    cause: error.to_string(),
                }),
                Err(fault) => Err(NotReady::said(fault.to_string())),
            }
        };
        self.disk.or("disk", clock.clone(), ask).await
    }

    /// Whether a change could be pushed.
    pub(crate) async fn repository(
        (name, repository): (&str, &ManifestRepository),
        readiness: &Readiness,
        clock: &Clock,
    ) -> Answer {
        let repository = repository.clone();
        let ask = async move { repository.ready().await.map_err(|error| not_ready(&error)) };
        readiness.or(name, clock.clone(), ask).await
    }
}

fn not_ready(error: &WriteError) -> NotReady {
    match error {
        WriteError::Disk { cause, .. } => NotReady {
            waiting_for: "its folder on this machine, which cannot be used: see the log".to_owned(),
            cause: cause.clone(),
        },
        error => NotReady::said(error.to_string()),
    }
}
