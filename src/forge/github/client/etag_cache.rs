//! A cache of files that were read. The client asks GitHub each time if a cached file may still be used: a 304 counts
//! against no limit.

use std::fmt;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use reqwest::header::HeaderValue;

use crate::model::id::{CommitSha, RepoName};
use crate::support::cache::BoundedCache;
use crate::support::sync::lock;

/// Some thousand WAMLs of a usual size.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// GitHub's have some seventy characters.
const LONGEST_TAG: usize = 256;

/// A file of a repository at a commit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FileKey {
    /// The name of the repository in small letters.
    repository: String,
    commit: CommitSha,
    path: String,
}

/// A file, and what GitHub calls this state of it.
#[derive(Debug, Clone)]
pub(super) struct TaggedFile {
    pub(super) tag: HeaderValue,
    pub(super) bytes: Vec<u8>,
}

/// The files that were read last, bounded in bytes. Clones share them.
#[derive(Clone)]
pub(super) struct EtagCache(Arc<Mutex<BoundedCache<FileKey, TaggedFile>>>);

impl FileKey {
    pub(super) fn new(repository: &RepoName, commit: &CommitSha, path: &str) -> Self {
        let repository = repository.as_str().to_ascii_lowercase();
        Self { repository, commit: commit.clone(), path: path.to_owned() }
    }
}

impl EtagCache {
    pub(super) fn get(&self, key: &FileKey) -> Option<TaggedFile> {
        lock(&self.0).get(key, Timestamp::MIN)
    }

    /// Caches a file with its `ETag`, and removes those that were not used for the longest.
    pub(super) fn put(&self, key: FileKey, tag: Option<&HeaderValue>, bytes: &[u8]) {
        let Some(tag) = tag.filter(|tag| tag.len() <= LONGEST_TAG) else { return };
        let file = TaggedFile { tag: tag.clone(), bytes: bytes.to_vec() };
        let weight = weight(&key, &file);
        lock(&self.0).put_weighed(key, file, weight, Timestamp::MAX);
    }
}

/// Returns the bytes of an entry, with its cost beside its texts.
fn weight(FileKey { repository, commit, path }: &FileKey, file: &TaggedFile) -> usize {
    let key = repository.len() + commit.as_str().len() + path.len();
    256 + key + file.tag.len() + file.bytes.len()
}

impl Default for EtagCache {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(BoundedCache::new(MAX_BYTES))))
    }
}

impl fmt::Debug for EtagCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtagCache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_bounded_in_bytes_and_the_oldest_goes() {
        let key = |path: &str| {
            let commit = CommitSha::parse("a".repeat(40)).unwrap();
            FileKey::new(&RepoName::parse("Acme/Shop").unwrap(), &commit, path)
        };
        let tag = HeaderValue::from_static("\"x\"");
        let file = TaggedFile { tag: tag.clone(), bytes: vec![b'x'; 1000] };
        let cache =
            EtagCache(Arc::new(Mutex::new(BoundedCache::new(3 * weight(&key("1"), &file)))));
        for path in ["1", "2", "3", "3", "1", "4"] {
            cache.put(key(path), Some(&tag), &file.bytes);
        }
        let paths = ["1", "2", "3", "4"];
        let are_cached = || paths.map(|path| cache.get(&key(path)).is_some());
        assert_eq!(are_cached(), [true, false, true, true]);
        cache.put(key("huge"), Some(&tag), &vec![0; 4 * 1300]);
        assert_eq!((are_cached(), cache.get(&key("huge")).is_some()), ([false; 4], false));
    }
}
