//! INIT: what a manifest repository has before its first deployment, and what to do where
//! something else is there.

use crate::model::target::Target;
use crate::pipeline::application::{self, Source};
use crate::pipeline::project;

/// A file that should be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Its path.
    pub path: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What is done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is missing, and is written.
    Write,
    /// It is there already; nothing is done.
    Same,
    /// It is there and different, and stays.
    Keep,
    /// It is there and different, and is replaced, because that was asked for.
    Replace,
}

/// The files of a repository whose targets are these: folders, parents and projects. They depend on
/// the clusters' settings and nothing else.
pub fn files(targets: &[Target], source: &Source) -> Vec<Wanted> {
    let readme = |path: &str, text: &str| Wanted { path: path.to_owned(), bytes: text.into() };
    let mut files = vec![
        readme("README.md", include_str!("prepare/readme.md")),
        readme("apps/README.md", include_str!("prepare/apps.md")),
        readme("manifests/README.md", include_str!("prepare/manifests.md")),
    ];
    for target in targets {
        let name = &target.name;
        let parent = application::of_cluster(target, source);
        files.push(Wanted { path: format!("apps/{name}.yaml"), bytes: parent });
        let project = project::of_cluster(target, source);
        let project = project.map(|bytes| (format!("apps/{name}/project.yaml"), bytes));
        // Without a project of ours, something must keep the folder when it has no app.
        let (path, bytes) = project.unwrap_or_else(|| {
            (format!("apps/{name}/README.md"), include_bytes!("prepare/cluster.md").to_vec())
        });
        files.push(Wanted { path, bytes });
    }
    files
}

/// What to do with a file, by what is there. `force` replaces what people have edited.
pub fn decide(wanted: &Wanted, there: Option<&[u8]>, force: bool) -> Verdict {
    match there {
        None => Verdict::Write,
        Some(bytes) if bytes == wanted.bytes => Verdict::Same,
        Some(_) if force => Verdict::Replace,
        Some(_) => Verdict::Keep,
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
        let mut own = target("b");
        own.argocd.project = Some("platform".to_owned());
        let files = files(&[target("a"), own], &source());
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
        let wanted = Wanted { path: "README.md".to_owned(), bytes: b"ours".to_vec() };
        assert_eq!(decide(&wanted, None, false), Verdict::Write);
        assert_eq!(decide(&wanted, Some(b"ours"), true), Verdict::Same);
        assert_eq!(decide(&wanted, Some(b"theirs"), false), Verdict::Keep);
        assert_eq!(decide(&wanted, Some(b"theirs"), true), Verdict::Replace);
        assert_eq!(decide(&wanted, Some(b""), false), Verdict::Keep);
    }
}
