//! A YAML value that knows where it was written: file, line, column, and in which layer.

use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::model::violation::Position;
use crate::waml::quote::{is_confidential_key, quote_key};

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The place in its file.
    pub position: Position,
    /// The layer: `defaults[0]`, `deploy.prod-cluster-1`, `backend-default/defaults.yaml`.
    pub layer: Arc<str>,
}

/// A value with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// The place where it is written.
    pub origin: Origin,
    /// Set after a violation was reported: rules then stay silent about the value and its parents, so that one mistake
    /// is reported once.
    pub broken: bool,
    /// Set where a broken value was removed below: rules stay silent about missing parts.
    pub lost: bool,
}

/// The shapes of YAML. Scalars keep their spelling; what they mean depends on the type wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `null`, `~`, or nothing: takes away what earlier layers set.
    Null,
    /// Everything else without parts.
    Scalar(Scalar),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Map),
}

/// A scalar as it is spelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar {
    /// The text, quotes and folding resolved.
    pub text: String,
    /// True if it was quoted, a block, or tagged `!!str`: then it is text and nothing else.
    pub quoted: bool,
}

/// A mapping from keys to values.
pub type Map = IndexMap<String, MappingEntry>;

/// One key of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappingEntry {
    /// The position of the key; violations about a missing part point here.
    pub key: Position,
    /// The value of the key.
    pub node: Node,
}

impl Node {
    /// Makes a node at a place.
    pub fn new(value: Value, origin: Origin) -> Self {
        Self { value, origin, broken: false, lost: false }
    }

    /// Returns the mapping, if it is one.
    pub fn as_map(&self) -> Option<&Map> {
        match &self.value {
            Value::Map(map) => Some(map),
            Value::Null | Value::Scalar(_) | Value::List(_) => None,
        }
    }

    /// Returns the elements, if it is a sequence.
    pub fn as_list(&self) -> Option<&[Self]> {
        match &self.value {
            Value::List(list) => Some(list),
            Value::Null | Value::Scalar(_) | Value::Map(_) => None,
        }
    }

    /// Returns the spelling, if it is a scalar.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(scalar) => Some(&scalar.text),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// Checks that it is null.
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// Finds the value under a key, if it is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_map().and_then(|map| map.get(key)).map(|entry| &entry.node)
    }

    /// Finds the value at a path, if there is one.
    pub fn at(&self, path: &Path) -> Option<&Self> {
        path.0.iter().try_fold(self, |node, step| match step {
            Step::Key(key) => node.get(key),
            Step::Index(index) => node.as_list().and_then(|list| list.get(*index)),
        })
    }

    /// Finds the nearest thing to a path that is really written, and where: the key itself for the
    /// value's holder, so that a missing part is shown at what should have it.
    pub fn nearest(&self, path: &Path) -> (&Self, Position) {
        let mut node = self;
        let mut place = self.origin.position.clone();
        for step in &path.0 {
            let next = match step {
                Step::Key(key) => {
                    node.as_map().and_then(|map| map.get(&**key)).map(|e| (&e.node, &e.key))
                }
                Step::Index(index) => node
                    .as_list()
                    .and_then(|list| list.get(*index))
                    .map(|n| (n, &n.origin.position)),
            };
            let Some((child, key)) = next else { return (node, place) };
            place = match child.value {
                Value::Scalar(_) => child.origin.position.clone(),
                Value::Null | Value::List(_) | Value::Map(_) => key.clone(),
            };
            node = child;
        }
        (node, place)
    }

    /// Checks that a violation was already reported here or below.
    pub fn has_broken(&self) -> bool {
        self.broken
            || self.lost
            || match &self.value {
                Value::Null | Value::Scalar(_) => false,
                Value::List(list) => list.iter().any(Self::has_broken),
                Value::Map(map) => map.values().any(|entry| entry.node.has_broken()),
            }
    }

    /// Removes broken elements from all lists, so that an index means the same here and in the parsed value.
    pub fn drop_broken_elements(&mut self) {
        match &mut self.value {
            Value::Null | Value::Scalar(_) => {}
            Value::Map(map) => {
                map.values_mut().for_each(|entry| entry.node.drop_broken_elements());
            }
            Value::List(list) => {
                let before = list.len();
                list.retain(|node| !node.broken);
                self.lost |= list.len() < before;
                list.iter_mut().for_each(Self::drop_broken_elements);
            }
        }
    }

    /// Says of every value below that it belongs to this layer.
    pub fn set_layer(&mut self, layer: &Arc<str>) {
        self.origin.layer = layer.clone();
        match &mut self.value {
            Value::Null | Value::Scalar(_) => {}
            Value::List(list) => list.iter_mut().for_each(|node| node.set_layer(layer)),
            Value::Map(map) => map.values_mut().for_each(|entry| entry.node.set_layer(layer)),
        }
    }

    /// Calls `visit` with every scalar, null and empty collection below, and its path.
    pub fn leaves<'a>(&'a self, path: &mut Path, visit: &mut impl FnMut(&Path, &'a Self)) {
        match &self.value {
            Value::Map(map) if !map.is_empty() => {
                for (key, entry) in map {
                    path.0.push(Step::Key(key.as_str().into()));
                    entry.node.leaves(path, visit);
                    path.0.pop();
                }
            }
            Value::List(list) if !list.is_empty() => {
                for (index, node) in list.iter().enumerate() {
                    path.0.push(Step::Index(index));
                    node.leaves(path, visit);
                    path.0.pop();
                }
            }
            Value::Null | Value::Scalar(_) | Value::List(_) | Value::Map(_) => visit(path, self),
        }
    }

    /// Names the shape in a reader's words.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Scalar(_) => "a single value",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}

/// One step into a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Into a mapping. Paths are cloned for each value below.
    Key(Arc<str>),
    /// Into a list, from 0.
    Index(usize),
}

impl Step {
    /// Returns true if it leads to the value of that key.
    pub(crate) fn is_key(&self, word: &str) -> bool {
        matches!(self, Self::Key(key) if **key == *word)
    }
}

/// The way to a value: `ingress[0].paths[1].servicePort`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path(pub Vec<Step>);

impl Path {
    /// Returns the way to the whole.
    pub fn root() -> Self {
        Self::default()
    }

    /// Returns this way and one key more.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Key(key.into()));
        Self(steps)
    }

    /// Returns this way and one index more.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Index(index));
        Self(steps)
    }

    /// Returns the key that it ends with; empty where it ends with an index, or is the way to the
    /// whole.
    pub(crate) fn last_key(&self) -> &str {
        match self.0.last() {
            Some(Step::Key(key)) => key,
            Some(Step::Index(_)) | None => "",
        }
    }

    /// Lists the elements of the list under a key, each with its way; none where there is no list.
    pub fn each<'a, T: 'a, L: IntoIterator<Item = &'a Vec<T>>>(
        &self,
        key: &str,
        list: L,
    ) -> impl Iterator<Item = (Self, &'a T)> + use<'a, T, L> {
        let path = self.key(key);
        list.into_iter().flatten().enumerate().map(move |(at, item)| (path.index(at), item))
    }

    /// Reads the written form; `None` where it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        for part in text.split('.').filter(|_| !text.is_empty()) {
            let (key, indices) = part.split_once('[').map_or((part, None), |(k, i)| (k, Some(i)));
            if key.is_empty() {
                return None;
            }
            steps.push(Step::Key(key.into()));
            for index in indices.into_iter().flat_map(|i| i.split('[')) {
                steps.push(Step::Index(index.strip_suffix(']')?.parse().ok()?));
            }
        }
        Some(Self(steps))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Where secrets stand, one may have been written in the place of a key.
        let mut is_confidential = false;
        for (n, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) => {
                    let key_text = if is_confidential { quote_key(key) } else { (&**key).into() };
                    let dot = if n == 0 { "" } else { "." };
                    write!(f, "{dot}{key_text}")?;
                    is_confidential = is_confidential || is_confidential_key(key);
                }
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Checks that something in the value was written in the WAML rather than in a template's files.
pub(crate) fn is_from_waml(node: &Node) -> bool {
    let mut is_found = false;
    node.leaves(&mut Path::root(), &mut |_, leaf| {
        is_found |= template_of_layer(&leaf.origin.layer).is_none();
    });
    is_found
}

/// Finds the template whose file a layer is.
pub(crate) fn template_of_layer(layer: &str) -> Option<&str> {
    layer.strip_suffix("/defaults.yaml").or_else(|| layer.strip_suffix("/parameters.yaml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_back_what_it_writes() {
        for text in ["", "env", "env[0].name", "ingress[0].paths[12].servicePort"] {
            assert_eq!(Path::parse(text).unwrap().to_string(), text);
        }
        for text in [".", "a..b", "a[", "a[x]", "[0]", "a[0"] {
            assert_eq!(Path::parse(text), None, "{text}");
        }
    }
}
