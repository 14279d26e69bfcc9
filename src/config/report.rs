//! Violations of a configuration, each at the place of the value that is wrong.

use crate::model::violation::{Position, Violation};
use crate::waml::node::{Node, Path};

/// The rule that violations of more than form name.
pub(super) const RULE: &str = "configuration";

/// Collects violations over the values as they were written.
pub(super) struct ConfigReport<'a> {
    root: &'a Node,
    pub(super) violations: Vec<Violation>,
}

impl<'a> ConfigReport<'a> {
    pub(super) fn new(root: &'a Node) -> Self {
        Self { root, violations: Vec::new() }
    }

    /// An error at a path: `clusters[0].name`.
    pub(super) fn error(&mut self, path: &str, message: impl Into<String>, help: &str) {
        self.add(path, Violation::error(RULE, message).help(help));
    }

    /// The same, as a warning.
    pub(super) fn warning(&mut self, path: &str, message: impl Into<String>, help: &str) {
        self.add(path, Violation::warning(RULE, message).help(help));
    }

    /// Returns whether that part is wrong in its form, so that nothing follows from what it says.
    pub(super) fn is_broken(&self, part: &str) -> bool {
        self.root.get(part).is_some_and(Node::has_broken)
    }

    /// Returns whether something at that path or below was taken out for its form, and has been
    /// told of.
    pub(super) fn lacks_something(&self, path: &str) -> bool {
        let path = Path::parse(path).unwrap_or_default();
        self.root.at(&path).is_some_and(Node::has_broken)
    }

    /// Adds a violation, unless its part is wrong in its form already: that is told once.
    fn add(&mut self, path: &str, violation: Violation) {
        let way = Path::parse(path).unwrap_or_default();
        let (node, position) = self.root.nearest(&way);
        let part = path.split(['.', '[']).next().unwrap_or_default();
        if !node.broken && !self.root.get(part).is_some_and(|part| part.broken) {
            self.violations.push(violation.at(path, written(position)));
        }
    }
}

/// `None` where there is no file.
fn written(position: Position) -> Option<Position> {
    (!position.file.is_empty()).then_some(position)
}
