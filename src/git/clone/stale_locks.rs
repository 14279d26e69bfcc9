//! Stale locks that a killed git has left behind.
//!
//! Git locks a branch by creating `<ref>.lock` and renames that file to let go. A git that is killed in between leaves
//! it, and from then on no process can move the branch. No lock names its owner, so age decides: git holds it for
//! milliseconds, and a file that is far older than that has no owner.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result, Write as _};
use std::path::Path;
use std::time::Duration;

/// The age of a stale lock where no other process writes: a second is a thousand times as long as a lock is held.
pub(in crate::git) const ALONE: Duration = Duration::from_secs(1);
/// Elsewhere a hook may run while the lock is held, and hooks may be slow.
pub(in crate::git) const AMONG_OTHERS: Duration = Duration::from_mins(10);

/// The file by which removers keep one another out; it also shows the time of this file system.
const GUARD: &str = "the-deployer.guard";

/// Removes the lock if it is older than `age`; returns true if it is gone.
///
/// This is safe: a living git would have to hold the lock for `age`, which none does. And between the look at the lock
/// and its removal no process can have put a new one there: that takes a process that removes the old one first, which
/// only this function does, and of all processes that call it one at a time is past the guard.
///
/// Age is the difference of two times that the same file system wrote, so that neither this machine's clock nor another
/// one's can make a fresh lock look old.
pub(in crate::git) fn clear(repository: &Path, lock: &Path, age: Duration) -> Result<bool> {
    let guard = repository.join(GUARD);
    let mut guard = OpenOptions::new().create(true).write(true).truncate(false).open(guard)?;
    if guard.try_lock().is_err() {
        return Ok(false);
    }
    guard.write_all(b"\n")?;
    guard.sync_all()?;
    if !is_older(lock, &guard, age)? {
        return Ok(false);
    }
    match std::fs::remove_file(lock) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(true),
    }
}

fn is_older(lock: &Path, guard: &File, age: Duration) -> Result<bool> {
    let created_at = match std::fs::symlink_metadata(lock) {
        // Its owner has let go.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        metadata => metadata?.modified()?,
    };
    let now = guard.metadata()?.modified()?;
    // A lock from the future has an unknown age.
    Ok(now.duration_since(created_at).is_ok_and(|elapsed| elapsed >= age))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_mins(1);

    /// Builds a repository with a lock of that age.
    fn locked_repository(before: Duration) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("main.lock");
        let file = File::create(&lock).unwrap();
        let now = file.metadata().unwrap().modified().unwrap();
        file.set_modified(now - before).unwrap();
        (folder, lock)
    }

    #[test]
    fn only_an_old_lock_is_removed() {
        for (before, gone) in
            [(Duration::ZERO, false), (AGE / 2, false), (AGE, true), (AGE * 1000, true)]
        {
            let (folder, lock) = locked_repository(before);
            assert_eq!(clear(folder.path(), &lock, AGE).unwrap(), gone, "{before:?}");
            assert_eq!(lock.exists(), !gone, "{before:?}");
        }
    }

    #[test]
    fn a_lock_from_the_future_stays() {
        let (folder, lock) = locked_repository(Duration::ZERO);
        let file = File::options().write(true).open(&lock).unwrap();
        file.set_modified(file.metadata().unwrap().modified().unwrap() + AGE * 2).unwrap();
        assert!(!clear(folder.path(), &lock, AGE).unwrap());
        assert!(lock.exists());
    }

    #[test]
    fn while_another_remover_is_at_it_the_lock_is_his() {
        let (folder, lock) = locked_repository(AGE * 2);
        let guard = File::create(folder.path().join(GUARD)).unwrap();
        guard.lock().unwrap();
        assert!(!clear(folder.path(), &lock, AGE).unwrap());
        guard.unlock().unwrap();
        assert!(clear(folder.path(), &lock, AGE).unwrap());
    }

    #[test]
    fn a_lock_that_is_gone_is_nobodys_to_remove() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!clear(folder.path(), &folder.path().join("main.lock"), AGE).unwrap());
    }
}
