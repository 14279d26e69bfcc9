//! Tests repositories that a killed process leaves half made: the next process starts, and the files of others stay.

use std::fs;
use std::path::{Path, PathBuf};

use the_deployer::git::writer::{ManifestRepository, WriteError};

use crate::git::place::{Place, deploy, pushed, settings};
use crate::harness::folder;

/// A folder or a file, below the repository.
#[derive(Debug, Clone)]
struct Entry {
    path: PathBuf,
    /// The bytes of a file.
    bytes: Option<Vec<u8>>,
}

/// Everything in a folder, by name; what is in a folder comes after it.
fn entries(folder: &Path) -> Vec<Entry> {
    let mut found = Vec::new();
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|one| one.unwrap().path()).collect();
    names.sort();
    for path in names {
        let is_dir = path.is_dir();
        let bytes = (!is_dir).then(|| fs::read(&path).unwrap());
        found.push(Entry { path: path.clone(), bytes });
        if is_dir {
            found.extend(entries(&path));
        }
    }
    found
}

/// What may be there when a process is killed after each step: a folder made, a file begun, locked
/// or written. In two orders: whichever git has today.
fn half_made(whole: &Path) -> Vec<Vec<Entry>> {
    let all: Vec<Entry> = entries(whole)
        .into_iter()
        .map(|one| Entry { path: one.path.strip_prefix(whole).unwrap().to_owned(), ..one })
        .collect();
    let mut states = vec![Vec::new()];
    for order in [all.clone(), all.into_iter().rev().collect()] {
        for n in 1..order.len() {
            let (last, before) = order[..n].split_last().unwrap();
            let with = |one: Entry| [before, &[one]].concat();
            states.push(with(last.clone()));
            if let Some(bytes) = &last.bytes {
                let cut = bytes[..bytes.len() / 2].to_vec();
                states.push(with(Entry { bytes: Some(cut.clone()), ..last.clone() }));
                let mut lock = last.path.clone().into_os_string();
                lock.push(".lock");
                states.push(with(Entry { path: lock.into(), bytes: Some(cut) }));
            }
        }
    }
    states
}

fn make(folder: &Path, state: &[Entry]) {
    fs::create_dir_all(folder).unwrap();
    for Entry { path, bytes } in state {
        let path = folder.join(path);
        match bytes {
            None => fs::create_dir_all(path).unwrap(),
            Some(bytes) => {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, bytes).unwrap();
            }
        }
    }
}

async fn opened(path: &Path) -> ManifestRepository {
    let url = path.display().to_string();
    ManifestRepository::open(settings(url, &path.with_extension("unused"))).await.unwrap()
}

#[tokio::test]
async fn a_local_repository_that_was_half_made_is_made_anew() {
    let folder = folder::temporary();
    let whole = folder.path().join("whole.git");
    ManifestRepository::create_local(&whole, "main").unwrap();
    let states = half_made(&whole);
    assert!(states.len() > 30, "{}", states.len());
    for (n, state) in states.iter().enumerate() {
        // At its place, as an earlier version left it, and beside it.
        for left in ["m.git", "m.git.new"] {
            let path = folder.path().join(format!("{n}")).join("m.git");
            make(&path.with_file_name(left), state);
            ManifestRepository::create_local(&path, "main")
                .unwrap_or_else(|error| panic!("{left} {error}: {state:?}"));
            let repository = opened(&path).await;
            pushed(&repository, deploy(1, "one")).await;
            fs::remove_dir_all(path.parent().unwrap()).unwrap();
        }
    }
}

#[tokio::test]
async fn a_clone_that_was_half_made_is_made_anew() {
    let place = Place::http().await;
    let clone = place.folder.path().join("clone");
    drop(place.open().await);
    let states = half_made(&clone);
    assert!(states.len() > 30, "{}", states.len());
    for (n, state) in states.iter().enumerate() {
        for (kind, left) in ["", ".new", ".old", ".next"].into_iter().enumerate() {
            let name = format!("clone-{n}-{kind}");
            make(&place.folder.path().join(format!("{name}{left}")), state);
            let repository = place.open_as(&name).await;
            if n % 8 == 0 {
                let number = u32::try_from(n * 10 + kind + 1).unwrap();
                pushed(&repository, deploy(number, &number.to_string())).await;
            }
        }
    }
}

#[tokio::test]
async fn what_somebody_has_there_is_not_touched() {
    let folder = folder::temporary();
    let whole = folder.path().join("whole.git");
    ManifestRepository::create_local(&whole, "main").unwrap();
    let object = "objects/17/0123456789012345678901234567890123456789";
    for theirs in ["notes.txt", object, "refs/heads/theirs", "packed-refs"] {
        let path = folder.path().join("m.git");
        make(&path, &half_made(&whole)[1]);
        fs::create_dir_all(path.join(theirs).parent().unwrap()).unwrap();
        fs::write(path.join(theirs), "theirs").unwrap();
        fs::write(path.join("HEAD"), "").unwrap();
        let error = ManifestRepository::create_local(&path, "main").unwrap_err();
        assert!(matches!(error, WriteError::Disk { .. }), "{error}");
        assert!(error.to_string().contains("move it away"), "{error}");
        assert_eq!(fs::read_to_string(path.join(theirs)).unwrap(), "theirs");
        fs::remove_dir_all(path).unwrap();
    }
    // Neither is a folder that only has the name of one that is being made.
    let path = folder.path().join("n.git");
    fs::create_dir(path.with_file_name("n.git.new")).unwrap();
    fs::write(path.with_file_name("n.git.new").join("notes.txt"), "theirs").unwrap();
    ManifestRepository::create_local(&path, "main").unwrap();
    let kept = folder.path().join("n.git.new.aside-1/notes.txt");
    assert_eq!(fs::read_to_string(kept).unwrap(), "theirs");
    pushed(&opened(&path).await, deploy(1, "one")).await;
}

/// The service and `init` may do so.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_make_the_same_one_at_once() {
    for _ in 0..20 {
        let folder = folder::temporary();
        let path = folder.path().join("m.git");
        let makers = (0..4).map(|_| {
            let path = path.clone();
            tokio::task::spawn_blocking(move || ManifestRepository::create_local(&path, "main"))
        });
        for made in futures::future::join_all(makers.collect::<Vec<_>>()).await {
            made.unwrap().unwrap();
        }
        pushed(&opened(&path).await, deploy(1, "one")).await;
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 1, "nothing is left beside it");
    }
}
