//! Parts of a file without effect: a value that is only a comment, and defaults for targets that the app does not have.

use crate::model::id::TargetName;
use crate::model::violation::{Position, Violation};
use crate::support::text::with_line_feeds;
use crate::waml::collect;
use crate::waml::confidential::may_repeat_text;
use crate::waml::duplicates::ElementPlace;
use crate::waml::examples;
use crate::waml::node::{Node, Path, Step, Value};
use crate::waml::quote::quote;
use crate::waml::section::Defaults;
use crate::waml::suggest;

/// The rule that this module's warnings name.
const RULE: &str = "ignored";

/// Warns of keys without a value that a comment follows: `slack: #squad`. A comment for people has a space after its
/// `#`. A target without settings is legal, so there it is a comment in any case.
pub(crate) fn comments(
    root: &Node,
    place: ElementPlace<'_>,
    text: &str,
    violations: &mut Vec<Violation>,
) {
    let text = with_line_feeds(text.strip_prefix('\u{feff}').unwrap_or(text));
    let lines: Vec<&str> = text.lines().collect();
    visit(root, place, &mut Path::root(), &mut |path, key, place| {
        let Some(comment) = comment_behind(key, &lines) else { return };
        let name = path.last_key();
        let shortened: String = comment.chars().take(60).collect();
        // A password may begin with `#`.
        let text = comment.trim_start_matches('#');
        let is_hidden = name == "value" || !may_repeat_text(text, path);
        let subject = if is_hidden { "the text after it" } else { &format!("`{shortened}`") };
        // Amounts, hosts and times never begin with the sign.
        let is_free = name == "slack" || examples::of_key(name).is_none();
        let help = match (place.is_text() && is_free, is_hidden) {
            (true, true) => "quote the value".to_owned(),
            (true, false) => format!("quote the value: `{name}: \"{shortened}\"`"),
            (false, _) => format!(
                "write it without `#`: `{name}: {}`; a comment for people has a space behind its `#`",
                place.example(name, if is_hidden { "" } else { text }, key)
            ),
        };
        let violation =
            Violation::warning(RULE, format!("`{path}` is empty: {subject} is a comment"))
                .expected("a comment stands behind it")
                .help(help);
        collect::add(violations, violation.at(path.to_string(), Some(key.clone())));
    });
}

/// Calls `found` with every known key that has no value, and its place in the schema.
fn visit<'s>(
    node: &Node,
    place: ElementPlace<'s>,
    path: &mut Path,
    report: &mut impl FnMut(&Path, &Position, ElementPlace<'s>),
) {
    match &node.value {
        Value::Null | Value::Scalar(_) => {}
        Value::Map(map) => {
            for (key, entry) in map {
                let place = place.key(key);
                path.0.push(Step::Key(key.as_str().into()));
                if entry.node.is_null() && place.is_known() && !is_target(path) {
                    report(path, &entry.key, place);
                }
                visit(&entry.node, place, path, report);
                path.0.pop();
            }
        }
        Value::List(list) => {
            for (index, node) in list.iter().enumerate() {
                path.0.push(Step::Index(index));
                visit(node, place.element(), path, report);
                path.0.pop();
            }
        }
    }
}

fn is_target(path: &Path) -> bool {
    matches!(path.0.as_slice(), [step, Step::Key(_)] if step.is_key("deploy"))
}

/// Finds the comment after the key and its colon, if it begins without a space.
fn comment_behind<'t>(key: &Position, lines: &[&'t str]) -> Option<&'t str> {
    let line = lines.get((key.line as usize).checked_sub(1)?)?;
    let end = (key.column as usize).checked_sub(1)? + key.length as usize;
    let (at, _) = line.char_indices().nth(end)?;
    let rest = line.get(at..)?.trim_start().strip_prefix(':')?.trim();
    let behind = rest.strip_prefix('#')?;
    // A line of signs is there for the eye.
    let is_value = !behind.starts_with(|c: char| c.is_whitespace() || c == '#')
        && behind.contains(char::is_alphanumeric);
    is_value.then_some(rest)
}

/// Warns of each entry of `defaults` that is for no target.
pub(crate) fn check_unmatched(
    defaults: &[Defaults],
    targets: &[&TargetName],
    root: &Node,
    violations: &mut Vec<Violation>,
) {
    let entries = root.get("defaults").and_then(Node::as_list).unwrap_or_default();
    for entry in defaults.iter().filter(|entry| !entry.is_for_any(targets)) {
        let path = Path::root().key("defaults").index(entry.index).key("match");
        let glob = entries.get(entry.index).and_then(|node| node.get("match"));
        let Some(glob) = glob else { continue };
        let text = glob.as_text().unwrap_or_default();
        let names = || targets.iter().map(|target| target.as_str());
        let suggestion = suggest::nearest(text, names())
            .map_or_else(String::new, |best| format!("; did you mean `{best}`?"));
        let message = format!("{} matches no target of this app", quote(text));
        let violation = Violation::warning(RULE, message)
            .expected("matches no target")
            .help(format!("the targets are {}{suggestion}", suggest::list(names())));
        let place = Some(glob.origin.position.clone());
        collect::add(violations, violation.at(path.to_string(), place));
    }
}
