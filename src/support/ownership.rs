//! Gives what root makes in a folder to the owner of that folder.
//!
//! An operator's command often runs as root, and the service as a user of its own: a file of root's in the
//! service's folder would keep the service from starting. Where another user runs the command, or where there
//! are no users, nothing is done.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;

/// Makes a folder and what is missing above it; each belongs to the owner of the one that it is made in.
///
/// # Errors
/// What the system says.
pub fn create_folders(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_folders(parent)?;
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Err(_) if path.is_dir() => Ok(()),
        Err(error) => Err(error),
        Ok(()) => give_to_folder_owner(path),
    }
}

/// Gives a file or a folder that is root's to the owner of the folder that it is in.
///
/// # Errors
/// What the system says.
pub fn give_to_folder_owner(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = fs::metadata(folder.unwrap_or_else(|| Path::new(".")))?;
    give_to_owner_of(path, &folder)
}

/// Gives a file or a folder that is root's to whom another one belongs.
///
/// # Errors
/// What the system says.
#[cfg(unix)]
pub fn give_to_owner_of(path: &Path, other: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, fchown};
    if other.uid() == 0 {
        return Ok(());
    }
    let file = File::open(path)?;
    let ours = file.metadata()?;
    // A second name of a file of root's may have been put there for exactly this.
    let has_one_name = ours.is_dir() || ours.nlink() == 1;
    if ours.uid() == 0 && has_one_name {
        fchown(&file, Some(other.uid()), Some(other.gid()))?;
    }
    Ok(())
}

/// Gives a file or a folder that is root's to whom another one belongs.
///
/// # Errors
/// None: there are no owners here.
#[cfg(not(unix))]
pub fn give_to_owner_of(_: &Path, _: &Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, chown};

    #[test]
    fn what_root_makes_belongs_to_the_owner_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        chown(folder.path(), Some(4711), Some(4712)).expect("this test runs as root");
        let deep = folder.path().join("a/b");
        create_folders(&deep).unwrap();
        create_folders(&deep).unwrap();
        let file = deep.join("file");
        fs::write(&file, "").unwrap();
        give_to_folder_owner(&file).unwrap();
        for path in [folder.path().join("a"), deep.clone(), file.clone()] {
            let metadata = fs::metadata(&path).unwrap();
            assert_eq!((metadata.uid(), metadata.gid()), (4711, 4712), "{}", path.display());
        }
        chown(&file, Some(4713), None).unwrap();
        give_to_folder_owner(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().uid(), 4713, "what is not root's stays as it is");
        let secret = folder.path().join("secret-of-root");
        fs::write(&secret, "").unwrap();
        let link = deep.join("link");
        fs::hard_link(&secret, &link).unwrap();
        give_to_folder_owner(&link).unwrap();
        assert_eq!(fs::metadata(&secret).unwrap().uid(), 0, "it has another name");
        assert!(create_folders(&file.join("x")).is_err(), "a file is no folder");
    }
}
