//! A check run: the service's findings at a commit, with notes at lines of its files.

use serde::Serialize;

use crate::model::id::CommitSha;

/// The wanted state of a check run. A text longer than the host's limit is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRun {
    /// The name in the list of checks.
    pub name: String,
    /// The commit that it is about.
    pub head: CommitSha,
    /// The service's own id of the run, by which it finds the run again.
    pub external_id: String,
    /// The conclusion; `None` while it is in progress.
    pub conclusion: Option<Conclusion>,
    /// The headline.
    pub title: String,
    /// Markdown, at most 65,535 characters.
    pub summary: String,
    /// More Markdown, at most 65,535 characters.
    pub text: Option<String>,
    /// The service's page about it.
    pub details_url: Option<String>,
    /// Notes at lines. Those that are there already are not written twice; none is ever taken away,
    /// which the host cannot do.
    pub annotations: Vec<Annotation>,
}

/// The conclusion of a check run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// The check found no fault.
    Success,
    /// The check found a fault.
    Failure,
    /// The check has information, and no verdict.
    Neutral,
    /// A person has to do something outside the commit.
    ActionRequired,
    /// The check had nothing to look at.
    Skipped,
}

/// A note at a line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    /// The file's path in the repository.
    pub path: String,
    /// The line, from 1.
    pub line: u32,
    /// The level of the note.
    pub level: Level,
    /// The title, at most 255 characters.
    pub title: String,
    /// The message, at most 64 KiB.
    pub message: String,
}

/// The level of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Good to know.
    Notice,
    /// Doubtful.
    Warning,
    /// Wrong.
    Failure,
}

impl Level {
    /// Returns GitHub's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }
}
