//! Files for their owner's eyes only, written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use super::super::error::CliError;
use crate::support::clock;

/// Writes a file beside its place and moves it there, so that nobody ever reads half of it; the folder is made
/// where it is missing. Only its owner may read it.
///
/// # Errors
/// When it cannot be written; then the old file is still there.
pub(in crate::cli) fn write(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    replace(path, bytes)
        .map_err(|error| CliError::io(format!("cannot write {}: {error}", path.display())))
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    make(folder)?;
    let beside = folder.join(format!(".bart-{}", clock::random_digits()));
    let written = fill(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _nothing_to_keep = fs::remove_file(&beside);
    }
    written
}

fn fill(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(unix)]
fn create(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(not(unix))]
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

#[cfg(unix)]
fn make(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn make(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

/// Whether others on this machine may read that file.
#[cfg(unix)]
pub(in crate::cli) fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}

/// Whether others on this machine may read that file; its folder decides that here.
#[cfg(not(unix))]
pub(in crate::cli) fn is_open_to_others(_path: &Path) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_its_owners_and_never_half_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/logins.json");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert!(!is_open_to_others(&path));
        let left = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "nothing is left beside it");
        let taken = write(&folder.path().join("a"), b"x").unwrap_err().to_string();
        assert!(taken.contains("cannot write"), "{taken}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
