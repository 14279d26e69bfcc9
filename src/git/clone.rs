//! The folder of a clone of ours: how it is known as ours, begun, and judged.
//!
//! The clone is a cache: the server has the truth. A folder that we did not make is moved aside and
//! never deleted.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use git2::{ErrorCode, Oid, Repository, RepositoryInitOptions};

use crate::git::bare;
pub(super) use crate::git::bare::{MARKER, with_suffix};

/// Where the clone remembers the server's branch; also keeps its objects referenced.
pub(super) const TRACKING: &str = "refs/remotes/origin/tip";
/// What is not packed by us stays as single files. One of 256 folders is counted, as git does: this
/// is some 40,000 objects or 2,500 deployments, after which a new clone is cheaper to use.
const LOOSE_IN_ONE_FOLDER: usize = 160;
/// Each fetch of other people's commits leaves a pack, and so does each large push; every lookup
/// asks every pack.
const PACKS: usize = 200;

/// The repository and its tip, if the first objects that a write reads can be read.
///
/// Locks of a process that was killed are removed first: only one process uses the folder, and in
/// it nothing has begun yet.
pub(super) fn usable(folder: &Path) -> Option<(Repository, Option<Oid>)> {
    for locked in [TRACKING, "shallow"] {
        let _absent = fs::remove_file(folder.join(format!("{locked}.lock")));
    }
    let repo = Repository::open_bare(folder).ok()?;
    let tip = match repo.refname_to_id(TRACKING) {
        Ok(tip) => Some(tip),
        Err(error) if error.code() == ErrorCode::NotFound => None,
        Err(_) => return None,
    };
    if let Some(tip) = tip {
        repo.find_commit(tip).and_then(|commit| commit.tree()).ok()?;
    }
    Some((repo, tip))
}

/// An empty clone in `folder`. What is there goes: deleted if it is ours, else moved aside.
pub(super) fn begin(folder: &Path, marker: &str) -> std::io::Result<Repository> {
    let made = bare::make(folder, &mut RepositoryInitOptions::new(), &[(MARKER, marker)], |new| {
        if folder.join(MARKER).is_file() {
            return replace(folder, new);
        }
        let empty = fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
        if !empty {
            bare::move_aside(folder, "it is not our clone")?;
        }
        fs::rename(new, folder)
    });
    made.and_then(|()| Repository::open_bare(folder).map_err(std::io::Error::other))
}

/// Puts a clone into another one's place. Two renames, so that there is hardly a moment without one;
/// a process that dies between them is made good by [`recover`].
pub(super) fn replace(folder: &Path, by: &Path) -> std::io::Result<()> {
    let old = with_suffix(folder, "old");
    match fs::remove_dir_all(&old) {
        // It is there where a process died while it was being removed.
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::rename(folder, &old)?;
    if let Err(error) = fs::rename(by, folder) {
        return fs::rename(&old, folder).and(Err(error));
    }
    // Tens of thousands of files: nobody waits for that.
    std::thread::spawn(move || fs::remove_dir_all(old));
    Ok(())
}

/// What a process left that died while it replaced a clone.
pub(super) fn recover(folder: &Path) {
    let old = with_suffix(folder, "old");
    if folder.exists() || !old.join(MARKER).is_file() {
        return;
    }
    if let Err(error) = fs::rename(&old, folder) {
        tracing::warn!(clone = %folder.display(), %error, "a clone that was being replaced cannot be taken back");
    }
}

/// Whether so much has piled up that a new clone is cheaper to use.
pub(super) fn is_full(folder: &Path) -> bool {
    let count =
        |inner: &str| fs::read_dir(folder.join("objects").join(inner)).map_or(0, Iterator::count);
    count("17") > LOOSE_IN_ONE_FOLDER || count("pack") > PACKS * 2
}

/// Takes a clone away that is not needed any more, with what is noted beside it.
pub fn remove(folder: &Path) {
    let beside = ["next", "new", "old"].map(|suffix| with_suffix(folder, suffix));
    for path in beside.iter().map(PathBuf::as_path).chain([folder]) {
        let _not_there = fs::remove_dir_all(path);
    }
    let _not_there = fs::remove_file(with_suffix(folder, "seen"));
}
