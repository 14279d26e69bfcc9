//! The files of a manifest repository before its first deployment (`init`), and the verdict where another file is
//! there.

use crate::manifests::argocd::application::Source;
use crate::manifests::argocd::{application, project};
use crate::model::target::Target;

/// A file that should be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedFile {
    /// The path of the file.
    pub path: String,
    /// The bytes of the file.
    pub bytes: Vec<u8>,
    /// True if it is a cluster's AppProject: its destinations follow the settings.
    pub is_project: bool,
}

/// The verdict about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileVerdict {
    /// The file is missing, and is written.
    Write,
    /// The file is there already; nothing is done.
    Same,
    /// The file is there and different, and stays.
    Keep,
    /// The file is there and different, and is replaced on request.
    Replace,
    /// The file is there, and its part that follows the settings is updated.
    Update,
}

/// Lists the files of a repository whose targets are these: folders, parents and projects. They
/// depend on the clusters' settings and nothing else.
pub fn files(targets: &[Target], source: &Source) -> Vec<ExpectedFile> {
    let readme = |path: &str, text: &str| ExpectedFile {
        path: path.to_owned(),
        bytes: text.into(),
        is_project: false,
    };
    let mut files = vec![
        readme("README.md", include_str!("bootstrap/readme.md")),
        readme("apps/README.md", include_str!("bootstrap/apps.md")),
        readme("manifests/README.md", include_str!("bootstrap/manifests.md")),
    ];
    for target in targets {
        let name = &target.name;
        let parent = application::of_cluster(target, source);
        let path = format!("apps/{name}.yaml");
        files.push(ExpectedFile { path, bytes: parent, is_project: false });
        let project = project::of_cluster(target, source);
        let project = project.map(|bytes| (format!("apps/{name}/project.yaml"), bytes));
        let is_project = project.is_some();
        // Without the service's project, a file must keep the folder when it has no app.
        let (path, bytes) = project.unwrap_or_else(|| {
            (format!("apps/{name}/README.md"), include_bytes!("bootstrap/cluster.md").to_vec())
        });
        files.push(ExpectedFile { path, bytes, is_project });
    }
    files
}

/// Brings up to date the part of a file that is there that follows the settings; `None` where it is
/// so, or has none.
pub fn update(expected: &ExpectedFile, present: &[u8]) -> Option<Vec<u8>> {
    expected.is_project.then(|| project::with_destinations(present, &expected.bytes))?
}

/// Decides about a file, by its present content. `force` replaces what people have edited.
pub fn decide(expected: &ExpectedFile, present: Option<&[u8]>, force: bool) -> FileVerdict {
    match present {
        None => FileVerdict::Write,
        Some(bytes) if bytes == expected.bytes => FileVerdict::Same,
        Some(_) if force => FileVerdict::Replace,
        Some(_) => FileVerdict::Keep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::TargetName;

    fn source() -> Source {
        Source { url: "https://git/m".to_owned(), branch: "main".to_owned() }
    }

    #[test]
    fn each_cluster_has_a_parent_and_something_in_its_folder() {
        let target = |name: &str| Target::unconfigured(TargetName::parse(name).unwrap());
        let mut other_target = target("b");
        other_target.argocd.project = Some("platform".to_owned());
        let files = files(&[target("a"), other_target], &source());
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "README.md",
                "apps/README.md",
                "manifests/README.md",
                "apps/a.yaml",
                "apps/a/project.yaml",
                "apps/b.yaml",
                "apps/b/README.md"
            ]
        );
    }

    #[test]
    fn what_somebody_edited_stays_unless_it_is_asked_for() {
        let (path, bytes) = ("README.md".to_owned(), b"ours".to_vec());
        let expected = ExpectedFile { path, bytes, is_project: false };
        assert_eq!(decide(&expected, None, false), FileVerdict::Write);
        assert_eq!(decide(&expected, Some(b"ours"), true), FileVerdict::Same);
        assert_eq!(decide(&expected, Some(b"theirs"), false), FileVerdict::Keep);
        assert_eq!(decide(&expected, Some(b"theirs"), true), FileVerdict::Replace);
        assert_eq!(decide(&expected, Some(b""), false), FileVerdict::Keep);
    }
}
