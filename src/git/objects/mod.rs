//! The new objects of a push, held in memory until the branch has them.
//!
//! An edit writes its objects here and reads through here, so that a second change finds the objects of the first one.
//! In the end the new objects are known exactly: no walk over the trees of a hundred thousand files is needed. Nothing
//! here was ever on a disk, so that a failed attempt leaves nothing behind.
//!
//! An object is new if it was not seen in the tip's own folders beside it. That the clone has an object proves nothing:
//! the server may have removed an old revision that the clone still has.

pub(super) mod folder;
pub(super) mod delta;
pub(super) mod edits;
pub(super) mod tree;
pub(super) mod pack;
pub(super) mod pack_index;

use std::collections::HashSet;

use git2::{ObjectType, Odb, Oid, Repository};
use indexmap::IndexMap;
use sha1::{Digest as _, Sha1};

use crate::git::error::{StepError, WriteError};
use crate::git::layout::RepoPath;
use crate::git::objects::folder::{EntryKind, Folder, FolderEntry};

/// One object that the server does not have.
#[derive(Debug)]
pub(super) struct NewObject {
    pub(super) kind: ObjectType,
    pub(super) bytes: Vec<u8>,
    /// The delta to a folder that the server has, or gets before it.
    pub(super) delta: Option<Delta>,
}

/// An object as a difference.
#[derive(Debug)]
pub(super) struct Delta {
    pub(super) base: Oid,
    pub(super) bytes: Vec<u8>,
}

/// New objects, in the order in which they were written: an object comes after those it refers to.
pub(super) type NewObjectMap = IndexMap<Oid, NewObject>;

/// Objects on top of a repository's.
pub(super) struct ObjectOverlay<'r> {
    repo: &'r Repository,
    /// The repository's address, for errors.
    pub(super) repository: &'r str,
    /// The commit that all this is on top of.
    tip: Option<Oid>,
    odb: Odb<'r>,
    new: NewObjectMap,
    /// The size of all objects, in bytes.
    bytes: usize,
    /// The objects of the server, as far as they were read.
    there: HashSet<Oid>,
}

impl<'r> ObjectOverlay<'r> {
    pub(super) fn at_tip(
        repo: &'r Repository,
        repository: &'r str,
        tip: Option<Oid>,
    ) -> Result<Self, git2::Error> {
        let (odb, there) = (repo.odb()?, HashSet::new());
        Ok(Self { repo, repository, tip, odb, new: NewObjectMap::new(), bytes: 0, there })
    }

    /// Returns the error of a change that is void: it was decided on when something else was there.
    pub(super) fn moved_error(&self, path: &RepoPath) -> StepError {
        let repository = self.repository.to_owned();
        WriteError::Moved { repository, path: path.to_string() }.into()
    }

    /// Returns the repository, and its commit that the new objects build on.
    pub(super) fn base(&self) -> (&'r Repository, Option<Oid>) {
        (self.repo, self.tip)
    }

    pub(super) fn into_new(self) -> NewObjectMap {
        self.new
    }

    /// Returns the size of the new objects, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of objects so far: a place to come back to.
    pub(super) fn mark(&self) -> usize {
        self.new.len()
    }

    /// Forgets the objects since a mark.
    pub(super) fn truncate(&mut self, mark: usize) {
        self.new.truncate(mark);
        self.bytes = self.new.values().map(|object| object.bytes.len()).sum();
    }

    /// Computes the id of a file with these bytes, without adding it.
    pub(super) fn id_of(bytes: &[u8]) -> Result<Oid, git2::Error> {
        hash_object(ObjectType::Blob, bytes)
    }

    pub(super) fn file(&mut self, bytes: &[u8]) -> Result<Oid, git2::Error> {
        self.add(ObjectType::Blob, bytes.to_vec(), None)
    }

    pub(super) fn commit(&mut self, text: Vec<u8>) -> Result<Oid, git2::Error> {
        self.add(ObjectType::Commit, text, None)
    }

    /// Adds a folder; `former` is the one that it was derived from.
    pub(super) fn folder(
        &mut self,
        folder: Folder,
        former: Option<(Oid, &Folder)>,
    ) -> Result<Oid, git2::Error> {
        let delta = former.and_then(|(base, former)| {
            let bytes = delta::compute_delta(former.bytes(), folder.bytes())?;
            Some(Delta { base, bytes })
        });
        self.add(ObjectType::Tree, folder.into_bytes(), delta)
    }

    fn add(
        &mut self,
        kind: ObjectType,
        bytes: Vec<u8>,
        delta: Option<Delta>,
    ) -> Result<Oid, git2::Error> {
        let id = hash_object(kind, &bytes)?;
        if !self.there.contains(&id) && !self.new.contains_key(&id) {
            self.bytes += bytes.len();
            self.new.insert(id, NewObject { kind, bytes, delta });
        }
        Ok(id)
    }

    /// Records that the server has the entries of one of its folders.
    pub(super) fn are_there(&mut self, folder: &Folder) {
        self.there.extend(folder.entries().map(|entry| entry.id));
    }

    pub(super) fn read_folder(&self, id: Oid) -> Result<Folder, git2::Error> {
        let bytes = match self.new.get(&id) {
            Some(object) => object.bytes.clone(),
            None => self.odb.read(id)?.data().to_vec(),
        };
        Folder::parse(bytes).ok_or_else(|| git2::Error::from_str("a folder's object is damaged"))
    }

    /// Returns the bytes of a file; `None` where there are more than that.
    pub(super) fn read_file(&self, id: Oid, most: usize) -> Result<Option<Vec<u8>>, git2::Error> {
        if let Some(object) = self.new.get(&id) {
            return Ok((object.bytes.len() <= most).then(|| object.bytes.clone()));
        }
        let (size, _) = self.odb.read_header(id)?;
        if size > most {
            return Ok(None);
        }
        Ok(Some(self.odb.read(id)?.data().to_vec()))
    }

    /// Finds the object at a path.
    pub(super) fn find(
        &self,
        root: Option<Oid>,
        path: &RepoPath,
    ) -> Result<Option<(Oid, EntryKind)>, git2::Error> {
        let mut at = root.map(|root| (root, EntryKind::Folder));
        for name in path.parts() {
            let Some((id, EntryKind::Folder)) = at else { return Ok(None) };
            let folder = self.read_folder(id)?;
            at = folder.get(name).map(|FolderEntry { id, kind, .. }| (id, kind));
        }
        Ok(at)
    }

    /// Returns the folder at a path; `None` where nothing or something else is.
    pub(super) fn folder_at(
        &self,
        root: Option<Oid>,
        path: &RepoPath,
    ) -> Result<Option<(Oid, Folder)>, git2::Error> {
        match self.find(root, path)? {
            Some((id, EntryKind::Folder)) => Ok(Some((id, self.read_folder(id)?))),
            _ => Ok(None),
        }
    }
}

/// Computes the id of a new object. The receiver of objects checks for collisions itself.
fn hash_object(kind: ObjectType, bytes: &[u8]) -> Result<Oid, git2::Error> {
    let mut sum = Sha1::new();
    sum.update(format!("{} {}\0", kind.str(), bytes.len()));
    sum.update(bytes);
    Oid::from_bytes(&sum.finalize())
}
