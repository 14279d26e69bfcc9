//! A manifest repository behind HTTP, and the bare clone of it that is kept on our disk.
//!
//! The clone is a cache: the server has the truth. A clone that is damaged, or of another
//! repository, is made again; a folder that we did not make is moved aside and never deleted.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use git2::{
    AutotagOption, Direction, ErrorCode, FetchOptions, Oid, PushOptions, RemoteCallbacks,
    Repository, RepositoryInitOptions,
};

use crate::git::error::WriteError;
use crate::git::home::{Published, Trouble};
use crate::git::refusal::{self, Verdict};
use crate::git::transport::{self, Wire, WireError};
use crate::git::wire::Failure;

/// Where the clone remembers the server's branch; also keeps its objects referenced.
pub(super) const TRACKING: &str = "refs/remotes/origin/tip";
/// Says that a folder is a clone of ours, and of which repository and branch.
pub(super) const MARKER: &str = "the-deployer-clone";
/// libgit2 writes loose objects and never packs them. One of 256 folders is counted, as git does:
/// this is some 40,000 objects or 2,500 deployments, after which a new clone is cheaper to use.
const LOOSE_IN_ONE_FOLDER: usize = 160;
/// Each fetch of other people's commits leaves a pack, and every lookup asks every pack.
const PACKS: usize = 200;
/// What a server may print beside its report, in bytes.
const PRINTED_LIMIT: usize = 16 * 1024;

/// The kept clone.
pub(super) struct Kept {
    folder: PathBuf,
    reference: String,
    wire: Arc<Wire>,
    pub(super) repo: Repository,
    /// The server's branch as last seen.
    pub(super) tip: Seen,
}

/// What is known of the server's branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing: the server was not asked yet.
    NotYet,
    /// It was there; `None` when there was no such branch.
    At(Option<Oid>),
}

impl Kept {
    /// Opens the clone in `folder`, or begins one there. Asks the server nothing yet.
    pub(super) fn open(folder: &Path, reference: &str, wire: Arc<Wire>) -> Result<Self, Trouble> {
        let marker = marker(&wire, reference);
        let usable = fs::read_to_string(folder.join(MARKER)).is_ok_and(|found| found == marker);
        let opened = if usable { usable_clone(folder) } else { None };
        let (repo, tip) = match opened {
            Some((repo, Some(tip))) => (repo, Seen::At(Some(tip))),
            Some((repo, None)) => (repo, Seen::NotYet),
            None => (begin(folder, &marker).map_err(|e| disk(&wire, folder, &e))?, Seen::NotYet),
        };
        Ok(Self { folder: folder.to_owned(), reference: reference.to_owned(), wire, repo, tip })
    }

    /// Throws the clone away and begins another.
    pub(super) fn renew(&mut self) -> Result<(), Trouble> {
        let begun = begin(&self.folder, &marker(&self.wire, &self.reference));
        self.repo = begun.map_err(|error| disk(&self.wire, &self.folder, &error))?;
        self.tip = Seen::NotYet;
        Ok(())
    }

    /// Asks the server where the branch is, and gets the objects that are new to us.
    pub(super) fn look(&mut self) -> Result<Option<Oid>, Trouble> {
        let first = self.repo.refname_to_id(TRACKING).is_err();
        let found = match self.fetch(i32::from(first)) {
            // Old servers have no shallow clones. Then the whole history comes, once.
            Err(error) if first && error.git.message().contains("support shallow") => self.fetch(0),
            other => other,
        };
        let tip = found.map_err(|error| self.trouble(error))?;
        if let Some(tip) = tip {
            self.remember(tip)?;
        }
        self.tip = Seen::At(tip);
        Ok(tip)
    }

    fn fetch(&self, depth: i32) -> Result<Option<Oid>, WireError> {
        transport::over(&self.wire, |address| fetch(&self.repo, address, &self.reference, depth))
    }

    /// Pushes `commit`, if the server's branch is at `base`.
    pub(super) fn publish(&mut self, base: Option<Oid>, commit: Oid) -> Result<Published, Trouble> {
        let report = Report::default();
        let pushed = self.push(base.unwrap_or(Oid::ZERO_SHA1), commit, &report);
        let word = report.word.into_inner();
        match (pushed, word) {
            (Ok(()), Word::Done) => {
                self.tip = Seen::At(Some(commit));
                self.remember(commit)?;
                Ok(Published::Done)
            }
            (Ok(()), Word::Not(status)) => {
                let printed = report.printed.into_inner();
                Ok(match refusal::classify(&status, &String::from_utf8_lossy(&printed)) {
                    Verdict::LostRace => Published::Lost,
                    Verdict::Refused(refusal) => Published::Refused(refusal),
                })
            }
            (Err(_), _) if report.moved.get() => Ok(Published::Lost),
            (Err(error), _) if error.git.code() == ErrorCode::NotFastForward => Ok(Published::Lost),
            (Err(error), _) => self.push_failed(error),
            // No word about our branch: the server said something, but not what became of it.
            (Ok(()), Word::None) => Ok(Published::Unclear(WriteError::Unreachable {
                repository: self.wire.base.to_string(),
                cause: "the server did not report what became of the push".to_owned(),
                wait: None,
            })),
        }
    }

    fn push(&self, base: Oid, commit: Oid, report: &Report) -> Result<(), WireError> {
        transport::over(&self.wire, |address| {
            let mut options = PushOptions::new();
            options.remote_callbacks(report.callbacks(base));
            let mut remote = self.repo.remote_anonymous(address)?;
            remote.push(&[format!("{commit}:{}", self.reference)], Some(&mut options))
        })
    }

    fn push_failed(&self, error: WireError) -> Result<Published, Trouble> {
        let definite = error.failure.as_ref().is_some_and(Failure::is_definite);
        let unclear = error.pack_sent && !definite;
        match (unclear, self.trouble(error)) {
            (true, Trouble::Error(error)) => Ok(Published::Unclear(error)),
            (true, Trouble::Damaged(error)) => Ok(Published::Unclear(WriteError::Unreachable {
                repository: self.wire.base.to_string(),
                cause: error.message().to_owned(),
                wait: None,
            })),
            (false, trouble) => Err(trouble),
        }
    }

    fn remember(&self, tip: Oid) -> Result<(), Trouble> {
        self.repo.reference(TRACKING, tip, true, "seen")?;
        Ok(())
    }

    fn trouble(&self, error: WireError) -> Trouble {
        match error.failure {
            Some(failure) => self.wire.error(failure).into(),
            None => Trouble::Damaged(error.git),
        }
    }

    /// Replaces a clone in which too much has piled up. A failure leaves the old one in use.
    pub(super) fn recycle_if_full(&mut self) {
        if !is_full(&self.folder) {
            return;
        }
        let beside = with_suffix(&self.folder, "next");
        let fresh = Self::open(&beside, &self.reference, Arc::clone(&self.wire))
            .and_then(|mut fresh| fresh.look());
        let swapped = fresh.is_ok()
            && fs::remove_dir_all(&self.folder).is_ok()
            && fs::rename(&beside, &self.folder).is_ok();
        if swapped && let Ok(opened) = Self::open(&self.folder, &self.reference, self.wire.clone())
        {
            *self = opened;
        } else {
            tracing::warn!(clone = %self.folder.display(), "the manifest clone is full and could not be made anew");
        }
    }
}

/// Gets what is new on a branch into [`TRACKING`]; where the branch is, if there is one.
pub(super) fn fetch(
    repo: &Repository,
    address: &str,
    reference: &str,
    depth: i32,
) -> Result<Option<Oid>, git2::Error> {
    let mut remote = repo.remote_anonymous(address)?;
    let mut connection = remote.connect_auth(Direction::Fetch, None, None)?;
    let heads = connection.list()?;
    let tip = heads.iter().find(|head| head.name() == reference).map(git2::RemoteHead::oid);
    let Some(tip) = tip else { return Ok(None) };
    if repo.refname_to_id(TRACKING).ok() != Some(tip) {
        let mut options = FetchOptions::new();
        options.depth(depth).download_tags(AutotagOption::None).update_fetchhead(false);
        let refspec = format!("+{reference}:{TRACKING}");
        connection.remote().fetch(&[refspec], Some(&mut options), None)?;
    }
    Ok(Some(tip))
}

/// What the server says during a push; libgit2's callbacks write it.
#[derive(Default)]
struct Report {
    /// The branch was not where we thought, and nothing was sent.
    moved: Cell<bool>,
    word: RefCell<Word>,
    printed: RefCell<Vec<u8>>,
}

/// The server's word on our branch.
#[derive(Default)]
enum Word {
    #[default]
    None,
    Done,
    /// Not done; why.
    Not(String),
}

impl Report {
    fn callbacks(&self, base: Oid) -> RemoteCallbacks<'_> {
        let mut callbacks = RemoteCallbacks::new();
        // Stricter than a fast-forward: a branch that somebody moved back or deleted on purpose
        // would otherwise be moved forward again by us, with what they took out.
        callbacks.push_negotiation(move |updates| {
            let stays = updates.iter().all(|update| update.src() == base);
            self.moved.set(!stays);
            if stays { Ok(()) } else { Err(git2::Error::from_str("the branch has moved")) }
        });
        callbacks.push_update_reference(|_, status| {
            *self.word.borrow_mut() = status.map_or(Word::Done, |why| Word::Not(why.to_owned()));
            Ok(())
        });
        callbacks.sideband_progress(|bytes| {
            let mut printed = self.printed.borrow_mut();
            let room = PRINTED_LIMIT.saturating_sub(printed.len());
            printed.extend(bytes.iter().take(room));
            true
        });
        callbacks
    }
}

fn marker(wire: &Wire, reference: &str) -> String {
    format!("{} {reference}\n", wire.base)
}

/// The repository and its tip, if the first objects that a write reads can be read.
///
/// Locks of a process that was killed are removed first: only one process uses the folder, and in
/// it nothing has begun yet.
pub(super) fn usable_clone(folder: &Path) -> Option<(Repository, Option<Oid>)> {
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
    let ours = folder.join(MARKER).is_file();
    let empty = fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
    if ours {
        fs::remove_dir_all(folder)?;
    } else if !empty {
        let aside = free_name(folder);
        tracing::warn!(folder = %folder.display(), to = %aside.display(), "a folder that is not our clone is moved aside");
        fs::rename(folder, aside)?;
    }
    fs::create_dir_all(folder)?;
    fs::write(folder.join(MARKER), marker)?;
    let mut options = RepositoryInitOptions::new();
    options.bare(true).external_template(false);
    Repository::init_opts(folder, &options).map_err(std::io::Error::other)
}

fn free_name(folder: &Path) -> PathBuf {
    let names = (1_u32..).map(|n| with_suffix(folder, &format!("aside-{n}")));
    names.into_iter().find(|name| !name.exists()).unwrap_or_else(|| with_suffix(folder, "aside"))
}

fn with_suffix(folder: &Path, suffix: &str) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(suffix);
    folder.with_file_name(name)
}

fn is_full(folder: &Path) -> bool {
    let count =
        |inner: &str| fs::read_dir(folder.join("objects").join(inner)).map_or(0, Iterator::count);
    count("17") > LOOSE_IN_ONE_FOLDER || count("pack") > PACKS * 2
}

fn disk(wire: &Wire, folder: &Path, error: &std::io::Error) -> WriteError {
    WriteError::Disk {
        repository: wire.base.to_string(),
        folder: folder.display().to_string(),
        cause: error.to_string(),
    }
}
