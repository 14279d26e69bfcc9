//! The search for a manual edit in an app's `latest`, and for its commit. Reads the object database only.

use git2::{ObjectType, Oid, Repository, Tree};
use jiff::Timestamp;

use crate::git::drift::difference::{
    EditedPath, FolderListing, Item, ItemContent, diff, difference,
};
use crate::git::objects::tree::{self, MAX_SEARCHED};
use crate::model::hand_edit::{EditCommit, HandEdit};
use crate::model::id::DeployId;

/// A revision has a dozen files; of more than these the rest is not looked at.
const FILES: usize = 1_000;
/// The same for folders in folders, which a revision has none of.
const DEPTH: usize = 8;
/// A longer file is not compared: no manifest is that long.
pub(super) const BYTES: usize = 256 * 1024;

/// Finds a manual edit in an app's `latest` since the service last wrote it; `None` if there is none. `path` is the
/// path of `latest`, `now` the folder there, and `tip` the commit that has it. Whether it is replaced is not known yet.
///
/// Without an edit nothing is read: the live revision is known by its object.
pub(in crate::git) fn find_hand_edit(
    repo: &Repository,
    tip: Option<Oid>,
    path: &str,
    now: Option<Oid>,
    revisions: &[(DeployId, Oid)],
) -> Result<Option<HandEdit>, git2::Error> {
    if revisions.iter().any(|(_, id)| Some(*id) == now) {
        return Ok(None);
    }
    let files = now.map_or(Ok(FolderListing::new()), |now| listing(repo, now))?;
    let revisions = revisions.iter().map(|(id, tree)| Ok((id.clone(), listing(repo, *tree)?)));
    let revisions: Vec<_> = revisions.collect::<Result<_, git2::Error>>()?;
    let Some(edits) = difference(&files, &revisions) else { return Ok(None) };
    Ok(Some(HandEdit {
        replaced: false,
        push_failed: false,
        base: edits.base.cloned(),
        files: edits.changes.iter().map(EditedPath::file).collect(),
        diff: diff(&edits.changes, |item| content(repo, item)),
        commit: tip.and_then(|tip| find_writer(repo, tip, path, now)),
    }))
}

fn listing(repo: &Repository, folder: Oid) -> Result<FolderListing, git2::Error> {
    let mut files = FolderListing::new();
    collect(repo, &repo.find_tree(folder)?, "", DEPTH, &mut files)?;
    Ok(files)
}

fn collect(
    repo: &Repository,
    folder: &Tree<'_>,
    prefix: &str,
    depth: usize,
    files: &mut FolderListing,
) -> Result<(), git2::Error> {
    for entry in folder {
        if files.len() >= FILES {
            break;
        }
        let path = format!("{prefix}{}", String::from_utf8_lossy(entry.name_bytes()));
        if entry.kind() == Some(ObjectType::Tree) && depth > 1 {
            let inner = repo.find_tree(entry.id())?;
            collect(repo, &inner, &format!("{path}/"), depth - 1, files)?;
        } else {
            files.insert(path, Item { id: entry.id(), mode: entry.filemode() });
        }
    }
    Ok(())
}

fn content(repo: &Repository, item: Item) -> ItemContent {
    let size = repo.odb().and_then(|odb| odb.read_header(item.id));
    match (item.mode, size) {
        (0o160_000, _) => ItemContent::Other("another repository's commit".to_owned()),
        (0o120_000, _) => ItemContent::Other("a symbolic link".to_owned()),
        (_, Ok((size, ObjectType::Blob))) if size > BYTES => {
            ItemContent::Other(format!("{size} bytes"))
        }
        (_, Ok((size, ObjectType::Blob))) => {
            let blob = repo.find_blob(item.id);
            let text = blob.ok().and_then(|blob| String::from_utf8(blob.content().to_vec()).ok());
            text.filter(|text| !text.contains('\0')).map_or_else(
                || ItemContent::Other(format!("{size} bytes that are no text")),
                ItemContent::Text,
            )
        }
        _ => ItemContent::Other("something that is no file".to_owned()),
    }
}

/// Finds the commit that wrote the path as it is: the last one backwards, along first parents and those that lead to
/// the same, before which the path had another content. A clone may not go back so far.
fn find_writer(repo: &Repository, tip: Oid, path: &str, now: Option<Oid>) -> Option<EditCommit> {
    let mut commit = repo.find_commit(tip).ok()?;
    for _ in 0..MAX_SEARCHED {
        let parent_without_change = commit.parents().find(|parent| {
            let root = parent.tree().ok();
            tree::find_text(root.as_ref(), path).is_ok_and(|entry| entry.map(|(id, _)| id) == now)
        });
        match parent_without_change {
            Some(parent) => commit = parent,
            None => return begins_here(repo, &commit).then(|| describe(&commit)).flatten(),
        }
    }
    None
}

/// Returns true if a commit's parents are here, so that it is not only the beginning of the clone. libgit2 shows that
/// one without parents.
fn begins_here(repo: &Repository, commit: &git2::Commit<'_>) -> bool {
    match commit.parent_count() {
        0 => !repo.is_shallow(),
        count => (0..count).all(|n| commit.parent(n).is_ok()),
    }
}

fn describe(commit: &git2::Commit<'_>) -> Option<EditCommit> {
    let author = commit.author();
    let name = String::from_utf8_lossy(author.name_bytes()).into_owned();
    let name: String = name.chars().filter(|c| !c.is_control()).take(100).collect();
    Some(EditCommit {
        id: tree::sha(commit.id()),
        author: if name.is_empty() { "somebody".to_owned() } else { name },
        at: Timestamp::from_second(author.when().seconds()).ok()?,
    })
}
