//! The lock of the storage folder, which belongs to one process at a time.
//!
//! Two processes in the same folder would work in the same clones, and each would take the other's locks in
//! the embedded manifest repository for stale ones. Replicas share a database, never this folder.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};

use crate::support::ownership;

/// The locked file; it contains the id of the process that has it, for people.
const LOCK: &str = "lock";

/// The lock of the folder, held until this is dropped or the process ends in any way: the operating
/// system holds the lock, and nothing is left behind.
#[derive(Debug)]
#[must_use = "the folder is free again when this is dropped"]
pub(crate) struct DataDirLock {
    #[expect(dead_code, reason = "kept open, for its lock")]
    lock: File,
    folder: PathBuf,
}

/// The reason why the folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HomeError {
    /// Another process has it.
    #[error(
        "{} is in use by another the-deployer{by}: stop that one, or give this one a folder of its \
         own with storage.folder", folder.display()
    )]
    Taken {
        /// The folder.
        folder: PathBuf,
        /// ` (process 4711)`, or nothing.
        by: String,
    },
    /// The system refuses the lock.
    #[error("{} cannot be locked: {source}", path.display())]
    Unusable {
        /// The lock's file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl DataDirLock {
    /// Creates the folder if it is missing, and locks it.
    ///
    /// # Errors
    /// [`HomeError`]
    pub(crate) fn enter(folder: &Path) -> Result<Self, HomeError> {
        let path = folder.join(LOCK);
        let unusable = |source| HomeError::Unusable { path: path.clone(), source };
        ownership::create_folders(folder).map_err(unusable)?;
        let mut file = ownership::open_or_create(&path, 0o644).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(HomeError::Taken { folder: folder.to_owned(), by: read_holder(&file) });
            }
            Err(TryLockError::Error(source)) => return Err(unusable(source)),
        }
        write_pid(&mut file).map_err(unusable)?;
        Ok(Self { lock: file, folder: folder.to_owned() })
    }

    /// Returns true if the database is a file in this folder: then no other process has it open.
    pub(crate) fn contains_database(&self, database: &SecretString) -> bool {
        let path = database.expose_secret().strip_prefix("sqlite:");
        path.is_some_and(|path| Path::new(path).starts_with(&self.folder))
    }
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn read_holder(file: &File) -> String {
    let mut text = String::new();
    let _unread = file.take(20).read_to_string(&mut text);
    text.trim().parse::<u32>().map_or_else(|_| String::new(), |id| format!(" (process {id})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_taken_by_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("deep/home");
        let first = DataDirLock::enter(&home).unwrap();
        let refused = DataDirLock::enter(&home).unwrap_err().to_string();
        let me = format!("in use by another the-deployer (process {})", std::process::id());
        assert!(refused.contains(&me) && refused.contains("storage.folder"), "{refused}");
        drop(first);
        assert!(DataDirLock::enter(&home).is_ok());
    }

    #[test]
    fn a_database_in_the_folder_is_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let home = DataDirLock::enter(folder.path()).unwrap();
        assert!(
            home.contains_database(&format!("sqlite:{}/state.db", folder.path().display()).into())
        );
        assert!(!home.contains_database(&"sqlite:/elsewhere/state.db".into()));
        assert!(!home.contains_database(&"postgres://me@localhost/db".into()));
    }

    #[test]
    fn a_folder_that_is_a_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let refused = DataDirLock::enter(&file).unwrap_err().to_string();
        assert!(refused.contains("file/lock cannot be locked"), "{refused}");
    }
}
