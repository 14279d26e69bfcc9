//! A file that the setup writes: whether it is there, and how it differs.

use std::path::PathBuf;

use super::folder::{SetupFolder, read_file};
use crate::cli::error::CliError;
use crate::cli::settings::write_private;

/// A file with its wanted text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileChange {
    pub(super) path: PathBuf,
    /// The file in the folder of the setup, as people read it.
    pub(super) name: String,
    /// What the file is for.
    pub(super) about: &'static str,
    /// The text that it gets.
    pub(super) text: String,
    /// The text that is there.
    pub(super) current: Option<String>,
}

impl FileChange {
    /// Compares a file with its wanted text; `None` where it is so already.
    pub(super) fn compare(
        folder: &SetupFolder,
        name: &str,
        about: &'static str,
        text: String,
    ) -> Result<Option<Self>, CliError> {
        let (path, name) = (folder.path(name), name.to_owned());
        let current = read_file(&path)?;
        let is_there = current.as_ref() == Some(&text);
        Ok((!is_there).then_some(Self { path, name, about, text, current }))
    }

    /// Returns the action in words.
    pub(super) fn describe(&self) -> String {
        let Self { name, about, .. } = self;
        match &self.current {
            None => format!("write {name}: {about}"),
            Some(_) => format!("replace {name}, after a question: {about}"),
        }
    }

    /// Returns the difference from the file that is there.
    pub(super) fn diff(&self) -> String {
        diff_lines(self.current.as_deref().unwrap_or_default(), &self.text)
    }

    /// Writes the file, unless it has been changed since it was compared.
    pub(super) fn write(&self) -> Result<(), CliError> {
        if read_file(&self.path)? != self.current {
            let message = format!("{} was changed meanwhile", self.path.display());
            return Err(CliError::io(message).hint("run the setup again"));
        }
        write_private(&self.path, self.text.as_bytes())
    }
}

/// Returns the indented lines that differ between the text that is there and the wanted one.
pub(super) fn diff_lines(current: &str, wanted: &str) -> String {
    let diff = similar::TextDiff::from_lines(current, wanted);
    let diff = diff.unified_diff().context_radius(1).header("there", "wanted").to_string();
    diff.lines().map(|line| format!("      {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_once_and_never_over_what_was_changed_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/config.yaml");
        let root = SetupFolder::new(folder.path()).unwrap();
        let compare = |text: &str| {
            FileChange::compare(&root, "deep/config.yaml", "the configuration", text.to_owned())
                .unwrap()
        };
        let first = compare("a\n").unwrap();
        first.write().unwrap();
        assert_eq!(compare("a\n"), None);
        assert!(first.write().is_err(), "it is there now");
        let second = compare("b\n").unwrap();
        assert!(second.diff().contains("-a") && second.diff().contains("+b"), "{}", second.diff());
        std::fs::write(&path, "theirs\n").unwrap();
        assert!(second.write().unwrap_err().whole().contains("changed meanwhile"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs\n");
    }
}
