//! Sets one value in the text of a WAML; comments and the form of everything else stay.
//!
//! The place is found in the parsed file, and the text is changed there: a scalar is replaced, and what is missing is
//! added in the style of what holds it, a block or a flow. Where the text has a form that is not known here, there is no
//! edit. The caller reads the result again, and compares what it means.

use serde_json::{Map, Value as Json};

use crate::model::violation::Position;
use crate::waml::emit;
use crate::waml::node::{Node, Value};

/// One step to a value of a WAML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EditStep {
    /// Into a map.
    Key(String),
    /// To the element of a list that has these texts under these keys.
    Element(Vec<(String, String)>),
}

impl EditStep {
    /// Makes a step into a map.
    pub(crate) fn key(key: impl Into<String>) -> Self {
        Self::Key(key.into())
    }

    /// Makes a step to the element of that name.
    pub(crate) fn element_named(by: &str, name: &str) -> Self {
        Self::Element(vec![(by.to_owned(), name.to_owned())])
    }
}

/// Sets a value, and makes what leads to it; `None` where the text has no place for it that is known here. `root` is the
/// parsed text.
pub(crate) fn set_value(
    text: &str,
    root: &Node,
    steps: &[EditStep],
    value: &Json,
) -> Option<String> {
    let mut holder = Holder { node: root, key: None };
    for (index, step) in steps.iter().enumerate() {
        match holder.step(step) {
            Some(inner) => holder = inner,
            None => return holder.add(text, step, steps.get(index + 1..)?, value),
        }
    }
    holder.replace(text, value)
}

/// A value of the file, and the place of its key.
struct Holder<'n> {
    node: &'n Node,
    key: Option<&'n Position>,
}

impl Holder<'_> {
    fn step(&self, step: &EditStep) -> Option<Self> {
        match step {
            EditStep::Key(key) => {
                let entry = self.node.as_map()?.get(key)?;
                Some(Self { node: &entry.node, key: Some(&entry.key) })
            }
            EditStep::Element(keys) => {
                let is_it = |node: &&Node| {
                    keys.iter().all(|(key, text)| {
                        node.get(key).and_then(Node::as_text) == Some(text.as_str())
                    })
                };
                let node = self.node.as_list()?.iter().find(is_it)?;
                Some(Self { node, key: None })
            }
        }
    }

    /// Replaces a scalar of one line.
    fn replace(&self, text: &str, value: &Json) -> Option<String> {
        let Value::Scalar(scalar) = &self.node.value else { return None };
        let start = offset(text, &self.node.origin.position)?;
        let rest = text.get(start..)?.lines().next()?;
        let length = match rest.chars().next()? {
            quote @ ('"' | '\'') => {
                let inner = rest.get(1..)?;
                let end = inner.find(quote)?;
                // A quote within, or an escape: the text is not what stands there.
                if inner.get(..end)? != scalar.text {
                    return None;
                }
                end + 2
            }
            _ if !scalar.quoted && rest.starts_with(&scalar.text) => scalar.text.len(),
            _ => return None,
        };
        Some(splice(text, start..start + length, &flow(value)))
    }

    /// Adds what a step should lead to, with the rest of the way and the value in it.
    fn add(&self, text: &str, step: &EditStep, rest: &[EditStep], value: &Json) -> Option<String> {
        let inner = nest(rest, value);
        let position = &self.node.origin.position;
        let first = offset(text, position).and_then(|at| text.get(at..)?.chars().next());
        match (step, &self.node.value) {
            (EditStep::Key(key), Value::Map(_)) if first == Some('{') => {
                self.add_to_flow(text, &format!("{}: {}", flow(&key.clone().into()), flow(&inner)))
            }
            (EditStep::Element(keys), Value::List(_)) if first == Some('[') => {
                self.add_to_flow(text, &flow(&element(keys, inner)?))
            }
            (EditStep::Key(key), Value::Map(map)) => {
                let first = map.values().next()?;
                let column = usize::try_from(first.key.column).ok()?.checked_sub(1)?;
                let line = line_index(&first.key)?;
                let entry: Map<String, Json> = [(key.clone(), inner)].into_iter().collect();
                insert_block(text, line, column, false, &emit::map(&entry))
            }
            (EditStep::Element(keys), Value::List(list)) => {
                let line = line_index(&list.first()?.origin.position)?;
                let written = text.lines().nth(line)?;
                let column = written.len() - written.trim_start().len();
                // An element that stands behind its key's line, or whose dash is on another line.
                let is_dash = written.trim_start().starts_with("- ");
                let items = Json::Array(vec![element(keys, inner)?]);
                is_dash.then(|| insert_block(text, line, column, true, &emit::document(&items)))?
            }
            (step, Value::Null) => {
                let whole = nest(std::slice::from_ref(step), &Json::Null);
                let whole = match (step, whole) {
                    (EditStep::Key(key), _) => {
                        Json::Object([(key.clone(), inner)].into_iter().collect())
                    }
                    (EditStep::Element(keys), _) => Json::Array(vec![element(keys, inner)?]),
                };
                self.fill(text, &whole)
            }
            _ => None,
        }
    }

    fn add_to_flow(&self, text: &str, part: &str) -> Option<String> {
        let start = offset(text, &self.node.origin.position)? + 1;
        let is_empty = match &self.node.value {
            Value::Map(map) => map.is_empty(),
            Value::List(list) => list.is_empty(),
            Value::Null | Value::Scalar(_) => return None,
        };
        let part = if is_empty { part.to_owned() } else { format!("{part}, ") };
        Some(splice(text, start..start, &part))
    }

    /// Writes a block below a key that has nothing behind it.
    fn fill(&self, text: &str, value: &Json) -> Option<String> {
        let key = self.key?;
        let start = offset(text, key)?;
        let line = text.get(start..)?.lines().next()?;
        let (_, behind) = line.split_once(':')?;
        if !behind.trim().is_empty() && !behind.trim_start().starts_with('#') {
            return None;
        }
        let column = usize::try_from(key.column).ok()?.checked_sub(1)? + 2;
        let end = start + line.len();
        let block = indent(&emit::document(value), column);
        Some(splice(text, end..end, &format!("\n{}", block.trim_end_matches('\n'))))
    }
}

/// Makes the value that a way leads through: maps and lists with the value in them.
fn nest(steps: &[EditStep], value: &Json) -> Json {
    steps.iter().rev().fold(value.clone(), |inner, step| match step {
        EditStep::Key(key) => Json::Object([(key.clone(), inner)].into_iter().collect()),
        EditStep::Element(keys) => Json::Array(element(keys, inner).into_iter().collect()),
    })
}

/// Makes an element of a list with its identity first; `None` where the rest is no map.
fn element(keys: &[(String, String)], inner: Json) -> Option<Json> {
    let mut map: Map<String, Json> =
        keys.iter().map(|(key, text)| (key.clone(), text.clone().into())).collect();
    let Json::Object(inner) = inner else { return None };
    map.extend(inner.into_iter().filter(|(key, _)| !keys.iter().any(|(other, _)| other == key)));
    Some(Json::Object(map))
}

/// Writes a value on one line.
fn flow(value: &Json) -> String {
    match value {
        Json::Object(map) => {
            let entry = |(key, value): (&String, &Json)| {
                format!("{}: {}", flow(&key.clone().into()), flow(value))
            };
            format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        Json::Array(list) => {
            format!("[{}]", list.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        // A text of several lines would become a block.
        Json::String(text) if text.contains('\n') => Json::from(text.as_str()).to_string(),
        other => emit::document(other).trim_end_matches('\n').to_owned(),
    }
}

fn line_index(position: &Position) -> Option<usize> {
    usize::try_from(position.line).ok()?.checked_sub(1)
}

/// Finds the byte of a position; lines end with a line feed.
fn offset(text: &str, position: &Position) -> Option<usize> {
    let line = line_index(position)?;
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let column = usize::try_from(position.column).ok()?.checked_sub(1)?;
    let written = text.get(start..)?.lines().next()?;
    let ends = written.char_indices().map(|(at, _)| at).chain([written.len()]);
    Some(start + ends.into_iter().nth(column)?)
}

fn splice(text: &str, range: std::ops::Range<usize>, part: &str) -> String {
    let (before, after) = (text.get(..range.start), text.get(range.end..));
    format!("{}{part}{}", before.unwrap_or_default(), after.unwrap_or_default())
}

fn indent(block: &str, column: usize) -> String {
    let pad = " ".repeat(column);
    let line =
        |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("{pad}{line}\n") };
    block.lines().map(line).collect()
}

/// Inserts a block behind the last line of the map or list that begins at a line, with its indentation.
fn insert_block(
    text: &str,
    first: usize,
    column: usize,
    is_list: bool,
    block: &str,
) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut last = first;
    for (index, line) in lines.iter().enumerate().skip(first + 1) {
        let content = line.trim_start();
        if content.trim_end().is_empty() || content.starts_with('#') {
            continue;
        }
        let depth = line.len() - content.len();
        // A list as a map's value may stand below its key, without more indentation.
        let is_inside = depth > column
            || (depth == column
                && (!is_list || content.starts_with("- ") || content.trim_end() == "-"));
        let is_document = line.starts_with("---") || line.starts_with("...");
        if !is_inside || is_document {
            break;
        }
        last = index;
    }
    let end: usize = lines.iter().take(last + 1).map(|line| line.len()).sum();
    let gap = if text.get(..end)?.ends_with('\n') { "" } else { "\n" };
    Some(splice(text, end..end, &format!("{gap}{}", indent(block, column))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::waml::yaml::{Budget, parse};

    const TEXT: &str = "\
# The file.
deploy:
  prod:
    # What it needs.
    scaling: {replicas: 2} # two
    env:
    - name: MODE   # a word
      value: 'slow'
    - {name: LEVEL, value: info}
    resources:
      limits:
        cpu: 500m

  # Nothing yet.
  test:
rollouts: {}
";

    fn edited(steps: &[EditStep], value: &Json) -> Option<String> {
        let root = parse("f", TEXT.as_bytes(), &Budget::default(), &mut Vec::new()).unwrap();
        let steps: Vec<EditStep> = [EditStep::key("deploy")].iter().chain(steps).cloned().collect();
        let text = set_value(TEXT, &root, &steps, value)?;
        // It is the same file but for the value, and the value is there.
        let mut violations = Vec::new();
        parse("f", text.as_bytes(), &Budget::default(), &mut violations).unwrap();
        assert!(violations.is_empty(), "{text}");
        for line in TEXT.lines().filter(|line| line.contains('#')) {
            let comment = line.split_once('#').unwrap().1;
            assert!(text.contains(comment), "{text}");
        }
        Some(text)
    }

    fn key(text: &str) -> EditStep {
        EditStep::key(text)
    }

    #[test]
    fn a_scalar_is_replaced_where_it_stands() {
        let steps = [key("prod"), key("scaling"), key("replicas")];
        assert!(edited(&steps, &json!(5)).unwrap().contains("{replicas: 5} # two\n"));
        let steps =
            [key("prod"), key("env"), EditStep::element_named("name", "MODE"), key("value")];
        assert!(edited(&steps, &json!("on")).unwrap().contains("      value: \"on\"\n    - {name"));
        let steps =
            [key("prod"), key("env"), EditStep::element_named("name", "LEVEL"), key("value")];
        assert!(edited(&steps, &json!("debug")).unwrap().contains("value: debug}\n"));
    }

    #[test]
    fn what_is_missing_is_added_in_the_style_of_its_holder() {
        let steps = [key("prod"), key("scaling"), key("maxSurge")];
        let text = edited(&steps, &json!(1)).unwrap();
        assert!(text.contains("scaling: {maxSurge: 1, replicas: 2} # two"), "{text}");
        let steps = [key("prod"), key("env"), EditStep::element_named("name", "NEW"), key("value")];
        let text = edited(&steps, &json!("a")).unwrap();
        assert!(text.contains("info}\n    - name: NEW\n      value: a\n    resources:"), "{text}");
        let steps = [key("prod"), key("resources"), key("limits"), key("memory")];
        let text = edited(&steps, &json!("1Gi")).unwrap();
        assert!(text.contains("        cpu: 500m\n        memory: 1Gi\n\n  # Nothing"), "{text}");
        let steps = [key("prod"), key("labels"), key("example.com/a")];
        let text = edited(&steps, &json!("b")).unwrap();
        assert!(text.contains("cpu: 500m\n    labels:\n      example.com/a: b\n\n  #"), "{text}");
        let steps = [key("test"), key("scaling"), key("replicas")];
        let text = edited(&steps, &json!(1)).unwrap();
        assert!(text.contains("  test:\n    scaling:\n      replicas: 1\nrollouts"), "{text}");
    }

    #[test]
    fn a_form_that_is_not_known_is_left_alone() {
        let steps = [key("prod"), key("env")];
        assert_eq!(edited(&steps, &json!([])), None, "a list is not replaced");
        let steps = [key("prod"), key("scaling"), key("replicas"), key("more")];
        assert_eq!(edited(&steps, &json!(1)), None, "a scalar holds nothing");
    }
}
