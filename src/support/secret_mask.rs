//! Masks secrets: those of a known form in messages, and the values of variables in excerpts of YAML files.
//!
//! An excerpt is masked by its text alone, because a file that cannot be parsed is shown as well. In doubt it masks too
//! much: whatever can be the value of a variable, or of a key that names a secret, is read in every way in which YAML
//! could mean it. It takes time in proportion to the text. Pure.

mod comments; // secrets in comments
mod siblings; // the neighbours of a value

use std::borrow::Cow;
use std::ops::Range;

use super::secret_name::is_secret_name;
use super::secret_sections::{SectionValues, find_section_values};
use super::secret_text::{
    find_assigned, find_in_arguments, find_in_netrc, find_private_keys, find_secrets,
    is_authorization, is_random, lines_of, span_in, tail,
};
use super::secret_tree::replace_spans;
use siblings::Siblings;

/// Replaces each character of secrets with a known form by a star, for a message.
pub fn mask_secrets(text: &str) -> Cow<'_, str> {
    let mut spans: Vec<Range<usize>> =
        find_secrets(text).iter().map(|secret| span_in(text, secret.text)).collect();
    // A sentence may name a flag, and continue after it.
    let is_glued = |span: &Range<usize>| {
        text.get(..span.start).is_some_and(|before| !before.ends_with(char::is_whitespace))
    };
    let assigned = find_assigned(text).into_iter().map(|secret| span_in(text, secret.text));
    spans.extend(assigned.filter(is_glued));
    spans.extend(find_private_keys(text));
    mask_spans(text, spans)
}

/// A file's text, and the parts of it that are masked.
#[derive(Debug)]
pub struct ValueMask<'a> {
    text: &'a str,
    /// The parts that are always masked.
    secrets: Vec<Range<usize>>,
    /// The values of variables in the order of the text: masked unless the place is one of them.
    variables: Vec<Range<usize>>,
}

/// Replaces secrets and the values of variables in a file's text by stars, for a reader of the lines around a place.
/// The place itself, in bytes, is shown unless it looks like a secret. Lines and columns stay the same.
pub fn mask_values<'a>(text: &'a str, place: &Range<usize>) -> Cow<'a, str> {
    ValueMask::new(text).mask(place)
}

/// Replaces each character of the spans by a star, in whatever order the spans are. Line ends stay.
pub fn mask_spans(text: &str, mut spans: Vec<Range<usize>>) -> Cow<'_, str> {
    if spans.is_empty() {
        return text.into();
    }
    spans.sort_by_key(|span| span.start);
    let mut spans = spans.into_iter().peekable();
    let mut masked_until = 0;
    let star = |(at, c): (usize, char)| {
        while let Some(span) = spans.next_if(|span| span.start <= at) {
            masked_until = masked_until.max(span.end);
        }
        if at < masked_until && !matches!(c, '\n' | '\r') { '*' } else { c }
    };
    text.char_indices().map(star).collect::<String>().into()
}

impl<'a> ValueMask<'a> {
    /// Finds the parts of a file's text to mask.
    pub fn new(text: &'a str) -> Self {
        let (mut secrets, mut variables) = find_values(text);
        let of_sections = find_section_values(text);
        let SectionValues { secrets: more_secrets, variables: more_variables } = of_sections;
        secrets.extend(more_secrets);
        variables.extend(more_variables);
        Self { text, secrets, variables }
    }

    /// Finds secrets by name or form in the text of a manifest: the rest of it is for showing.
    pub fn of_manifest(text: &'a str) -> Self {
        let (mut secrets, variables) = find_values(text);
        secrets.extend(find_behind_flags(text));
        let mut siblings = Siblings::new(text);
        secrets.extend(variables.into_iter().filter(|span| siblings.name_one(span)));
        Self { text, secrets, variables: Vec::new() }
    }

    /// Returns the text unmasked.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Returns the text with stars; the place itself, in bytes, is shown unless it looks like a
    /// secret.
    pub fn mask(&self, place: &Range<usize>) -> Cow<'a, str> {
        let mut spans = self.secrets.clone();
        let mut siblings = None;
        let mut is_shown = |span: &Range<usize>| {
            let is_place = span.start <= place.start && place.end <= span.end;
            is_place
                && !self.looks_random(span)
                && !siblings.get_or_insert_with(|| Siblings::new(self.text)).name_one(span)
        };
        spans.extend(self.variables.iter().filter(|span| !is_shown(span)).cloned());
        mask_spans(self.text, spans)
    }

    /// Replaces each value of the text by the result of `mask`, to compare two texts.
    pub fn replace(&self, mask: &mut impl FnMut(&str) -> String) -> Cow<'a, str> {
        let spans = self.secrets.iter().chain(&self.variables).cloned().collect();
        replace_spans(self.text, spans, mask)
    }

    /// Returns whether a variable's value looks like a secret.
    fn looks_random(&self, span: &Range<usize>) -> bool {
        is_random(self.text.get(span.clone()).unwrap_or_default().trim_matches(['"', '\'']))
    }
}

/// Finds the secrets of a text by their form or the words before them, and the possible values of variables.
fn find_values(text: &str) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
    let mut scan = Scan::new(text);
    scan.lines();
    scan.mask_aliased();
    let Scan { mut secrets, variables, .. } = scan;
    secrets.extend(find_private_keys(text));
    secrets.extend(comments::find_named(text));
    secrets.extend(find_in_netrc(text).into_iter().map(|secret| span_in(text, secret.text)));
    (secrets, variables)
}

/// Finds arguments on lines of their own after a flag with a secret's name, or after one that takes a secret in some
/// program.
fn find_behind_flags(text: &str) -> Vec<Range<usize>> {
    let lines: Vec<Option<&str>> = lines_of(text)
        .map(|line| line.trim().strip_prefix("- "))
        .map(|item| item.map(|item| item.trim_matches(['"', '\''])))
        .collect();
    let lists = lines.split(Option::is_none).map(|list| list.iter().flatten().copied().collect());
    let arguments = lists.flat_map(|list: Vec<&str>| find_in_arguments(&list));
    arguments.map(|(_, secret)| span_in(text, secret.text)).collect()
}

/// Returns whether a part of a file gives a variable the name of a secret.
fn names_a_secret(part: &str) -> bool {
    let mut scan = Scan::new(part);
    scan.lines();
    scan.has_secret_name
}

/// A line and its position.
struct Line<'a> {
    text: &'a str,
    /// The number of blanks before it; after a tab it counts as indented as far as possible.
    indent: usize,
    /// The column of its first key, after the dashes of lists.
    column: usize,
    /// The position of its trailing blanks.
    end: usize,
}

impl<'a> Line<'a> {
    fn new(text: &'a str) -> Self {
        let blanks = text.len() - text.trim_start_matches([' ', '\t']).len();
        let is_tabbed = text.get(..blanks).is_some_and(|blanks| blanks.contains('\t'));
        let mut column = blanks;
        while let Some(rest) = text.get(column..).and_then(|rest| rest.strip_prefix(['-', '?'])) {
            let inner = rest.trim_start_matches([' ', '\t']);
            if inner.len() == rest.len() && !inner.is_empty() {
                break;
            }
            column = text.len() - inner.len();
        }
        let indent = if is_tabbed { usize::MAX } else { blanks };
        Self { text, indent, column, end: text.trim_end().len() }
    }

    /// Returns whether the line is blank, or a comment: it ends no value.
    fn is_blank(&self) -> bool {
        let text = self.text.trim_start();
        text.is_empty() || text.starts_with('#')
    }

    fn is_item(&self) -> bool {
        self.column != self.indent
    }

    /// Returns whether the line belongs to the value of a key in this column.
    fn is_below(&self, key: usize) -> bool {
        self.is_blank() || self.indent > key || (self.indent == key && self.is_item())
    }
}

/// The lines below a key that belong to its value and are masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Below {
    /// All of them.
    Everything,
    /// Lines without a key of their own: the value may be a map.
    Scalars,
}

/// One pass over the lines of a text.
struct Scan<'a> {
    text: &'a str,
    /// The position of the current line.
    start: usize,
    secrets: Vec<Range<usize>>,
    variables: Vec<Range<usize>>,
    /// The columns of keys whose values continue below, the innermost last, and the lines of them that are masked.
    below: Vec<(usize, Below)>,
    /// The number of open brackets before the line.
    depth: usize,
    has_secret_name: bool,
    /// The names of anchors that masked values refer to.
    aliases: Vec<&'a str>,
    /// The anchors with their values.
    anchors: Vec<(&'a str, Range<usize>)>,
    /// The first end of a value in braces that is not before the last query.
    flow_end: usize,
    /// The kinds of quotes that are not closed any more: `"`, `'`.
    unclosed: [bool; 2],
}

impl<'a> Scan<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            start: 0,
            secrets: Vec::new(),
            variables: Vec::new(),
            below: Vec::new(),
            depth: 0,
            has_secret_name: false,
            aliases: Vec::new(),
            anchors: Vec::new(),
            flow_end: 0,
            unclosed: [false; 2],
        }
    }

    fn lines(&mut self) {
        for text in lines_of(self.text) {
            let line = Line::new(text);
            while self.below.pop_if(|(key, _)| !line.is_below(*key)).is_some() {}
            let below = self.below.last().map(|(_, below)| *below);
            let secrets: Vec<_> =
                find_secrets(text).into_iter().chain(find_assigned(text)).collect();
            let start = self.start;
            let shift = |span: Range<usize>| start + span.start..start + span.end;
            self.secrets.extend(secrets.iter().map(|secret| shift(span_in(text, secret.text))));
            let has_key = self.keys(&line);
            match below {
                Some(Below::Everything) => self.secrets.push(shift(0..text.len())),
                Some(Below::Scalars) if !has_key => self.secrets.push(shift(0..text.len())),
                Some(Below::Scalars) | None => {}
            }
            self.start += text.len();
        }
    }

    /// Reads the keys of a line; returns whether it has any.
    fn keys(&mut self, line: &Line<'a>) -> bool {
        let mut has_key = false;
        // The position of the word that may be a key, and the number of brackets that the line opened before it.
        let mut word = line.column;
        let mut opened = 0_usize;
        let mut at = line.column;
        while let Some(c) = line.text.get(at..).and_then(|rest| rest.chars().next()) {
            let next = at + c.len_utf8();
            match c {
                '"' | '\'' if word == at => {
                    // A quoted text has no keys.
                    let rest = line.text.get(at..).unwrap_or_default();
                    at += quoted_length(rest).unwrap_or(c.len_utf8());
                    continue;
                }
                '#' if at == line.column || line.text.get(..at).is_some_and(ends_blank) => break,
                '{' | '[' => {
                    (opened, word) = (opened + 1, next);
                }
                '}' | ']' => {
                    if opened > 0 {
                        opened -= 1;
                    } else {
                        self.depth = self.depth.saturating_sub(1);
                    }
                    word = next;
                }
                ',' => word = next,
                ' ' | '\t' if word == at => word = next,
                ':' => {
                    let key = line.text.get(word..at).unwrap_or_default();
                    if let Some(end) = self.key(line, key, next, opened > 0) {
                        has_key = true;
                        at = end.max(next);
                        word = at;
                        continue;
                    }
                }
                _ => {}
            }
            at = next;
        }
        self.depth += opened;
        has_key
    }

    /// Reads the text after a colon; returns where to continue, if there was a key before it.
    fn key(&mut self, line: &Line<'a>, key: &str, behind: usize, in_flow: bool) -> Option<usize> {
        let is_quoted = key.trim_end().ends_with(['"', '\'']);
        let key = if is_quoted { key.trim() } else { plain_key(key) };
        let key = key.trim_matches(['"', '\'']);
        let rest = line.text.get(behind..).unwrap_or_default();
        let is_apart = rest.is_empty() || rest.starts_with([' ', '\t', '\n', '\r']);
        let is_variable = key == "value";
        let is_secret = is_secret_name(key) || key.is_empty();
        // `value:x` is a mistake for `value: x`.
        if !(is_apart || is_quoted || rest.starts_with(['"', '\'']) || is_variable || is_secret) {
            return None;
        }
        let begin = behind + (rest.len() - rest.trim_start_matches([' ', '\t']).len());
        let value = Value::new(line.text.get(begin..line.end).unwrap_or_default(), in_flow);
        let end = begin + value.length;
        let shift = |span: Range<usize>| self.start + span.start..self.start + span.end;
        let text = line.text.get(begin..end).unwrap_or_default();
        if key == "name" {
            let name = text.trim_matches(['"', '\'']);
            self.has_secret_name |= is_secret_name(name) || is_authorization(name);
        }
        if let Some(anchor) = value.anchor {
            self.anchors.push((anchor, shift(begin..end)));
        }
        if is_variable || is_secret {
            if let Some(alias) = text.strip_prefix('*') {
                self.aliases.push(alias);
            }
            self.mask(line, begin, &value, is_variable, in_flow);
        }
        // Keys follow a bracket; a scalar has none.
        Some(if value.kind == Kind::Collection { begin } else { end })
    }

    fn mask(
        &mut self,
        line: &Line<'a>,
        begin: usize,
        value: &Value<'_>,
        is_variable: bool,
        in_flow: bool,
    ) {
        let span = self.start + begin..self.start + begin + value.length;
        let may_be_in_flow = in_flow || self.depth > 0;
        match value.kind {
            Kind::Scalar => {
                let spans = if is_variable { &mut self.variables } else { &mut self.secrets };
                spans.push(span.clone());
                if !in_flow {
                    self.note_lines_below(line, Below::Everything);
                }
                let open = value.quote.filter(|_| !value.is_closed);
                let end = open.and_then(|quote| self.end_of_quoted(span.start + quote));
                let in_braces = may_be_in_flow && !value.is_closed;
                // If only the lines before show that this is in braces, the line is masked to its end.
                let from = if in_flow { span.end } else { span.start };
                let end = end.or_else(|| in_braces.then(|| self.next_flow_end(from)));
                self.secrets.extend(end.filter(|end| *end > span.end).map(|end| span.end..end));
            }
            Kind::Below => {
                if !value.is_block {
                    self.secrets.push(span.clone());
                }
                let is_text = is_variable || value.is_block;
                if !in_flow {
                    self.note_lines_below(
                        line,
                        if is_text { Below::Everything } else { Below::Scalars },
                    );
                }
                if may_be_in_flow {
                    let end = self.end_below(span.end, is_text);
                    self.secrets.push(span.end..end);
                }
            }
            // A list in brackets may have secrets, a map has keys of its own.
            Kind::Collection => {
                let text = line.text.get(begin..).unwrap_or_default();
                let list = text.strip_prefix('[').map(str::trim_start);
                if is_variable || list.is_some_and(|rest| !rest.starts_with('{')) {
                    self.secrets.push(span.start..self.start + line.text.len());
                }
            }
        }
    }

    /// Records which lines below this one belong to its value: in a text all lines are text, whatever they look like.
    fn note_lines_below(&mut self, line: &Line<'_>, below: Below) {
        if self.below.last().is_none_or(|(_, outer)| *outer == Below::Scalars) {
            self.below.push((line.column, below));
        }
    }

    /// Finds the end of a value in braces that begins on a later line.
    fn end_below(&mut self, from: usize, is_text: bool) -> usize {
        let rest = self.text.get(from..).unwrap_or_default();
        let begin = from + (rest.len() - rest.trim_start().len());
        match self.text.get(begin..).and_then(|rest| rest.chars().next()) {
            Some('{' | '[') if !is_text => from,
            Some('"' | '\'') => self.end_of_quoted(begin).unwrap_or(begin),
            _ => self.next_flow_end(begin),
        }
    }

    /// Finds the end of a quoted value, on whatever line.
    fn end_of_quoted(&mut self, start: usize) -> Option<usize> {
        let rest = self.text.get(start..)?;
        let kind = usize::from(rest.starts_with('\''));
        let is_unclosed = self.unclosed.get_mut(kind)?;
        if *is_unclosed {
            return None;
        }
        let length = quoted_length(rest);
        *is_unclosed = length.is_none();
        let end = start + length?;
        // Text after the quote on its line can only be more of the value.
        let rest = self.text.get(end..)?;
        Some(end + plain_length(rest.lines().next().unwrap_or_default(), false))
    }

    /// Finds the end of a value in braces.
    fn next_flow_end(&mut self, from: usize) -> usize {
        if self.flow_end < from {
            let end = self.text.get(from..).and_then(|rest| rest.find([',', '}', ']']));
            self.flow_end = end.map_or(self.text.len(), |at| from + at);
        }
        self.flow_end
    }

    /// Masks the values that masked values refer to.
    fn mask_aliased(&mut self) {
        self.aliases.sort_unstable();
        let Self { aliases, anchors, secrets, .. } = self;
        let is_used = |name: &&str| aliases.binary_search(name).is_ok();
        let used_anchors = anchors.iter().filter(|(name, _)| is_used(name));
        secrets.extend(used_anchors.map(|(_, span)| span.clone()));
    }
}

/// Finds the key at the end of a text: before it may be an anchor, a tag, or other words with colons.
fn plain_key(text: &str) -> &str {
    // The longest key that matters, in bytes: a line may have many colons.
    const LONGEST: usize = 256;
    let word = tail(text, LONGEST).split_whitespace().next_back().unwrap_or_default();
    word.rsplit(':').next().filter(|key| !key.is_empty()).unwrap_or(word)
}

/// The kind of a value, by its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A text on the line, which may continue below.
    Scalar,
    /// Nothing on the line, or the head of a block: the lines below are the value.
    Below,
    /// A list or a map in brackets.
    Collection,
}

/// The text after a colon, up to the end of the line.
struct Value<'a> {
    kind: Kind,
    /// The length in bytes; of a collection that of its bracket.
    length: usize,
    /// The name of its anchor (`&`).
    anchor: Option<&'a str>,
    /// The position after its anchor and tag, if a quote is there.
    quote: Option<usize>,
    is_closed: bool,
    /// True if `|` or `>` begins a block of text.
    is_block: bool,
}

impl<'a> Value<'a> {
    fn new(text: &'a str, in_flow: bool) -> Self {
        let mut anchor = None;
        let mut rest = text;
        while let Some(property) = rest.strip_prefix(['&', '!']) {
            let end = property.find([' ', '\t', '\r', '\n', ',', '}', ']']);
            let (name, behind) = property.split_at(end.unwrap_or(property.len()));
            if rest.starts_with('&') {
                anchor = Some(name);
            }
            rest = behind.trim_start_matches([' ', '\t']);
        }
        let properties = text.len() - rest.len();
        let mut value = Self {
            kind: Kind::Scalar,
            length: properties,
            anchor,
            quote: None,
            is_closed: false,
            is_block: false,
        };
        let line = rest.trim_end();
        let has_end = in_flow && line.starts_with([',', '}', ']']);
        if line.is_empty() || line.starts_with('#') || has_end {
            // An anchor or a tag without a value is a password that was not quoted.
            value.kind = if has_end || properties > 0 { Kind::Scalar } else { Kind::Below };
            // A comment in the place of a value may have been meant as the value.
            value.length += if line.starts_with('#') { line.len() } else { 0 };
            return value;
        }
        if is_block_head(line) {
            return Self { kind: Kind::Below, is_block: true, ..value };
        }
        if line.starts_with(['{', '[']) {
            return Self { kind: Kind::Collection, length: properties + 1, ..value };
        }
        value.quote = line.starts_with(['"', '\'']).then_some(properties);
        let inside = value.quote.map(|_| quoted_length(line));
        value.is_closed = inside.is_some_and(|length| length.is_some());
        value.length += match inside {
            Some(Some(length)) => {
                length + plain_length(line.get(length..).unwrap_or_default(), in_flow)
            }
            Some(None) => line.len(),
            None => plain_length(line, in_flow),
        };
        value
    }
}

/// Returns the length of an unquoted text: up to a comment, in braces up to the next of `,`, `}` and `]`.
fn plain_length(text: &str, in_flow: bool) -> usize {
    let end = if in_flow { text.find([',', '}', ']']) } else { None };
    let text = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
    let comment = if text.trim_start().starts_with('#') { Some(0) } else { text.find(" #") };
    text.get(..comment.unwrap_or(text.len())).unwrap_or_default().trim_end().len()
}

/// Returns whether the text follows in the lines below: `|`, `>-`, `|2+`.
fn is_block_head(line: &str) -> bool {
    let Some(rest) = line.strip_prefix(['|', '>']) else { return false };
    let rest =
        rest.trim_start_matches(['-', '+', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    rest.is_empty() || (rest.starts_with([' ', '\t']) && rest.trim_start().starts_with('#'))
}

/// Returns the length of a quoted text with its quotes, if it ends.
fn quoted_length(text: &str) -> Option<usize> {
    let quote = text.chars().next()?;
    let mut signs = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = signs.next() {
        match c {
            '\\' if quote == '"' => {
                signs.next();
            }
            '\'' if c == quote && signs.next_if(|(_, c)| *c == '\'').is_some() => {}
            _ if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

fn ends_blank(text: &str) -> bool {
    text.ends_with([' ', '\t'])
}
