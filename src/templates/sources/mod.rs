//! The sources of templates: built in, a folder of the operator's, or a repository.
//!
//! They give the text of templates; `set` compiles it.

pub mod repository; // the templates in a repository

use std::io;
use std::path::{Path, PathBuf};

use rust_embed::RustEmbed;

use crate::model::template::{TemplateFile, TemplateSources};

/// The reason why templates cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// The folder is not one of templates.
    #[error(
        "{path} holds no templates: there is no folder `apps` in it; name a folder that has apps/<template>/<version>/*.yaml.tmpl"
    )]
    NoApps {
        /// The folder.
        path: PathBuf,
    },
    /// A file or folder could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// More than a set of templates can sensibly be.
    #[error(
        "{path} is too much: a set of templates has at most {MAX_FILES} files of at most {LARGEST} bytes"
    )]
    TooMuch {
        /// The file that exceeds the limit.
        path: PathBuf,
    },
    /// An entry of a repository that is no plain file.
    #[error("{path} is {what}: put the file itself there")]
    NoFile {
        /// The path of the entry.
        path: PathBuf,
        /// The kind of the entry: `a symbolic link`.
        what: &'static str,
    },
    /// A file in a repository that is no text.
    #[error("{path} is not UTF-8: templates are text")]
    NoText {
        /// The file.
        path: PathBuf,
    },
}

/// The most files of one sort.
pub const MAX_FILES: usize = 2000;
/// The most bytes of one file.
pub const LARGEST: usize = 256 * 1024;
/// A template's file is at `apps/<template>/<version>/<file>`.
pub const DEPTH: usize = 3;

#[derive(RustEmbed)]
#[folder = "templates"]
struct Embedded;

/// Returns the templates that are part of the program.
pub fn built_in() -> TemplateSources {
    let file = |path: std::borrow::Cow<'static, str>| {
        let file = Embedded::get(&path)?;
        let text = String::from_utf8_lossy(&file.data).into_owned();
        Some(TemplateFile { path: path.into_owned(), text })
    };
    let files: Vec<TemplateFile> = Embedded::iter().filter_map(file).collect();
    let files_below = |folder: &str| {
        sort_by_path(files.iter().filter_map(|file| file_below(file, folder)).collect())
    };
    TemplateSources {
        origin: "built in".to_owned(),
        commit: None,
        files: files_below(APPS),
        components: files_below(COMPONENTS),
        policies: files_below(POLICIES),
    }
}

/// Templates, with their defaults and samples.
pub const APPS: &str = "apps";
/// Pieces that templates share.
pub const COMPONENTS: &str = "components";
/// The operator's own rules.
pub const POLICIES: &str = "policies";

/// Returns the file with its path below a folder, if it is there.
fn file_below(file: &TemplateFile, folder: &str) -> Option<TemplateFile> {
    let path = file.path.strip_prefix(folder)?.strip_prefix('/')?;
    Some(TemplateFile { path: path.to_owned(), text: file.text.clone() })
}

fn sort_by_path(mut files: Vec<TemplateFile>) -> Vec<TemplateFile> {
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Reads the templates in a folder that has `apps/`, and what they share beside it.
///
/// # Errors
/// When the folder is not one of templates, or cannot be read.
pub fn folder(path: &Path) -> Result<TemplateSources, CatalogueError> {
    if !path.join(APPS).is_dir() {
        return Err(CatalogueError::NoApps { path: path.to_owned() });
    }
    let read_below = |folder: &str| {
        let mut files = Vec::new();
        let folder = path.join(folder);
        if folder.is_dir() {
            collect(&folder, "", DEPTH, &mut files)?;
        }
        Ok(sort_by_path(files))
    };
    Ok(TemplateSources {
        origin: path.display().to_string(),
        commit: None,
        files: read_below(APPS)?,
        components: read_below(COMPONENTS)?,
        policies: read_below(POLICIES)?,
    })
}

fn collect(
    folder: &Path,
    prefix: &str,
    depth: usize,
    files: &mut Vec<TemplateFile>,
) -> Result<(), CatalogueError> {
    let failed = |source| CatalogueError::Read { path: folder.to_owned(), source };
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let file_name = entry.file_name().to_string_lossy().into_owned();
        // Hidden folders are git's, or those that Kubernetes keeps behind a mounted ConfigMap.
        if file_name.starts_with('.') {
            continue;
        }
        let name = format!("{prefix}{file_name}");
        // Links are followed, a mounted folder is made of them; the depth bounds the way.
        let kind = std::fs::metadata(entry.path()).map_err(failed)?;
        if kind.is_dir() && depth > 1 {
            collect(&entry.path(), &format!("{name}/"), depth - 1, files)?;
        } else if kind.is_file() && is_text(&name) {
            files.push(TemplateFile { text: read(&entry.path())?, path: name });
        }
        if files.len() > MAX_FILES {
            return Err(CatalogueError::TooMuch { path: folder.to_owned() });
        }
    }
    Ok(())
}

/// Accepts all files but Markdown pages, so that a misnamed file is reported.
fn is_text(name: &str) -> bool {
    Path::new(name).extension().is_none_or(|end| end != "md")
}

fn read(path: &Path) -> Result<String, CatalogueError> {
    let failed = |source| CatalogueError::Read { path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(failed)?.len() > LARGEST as u64 {
        return Err(CatalogueError::TooMuch { path: path.to_owned() });
    }
    std::fs::read_to_string(path).map_err(failed)
}
