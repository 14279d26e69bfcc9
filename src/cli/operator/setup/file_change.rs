//! A file that the setup writes: whether it is there, and how it differs.

use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use crate::cli::error::CliError;
use crate::cli::settings::write_private;

/// The largest file that is compared, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// A file with its wanted text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileChange {
    pub(super) path: PathBuf,
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
        path: PathBuf,
        about: &'static str,
        text: String,
    ) -> Result<Option<Self>, CliError> {
        let current = read_file(&path)?;
        let is_there = current.as_ref() == Some(&text);
        Ok((!is_there).then_some(Self { path, about, text, current }))
    }

    /// Returns the action in words.
    pub(super) fn describe(&self) -> String {
        let path = self.path.display();
        match &self.current {
            None => format!("write {path}: {}", self.about),
            Some(_) => format!("replace {path}, after a question: {}", self.about),
        }
    }

    /// Returns the difference from the file that is there.
    pub(super) fn diff(&self) -> String {
        let current = self.current.as_deref().unwrap_or_default();
        let diff = similar::TextDiff::from_lines(current, &self.text);
        let diff = diff.unified_diff().context_radius(1).header("there", "wanted").to_string();
        diff.lines().map(|line| format!("      {line}\n")).collect()
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

/// Returns the text of a file; `None` if it does not exist.
pub(super) fn read_file(path: &Path) -> Result<Option<String>, CliError> {
    let mut bytes = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    match read {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CliError::file("read", path)(error)),
        Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_once_and_never_over_what_was_changed_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/config.yaml");
        let compare = |text: &str| {
            FileChange::compare(path.clone(), "the configuration", text.to_owned()).unwrap()
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
