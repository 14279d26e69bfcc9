//! Files that were read, so that they need not be sent again. GitHub is asked each time whether we
//! may still have them: its 304 counts against no limit.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqwest::header::HeaderValue;

use crate::model::id::{CommitSha, RepoName};

/// Some thousand WAMLs of a usual size.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// GitHub's have some seventy characters.
const LONGEST_TAG: usize = 256;

/// A file of a repository at a commit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// In small letters.
    repository: String,
    commit: CommitSha,
    path: String,
}

/// A file, and what GitHub calls this state of it.
#[derive(Debug, Clone)]
pub(super) struct File {
    pub(super) tag: HeaderValue,
    pub(super) bytes: Vec<u8>,
}

/// The files that were read last. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Kept(Arc<Mutex<Files>>);

#[derive(Default)]
struct Files {
    turn: u64,
    bytes: usize,
    /// Each with when it was asked for last, in turns.
    by_key: BTreeMap<Key, (u64, File)>,
}

impl Key {
    pub(super) fn new(repository: &RepoName, commit: &CommitSha, path: &str) -> Self {
        let repository = repository.as_str().to_ascii_lowercase();
        Self { repository, commit: commit.clone(), path: path.to_owned() }
    }

    fn len(&self) -> usize {
        self.repository.len() + self.commit.as_str().len() + self.path.len()
    }
}

impl Kept {
    pub(super) fn get(&self, key: &Key) -> Option<File> {
        let mut files = self.lock();
        files.turn += 1;
        let turn = files.turn;
        let (asked, file) = files.by_key.get_mut(key)?;
        *asked = turn;
        Some(file.clone())
    }

    /// Keeps a file that GitHub gave a tag to, and forgets those that nobody asked for the longest.
    pub(super) fn put(&self, key: Key, tag: Option<&HeaderValue>, bytes: &[u8]) {
        let Some(tag) = tag.filter(|tag| tag.len() <= LONGEST_TAG) else { return };
        let file = File { tag: tag.clone(), bytes: bytes.to_vec() };
        self.lock().put(key, file, MOST_BYTES);
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files {
    fn put(&mut self, key: Key, file: File, most: usize) {
        self.turn += 1;
        self.take(&key);
        self.bytes += size(&key, &file);
        self.by_key.insert(key, (self.turn, file));
        while self.bytes > most {
            let oldest = self.by_key.iter().min_by_key(|(_, (asked, _))| *asked);
            let Some(key) = oldest.map(|(key, _)| key.clone()) else { return };
            self.take(&key);
        }
    }

    fn take(&mut self, key: &Key) {
        if let Some((_, file)) = self.by_key.remove(key) {
            self.bytes -= size(key, &file);
        }
    }
}

/// With what an entry costs beside its texts.
fn size(key: &Key, file: &File) -> usize {
    256 + key.len() + file.tag.len() + file.bytes.len()
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str) -> Key {
        let commit = CommitSha::parse("a".repeat(40)).unwrap();
        Key::new(&RepoName::parse("Acme/Shop").unwrap(), &commit, path)
    }

    #[test]
    fn no_more_is_kept_than_may_be_and_the_oldest_goes() {
        let file = || File { tag: HeaderValue::from_static("\"x\""), bytes: vec![b'x'; 1000] };
        let mut files = Files::default();
        let most = 3 * size(&key("1"), &file());
        for path in ["1", "2", "3", "3", "1", "4"] {
            files.put(key(path), file(), most);
        }
        let paths: Vec<&str> = files.by_key.keys().map(|key| key.path.as_str()).collect();
        assert_eq!(paths, ["1", "3", "4"]);
        assert_eq!(files.bytes, most);
        files.put(key("huge"), File { bytes: vec![0; most], ..file() }, most);
        assert_eq!((files.by_key.len(), files.bytes), (0, 0));
    }
}
