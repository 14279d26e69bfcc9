//! The objects of one deployment, made with libgit2 as it comes: a bare clone, its tree edited in
//! the object database.

use std::path::Path;
use std::process::Command;

use git2::{FileMode, ObjectType, Oid, Repository, Signature, Tree, build::TreeUpdateBuilder};

use crate::host::Host;
use crate::shape::{Deployment, REVISIONS};
use crate::ways::REPOSITORY;

/// A bare clone of one branch, without history; its tip.
pub fn clone(host: &Host, folder: &Path, branch: &str) -> (Repository, Oid) {
    let status = Command::new("git")
        .args(["clone", "-q", "--bare", "--depth=1", "--single-branch", "--branch", branch])
        .arg(host.url_with_token(REPOSITORY))
        .arg(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .status()
        .expect("git");
    assert!(status.success(), "git clone failed");
    let repository = Repository::open_bare(folder).expect("the clone");
    let tip = repository.refname_to_id(&format!("refs/heads/{branch}")).expect("the branch");
    (repository, tip)
}

/// The commit of a deployment on top of `tip`.
pub fn commit(repository: &Repository, tip: Oid, deployment: &Deployment) -> Oid {
    let parent = repository.find_commit(tip).expect("the tip");
    let base = parent.tree().expect("its tree");
    let tree = edited(repository, &base, deployment).expect("the deployment's tree");
    let tree = repository.find_tree(tree).expect("the tree just made");
    let we = Signature::now("load", "load@example.com").expect("a signature");
    let message = deployment.message();
    repository.commit(None, &we, &we, &message, &tree, &[&parent]).expect("a commit")
}

fn edited(
    repository: &Repository,
    base: &Tree<'_>,
    deployment: &Deployment,
) -> Result<Oid, git2::Error> {
    let mut files = repository.treebuilder(None)?;
    for (name, text) in &deployment.files {
        files.insert(name.as_str(), repository.blob(text.as_bytes())?, FileMode::Blob.into())?;
    }
    let (files, folder) = (files.write()?, deployment.folder());
    let mut update = TreeUpdateBuilder::new();
    update.upsert(format!("{folder}/{}", deployment.id), files, FileMode::Tree);
    update.upsert(format!("{folder}/latest"), files, FileMode::Tree);
    let app = base.get_path(Path::new(&folder))?.to_object(repository)?.peel_to_tree()?;
    let names = app.iter().filter_map(|entry| Some(entry.name().ok()?.to_owned()));
    let mut revisions: Vec<String> = names.filter(|name| name != "latest").collect();
    revisions.sort_unstable();
    for name in revisions.iter().take((revisions.len() + 1).saturating_sub(REVISIONS)) {
        update.remove(format!("{folder}/{name}"));
    }
    update.create_updated(repository, base)
}

/// The objects of `new` that `old` does not have.
pub fn new_objects(repository: &Repository, old: Oid, new: Oid) -> Vec<Oid> {
    let tree = |commit| repository.find_commit(commit).and_then(|c| c.tree()).expect("a tree");
    let mut found = vec![new];
    differing(repository, Some(&tree(old)), &tree(new), &mut found);
    found.sort_unstable();
    found.dedup();
    found
}

fn differing(
    repository: &Repository,
    old: Option<&Tree<'_>>,
    new: &Tree<'_>,
    found: &mut Vec<Oid>,
) {
    found.push(new.id());
    for entry in new {
        let before = old.and_then(|old| old.get_name_bytes(entry.name_bytes()));
        if before.as_ref().is_some_and(|before| before.id() == entry.id()) {
            continue;
        }
        if entry.kind() == Some(ObjectType::Tree) {
            let before = before.and_then(|before| repository.find_tree(before.id()).ok());
            let inner = repository.find_tree(entry.id()).expect("a folder");
            differing(repository, before.as_ref(), &inner, found);
        } else {
            found.push(entry.id());
        }
    }
}
