//! Backup and restore of the embedded database.

use std::path::{Path, PathBuf};

use crate::app::home::{DataDirLock, HomeError};
use crate::app::start_error::{StartError, cannot_use};
use crate::config::storage::StorageSettings;
use crate::model::audit::{AuditRecord, AuthMethod, Principal};
use crate::model::id::DeployId;
use crate::store::Store;
use crate::store::embedded::{Embedded, EmbeddedError};
use crate::support::clock::Clock;

pub use crate::store::embedded::{Contents, RestoreResult};

/// The reason why the database was not copied or restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The database is no file.
    #[error("the database is PostgreSQL ({url}), which the-deployer does not copy")]
    NotEmbedded {
        /// The database's URL without its secrets.
        url: String,
    },
    /// The file or the database cannot be used.
    #[error(transparent)]
    File(#[from] EmbeddedError),
    /// A service runs in the folder.
    #[error(
        "{} is in use by another the-deployer{by}: stop that service first, if it is the right one",
        folder.display()
    )]
    Running {
        /// The folder.
        folder: PathBuf,
        /// ` (process 4711)`, or nothing.
        by: String,
    },
    /// Another part cannot be used.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl BackupError {
    /// Returns true if the program refused, and did not fail.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::File(error) => error.is_refusal(),
            Self::NotEmbedded { .. } | Self::Running { .. } | Self::Start(_) => false,
        }
    }
}

/// Copies the database into a file, beside a service that may be running.
///
/// # Errors
/// [`BackupError`]; then there is no such file.
pub async fn backup(storage: &StorageSettings, file: &Path) -> Result<Contents, BackupError> {
    let embedded = embedded(storage)?;
    embedded.refuse_elsewhere()?;
    Ok(embedded.backup(file).await?)
}

/// Returns the place of the database, for people.
pub fn display_place(storage: &StorageSettings) -> String {
    match Embedded::from_url(&storage.url) {
        Ok(embedded) => embedded.path().display().to_string(),
        Err(redacted) => redacted,
    }
}

/// Refuses to work in a folder that is not the service's, where that can be detected.
///
/// # Errors
/// [`BackupError`]
pub(crate) fn refuse_elsewhere(storage: &StorageSettings) -> Result<(), EmbeddedError> {
    Embedded::from_url(&storage.url).map_or(Ok(()), |embedded| embedded.refuse_elsewhere())
}

/// Puts a backup in the place of the database, and records the principal in the audit log.
///
/// # Errors
/// [`BackupError`]; then the database is what it was. If the record alone fails, the backup is in
/// place.
pub async fn restore(
    storage: &StorageSettings,
    file: &Path,
    force: bool,
    by: &str,
    clock: &Clock,
) -> Result<RestoreResult, BackupError> {
    let embedded = embedded(storage)?;
    embedded.refuse_elsewhere()?;
    // A running service holds the lock of the folder.
    let home = DataDirLock::enter(&storage.folder).map_err(|error| match error {
        HomeError::Taken { folder, by } => BackupError::Running { folder, by },
        error @ HomeError::Unusable { .. } => {
            BackupError::Start(cannot_use::<HomeError>("the storage folder")(error))
        }
    })?;
    let suffix = format!(".before-{}", DeployId::of(clock.draw()));
    let restored = embedded.restore(file, &suffix, force).await?;
    record_restore(storage, file, &restored, by, clock).await?;
    drop(home);
    Ok(restored)
}

fn embedded(storage: &StorageSettings) -> Result<Embedded, BackupError> {
    Embedded::from_url(&storage.url).map_err(|url| BackupError::NotEmbedded { url })
}

async fn record_restore(
    storage: &StorageSettings,
    file: &Path,
    restored: &RestoreResult,
    by: &str,
    clock: &Clock,
) -> Result<(), StartError> {
    let store = Store::open(&storage.url).await.map_err(cannot_use("the database"))?;
    let entry = AuditRecord {
        id: DeployId::of(clock.draw()),
        at: clock.now(),
        by: Principal { name: by.to_owned(), via: AuthMethod::Operator, from: None, request: None },
        act: "restore".into(),
        target: None,
        app: None,
        subject: "the record".to_owned(),
        reason: format!("restored from {}", file.display()),
        outcome: restored.contents.to_string(),
    };
    let result = store.audit(&entry).await.map_err(cannot_use("the database"));
    store.close().await;
    result
}
