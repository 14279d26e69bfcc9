//! One broken rule, with its place and a way out; and a rejection, which is all of them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::support::text::reveal_invisible;

/// A place in a file that a person wrote. Lines and columns begin at 1 and count characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Position {
    /// The file as the reader knows it: `.weave.yaml`, `backend-default/defaults.yaml`.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
    /// How many characters of that line to underline; at least 1.
    pub length: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Whether a violation stops the deployment.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The deployment is rejected.
    Error,
    /// Shown, and nothing else.
    Warning,
}

/// One broken rule: which, where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Violation {
    /// The rule's stable name, as `docs/validators.md` lists it: `ports`.
    pub rule: Cow<'static, str>,
    /// Whether it stops the deployment.
    pub severity: Severity,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// The value's path in the WAML: `deploy.prod-cluster-1.env[0].name`. Empty for the whole file.
    pub path: String,
    /// Where it is written, if somebody wrote it.
    pub position: Option<Position>,
    /// What the underline says: what is expected at this place.
    pub expected: Option<String>,
    /// What to do.
    pub help: Option<String>,
}

impl Violation {
    /// An error of a rule, without a place yet.
    pub fn error(rule: &'static str, message: impl Into<String>) -> Self {
        Self {
            rule: Cow::Borrowed(rule),
            severity: Severity::Error,
            message: visible(message.into()),
            path: String::new(),
            position: None,
            expected: None,
            help: None,
        }
    }

    /// A warning of a rule, without a place yet.
    pub fn warning(rule: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(rule, message) }
    }

    /// The same, at a place.
    #[must_use]
    pub fn at(self, path: impl Into<String>, position: Option<Position>) -> Self {
        Self { path: visible(path.into()), position, ..self }
    }

    /// The same, saying what is expected there.
    #[must_use]
    pub fn expected(self, expected: impl Into<String>) -> Self {
        Self { expected: Some(visible(expected.into())), ..self }
    }

    /// The same, saying what to do.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(visible(help.into())), ..self }
    }
}

/// A text from a hostile file in a message must neither break its line, move a cursor, nor read as another one.
fn visible(text: String) -> String {
    let text = reveal_invisible(&text);
    if !text.chars().any(char::is_control) {
        return text.into_owned();
    }
    let shown =
        |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

/// One line, for logs and statuses: `.weave.yaml:12:5: message [rule]`.
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = &self.position {
            write!(f, "{position}: ")?;
        }
        write!(f, "{} [{}]", self.message, self.rule)
    }
}

/// Why nothing will be deployed: every violation, warnings too, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// At least one error; in the order in which a reader meets them.
    pub violations: Vec<Violation>,
}

impl Rejection {
    /// A rejection for these violations, sorted by place; `None` if none of them is an error.
    pub fn of(mut violations: Vec<Violation>) -> Option<Self> {
        let stops = violations.iter().any(|v| v.severity == Severity::Error);
        sort(&mut violations);
        stops.then_some(Self { violations })
    }

    /// How many of the violations stop the deployment.
    pub fn errors(&self) -> usize {
        self.violations.iter().filter(|v| v.severity == Severity::Error).count()
    }
}

impl From<Violation> for Rejection {
    fn from(violation: Violation) -> Self {
        Self { violations: vec![violation] }
    }
}

/// `3 violations; first: .weave.yaml:12:5: …`: a status line's worth.
impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut errors = self.violations.iter().filter(|v| v.severity == Severity::Error);
        match (self.errors(), errors.next()) {
            (1, Some(only)) => write!(f, "{only}"),
            (n, Some(first)) => write!(f, "{n} violations; first: {first}"),
            (_, None) => f.write_str("rejected"),
        }
    }
}

impl std::error::Error for Rejection {}

/// Puts violations in reading order: by file, line and column; those without a place last.
pub fn sort(violations: &mut [Violation]) {
    violations.sort_by(|a, b| {
        let key = |v: &Violation| v.position.as_ref().map(|p| (p.file.clone(), p.line, p.column));
        (key(a).is_none(), key(a)).cmp(&(key(b).is_none(), key(b)))
    });
}
