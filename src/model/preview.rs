//! The text of a pull request's check run.

use crate::model::violation::Severity;

/// The text of a preview, within the limits of the code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewText {
    /// The verdict.
    pub verdict: PreviewVerdict,
    /// The title, one line: `2 targets change, 1 violation`.
    pub title: String,
    /// The overview, in Markdown.
    pub summary: String,
    /// The details, in Markdown.
    pub text: Option<String>,
    /// Remarks at lines of the WAML at the head.
    pub remarks: Vec<Remark>,
}

/// The verdict of a preview.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreviewVerdict {
    /// The preview is not ready yet.
    UnderWay,
    /// A deployment would be refused.
    Failure,
    /// Something would change.
    Success,
    /// The preview has nothing to judge.
    Neutral,
}

/// A remark about one line of the WAML, or of a file that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The path of the file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The severity of the remark.
    pub severity: Severity,
    /// A few words.
    pub title: String,
    /// The fault, the targets it applies to, and the way out.
    pub message: String,
}
