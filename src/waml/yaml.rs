//! The YAML parser that produces [`Node`]s: anchors, aliases, merge keys, tags, and the budget that stops unbounded
//! growth.
//!
//! It works on the events of the YAML library, so that every value keeps its spelling and its place. The result is
//! counted: text that would grow when aliases are followed is refused before it does. The parser does not know the
//! meaning of the values.

use std::collections::HashMap;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle, Span, Tag};
use indexmap::map::Entry;

use crate::model::violation::{Position, Violation};
use crate::support::secret_mask::mask_values;
use crate::waml::collect;
use crate::waml::examples;
use crate::waml::node::{Map, MappingEntry, Node, Origin, Scalar, Value};
use crate::waml::quote::quote_key;
use crate::waml::scalar;

/// The rule that all of this module's violations name.
pub const RULE: &str = "yaml";

/// The limits for one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The file's size in bytes.
    pub bytes: usize,
    /// Values, after aliases are followed.
    pub nodes: usize,
    /// Bytes of scalars, after aliases are followed.
    pub text: usize,
    /// The depth to which values may nest.
    pub depth: usize,
}

impl Default for Budget {
    /// Allows ten times the largest known WAML: 256 KiB, 20,000 values, 64 deep.
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
    let result = read(file, bytes, budget, violations);
    result.map_err(|violation| violations.push(*violation)).ok()
}

/// Reads every document of a stream without judging its layout: rendered manifests.
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

fn fault(message: String) -> Violation {
    Violation::error(RULE, message)
}

fn start(file: &str) -> Position {
    position(&Arc::from(file), 1, 1, 1)
}

fn position(file: &Arc<str>, line: usize, column: usize, length: usize) -> Position {
    let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Position {
        file: file.clone(),
        line: narrow(line.max(1)),
        column: narrow(column),
        length: narrow(length),
    }
}

struct Builder<'a> {
    parser: Parser<'a, granit_parser::StrInput<'a>>,
    text: &'a str,
    file: Arc<str>,
    layer: Arc<str>,
    budget: &'a Budget,
    nodes: usize,
    bytes: usize,
    anchors: HashMap<usize, Node>,
    violations: &'a mut Vec<Violation>,
}

/// The values that are being built, from the outside in.
enum Open {
    List { origin: Origin, anchor: usize, items: Vec<Node> },
    Map { origin: Origin, anchor: usize, map: Map, merges: Vec<Node>, key: Option<Key> },
}

struct Key {
    text: String,
    position: Position,
    /// `<<`, unquoted.
    merge: bool,
}

type Fault = Box<Violation>;

/// The longest key, in bytes; no legal name is nearly as long.
const LONGEST_KEY: usize = 1024;

impl<'a> Builder<'a> {
    fn new(
        file: &str,
        text: &'a str,
        budget: &'a Budget,
        violations: &'a mut Vec<Violation>,
    ) -> Self {
        Self {
            parser: Parser::new_from_str(text),
            text,
            file: Arc::from(file),
            layer: Arc::from(file),
            budget,
            nodes: 0,
            bytes: 0,
            anchors: HashMap::new(),
            violations,
        }
    }

    /// Reads every document of the stream.
    fn documents(&mut self) -> Result<Vec<Node>, Fault> {
        let mut documents = Vec::new();
        let mut stack: Vec<Open> = Vec::new();
        while let Some(next) = self.parser.next() {
            let (event, span) = next.map_err(|error| self.syntax(&error))?;
            if let Some(node) = self.event(event, span, &mut stack)? {
                documents.push(node);
            }
        }
        Ok(documents)
    }

    /// Takes one event; gives the document back when the event completes it.
    fn event(
        &mut self,
        event: Event<'a>,
        span: Span,
        stack: &mut Vec<Open>,
    ) -> Result<Option<Node>, Fault> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let quoted = !matches!(style, ScalarStyle::Plain);
                let origin = self.origin(span);
                let node = self.scalar(text.into_owned(), quoted, tag.as_deref(), origin)?;
                self.complete(node, anchor, stack)
            }
            Event::SequenceStart(_, anchor, tag) => {
                let origin = self.origin(span);
                self.collection_tag(tag.as_deref(), "seq", &origin);
                self.open(Open::List { origin, anchor, items: Vec::new() }, stack)
            }
            Event::MappingStart(_, anchor, tag) => {
                let origin = self.origin(span);
                self.collection_tag(tag.as_deref(), "map", &origin);
                let (map, merges) = (Map::new(), Vec::new());
                self.open(Open::Map { origin, anchor, map, merges, key: None }, stack)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(stack),
            Event::Alias(id) => {
                let node = self.alias(id, stack.len(), &self.origin(span))?;
                self.complete(node, 0, stack)
            }
            _ => Ok(None),
        }
    }

    fn scalar(
        &mut self,
        text: String,
        quoted: bool,
        tag: Option<&Tag>,
        origin: Origin,
    ) -> Result<Node, Fault> {
        self.spend(1, text.len(), &origin)?;
        let mut quoted = quoted;
        match tag.map(|tag| tag.core_suffix().ok_or(tag.suffix())) {
            None | Some(Ok("null" | "bool" | "int" | "float")) => {}
            Some(Ok("str")) => quoted = true,
            Some(Ok(suffix) | Err(suffix)) => self.unknown_tag(suffix, &origin),
        }
        if !quoted && scalar::is_null(&text) {
            return Ok(Node::new(Value::Null, origin));
        }
        Ok(Node::new(Value::Scalar(Scalar { text, quoted }), origin))
    }

    fn collection_tag(&mut self, tag: Option<&Tag>, expected: &str, origin: &Origin) {
        if let Some(tag) = tag
            && tag.core_suffix() != Some(expected)
        {
            self.unknown_tag(tag.suffix(), origin);
        }
    }

    fn unknown_tag(&mut self, suffix: &str, origin: &Origin) {
        // A password may begin with `!`.
        let is_known =
            matches!(suffix, "binary" | "merge" | "omap" | "pairs" | "set" | "timestamp")
                || matches!(suffix, "bool" | "float" | "int" | "map" | "null" | "seq" | "str");
        let tag =
            if is_known { format!("the tag `!{suffix}`") } else { "a tag (`!…`)".to_owned() };
        let violation = fault(format!("{tag} means nothing here"))
            .at("", Some(origin.position.clone()))
            .help("remove the tag; quote the value to make it text");
        collect::add(self.violations, violation);
    }

    fn open(&mut self, open: Open, stack: &mut Vec<Open>) -> Result<Option<Node>, Fault> {
        let (Open::List { origin, .. } | Open::Map { origin, .. }) = &open;
        self.spend(1, 0, origin)?;
        self.within_depth(stack.len() + 1, origin)?;
        stack.push(open);
        Ok(None)
    }

    fn within_depth(&self, depth: usize, origin: &Origin) -> Result<(), Fault> {
        if depth <= self.budget.depth {
            return Ok(());
        }
        let message = format!("values are nested more than {} deep here", self.budget.depth);
        Err(Box::new(fault(message).at("", Some(origin.position.clone()))))
    }

    fn close(&mut self, stack: &mut Vec<Open>) -> Result<Option<Node>, Fault> {
        let (node, anchor) = match stack.pop() {
            Some(Open::List { origin, anchor, items }) => {
                (Node::new(Value::List(items), origin), anchor)
            }
            Some(Open::Map { origin, anchor, map, merges, .. }) => {
                (Node::new(Value::Map(self.apply_merges(map, merges)), origin), anchor)
            }
            None => return Ok(None),
        };
        self.complete(node, anchor, stack)
    }

    /// Puts a finished value into the open parent, or out as the document.
    fn complete(
        &mut self,
        node: Node,
        anchor: usize,
        stack: &mut [Open],
    ) -> Result<Option<Node>, Fault> {
        if anchor > 0 {
            // An anchor keeps a copy, whether or not an alias takes it.
            let (nodes, bytes) = weight(&node);
            self.spend(nodes, bytes, &node.origin)?;
            self.anchors.insert(anchor, node.clone());
        }
        match stack.last_mut() {
            None => return Ok(Some(node)),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { key: key @ None, .. }) => *key = Some(key_of(node)?),
            Some(Open::Map { map, merges, key, .. }) => {
                if let Some(key) = key.take() {
                    self.insert(map, merges, key, node);
                }
            }
        }
        Ok(None)
    }

    fn insert(&mut self, map: &mut Map, merges: &mut Vec<Node>, key: Key, node: Node) {
        if key.merge {
            merges.push(node);
            return;
        }
        match map.entry(key.text) {
            Entry::Occupied(first) => {
                let key_text = quote_key(first.key());
                let line = first.get().key.line;
                let violation = fault(format!("the key `{key_text}` is set twice"))
                    .help(format!("keep one of the two; the first is in line {line}"))
                    .at(key_text, Some(key.position));
                collect::add(self.violations, violation);
            }
            Entry::Vacant(place) => {
                place.insert(MappingEntry { key: key.position, node });
            }
        }
    }

    /// Applies `<<`: the map's own keys win, then the first map that has a key.
    fn apply_merges(&mut self, mut map: Map, merges: Vec<Node>) -> Map {
        for source in merges {
            let sources = match source.value {
                Value::List(list) => list,
                Value::Map(_) | Value::Null | Value::Scalar(_) => vec![source],
            };
            for source in sources {
                match source.value {
                    Value::Map(other) => {
                        for (key, entry) in other {
                            map.entry(key).or_insert(entry);
                        }
                    }
                    Value::Null | Value::Scalar(_) | Value::List(_) => collect::add(
                        self.violations,
                        fault("`<<` takes a map, or a list of maps".to_owned())
                            .at("<<", Some(source.origin.position)),
                    ),
                }
            }
        }
        map
    }

    fn alias(&mut self, id: usize, open: usize, origin: &Origin) -> Result<Node, Fault> {
        let Some(node) = self.anchors.get(&id).cloned() else {
            let message = "the alias refers to what holds it".to_owned();
            return Err(Box::new(fault(message).at("", Some(origin.position.clone()))));
        };
        let (nodes, bytes) = weight(&node);
        self.spend(nodes, bytes, origin)?;
        self.within_depth(open + depth(&node), origin)?;
        Ok(node)
    }

    fn spend(&mut self, nodes: usize, bytes: usize, origin: &Origin) -> Result<(), Fault> {
        self.nodes += nodes;
        self.bytes += bytes;
        let message = if self.nodes > self.budget.nodes {
            format!("the file has more than {} values once aliases are followed", self.budget.nodes)
        } else if self.bytes > self.budget.text {
            format!("the file has more than {} bytes once aliases are followed", self.budget.text)
        } else {
            return Ok(());
        };
        Err(Box::new(
            fault(message)
                .at("", Some(origin.position.clone()))
                .help("make the file smaller; every alias counts as a copy of what it refers to"),
        ))
    }

    fn origin(&self, span: Span) -> Origin {
        let length = span
            .slice(self.text)
            .and_then(|slice| slice.split(['\n', '\r']).next())
            .map_or(1, |line| line.trim_end().chars().count().max(1));
        let position = position(&self.file, span.start.line(), span.start.col() + 1, length);
        Origin { position, layer: self.layer.clone() }
    }

    fn syntax(&self, error: &granit_parser::ScanError) -> Fault {
        let mark = error.marker();
        let place = position(&self.file, mark.line(), mark.col() + 1, 1);
        let number = mark.line().saturating_sub(1);
        let line = self.text.lines().nth(number).unwrap_or_default();
        // There may be a secret on it.
        let may_repeat = || mask_values(self.text, &(0..0)).lines().nth(number) == Some(line);
        let help = if line.trim_start_matches(' ').starts_with('\t') {
            "indent with spaces; YAML does not allow tabs there".to_owned()
        } else if let Some(help) = help_to_quote(line, mark.col(), may_repeat) {
            help
        } else {
            "look at the indentation, quotes and colons of this line and the one before".to_owned()
        };
        Box::new(
            fault(format!("this is not YAML: {}", error.info())).at("", Some(place)).help(help),
        )
    }
}

/// Writes the line with its value in quotes, where the value begins with a character that YAML
/// keeps for itself, or has a colon and a space in it.
fn help_to_quote(line: &str, column: usize, may_repeat: impl Fn() -> bool) -> Option<String> {
    let at = line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
    let (before, rest) = line.split_at_checked(at)?;
    let first = rest.chars().next()?;
    let (start, why) = match first {
        '@' | '`' | '%' => (before, format!("no text begins with `{first}` in YAML")),
        '*' => (before, "`*` begins an alias in YAML".to_owned()),
        ':' if rest.starts_with(": ") => {
            // The value began behind the key's own colon.
            let end = before.find(": ")? + 2;
            (
                before.get(..end)?,
                "a text with a colon and a space in it is a map in YAML".to_owned(),
            )
        }
        _ => return None,
    };
    let value = line.get(start.len()..)?.trim();
    let start = start.trim_start();
    let key = start.trim_start_matches("- ").strip_suffix(": ").unwrap_or_default();
    let is_key = !key.is_empty() && !key.contains([' ', ':', '{', '[', '"', '\'']);
    let line_in_quotes = match examples::quote(key, value).filter(|_| may_repeat()) {
        Some(value) if is_key || start == "- " => format!("{start}{value}"),
        _ if is_key => format!("{start}\"…\""),
        _ => "\"…\"".to_owned(),
    };
    Some(format!("{why}: put it in quotes: `{line_in_quotes}`"))
}

fn key_of(node: Node) -> Result<Key, Fault> {
    let position = node.origin.position;
    match node.value {
        Value::Scalar(scalar) if scalar.text.len() > LONGEST_KEY => {
            let length = scalar.text.len();
            let message = format!("a key has {length} bytes, more than the limit of {LONGEST_KEY}");
            Err(Box::new(fault(message).at("", Some(position)).help("give it a shorter name")))
        }
        Value::Scalar(scalar) => {
            let merge = scalar.text == "<<" && !scalar.quoted;
            Ok(Key { text: scalar.text, position, merge })
        }
        Value::Null => Ok(Key { text: "null".to_owned(), position, merge: false }),
        Value::List(_) | Value::Map(_) => Err(Box::new(
            fault("a list or a map cannot be a key".to_owned()).at("", Some(position)),
        )),
    }
}

/// Measures how deep a value nests; 0 for a scalar.
fn depth(node: &Node) -> usize {
    let deepest = match &node.value {
        Value::Null | Value::Scalar(_) => return 0,
        Value::List(list) => list.iter().map(depth).max(),
        Value::Map(map) => map.values().map(|entry| depth(&entry.node)).max(),
    };
    1 + deepest.unwrap_or(0)
}

/// Counts the values and bytes of text that a copy of the node takes. A key is a value of its own,
/// as it is where it is written.
fn weight(node: &Node) -> (usize, usize) {
    let sum = |(n, b): (usize, usize), key: usize, bytes: usize, child: &Node| {
        let (nodes, text) = weight(child);
        (n + key + nodes, b + bytes + text)
    };
    match &node.value {
        Value::Null => (1, 0),
        Value::Scalar(scalar) => (1, scalar.text.len()),
        Value::List(list) => list.iter().fold((1, 0), |total, child| sum(total, 0, 0, child)),
        Value::Map(map) => {
            map.iter().fold((1, 0), |total, (key, entry)| sum(total, 1, key.len(), &entry.node))
        }
    }
}

#[cfg(test)]
#[path = "yaml_tests.rs"]
mod tests;
