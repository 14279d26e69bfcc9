//! The creation of bare repositories, which are built beside their place and renamed into it.
//!
//! A process may be killed between any two of the dozen files of a new repository, and git does not go on with a part
//! of one: a lock that was left has no known owner. So at its place a repository is whole, or it is not there. The half
//! of one that an earlier version left is moved aside.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use git2::{Repository, RepositoryInitOptions};

/// The file that marks a folder as a clone of the service, with its repository and branch.
pub(in crate::git) const MARKER: &str = "the-deployer-clone";

/// Makes a bare repository with these files in it, unless another process is faster. `place` puts the
/// new one, which is whole, into its place.
pub(in crate::git) fn make(
    folder: &Path,
    options: &mut RepositoryInitOptions,
    files: &[(&str, &str)],
    place: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let new_folder = with_suffix(folder, "new");
    let _ours = loop {
        let Some(lock) = enter(&new_folder, folder)? else { return Ok(()) };
        if is_skeleton(&new_folder) {
            break lock;
        }
        move_aside(&new_folder, "it has the name of an unfinished repository, and is none")?;
    };
    clear(&new_folder)?;
    for (name, text) in files {
        fs::write(new_folder.join(name), text)?;
    }
    options.bare(true).external_template(false);
    Repository::init_opts(&new_folder, options).map_err(Error::other)?;
    place(&new_folder)
}

/// Enters the folder beside, for this process alone until the returned file is dropped or the process ends. `None`
/// where another one had it, and has put it in its place by now.
fn enter(new_folder: &Path, folder: &Path) -> Result<Option<File>> {
    loop {
        fs::create_dir_all(new_folder)?;
        let lock = match File::open(new_folder) {
            // Another one has just renamed it.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            result => result?,
        };
        lock.lock()?;
        if is_same(&lock, new_folder) {
            return Ok(Some(lock));
        }
        if Repository::open_bare(folder).is_ok() {
            return Ok(None);
        }
    }
}

/// Returns whether that folder is still at that path.
fn is_same(file: &File, path: &Path) -> bool {
    let Ok((file, path_metadata)) =
        file.metadata().and_then(|metadata| Ok((metadata, fs::metadata(path)?)))
    else {
        return false;
    };
    (file.dev(), file.ino()) == (path_metadata.dev(), path_metadata.ino())
}

/// Removes the files of a process that was killed while it created a repository.
fn clear(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Returns whether a folder is a repository that was begun and not finished: it never had an object
/// or a branch.
pub(in crate::git) fn is_half_made(folder: &Path) -> bool {
    let empty = fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
    !empty && is_skeleton(folder) && Repository::open_bare(folder).is_err()
}

/// Returns true if a folder has nothing but the files of a new repository.
fn is_skeleton(folder: &Path) -> bool {
    const NEW: [&str; 11] = [
        "HEAD",
        "HEAD.lock",
        "config",
        "config.lock",
        "description",
        "description.lock",
        "hooks",
        "info",
        "objects",
        "refs",
        MARKER,
    ];
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let is_known = |name: OsString| NEW.iter().any(|new| name == *new);
    entries.into_iter().all(|entry| entry.is_ok_and(|entry| is_known(entry.file_name())))
        && ["objects", "refs"].iter().all(|inner| has_no_file(&folder.join(inner)))
}

/// Returns true for a folder without files, or without the folder itself.
fn has_no_file(folder: &Path) -> bool {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return error.kind() == ErrorKind::NotFound,
    };
    entries.into_iter().all(|entry| {
        let folder = entry.ok().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folder.is_some_and(|folder| has_no_file(&folder.path()))
    })
}

/// Moves a folder out of the way; nothing in it is touched.
pub(in crate::git) fn move_aside(folder: &Path, why: &str) -> Result<()> {
    let names = (1_u32..).map(|n| with_suffix(folder, &format!("aside-{n}")));
    let free = names.into_iter().find(|name| !name.exists());
    let aside = free.unwrap_or_else(|| with_suffix(folder, "aside"));
    tracing::warn!(folder = %folder.display(), to = %aside.display(), reason = why, "folder moved aside");
    fs::rename(folder, aside)
}

/// Returns a name beside that folder's.
pub(in crate::git) fn with_suffix(folder: &Path, suffix: &str) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(suffix);
    folder.with_file_name(name)
}
