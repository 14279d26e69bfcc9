//! The manifest repository from outside: every commit of the branch with the files it changed, read
//! by the git program, and nothing of the service's own code.

use std::collections::BTreeMap;

use crate::harness::git::Bare;

/// What a commit says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Deployment(String),
    Rollback { id: String, revision: String },
    Removal(String),
    Foreign,
}

/// A commit of the branch.
#[derive(Debug, Clone)]
pub(crate) struct Commit {
    pub(crate) hash: String,
    pub(crate) parents: usize,
    pub(crate) kind: Kind,
    /// The trailer `Repository`.
    pub(crate) repository: String,
    /// Paths with the blob that is there afterwards; `None`: the file is gone.
    pub(crate) changes: Vec<(String, Option<String>)>,
}

/// Every path with its blob.
pub(crate) type Tree = BTreeMap<String, String>;

const NONE: &str = "0000000000000000000000000000000000000000";

/// The commits of `main`, oldest first; none where there is no such branch.
pub(crate) fn read(bare: &Bare) -> Vec<Commit> {
    if bare.commits() == 0 {
        return Vec::new();
    }
    let trailer = |key: &str| format!("%x1f%(trailers:key={key},valueonly,separator=%x20)");
    let trailers =
        ["Deploy-Id", "Rollback-Id", "Removal-Id", "Revision", "Repository"].map(trailer);
    let format = format!("--format=%x1e%H%x1f%P{}", trailers.concat());
    let log = bare.run(&[
        "-c",
        "log.showRoot=true",
        "-c",
        "core.quotePath=false",
        "log",
        "--reverse",
        "--raw",
        "--no-renames",
        "--no-abbrev",
        &format,
        "main",
    ]);
    log.split('\u{1e}').skip(1).map(parse).collect()
}

fn parse(text: &str) -> Commit {
    let (head, raw) = text.split_once('\n').unwrap_or((text, ""));
    let fields: Vec<&str> = head.split('\u{1f}').map(str::trim).collect();
    let [hash, parents, deploy, rollback, removal, revision, repository] = fields[..] else {
        panic!("git log says {head:?}");
    };
    let kind = match (deploy, rollback, removal) {
        ("", "", "") => Kind::Foreign,
        (id, "", "") => Kind::Deployment(id.to_owned()),
        ("", id, "") => Kind::Rollback { id: id.to_owned(), revision: revision.to_owned() },
        (_, _, id) => Kind::Removal(id.to_owned()),
    };
    // `:100644 100644 OLD NEW M\tPATH`
    let changes = raw.lines().filter(|line| line.starts_with(':')).map(|line| {
        let (head, path) = line.split_once('\t').expect("a path");
        let blob = head.split(' ').nth(3).expect("a blob");
        (path.to_owned(), (blob != NONE).then(|| blob.to_owned()))
    });
    Commit {
        hash: hash.to_owned(),
        parents: parents.split_whitespace().count(),
        kind,
        repository: repository.to_owned(),
        changes: changes.collect(),
    }
}

/// What the tree is after that commit.
pub(crate) fn apply(tree: &mut Tree, commit: &Commit) {
    for (path, blob) in &commit.changes {
        match blob {
            Some(blob) => tree.insert(path.clone(), blob.clone()),
            None => tree.remove(path),
        };
    }
}

/// The files below a folder, by their paths in it.
pub(crate) fn below<'t>(tree: &'t Tree, folder: &str) -> BTreeMap<&'t str, &'t str> {
    let prefix = format!("{folder}/");
    let from = tree.range(prefix.clone()..);
    let inside = from.map_while(|(path, blob)| Some((path.strip_prefix(&prefix)?, &**blob)));
    inside.collect()
}

/// `manifests/TARGET/NAMESPACE/APP` and what follows: a revision or `latest`.
pub(crate) fn place(path: &str) -> Option<(&str, &str)> {
    let mut slashes = path.match_indices('/').map(|(at, _)| at);
    path.strip_prefix("manifests/")?;
    let end = slashes.nth(3)?;
    let inner = slashes.next()?;
    Some((&path[..end], &path[end + 1..inner]))
}
