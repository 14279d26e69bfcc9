//! The database and the data folder.

use std::path::PathBuf;

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;

use crate::config::resolver::Resolver;

/// The shortest retention in days: people look at deployments of the last month every day.
const SHORTEST_RETENTION: u32 = 30;

/// The database and the data folder.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Storage {
    /// `sqlite:PATH` or `postgres://USER@HOST/DATABASE`. Default: a SQLite file in `folder`.
    url: Option<String>,
    /// The folder for everything else: clones, and files that are made at first start.
    folder: Option<String>,
    /// The number of days after which an ended deployment is deleted from the database, unless it is live, a rollback
    /// can restore it, or a message about it still waits. At least 30; 0 keeps all. Default: 400.
    #[schemars(range(min = 0, max = 36_500))]
    retention_days: Option<u32>,
}

/// The database and the data folder.
#[derive(Debug, Clone)]
pub struct StorageSettings {
    /// The database's address, which may contain a password.
    pub url: SecretString,
    /// The folder for everything else.
    pub folder: PathBuf,
    /// The number of days after which deployments are deleted; `None` for never.
    pub retention_days: Option<u32>,
}

impl Resolver<'_> {
    pub(super) fn storage(&mut self, storage: Storage) -> StorageSettings {
        let Storage { url, folder, retention_days } = storage;
        let folder = folder.map_or_else(|| self.home.to_owned(), PathBuf::from);
        let default_url = || format!("sqlite:{}", folder.join("state.db").display());
        let url = url.unwrap_or_else(default_url);
        let schemes = ["sqlite:", "postgres://", "postgresql://"];
        if !schemes.iter().any(|scheme| url.starts_with(scheme)) {
            let help = "write sqlite:PATH or postgres://USER@HOST/DATABASE";
            self.report.error(
                "storage.url",
                "this is not the address of a supported database",
                help,
            );
        }
        let retention_days = retention_days.unwrap_or(400);
        if (1..SHORTEST_RETENTION).contains(&retention_days) {
            let message = "histories and reports need the deployments of at least 30 days";
            let help = "write at least 30, or 0 to keep all deployments";
            self.report.error("storage.retention_days", message, help);
        }
        let retention_days = Some(retention_days).filter(|days| *days > 0);
        StorageSettings { url: url.into(), folder, retention_days }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{loaded, refused};

    #[test]
    fn deployments_are_kept_for_400_days_or_for_ever() {
        let days = |text: &str| loaded(text).settings.storage.retention_days;
        assert_eq!(days("{}"), Some(400));
        assert_eq!(days("storage: {retention_days: 0}"), None);
        let lines = refused("storage: {retention_days: 7}");
        assert!(
            lines.contains(
                "config.yaml:1:27: histories and reports need the deployments of at least 30 days"
            ),
            "{lines}"
        );
    }
}
