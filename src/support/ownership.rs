//! Gives the files that root makes in a folder to the owner of that folder.
//!
//! An operator's command often runs as root, and the service as a user of its own: a file of root's in the service's
//! folder would keep the service from starting. If another user runs the command, or the system has no users, nothing
//! is done.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// Makes a folder and its missing parents; each belongs to the owner of its own parent.
///
/// # Errors
/// The error of the system.
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

/// Opens a file to read and write it. A missing file is made with this mode, and belongs to the owner of its folder.
/// Root follows no link in another user's folder: it could lead to any file of root's.
///
/// # Errors
/// The error of the system, or that the file is a link.
pub fn open_or_create(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _no_modes = mode;
    match options.clone().create_new(true).open(path) {
        Ok(file) => {
            give_to_folder_owner(path)?;
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            refuse_foreign_link(path)?;
            options.open(path)
        }
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
fn refuse_foreign_link(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let link = fs::symlink_metadata(path)?;
    if !link.is_symlink() || link.uid() == 0 {
        return Ok(());
    }
    let owner = Path::new("/proc/self");
    let we_are_root = fs::metadata(owner).is_ok_and(|process| process.uid() == 0);
    if we_are_root {
        let why = "it is a link, and root follows none of another user's: put the file there";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(())
}

#[cfg(not(unix))]
fn refuse_foreign_link(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Gives a file or a folder of root's to the owner of its parent folder.
///
/// # Errors
/// The error of the system.
pub fn give_to_folder_owner(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = fs::metadata(folder.unwrap_or_else(|| Path::new(".")))?;
    give_to_owner_of(path, &folder)
}

/// Gives a file or a folder of root's to the owner of another one.
///
/// # Errors
/// The error of the system.
#[cfg(unix)]
pub fn give_to_owner_of(path: &Path, other: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, lchown};
    if other.uid() == 0 {
        return Ok(());
    }
    let metadata = fs::symlink_metadata(path)?;
    // A second name of a file of root's, or a link to one, may have been put there for exactly this.
    let has_one_name = metadata.is_dir() || (metadata.is_file() && metadata.nlink() == 1);
    if metadata.uid() == 0 && has_one_name {
        // If a link takes its place meanwhile, this gives the link away, not its destination.
        lchown(path, Some(other.uid()), Some(other.gid()))?;
    }
    Ok(())
}

/// Does nothing: there are no owners on this system.
///
/// # Errors
/// None.
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
        if chown(folder.path(), Some(4711), Some(4712)).is_err() {
            // Only root can give files away; `service::offline` reports what was left out.
            return;
        }
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
        let created = deep.join("made");
        open_or_create(&created, 0o600).unwrap();
        let metadata = fs::metadata(&created).unwrap();
        assert_eq!((metadata.uid(), metadata.mode() & 0o777), (4711, 0o600));
        let link = deep.join("symbolic");
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        give_to_folder_owner(&link).unwrap();
        assert_eq!(fs::metadata(&secret).unwrap().uid(), 0, "it is not given away through a link");
        open_or_create(&link, 0o600).expect("a link of root's own");
        std::os::unix::fs::lchown(&link, Some(4711), Some(4712)).unwrap();
        let error = open_or_create(&link, 0o600).unwrap_err();
        assert!(error.to_string().contains("it is a link"), "{error}");
    }
}
