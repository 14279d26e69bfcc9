//! Reading YAML into [`Node`]s; `build` beside it takes the events of the YAML parser.
//!
//! They are taken from events, so that every value keeps its spelling and its place, and counts
//! what they make: text that would grow without bound when aliases are followed is refused
//! before it does. Knows nothing of what the values mean.

use std::sync::Arc;

use crate::model::violation::{Position, Violation};
use crate::waml::build::Builder;
use crate::waml::node::Node;

/// The rule that all of this module's violations name.
pub const RULE: &str = "yaml";

/// How much one file may ask of us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The file's size in bytes.
    pub bytes: usize,
    /// Values, after aliases are followed.
    pub nodes: usize,
    /// Bytes of scalars, after aliases are followed.
    pub text: usize,
    /// How deep values may nest.
    pub depth: usize,
}

impl Default for Budget {
    /// Ten times the largest WAML we have met: 256 KiB, 20,000 values, 64 deep.
    fn default() -> Self {
        Self { bytes: 256 * 1024, nodes: 20_000, text: 1024 * 1024, depth: 64 }
    }
}

/// Reads one YAML document. `None` when it cannot be read at all; what is wrong in either case
/// is added to `violations`.
pub fn parse(
    file: &str,
    bytes: &[u8],
    budget: &Budget,
    violations: &mut Vec<Violation>,
) -> Option<Node> {
    match read(file, bytes, budget, violations) {
        Ok(node) => Some(node),
        Err(violation) => {
            violations.push(*violation);
            None
        }
    }
}

/// Reads every document of a stream whose layout we do not judge: rendered manifests.
///
/// # Errors
/// The first violation, of syntax or budget.
pub fn parse_stream(file: &str, text: &str, budget: &Budget) -> Result<Vec<Node>, Box<Violation>> {
    let mut violations = Vec::new();
    let mut builder = Builder::new(file, text, budget, &mut violations);
    let documents = builder.documents()?;
    match violations.into_iter().next() {
        Some(violation) => Err(Box::new(violation)),
        None => Ok(documents),
    }
}

fn read(
    file: &str,
    bytes: &[u8],
    budget: &Budget,
    violations: &mut Vec<Violation>,
) -> Result<Node, Box<Violation>> {
    if bytes.len() > budget.bytes {
        let message =
            format!("the file has {} bytes, more than the limit of {}", bytes.len(), budget.bytes);
        return Err(Box::new(fault(message).at("", Some(start(file)))));
    }
    let text = decode(file, bytes)?;
    let mut builder = Builder::new(file, text, budget, violations);
    let mut documents = builder.documents()?.into_iter();
    match (documents.next(), documents.next()) {
        (None, _) => Err(Box::new(fault("the file is empty".to_owned()).at("", Some(start(file))))),
        (Some(document), None) => Ok(document),
        (Some(_), Some(second)) => Err(Box::new(
            fault("the file has more than one YAML document".to_owned())
                .at("", Some(second.origin.position))
                .help("keep one document, and remove the `---` that begins the second"),
        )),
    }
}

fn decode<'a>(file: &str, bytes: &'a [u8]) -> Result<&'a str, Box<Violation>> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let good = String::from_utf8_lossy(good);
        let line = good.matches('\n').count() + 1;
        let column = good.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
        let place = position(&Arc::from(file), line, column, 1);
        Box::new(fault("the file is not UTF-8 text".to_owned()).at("", Some(place)))
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

pub(super) fn fault(message: String) -> Violation {
    Violation::error(RULE, message)
}

fn start(file: &str) -> Position {
    position(&Arc::from(file), 1, 1, 1)
}

pub(super) fn position(file: &Arc<str>, line: usize, column: usize, length: usize) -> Position {
    let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Position {
        file: file.clone(),
        line: narrow(line.max(1)),
        column: narrow(column),
        length: narrow(length),
    }
}

#[cfg(test)]
#[path = "yaml_tests.rs"]
mod tests;
