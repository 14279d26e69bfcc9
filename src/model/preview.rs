//! What a pull request's check run says of it.

use crate::model::violation::Severity;

/// What is said, within the bounds of who shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewText {
    /// What it comes to.
    pub verdict: PreviewVerdict,
    /// One line: `2 targets change, 1 violation`.
    pub title: String,
    /// The overview, in Markdown.
    pub summary: String,
    /// The details, in Markdown.
    pub text: Option<String>,
    /// At lines of the WAML at the head.
    pub remarks: Vec<Remark>,
}

/// What a preview comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreviewVerdict {
    /// It is still being made.
    UnderWay,
    /// A deployment would be refused.
    Failure,
    /// Something would change.
    Success,
    /// There is nothing to judge.
    Neutral,
}

/// Something about one line of the WAML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The line, from 1.
    pub line: u32,
    /// How bad it is.
    pub severity: Severity,
    /// A few words.
    pub title: String,
    /// What is wrong, where it applies, and what to do.
    pub message: String,
}
