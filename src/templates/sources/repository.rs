//! The templates in a repository at one commit.
//!
//! The same limits and names hold as for a folder; but no link is followed: a repository is whole by itself, and its
//! content must not depend on the machine that reads it.

use std::path::PathBuf;

use crate::model::id::CommitSha;
use crate::model::template::{TemplateFile, TemplateSources};
use crate::templates::sources::{APPS, CatalogueError, is_text, sort_by_path};

/// An entry of a folder in the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderItem {
    /// The path below the folder, with `/` between names.
    pub path: String,
    /// The bytes, or the kind of an entry that is no file.
    pub content: Result<Vec<u8>, &'static str>,
}

/// The content of the three folders of a set of templates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Folders {
    /// The files in `apps/`.
    pub apps: Vec<FolderItem>,
    /// The files in `components/`.
    pub components: Vec<FolderItem>,
    /// The files in `policies/`.
    pub policies: Vec<FolderItem>,
}

/// Reads the templates of a commit; `place` is the repository's folder they are in, for messages.
///
/// # Errors
/// When there is no template at all, or something that is no text file.
pub fn sources(
    origin: String,
    commit: CommitSha,
    place: &str,
    folders: Folders,
) -> Result<TemplateSources, CatalogueError> {
    let Folders { apps, components, policies } = folders;
    let folder_of = |folder: &str| PathBuf::from(place).join(folder);
    if apps.is_empty() {
        return Err(CatalogueError::NoApps { path: PathBuf::from(origin) });
    }
    Ok(TemplateSources {
        origin,
        commit: Some(commit),
        files: files(&folder_of(APPS), apps)?,
        components: files(&folder_of(super::COMPONENTS), components)?,
        policies: files(&folder_of(super::POLICIES), policies)?,
    })
}

fn files(
    folder: &std::path::Path,
    items_listed: Vec<FolderItem>,
) -> Result<Vec<TemplateFile>, CatalogueError> {
    let texts = items_listed.into_iter().filter(|item| is_text(&item.path));
    let files = texts.map(|FolderItem { path, content }| {
        let full_path = folder.join(&path);
        let bytes = content
            .map_err(|reason| CatalogueError::NoFile { path: full_path.clone(), what: reason })?;
        let text =
            String::from_utf8(bytes).map_err(|_| CatalogueError::NoText { path: full_path })?;
        Ok(TemplateFile { path, text })
    });
    Ok(sort_by_path(files.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_sources(apps: Vec<FolderItem>) -> Result<TemplateSources, String> {
        let commit = "a".repeat(40).parse().unwrap();
        let folders = Folders { apps, ..Folders::default() };
        sources("x.git".to_owned(), commit, "", folders).map_err(|error| error.to_string())
    }

    fn file(path: &str, bytes: &[u8]) -> FolderItem {
        FolderItem { path: path.to_owned(), content: Ok(bytes.to_vec()) }
    }

    #[test]
    fn files_become_templates_by_path_and_pages_for_people_are_left_out() {
        let files =
            vec![file("b/defaults.yaml", b"{}"), file("b/README.md", b"\xff"), file("a", b"")];
        let sources = build_sources(files).unwrap();
        let paths: Vec<_> = sources.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["a", "b/defaults.yaml"]);
        assert_eq!(sources.commit.unwrap().as_str(), "a".repeat(40));
    }

    #[test]
    fn what_is_no_text_file_is_refused_by_its_path() {
        let link = FolderItem { path: "a/b".to_owned(), content: Err("a symbolic link") };
        assert_eq!(
            build_sources(vec![link]).unwrap_err(),
            "apps/a/b is a symbolic link: put the file itself there"
        );
        let error = build_sources(vec![file("a/x.yaml.tmpl", b"\xff")]).unwrap_err();
        assert_eq!(error, "apps/a/x.yaml.tmpl is not UTF-8: templates are text");
        assert!(build_sources(vec![]).unwrap_err().contains("no folder `apps`"));
    }
}
