//! A check run: what we found at a commit, with notes at lines of its files.

use serde::Serialize;

use crate::model::id::CommitSha;

/// A check run as it is to be. What is longer than the host takes is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRun {
    /// What the list of checks shows.
    pub name: String,
    /// The commit that it is about.
    pub head: CommitSha,
    /// Our own name for it, by which it is found again.
    pub external_id: String,
    /// How it ended; `None` while it is in progress.
    pub conclusion: Option<Conclusion>,
    /// The headline.
    pub title: String,
    /// Markdown, at most 65,535 characters.
    pub summary: String,
    /// More Markdown, at most 65,535 characters.
    pub text: Option<String>,
    /// Our page about it.
    pub details_url: Option<String>,
    /// Notes at lines. Those that are there already are not written twice; none is ever taken away,
    /// which the host cannot do.
    pub annotations: Vec<Annotation>,
}

/// How a check run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// All is well.
    Success,
    /// Something is wrong.
    Failure,
    /// Something to know, nothing to do.
    Neutral,
    /// Somebody has to do something outside the commit.
    ActionRequired,
    /// There was nothing to look at.
    Skipped,
}

/// A note at a line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    /// The file's path in the repository.
    pub path: String,
    /// The line, from 1.
    pub line: u32,
    /// How much it matters.
    pub level: Level,
    /// At most 255 characters.
    pub title: String,
    /// At most 64 KiB.
    pub message: String,
}

/// How much a note matters.
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
    /// GitHub's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }
}
