//! A violation, which is one broken rule with its place and a way out; and a rejection, which is all of them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::support::secret_mask::mask_secrets;
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
    /// The number of characters of that line to underline; at least 1.
    pub length: u32,
}

impl Position {
    /// Returns the bytes of the file's text that the position underlines; lines end with a line feed.
    pub fn range_in(&self, text: &str) -> Range<usize> {
        let line_index = (self.line as usize).saturating_sub(1);
        let start: usize = text.split_inclusive('\n').take(line_index).map(str::len).sum();
        let line = text.get(start..).unwrap_or_default().lines().next().unwrap_or_default();
        let byte = |chars: usize| line.char_indices().nth(chars).map_or(line.len(), |(at, _)| at);
        let column = (self.column as usize).saturating_sub(1);
        let from = start + byte(column);
        let to = start + byte(column + self.length as usize);
        from..to.max(from)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The severity: an error stops the deployment, a warning does not.
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

/// One broken rule, with its place and a way out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Violation {
    /// The rule's stable name, as `docs/validators.md` lists it: `ports`.
    pub rule: Cow<'static, str>,
    /// The severity; an error stops the deployment.
    pub severity: Severity,
    /// The message, one sentence without a full stop.
    pub message: String,
    /// The value's path in the WAML: `deploy.prod-cluster-1.env[0].name`. Empty for the whole file.
    pub path: String,
    /// The position in the file, if a person wrote the value.
    pub position: Option<Position>,
    /// The text at the underline: the expectation at this place.
    pub expected: Option<String>,
    /// The way out.
    pub help: Option<String>,
}

/// The path of violations in files that the WAML names; those of its own list have an index, or no file.
const EXTRA_FILES: &str = "manifests[*]";

impl Violation {
    /// Makes an error of a rule, without a place yet.
    pub fn error(rule: &'static str, message: impl Into<String>) -> Self {
        Self {
            rule: Cow::Borrowed(rule),
            severity: Severity::Error,
            message: make_visible(&message.into(), LONGEST_TEXT),
            path: String::new(),
            position: None,
            expected: None,
            help: None,
        }
    }

    /// Makes a warning of a rule, without a place yet.
    pub fn warning(rule: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(rule, message) }
    }

    /// Checks that it stops the deployment.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Checks that it is at a place in a file that `manifests` of the WAML names, and not in the WAML itself.
    pub fn is_in_extra_file(&self) -> bool {
        self.path == EXTRA_FILES
    }

    /// Puts it at a place in a file that `manifests` of the WAML names.
    #[must_use]
    pub fn in_extra_file(self, position: Option<Position>) -> Self {
        self.at(EXTRA_FILES, position)
    }

    /// Puts it at a place.
    #[must_use]
    pub fn at(self, path: impl Into<String>, position: Option<Position>) -> Self {
        // A key may be a secret, too, that was written at the wrong place.
        let path = path.into();
        let keys: Vec<_> = path.split('.').map(mask_secrets).collect();
        Self { path: make_visible(&keys.join("."), LONGEST_PATH), position, ..self }
    }

    /// Adds the expectation at the place.
    #[must_use]
    pub fn expected(self, expected: impl Into<String>) -> Self {
        Self { expected: Some(make_visible(&expected.into(), LONGEST_TEXT)), ..self }
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(make_visible(&help.into(), LONGEST_TEXT)), ..self }
    }
}

/// The longest text of a violation in bytes: a message may quote a value of a hostile file, and a rule may list
/// everything that would be right.
const LONGEST_TEXT: usize = 2000;
/// The longest path in bytes: its keys come from the file.
const LONGEST_PATH: usize = 1000;

/// Makes a text from a hostile file fit for a message, where it must neither break its line, move a
/// cursor, nor read as another one, nor be without an end.
fn make_visible(text: &str, most: usize) -> String {
    // A value that was written at the wrong place may be a secret: all that is shown, sent and kept of a violation
    // comes by here.
    let text = mask_secrets(text);
    let text = reveal_invisible(&text);
    if text.len() <= most && !text.chars().any(char::is_control) {
        return text.into_owned();
    }
    let mut visible_text = String::with_capacity(text.len().min(most));
    for c in text.chars() {
        let begin = visible_text.len();
        if c.is_control() {
            visible_text.extend(c.escape_default());
        } else {
            visible_text.push(c);
        }
        if visible_text.len() > most {
            visible_text.truncate(begin);
            visible_text.push('…');
            break;
        }
    }
    visible_text
}

/// Writes one line, for logs and statuses: `.weave.yaml:12:5: message [rule]`.
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = &self.position {
            write!(f, "{position}: ")?;
        }
        write!(f, "{} [{}]", self.message, self.rule)
    }
}

/// The reason why nothing is deployed: every violation, warnings too, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// The violations, at least one error; in the order in which a reader meets them.
    pub violations: Vec<Violation>,
}

impl Rejection {
    /// Makes a rejection for these violations, sorted by place; `None` if none of them is an error.
    pub fn of(mut violations: Vec<Violation>) -> Option<Self> {
        let stops = violations.iter().any(Violation::is_error);
        sort(&mut violations);
        stops.then_some(Self { violations })
    }

    /// Counts the violations that stop the deployment.
    pub fn errors(&self) -> usize {
        self.violations.iter().filter(|violation| violation.is_error()).count()
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
        let mut errors = self.violations.iter().filter(|violation| violation.is_error());
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

/// Lists each violation once, in the order of the first. An error for one target and a warning for another become an
/// error.
pub fn distinct(violations: impl IntoIterator<Item = Violation>) -> Vec<Violation> {
    let mut places: HashMap<Violation, usize> = HashMap::new();
    let mut distinct: Vec<Violation> = Vec::new();
    for violation in violations {
        let severity = violation.severity;
        // Alike but for the severity.
        let key = Violation { severity: Severity::Warning, ..violation.clone() };
        match places.get(&key).and_then(|at| distinct.get_mut(*at)) {
            Some(first) if severity == Severity::Error => first.severity = severity,
            Some(_) => {}
            None => {
                places.insert(key, distinct.len());
                distinct.push(violation);
            }
        }
    }
    distinct
}

/// The violations that are listed for people, and how many there were in all. A hostile file has
/// thousands; a record, an answer or a page has no more than [`Violations::MAX`] of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Violation>", into = "Vec<Violation>")]
pub struct Violations {
    listed: Vec<Violation>,
    errors: usize,
    warnings: usize,
}

impl Violations {
    /// The largest number of violations in a list.
    pub const MAX: usize = 200;
    /// The largest number of bytes of text in a list, whatever the number of violations.
    const MAX_BYTES: usize = 128 * 1024;

    /// Lists as many of them as may be, errors before warnings; those that are listed keep their order.
    pub fn new(mut violations: Vec<Violation>) -> Self {
        let errors = violations.iter().filter(|violation| violation.is_error()).count();
        let warnings = violations.len() - errors;
        let (mut count, mut bytes) = (0, 0_usize);
        let mut fits = |violation: &Violation| {
            count += 1;
            bytes = bytes.saturating_add(violation.size());
            count <= Self::MAX && bytes <= Self::MAX_BYTES
        };
        let mut is_kept = vec![false; violations.len()];
        for severity in [Severity::Error, Severity::Warning] {
            for (violation, keeps) in violations.iter().zip(&mut is_kept) {
                *keeps |= violation.severity == severity && fits(violation);
            }
        }
        let mut keep = is_kept.into_iter();
        violations.retain(|_| keep.next().unwrap_or_default());
        violations.shrink_to_fit();
        Self { listed: violations, errors, warnings }
    }

    /// Takes those of a record that lists some, with its own counts of all.
    pub fn of_record(listed: Vec<Violation>, errors: usize, warnings: usize) -> Self {
        let violations = Self::new(listed);
        let (errors, warnings) = (errors.max(violations.errors), warnings.max(violations.warnings));
        Self { listed: violations.listed, errors, warnings }
    }

    /// Counts those that stop the deployment, listed or not.
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// Counts those that stop nothing, listed or not.
    pub fn warnings(&self) -> usize {
        self.warnings
    }

    /// Counts those that are not listed.
    pub fn left_out(&self) -> usize {
        (self.errors + self.warnings).saturating_sub(self.listed.len())
    }

    /// Counts those of a severity that are not listed.
    pub fn left_out_of(&self, severity: Severity) -> usize {
        let count = match severity {
            Severity::Error => self.errors,
            Severity::Warning => self.warnings,
        };
        count - self.listed.iter().filter(|violation| violation.severity == severity).count()
    }
}

impl Violation {
    /// Counts the bytes that its texts take.
    fn size(&self) -> usize {
        let Self { rule, severity: _, message, path, position, expected, help } = self;
        let file = position.as_ref().map_or(0, |position| position.file.len());
        let optional = [expected, help].into_iter().flatten().map(String::len).sum::<usize>();
        rule.len() + message.len() + path.len() + file + optional
    }
}

impl Deref for Violations {
    type Target = [Violation];

    /// Returns those that are listed.
    fn deref(&self) -> &[Violation] {
        &self.listed
    }
}

impl From<Vec<Violation>> for Violations {
    fn from(violations: Vec<Violation>) -> Self {
        Self::new(violations)
    }
}

impl From<Violations> for Vec<Violation> {
    /// Takes those that are listed.
    fn from(violations: Violations) -> Self {
        violations.listed
    }
}

impl IntoIterator for Violations {
    type Item = Violation;
    type IntoIter = std::vec::IntoIter<Violation>;

    /// Iterates over those that are listed.
    fn into_iter(self) -> Self::IntoIter {
        self.listed.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_listed_before_warnings_and_all_are_counted() {
        let warnings = (0..1_000).map(|n| Violation::warning("w", format!("warning {n}")));
        let errors = (0..150).map(|n| Violation::error("e", format!("error {n}")));
        let violations = Violations::new(warnings.chain(errors).collect());
        assert_eq!((violations.errors(), violations.warnings()), (150, 1_000));
        assert_eq!((violations.len(), violations.left_out()), (Violations::MAX, 950));
        assert_eq!(violations.left_out_of(Severity::Error), 0);
        assert_eq!(
            (violations[0].message.as_str(), violations[50].message.as_str()),
            ("warning 0", "error 0")
        );
    }

    #[test]
    fn long_texts_are_cut_and_many_of_them_are_left_out() {
        let long = "ü\n".repeat(100_000);
        let violation =
            Violation::error("e", &*long).at(&*long, None).expected(&*long).help(&*long);
        assert!(
            violation.size() <= 3 * (LONGEST_TEXT + 3) + LONGEST_PATH + 4,
            "{}",
            violation.size()
        );
        assert!(
            violation.message.ends_with('…') && !violation.message.contains('\n'),
            "{}",
            violation.message
        );
        let violations = Violations::new(vec![violation; 200]);
        let size: usize = violations.iter().map(Violation::size).sum();
        assert!(!violations.is_empty() && size <= Violations::MAX_BYTES, "{size}");
        assert_eq!(violations.len() + violations.left_out(), 200);
    }

    #[test]
    fn a_record_that_was_cut_knows_how_many_there_were() {
        let listed = vec![Violation::error("e", "one")];
        let violations = Violations::of_record(listed, 15_007, 3);
        assert_eq!(
            (violations.errors(), violations.warnings(), violations.left_out()),
            (15_007, 3, 15_009)
        );
    }

    #[test]
    fn what_several_say_is_told_once_and_as_an_error_if_one_is() {
        let violation_of = |severity, message: &str| Violation {
            severity,
            ..Violation::error("a", message).at("b", None)
        };
        let (error, warning) = (Severity::Error, Severity::Warning);
        let violations = [
            violation_of(warning, "x"),
            violation_of(error, "y"),
            violation_of(error, "x"),
            violation_of(warning, "y"),
        ];
        assert_eq!(distinct(violations), [violation_of(error, "x"), violation_of(error, "y")]);
        let with_help = violation_of(warning, "x").help("do it");
        assert_eq!(distinct([violation_of(warning, "x"), with_help.clone()]).len(), 2);
    }
}
