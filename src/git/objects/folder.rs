//! One folder of a repository as git stores it, edited in its bytes without parsing all of it.
//!
//! A folder of five thousand apps is 200 kB, of which a deployment changes twenty bytes; every other entry stays as it
//! is, byte for byte. Pure. Git's order of names, in which a folder counts as if a slash followed it, is implemented
//! here and nowhere else.

use std::cmp::Ordering;

use git2::Oid;

/// The length of an object id in a folder.
const ID: usize = 20;

/// The kind of an entry, by its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::git) enum EntryKind {
    /// A file, executable or not.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, or a commit of another repository: the service never writes one.
    Other,
}

/// One name in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::git) struct FolderEntry<'a> {
    pub(in crate::git) name: &'a [u8],
    pub(in crate::git) kind: EntryKind,
    pub(in crate::git) id: Oid,
    /// The offset of the entry in the bytes.
    start: usize,
    end: usize,
}

/// The entries of one folder, in git's order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::git) struct Folder(Vec<u8>);

impl Folder {
    /// Parses the bytes of the object database; `None` where they are no folder.
    pub(in crate::git) fn parse(bytes: Vec<u8>) -> Option<Self> {
        let folder = Self(bytes);
        let end = folder.entries().last().map_or(0, |entry| entry.end);
        (end == folder.0.len()).then_some(folder)
    }

    pub(in crate::git) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(in crate::git) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(in crate::git) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ends where the bytes are not a folder's.
    pub(in crate::git) fn entries(&self) -> impl Iterator<Item = FolderEntry<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let entry = entry(&self.0, at)?;
            at = entry.end;
            Some(entry)
        })
    }

    pub(in crate::git) fn get(&self, name: &str) -> Option<FolderEntry<'_>> {
        self.entries().find(|entry| entry.name == name.as_bytes())
    }

    /// Sets the entry of a name and removes its former entry. `kind` is a file or a folder.
    pub(in crate::git) fn put(&mut self, name: &str, kind: EntryKind, id: Oid) {
        self.remove(name);
        let after = |entry: &FolderEntry<'_>| order(entry.name, entry.kind, name, kind).is_gt();
        let at = self.entries().find(after).map_or(self.0.len(), |entry| entry.start);
        let mode: &[u8] = if kind == EntryKind::Folder { b"40000 " } else { b"100644 " };
        let new = mode.iter().chain(name.as_bytes()).chain(&[0]).chain(id.as_bytes());
        self.0.splice(at..at, new.copied());
    }

    /// Takes a name out; one that is not there is out already.
    pub(in crate::git) fn remove(&mut self, name: &str) {
        if let Some(range) = self.get(name).map(|entry| entry.start..entry.end) {
            self.0.drain(range);
        }
    }
}

fn entry(bytes: &[u8], start: usize) -> Option<FolderEntry<'_>> {
    let rest = bytes.get(start..)?;
    let space = rest.iter().position(|byte| *byte == b' ')?;
    let nul = space + rest.get(space..)?.iter().position(|byte| *byte == 0)?;
    let id = rest.get(nul + 1..nul + 1 + ID)?;
    let kind = match rest.get(..space)? {
        b"40000" | b"040000" => EntryKind::Folder,
        mode if mode.starts_with(b"100") => EntryKind::File,
        _ => EntryKind::Other,
    };
    Some(FolderEntry {
        name: rest.get(space + 1..nul)?,
        kind,
        id: Oid::from_bytes(id).ok()?,
        start,
        end: start + nul + 1 + ID,
    })
}

fn order(entry_name: &[u8], entry_kind: EntryKind, name: &str, kind: EntryKind) -> Ordering {
    let slash = |kind| (kind == EntryKind::Folder).then_some(&b'/');
    let new = name.as_bytes().iter().chain(slash(kind));
    entry_name.iter().chain(slash(entry_kind)).cmp(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> Oid {
        Oid::from_bytes(&[n; ID]).unwrap()
    }

    /// Makes the same edits with libgit2.
    fn theirs(edits: &[(&str, Option<(EntryKind, u8)>)]) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let repo = git2::Repository::init_bare(folder.path()).unwrap();
        git2::opts::strict_object_creation(false);
        let mut builder = repo.treebuilder(None).unwrap();
        for (name, edit) in edits {
            match edit {
                Some((EntryKind::Folder, n)) => {
                    drop(builder.insert(name, id(*n), 0o040_000).unwrap());
                }
                Some((_, n)) => drop(builder.insert(name, id(*n), 0o100_644).unwrap()),
                None => builder.remove(name).unwrap(),
            }
        }
        let folder_id = builder.write().unwrap();
        repo.odb().unwrap().read(folder_id).unwrap().data().to_vec()
    }

    fn ours(edits: &[(&str, Option<(EntryKind, u8)>)]) -> Vec<u8> {
        let mut folder = Folder::default();
        for (name, edit) in edits {
            match edit {
                Some((kind, n)) => folder.put(name, *kind, id(*n)),
                None => folder.remove(name),
            }
        }
        folder.into_bytes()
    }

    #[test]
    fn edits_make_the_bytes_that_git_makes() {
        use EntryKind::{File, Folder as Dir};
        let edits = [
            ("b", Some((File, 1))),
            ("a.b", Some((File, 2))),
            ("a", Some((Dir, 3))),
            ("a-b", Some((File, 4))),
            ("a0", Some((Dir, 5))),
            ("b", Some((Dir, 6))),
            ("b.yaml", Some((File, 7))),
            ("a-b", None),
            ("latest", Some((Dir, 8))),
            ("20261121-1", Some((Dir, 9))),
        ];
        for until in 0..=edits.len() {
            assert_eq!(ours(&edits[..until]), theirs(&edits[..until]), "{until}");
        }
    }

    #[test]
    fn what_is_not_named_stays_byte_for_byte() {
        let mut bytes = b"100755 run\0".to_vec();
        bytes.extend([1; ID]);
        bytes.extend(b"120000 way\0");
        bytes.extend([2; ID]);
        let mut folder = Folder::parse(bytes.clone()).unwrap();
        folder.put("own", EntryKind::File, id(3));
        assert_eq!(folder.get("way").unwrap().kind, EntryKind::Other);
        folder.remove("own");
        assert_eq!(folder.into_bytes(), bytes);
    }

    #[test]
    fn what_is_no_folder_is_none() {
        for bytes in [&b"40000 a\0short"[..], b"x", b"100644 name", b" \0"] {
            assert_eq!(Folder::parse(bytes.to_vec()), None, "{bytes:?}");
        }
        assert!(Folder::parse(Vec::new()).unwrap().is_empty());
    }
}
