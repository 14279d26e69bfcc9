//! The embedded database is copied, and put back.

use std::path::Path;

use crate::app::home::Home;
use crate::app::{StartError, boxed};
use crate::clock::Clock;
use crate::config::settings::Settings;
use crate::model::audit::{By, Entry, Via};
use crate::store::Store;
pub use crate::store::embedded::{Contents, Restored};
use crate::store::embedded::{Embedded, EmbeddedError};

/// Why nothing was copied or put back.
#[derive(Debug, thiserror::Error)]
pub enum NotCopied {
    /// The database is no file.
    #[error("the database is PostgreSQL's ({url}), and is not copied by the-deployer")]
    NotEmbedded {
        /// Where it is, without what is secret.
        url: String,
    },
    /// The file, or the database.
    #[error(transparent)]
    File(#[from] EmbeddedError),
    /// A service runs, or something else of ours cannot be used.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl NotCopied {
    /// Whether we would not, and not could not.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::File(error) => error.is_refusal(),
            Self::NotEmbedded { .. } | Self::Start(_) => false,
        }
    }
}

/// Copies the database of the settings into a file, beside a service that may be running.
///
/// # Errors
/// [`NotCopied`]; then there is no such file.
pub async fn backup(settings: &Settings, file: &Path) -> Result<Contents, NotCopied> {
    Ok(embedded(settings)?.backup(file).await?)
}

/// Puts a backup in the place of the database of the settings, and notes who did it.
///
/// # Errors
/// [`NotCopied`]; then the database is what it was. If the note alone fails, the backup is in place.
pub async fn restore(
    settings: &Settings,
    file: &Path,
    force: bool,
    by: &str,
    clock: &Clock,
) -> Result<Restored, NotCopied> {
    let embedded = embedded(settings)?;
    // A service has the folder for itself as long as it runs.
    let home = Home::enter(&settings.storage.folder).map_err(boxed("the storage folder"))?;
    let suffix = format!(".before-{}", clock.deploy_id());
    let restored = embedded.restore(file, &suffix, force).await?;
    note(settings, file, &restored, by, clock).await?;
    drop(home);
    Ok(restored)
}

fn embedded(settings: &Settings) -> Result<Embedded, NotCopied> {
    Embedded::of(&settings.storage.url).map_err(|url| NotCopied::NotEmbedded { url })
}

async fn note(
    settings: &Settings,
    file: &Path,
    restored: &Restored,
    by: &str,
    clock: &Clock,
) -> Result<(), StartError> {
    let store = Store::open(&settings.storage.url).await.map_err(boxed("the database"))?;
    let entry = Entry {
        id: clock.deploy_id(),
        at: clock.now(),
        by: By { name: by.to_owned(), via: Via::Operator, from: None, request: None },
        act: "restore",
        target: None,
        app: None,
        subject: "the record".to_owned(),
        reason: format!("restored from {}", file.display()),
        outcome: restored.contents.to_string(),
    };
    let noted = store.audit(&entry).await.map_err(boxed("the database"));
    store.close().await;
    noted
}
