//! A name may stand once in a list: otherwise merging would have to choose, in silence.

use std::collections::HashMap;

use crate::model::violation::Violation;
use crate::waml::collect;
use crate::waml::node::{Node, Path, Step, Value};
use crate::waml::section::{Identity, identity};

/// The text that tells an element of such a list apart; `None` where the element does not say.
pub fn of(element: &Node, identity: Identity, slug: &str) -> Option<String> {
    // A list of texts may stand under the same word elsewhere: `vault.paths`.
    element.as_map()?;
    let text = |key: &str| element.get(key).and_then(Node::as_text).map(str::to_owned);
    match identity {
        Identity::Name => text("name"),
        Identity::NameOrSlug => text("name").or_else(|| Some(slug.to_owned())),
        Identity::Host => {
            text("host").or_else(|| text("hostPrefix").map(|prefix| format!("{prefix}.")))
        }
        Identity::Path => text("path").or_else(|| Some("/".to_owned())),
    }
}

/// Refuses lists in which two elements have the same identity.
pub(crate) fn check(root: &mut Node, violations: &mut Vec<Violation>) {
    let slug = root.get("slug").and_then(Node::as_text).unwrap_or_default().to_owned();
    walk(root, &mut Path::root(), &slug, violations);
}

fn walk(node: &mut Node, path: &mut Path, slug: &str, violations: &mut Vec<Violation>) {
    match &mut node.value {
        Value::Null | Value::Scalar(_) => {}
        Value::Map(map) => {
            for (key, entry) in map.iter_mut() {
                path.0.push(Step::Key(key.clone()));
                walk(&mut entry.node, path, slug, violations);
                path.0.pop();
            }
        }
        Value::List(list) => {
            if let Some(Step::Key(key)) = path.0.last()
                && let Some(identity) = identity(key)
            {
                twice(list, path, identity, slug, violations);
            }
            for (index, node) in list.iter_mut().enumerate() {
                path.0.push(Step::Index(index));
                walk(node, path, slug, violations);
                path.0.pop();
            }
        }
    }
}

fn twice(
    list: &mut [Node],
    path: &Path,
    identity: Identity,
    slug: &str,
    violations: &mut Vec<Violation>,
) {
    let mut seen: HashMap<String, u32> = HashMap::new();
    for (index, node) in list.iter_mut().enumerate() {
        let Some(id) = of(node, identity, slug) else { continue };
        let line = node.origin.position.line;
        match seen.get(&id) {
            None => drop(seen.insert(id, line)),
            Some(first) => {
                let key = identity.keys().first().copied().unwrap_or("name");
                let (_, place) = node.nearest(&Path::root().key(key));
                let at = path.index(index).key(key);
                let shown = id.trim_end_matches('.');
                let violation = Violation::error("unique", format!("`{path}` has `{shown}` twice"))
                    .expected("stands here again")
                    .help(format!("keep one of the two; the first is in line {first}"));
                collect::add(violations, violation.at(at.to_string(), Some(place)));
                node.broken = true;
            }
        }
    }
}
