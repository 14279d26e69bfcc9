//! A bare clone of one branch on this machine's disk: its marker, its start, its check and its fetches.
//!
//! The clone is a cache: the server has the truth. A folder without the service's marker is moved aside and never
//! deleted.

pub(super) mod branch;
pub(super) mod bare;
pub(super) mod local;
pub mod tracked_branch;
pub(super) mod gc;
pub(super) mod stale_locks;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use git2::{
    AutotagOption, Direction, ErrorCode, FetchOptions, Oid, RemoteHead, Repository,
    RepositoryInitOptions,
};

use crate::git::clone::bare::{MARKER, with_suffix};
use crate::git::transport::remote::{HEADS, Remote};
use crate::git::transport::{self, WireError};
use crate::git::writer::fence::Fence;

/// The reference of the server's branch in the clone; it also keeps its objects referenced.
pub(super) const TRACKING: &str = "refs/remotes/origin/tip";
/// The limit of loose objects in one of 256 folders, counted as git does. Objects that the service does not pack stay
/// as single files: this is some 40,000 objects or 2,500 deployments, after which a new clone is cheaper to use.
const LOOSE_IN_ONE_FOLDER: usize = 160;
/// The limit of packs: each fetch of other people's commits leaves a pack, and so does each large push; every lookup
/// searches every pack.
const PACKS: usize = 200;

/// The number of other branches that an error names.
pub(super) const FEW: usize = 5;

/// The location of a branch at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BranchLocation {
    At(Oid),
    /// The server has no branch at all.
    Empty,
    /// The server has other branches; the names of a few.
    Others(Vec<String>),
}

impl BranchLocation {
    pub(super) fn tip(&self) -> Option<Oid> {
        match self {
            Self::At(tip) => Some(*tip),
            Self::Empty | Self::Others(_) => None,
        }
    }

    fn replacing(reference: &str, heads: &[RemoteHead<'_>]) -> Self {
        if let Some(head) = heads.iter().find(|head| head.name() == reference) {
            return Self::At(head.oid());
        }
        let names = heads.iter().filter_map(|head| head.name().strip_prefix(HEADS));
        let names: Vec<String> = names.take(FEW).map(str::to_owned).collect();
        if names.is_empty() { Self::Empty } else { Self::Others(names) }
    }
}

/// A clone that only this process uses.
pub(super) struct CachedClone {
    pub(super) repo: Repository,
    pub(super) folder: PathBuf,
    /// The text that names its repository and branch.
    pub(super) marker: String,
}

impl CachedClone {
    /// Opens the clone in `folder` if that marker is in it, or begins one there; returns it with its known tip. Sends
    /// no request to a server.
    pub(super) fn open(folder: &Path, marker: String) -> io::Result<(Self, Option<Oid>)> {
        recover(folder);
        let is_ours = fs::read_to_string(folder.join(MARKER)).is_ok_and(|text| text == marker);
        match if is_ours { usable(folder) } else { None } {
            Some((repo, tip)) => Ok((Self { repo, folder: folder.to_owned(), marker }, tip)),
            None => Ok((Self::begin(folder, marker)?, None)),
        }
    }

    /// Begins an empty clone in `folder`. An existing folder is deleted if it has the marker, else moved aside.
    pub(super) fn begin(folder: &Path, marker: String) -> io::Result<Self> {
        let mut options = RepositoryInitOptions::new();
        bare::make(folder, &mut options, &[(MARKER, &marker)], |new| {
            if folder.join(MARKER).is_file() {
                return replace(folder, new);
            }
            let empty = fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
            if !empty {
                bare::move_aside(folder, "it is not a clone of the service")?;
            }
            fs::rename(new, folder)
        })?;
        let repo = Repository::open_bare(folder).map_err(io::Error::other)?;
        Ok(Self { repo, folder: folder.to_owned(), marker })
    }

    /// Throws it away and begins another.
    pub(super) fn renew(&mut self) -> io::Result<()> {
        *self = Self::begin(&self.folder, self.marker.clone())?;
        Ok(())
    }

    /// Fetches the branch from the server. The first time only the tip comes; old servers cannot do that, and send
    /// everything, once.
    pub(super) fn fetch(
        &self,
        remote: &Remote,
        reference: &str,
    ) -> Result<BranchLocation, WireError> {
        let first = self.repo.refname_to_id(TRACKING).is_err();
        match self.fetch_deep(remote, reference, i32::from(first)) {
            Err(error) if first && error.git.message().contains("support shallow") => {
                self.fetch_deep(remote, reference, 0)
            }
            other => other,
        }
    }

    /// Fetches so many commits deep; all commits for 0.
    pub(super) fn fetch_deep(
        &self,
        remote: &Remote,
        reference: &str,
        depth: i32,
    ) -> Result<BranchLocation, WireError> {
        transport::over(remote, &Fence::none(), |address| self.get(address, reference, depth))
    }

    /// Fetches from a folder of this machine.
    pub(super) fn fetch_folder(
        &self,
        path: &Path,
        reference: &str,
    ) -> Result<BranchLocation, git2::Error> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        transport::with_local_transport(|| self.get(&path.to_string_lossy(), reference, 0))
    }

    fn get(
        &self,
        address: &str,
        reference: &str,
        depth: i32,
    ) -> Result<BranchLocation, git2::Error> {
        let mut remote = self.repo.remote_anonymous(address)?;
        let mut connection = remote.connect_auth(Direction::Fetch, None, None)?;
        let location = BranchLocation::replacing(reference, connection.list()?);
        if location.tip().is_some() && self.repo.refname_to_id(TRACKING).ok() != location.tip() {
            let mut options = FetchOptions::new();
            options.depth(depth).download_tags(AutotagOption::None).update_fetchhead(false);
            let refspec = format!("+{reference}:{TRACKING}");
            connection.remote().fetch(&[refspec], Some(&mut options), None)?;
        }
        Ok(location)
    }

    /// Notes where the server's branch was seen.
    pub(super) fn remember(&self, tip: Oid) -> Result<(), git2::Error> {
        self.repo.reference(TRACKING, tip, true, "seen").map(drop)
    }

    /// Returns whether so much has piled up that a new clone is cheaper to use.
    pub(super) fn is_full(&self) -> bool {
        let objects = self.folder.join("objects");
        let count = |inner| fs::read_dir(objects.join(inner)).map_or(0, Iterator::count);
        count("17") > LOOSE_IN_ONE_FOLDER || count("pack") > PACKS * 2
    }
}

/// Returns the repository and its tip, if the first objects that a write reads can be read.
///
/// Locks of a process that was killed are removed first: only one process uses the folder, and in
/// it nothing has begun yet.
fn usable(folder: &Path) -> Option<(Repository, Option<Oid>)> {
    for name in [TRACKING, "shallow"] {
        let _absent = fs::remove_file(folder.join(format!("{name}.lock")));
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

/// Puts a clone into another one's place. Two renames, so that there is hardly a moment without one;
/// a process that dies between them is made good by [`recover`].
pub(super) fn replace(folder: &Path, by: &Path) -> io::Result<()> {
    let old = with_suffix(folder, "old");
    match fs::remove_dir_all(&old) {
        // It is there where a process died while it was being removed.
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::rename(folder, &old)?;
    if let Err(error) = fs::rename(by, folder) {
        return fs::rename(&old, folder).and(Err(error));
    }
    // Tens of thousands of files: no caller waits for that.
    std::thread::spawn(move || fs::remove_dir_all(old));
    Ok(())
}

/// Takes back the clone that a process was replacing when it died.
fn recover(folder: &Path) {
    let old = with_suffix(folder, "old");
    if folder.exists() || !old.join(MARKER).is_file() {
        return;
    }
    if let Err(error) = fs::rename(&old, folder) {
        tracing::warn!(clone = %folder.display(), %error, "interrupted replacement of a clone could not be undone");
    }
}

/// Removes an unused clone, with the notes beside it.
pub fn remove(folder: &Path) {
    let siblings = ["next", "new", "old"].map(|suffix| with_suffix(folder, suffix));
    for path in siblings.iter().map(PathBuf::as_path).chain([folder]) {
        let _not_there = fs::remove_dir_all(path);
    }
    let _not_there = fs::remove_file(with_suffix(folder, "seen"));
}
