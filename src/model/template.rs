//! The text of templates, as they lie in a folder: before anything is made of them.

/// All files of a templates folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplateSources {
    /// Where they come from, for people: `built in`, a folder, a commit.
    pub origin: String,
    /// The files, sorted by path.
    pub files: Vec<TemplateFile>,
}

/// One file, with its path below `apps/`: `backend-default/latest/deployment.yaml.tmpl`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateFile {
    /// With `/` between folders.
    pub path: String,
    /// UTF-8.
    pub text: String,
}
