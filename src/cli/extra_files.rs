//! Reads the files that a WAML names under `manifests` from this machine: from the folder of the WAML, or from a commit.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path};

use crate::cli::diagnostics::SourceTexts;
use crate::model::id::TargetName;
use crate::waml::Waml;
use crate::waml::extra_files::{ExtraFiles, MAX_FILE_BYTES, beside, describe_too_large};

/// Puts the files into a WAML that was read from `folder`, and their texts into those that violations point into.
pub(super) fn from_folder(waml: Waml, folder: &Path, sources: &mut SourceTexts) -> Waml {
    let files = ExtraFiles::read(waml.extra_paths(), |path| read_below(folder, Path::new(path)));
    put_in(waml, files, sources)
}

/// Puts files into a WAML, and their texts into those that violations point into.
pub(super) fn put_in(waml: Waml, files: ExtraFiles, sources: &mut SourceTexts) -> Waml {
    let name = waml.root.origin.position.file.clone();
    for (path, text) in files.texts() {
        sources.add(&beside(&name, path), text);
    }
    waml.with_extra_files(files)
}

/// Lists the texts of the files that a WAML names for a target, for a request to the service.
pub(super) fn texts_of(waml: &Waml, target: &TargetName) -> BTreeMap<String, String> {
    let paths = waml.extra_paths_of(target).into_iter();
    let text = |path: String| {
        let text = waml.extra_files.text(&path).ok()?.to_owned();
        Some((path, text))
    };
    paths.filter_map(text).collect()
}

/// Reads the files of a commit.
pub(super) fn from_commit(
    waml: &Waml,
    git: &git2::Repository,
    commit: &git2::Commit<'_>,
) -> ExtraFiles {
    let reason = |error: git2::Error| error.message().to_owned();
    ExtraFiles::read(waml.extra_paths(), |path| {
        let tree = commit.tree().map_err(reason)?;
        let place = beside(waml.file(), path);
        let entry = tree.get_path(Path::new(&place)).map_err(|_| absent())?;
        if entry.filemode() == i32::from(git2::FileMode::Link) {
            return Err(a_link());
        }
        let blob = git.find_blob(entry.id()).map_err(|_| absent())?;
        if blob.size() > MAX_FILE_BYTES {
            return Err(describe_too_large());
        }
        Ok(blob.content().to_owned())
    })
}

/// Reads a file below a folder. A symbolic link on the way may lead out of it, and is not followed.
fn read_below(folder: &Path, path: &Path) -> Result<Vec<u8>, String> {
    let mut place = folder.to_owned();
    for part in path.components() {
        let Component::Normal(name) = part else { return Err(absent()) };
        place.push(name);
        let metadata = place.symlink_metadata().map_err(|_| absent())?;
        if metadata.is_symlink() {
            return Err(a_link());
        }
    }
    if !place.is_file() {
        return Err(absent());
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let read = File::open(&place).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(|error| error.to_string())
}

fn absent() -> String {
    "there is no such file".to_owned()
}

fn a_link() -> String {
    "it is a symbolic link, or in a folder that is one".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_all_targets_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let target = |target: usize| {
            let paths: Vec<String> = (0..9).map(|n| format!("{target:02}-{n}.yaml")).collect();
            for path in &paths {
                std::fs::write(folder.path().join(path), "a: b\n").unwrap();
            }
            format!("  t-{target:02}: {{manifests: [{}]}}\n", paths.join(", "))
        };
        let deploy: String = (0..25).map(target).collect();
        let root = "schema: \"2\"\nname: A\nslug: a\nowner: a@example.com\nnamespace: n\n";
        let text = format!("{root}deploy:\n{deploy}");
        let waml = Waml::parse(".weave.yaml", text.as_bytes()).unwrap();
        let waml = from_folder(waml, folder.path(), &mut SourceTexts::default());
        assert_eq!(waml.extra_files.texts().count(), 225);
        assert_eq!(waml.extra_files.text("24-8.yaml"), Ok("a: b\n"));
    }

    #[test]
    fn only_files_below_the_folder_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("app");
        std::fs::create_dir_all(root.join("k8s/empty.yaml")).unwrap();
        std::fs::write(folder.path().join("secret.yaml"), "secret").unwrap();
        std::fs::write(root.join("k8s/a.yaml"), "a: b\n").unwrap();
        std::fs::write(root.join("k8s/large.yaml"), vec![b' '; MAX_FILE_BYTES + 9]).unwrap();
        std::os::unix::fs::symlink("../../secret.yaml", root.join("k8s/link.yaml")).unwrap();
        std::os::unix::fs::symlink("..", root.join("up")).unwrap();
        let read = |path: &str| read_below(&root, Path::new(path));
        assert_eq!(read("k8s/a.yaml"), Ok(b"a: b\n".to_vec()));
        assert_eq!(read("k8s/large.yaml").unwrap().len(), MAX_FILE_BYTES + 1);
        for path in ["k8s/none.yaml", "k8s/empty.yaml", "../secret.yaml"] {
            assert_eq!(read(path), Err(absent()), "{path}");
        }
        for path in ["k8s/link.yaml", "up/secret.yaml"] {
            assert_eq!(read(path), Err(a_link()), "{path}");
        }
    }
}
