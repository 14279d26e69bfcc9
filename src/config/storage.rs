//! Where state is kept.

use std::path::PathBuf;

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;

use crate::config::resolver::Resolver;

/// What happened a month ago is asked for every day.
const SHORTEST_RETENTION: u32 = 30;

/// Where state is kept.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Storage {
    /// `sqlite:PATH` or `postgres://USER@HOST/DATABASE`. Default: a SQLite file in `folder`.
    url: Option<String>,
    /// The folder for everything that has no other place: clones, and what is made at first start.
    folder: Option<String>,
    /// After how many days a deployment that ended is deleted from the database, unless it is live, a
    /// rollback can go back to it, or something is still to be told of it. At least 30; 0 keeps all.
    /// Default: 400.
    #[schemars(range(min = 0, max = 36_500))]
    retention_days: Option<u32>,
}

/// Where state is kept.
#[derive(Debug, Clone)]
pub struct StorageSettings {
    /// The database; may hold a password.
    pub url: SecretString,
    /// The folder for everything that has no other place.
    pub folder: PathBuf,
    /// After how many days deployments are deleted; never where it is absent.
    pub retention_days: Option<u32>,
}

impl Resolver<'_> {
    pub(super) fn storage(&mut self, storage: Storage) -> StorageSettings {
        let Storage { url, folder, retention_days } = storage;
        let folder = folder.map_or_else(|| self.home.to_owned(), PathBuf::from);
        let own = || format!("sqlite:{}", folder.join("state.db").display());
        let url = url.unwrap_or_else(own);
        let known = ["sqlite:", "postgres://", "postgresql://"];
        if !known.iter().any(|scheme| url.starts_with(scheme)) {
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
            lines.contains("config.yaml:1:27: people and reports look back further"),
            "{lines}"
        );
    }
}
