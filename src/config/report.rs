//! Collects the violations of a configuration, each at the place of the wrong value.

use crate::model::violation::{Position, Violation};
use crate::waml::node::{Node, Path};

/// The name of the rule for violations beyond the schema.
pub(super) const RULE: &str = "configuration";

/// The violations so far, with the places of values in the file.
pub(super) struct ConfigReport<'a> {
    root: &'a Node,
    pub(super) violations: Vec<Violation>,
}

impl<'a> ConfigReport<'a> {
    pub(super) fn new(root: &'a Node) -> Self {
        Self { root, violations: Vec::new() }
    }

    /// Adds an error at a path: `clusters[0].name`.
    pub(super) fn error(&mut self, path: &str, message: impl Into<String>, help: &str) {
        self.add(path, Violation::error(RULE, message).help(help));
    }

    /// Adds a warning at a path.
    pub(super) fn warning(&mut self, path: &str, message: impl Into<String>, help: &str) {
        self.add(path, Violation::warning(RULE, message).help(help));
    }

    /// Returns whether that part violates the schema, so that nothing else in it is checked.
    pub(super) fn is_broken(&self, part: &str) -> bool {
        self.root.get(part).is_some_and(Node::has_broken)
    }

    /// Returns whether a value at that path or below was removed because it violates the schema, which is reported.
    pub(super) fn has_removed_value(&self, path: &str) -> bool {
        let path = Path::parse(path).unwrap_or_default();
        self.root.at(&path).is_some_and(Node::has_broken)
    }

    /// Adds a violation, unless its part violates the schema already, which is reported once.
    fn add(&mut self, path: &str, violation: Violation) {
        let way = Path::parse(path).unwrap_or_default();
        let (node, position) = self.root.nearest(&way);
        let part = path.split(['.', '[']).next().unwrap_or_default();
        if !node.broken && !self.root.get(part).is_some_and(|part| part.broken) {
            self.violations.push(violation.at(path, in_file(position)));
        }
    }
}

/// Returns the position; `None` if there is no file.
fn in_file(position: Position) -> Option<Position> {
    (!position.file.is_empty()).then_some(position)
}
