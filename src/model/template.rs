//! The text of templates, as their folder has it, before it is compiled.

use crate::model::id::CommitSha;

/// All files of a templates folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplateSources {
    /// The origin of the files, for people: `built in`, a folder, a commit.
    pub origin: String,
    /// The commit, where they come from a repository.
    pub commit: Option<CommitSha>,
    /// Templates with their defaults and samples, by the path below `apps/`:
    /// `backend-default/latest/deployment.yaml.tmpl`. Sorted, as the others are.
    pub files: Vec<TemplateFile>,
    /// Pieces that templates share, by the path below `components/`: `pod.yaml.tmpl`.
    pub components: Vec<TemplateFile>,
    /// The operator's own rules, by the path below `policies/`: `images.yaml`.
    pub policies: Vec<TemplateFile>,
}

/// One file of a templates folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateFile {
    /// The path below the folder of its sort, with `/` between folders.
    pub path: String,
    /// UTF-8.
    pub text: String,
}
