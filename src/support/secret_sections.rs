//! Finds the values in those sections of a YAML file that have variables, arguments, files and references to secrets,
//! even if they are malformed: in such a section everything is a value that is not known to be something else.
//!
//! It decides by the text alone, as `secret_mask` does, which shows the file. It takes time in proportion to the text.
//! Pure.

mod harmless; // values that may be shown

use std::ops::Range;

use super::secret_name::is_secret_name;
use super::secret_text::lines_of;
use harmless::{
    is_legal_reference, is_reference_key, is_variable, visible_length_of_argument,
    visible_length_of_name,
};

/// The positions of values in such sections.
#[derive(Debug, Default)]
pub(super) struct SectionValues {
    /// Values that are never shown.
    pub(super) secrets: Vec<Range<usize>>,
    /// Values of variables under the right key.
    pub(super) variables: Vec<Range<usize>>,
}

/// Finds the values of all such sections of a text.
pub(super) fn find_section_values(text: &str) -> SectionValues {
    let mut scan = Scan {
        text,
        found: SectionValues::default(),
        section: None,
        unclosed: [false; 2],
        line: LineEnds::default(),
    };
    let mut start = 0;
    for line in lines_of(text) {
        scan.line(line, start);
        start += line.len();
    }
    scan.found
}

/// Returns whether a key begins a section with variables, arguments, files, or references to secrets.
pub fn is_section(key: &str) -> bool {
    Kind::of(key).is_some()
}

/// The content of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Variables,
    Arguments,
    Files,
    References,
}

impl Kind {
    fn of(key: &str) -> Option<Self> {
        // Most keys are none of these: nothing is copied for them.
        let first = key.bytes().next()?.to_ascii_lowercase();
        if key.len() > 20 || !b"acefnsv".contains(&first) {
            return None;
        }
        let key = key.to_ascii_lowercase();
        match key.as_str() {
            "args" | "arg" | "arguments" | "command" | "commands" | "cmd" | "entrypoint" => {
                Some(Self::Arguments)
            }
            "files" => Some(Self::Files),
            "secret" | "secrets" | "vault" => Some(Self::References),
            // With typos.
            "variables" | "vars" | "evn" | "nev" | "emv" | "evns" => Some(Self::Variables),
            "envoy" => None,
            _ => key.starts_with("env").then_some(Self::Variables),
        }
    }
}

/// A section while it is read.
#[derive(Debug)]
struct Section<'a> {
    kind: Kind,
    /// The column of its key.
    column: usize,
    /// True if it is in braces.
    in_flow: bool,
    /// The keys before the open brackets.
    open: Vec<Option<&'a str>>,
    /// The last key without a value so far.
    key: Option<&'a str>,
    /// The key of the list that the item is in.
    item_of: Option<&'a str>,
    /// True if all of it is in brackets; `None` while nothing of it was read.
    is_bracketed: Option<bool>,
    /// True if these were closed: then it has ended.
    is_closed: bool,
    /// The quote of a text that continues.
    quote: Option<char>,
    /// The column of a key whose text is in the lines below.
    block: Option<usize>,
    /// True if the argument before has a secret's name: `--password`.
    is_behind_flag: bool,
}

struct Scan<'a> {
    text: &'a str,
    found: SectionValues,
    section: Option<Section<'a>>,
    /// The kinds of quotes that are not closed any more: `"`, `'`.
    unclosed: [bool; 2],
    /// The cached positions of the current line.
    line: LineEnds,
}

/// Positions that are searched once in a line, however often they are needed.
#[derive(Debug, Default)]
struct LineEnds {
    /// The number of blanks before it.
    blanks: usize,
    /// The positions of the last `}}`, `%}` and `#}`.
    closes: [Option<usize>; 3],
}

impl LineEnds {
    fn new(line: &str) -> Self {
        let blanks = line.len() - line.trim_start_matches([' ', '\t']).len();
        let has_template = line.contains('{');
        let find = |close: &str| if has_template { line.rfind(close) } else { None };
        Self { blanks, closes: ["}}", "%}", "#}"].map(find) }
    }

    /// Returns the length of `{{ value }}` or `{% if … %}` of a template that begins there, if it ends on the line.
    fn template_length(&self, line: &str, at: usize) -> Option<usize> {
        let rest = line.get(at..)?;
        let [value, statement, comment] = self.closes;
        let (close, last) = match rest.get(..3)? {
            "{{ " | "{{-" => ("}}", value),
            "{% " | "{%-" => ("%}", statement),
            "{# " | "{#-" => ("#}", comment),
            _ => return None,
        };
        if last? < at {
            return None;
        }
        rest.find(close).map(|end| end + close.len())
    }
}

impl<'a> Scan<'a> {
    fn line(&mut self, line: &'a str, start: usize) {
        self.line = LineEnds::new(line);
        let blanks = self.line.blanks;
        let rest = line.get(blanks..).unwrap_or_default();
        let is_blank = rest.trim().is_empty() || rest.starts_with('#');
        let is_below = |section: &Section<'_>| {
            !section.open.is_empty()
                || section.quote.is_some()
                || is_blank
                || (section.in_flow && !section.is_closed)
                || blanks > section.column
                || (blanks == section.column && rest.starts_with('-'))
        };
        self.section = self.section.take().filter(is_below);
        let mut at = 0;
        loop {
            at = match self.section.take() {
                Some(mut section) => {
                    let end = self.values(&mut section, line, at, start);
                    if end.is_none() {
                        self.section = Some(section);
                    }
                    match end {
                        Some(end) => end,
                        None => return,
                    }
                }
                None => match find_section(line, at, blanks) {
                    Some((section, behind)) => {
                        self.section = Some(section);
                        behind
                    }
                    None => return,
                },
            };
        }
    }

    /// Reads the values of a line from there on; returns the end of the section, if it ends on the line.
    fn values(
        &mut self,
        section: &mut Section<'a>,
        line: &'a str,
        from: usize,
        start: usize,
    ) -> Option<usize> {
        let blanks = self.line.blanks;
        let mut at = from;
        if from == 0 {
            if let Some(column) = section.block.take()
                && (line.trim().is_empty() || blanks > column)
            {
                section.block = Some(column);
                self.hide(start, 0..line.trim_end().len());
                return None;
            }
            if let Some(quote) = section.quote.take() {
                let Some(end) = end_of_quoted(line, 0, quote) else {
                    section.quote = Some(quote);
                    self.hide(start, 0..line.trim_end().len());
                    return None;
                };
                self.hide(start, 0..end);
                at = end;
            }
        }
        let mut column = blanks;
        let mut is_begin = from == 0;
        while let Some(c) = line.get(at..).and_then(|rest| rest.chars().next()) {
            let rest = line.get(at..).unwrap_or_default();
            let behind = rest.get(c.len_utf8()..).unwrap_or_default();
            let is_apart = behind.is_empty() || behind.starts_with([' ', '\t', '\n', '\r']);
            match c {
                ' ' | '\t' | '\n' | '\r' => at += 1,
                '#' if at == 0
                    || line.get(..at).is_some_and(|before| before.ends_with([' ', '\t'])) =>
                {
                    self.comment(section, rest, start + at);
                    return None;
                }
                '{' | '[' => {
                    if let Some(length) = self.line.template_length(line, at) {
                        at += length;
                        section.key = None;
                    } else {
                        section.is_bracketed.get_or_insert(true);
                        section.open.push(section.key.take());
                        at += 1;
                    }
                }
                '}' | ']' => {
                    if section.open.pop().is_none() && section.in_flow {
                        return Some(at);
                    }
                    section.is_closed =
                        section.open.is_empty() && section.is_bracketed == Some(true);
                    section.key = None;
                    at += 1;
                }
                ',' if section.open.is_empty() && (section.in_flow || section.is_closed) => {
                    return Some(at);
                }
                ',' => {
                    section.key = None;
                    at += 1;
                }
                '-' if is_begin && is_apart => {
                    section.is_bracketed.get_or_insert(false);
                    section.item_of = section.key.take().or(section.item_of);
                    column = at;
                    at += 1;
                    continue;
                }
                '?' if is_begin && is_apart => at += 1,
                ':' if is_apart => at += 1,
                '|' | '>' if is_block_head(rest) => {
                    section.block = Some(column);
                    section.key = None;
                    return None;
                }
                _ => {
                    let before = at;
                    at = self.token(section, line, at, start);
                    if section.key.is_some() && is_begin {
                        column = before;
                    }
                    if section.quote.is_some() {
                        return None;
                    }
                }
            }
            is_begin &= matches!(c, ' ' | '\t');
        }
        None
    }

    /// Reads a key or a scalar; returns its end.
    fn token(
        &mut self,
        section: &mut Section<'a>,
        line: &'a str,
        at: usize,
        start: usize,
    ) -> usize {
        section.is_bracketed.get_or_insert(false);
        let rest = line.get(at..).unwrap_or_default();
        let in_flow = section.in_flow || !section.open.is_empty();
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
        let length = match quote {
            Some(quote) => {
                let Some(end) = end_of_quoted(rest, 1, quote) else {
                    self.hide(start + at, 0..rest.trim_end().len());
                    section.quote = self.closes_below(start + line.len(), quote).then_some(quote);
                    section.key = None;
                    return line.len();
                };
                end
            }
            None => plain_length(rest, in_flow).max(rest.chars().next().map_or(1, char::len_utf8)),
        };
        let token = rest.get(..length).unwrap_or_default();
        let behind = rest.get(length..).unwrap_or_default();
        let colon = behind.trim_start_matches([' ', '\t']);
        let is_key = colon.strip_prefix(':').is_some_and(|value| {
            quote.is_some()
                || value.is_empty()
                || value.starts_with([' ', '\t', '\n', '\r', ',', ']', '}', '"', '\''])
        });
        let inner = token.trim_matches(['"', '\'']);
        if is_key {
            self.key(section, token, start + at);
            section.key = Some(inner.rsplit([' ', '\t']).next().unwrap_or_default());
            section.item_of = None;
            return at + length + (behind.len() - colon.len()) + 1;
        }
        self.value(section, token, start + at);
        // More text after a quote belongs to the same key.
        let is_end = |c: char| c.is_whitespace() || matches!(c, ',' | ']' | '}');
        if quote.is_none() || behind.is_empty() || behind.starts_with(is_end) {
            section.key = None;
        }
        at + length
    }

    /// Hides a text in a key's place, but for a name: before it may be a text that was meant as a value: `name: A
    /// value: x`.
    fn key(&mut self, section: &Section<'_>, token: &str, at: usize) {
        let begin = token.rfind([' ', '\t']).map_or(0, |blank| blank + 1);
        let is_name = section.key.is_some_and(|key| key.eq_ignore_ascii_case("name"));
        if begin > 0 && !is_name {
            self.hide(at, 0..begin - 1);
        }
        let last = token.get(begin..).unwrap_or_default();
        let shown_length = visible_length_of_name(last.trim_matches(['"', '\'']));
        let shown_length = shown_length + (last.len() - last.trim_start_matches(['"', '\'']).len());
        if shown_length < last.trim_end_matches(['"', '\'']).len() {
            self.hide(at, begin + shown_length..token.len());
        }
    }

    fn value(&mut self, section: &mut Section<'_>, token: &str, at: usize) {
        let inner = token.trim_matches(['"', '\'']);
        let lead = token.len() - token.trim_start_matches(['"', '\'']).len();
        let assigned = inner.split_once('=').map_or(inner, |(_, assigned)| assigned);
        let is_reference =
            |text: &str| ["{{ ", "$(", "${"].iter().any(|begin| text.starts_with(begin));
        if is_reference(inner) || is_reference(assigned) {
            return;
        }
        let key = section.key.map(str::to_ascii_lowercase);
        let shown_length = match (section.kind, key.as_deref()) {
            (Kind::Variables, Some("value")) => {
                self.found.variables.push(at..at + token.len());
                return;
            }
            (Kind::Variables | Kind::Files, Some("plain" | "optional" | "readonly"))
                if matches!(inner, "true" | "false") =>
            {
                inner.len()
            }
            (Kind::Variables, Some("name" | "key")) => visible_length_of_name(inner),
            (Kind::Variables, None) if section.open.is_empty() && is_variable(inner) => inner.len(),
            (Kind::Variables | Kind::References, None) if inner.contains(['=', ':']) => {
                visible_length_of_name(inner)
            }
            (Kind::References, Some(key)) if is_reference_key(key) && is_legal_reference(inner) => {
                inner.len()
            }
            (Kind::References, None)
                if (is_legal_reference(inner)
                    && (section.open.last().copied().flatten().is_some_and(is_reference_key)
                        || section.item_of.is_some_and(is_reference_key)))
                    || matches!(inner, "none" | "vault" | "kubernetes" | "true" | "false") =>
            {
                inner.len()
            }
            (Kind::Arguments, None) => {
                let is_behind_flag = section.is_behind_flag;
                section.is_behind_flag =
                    is_secret_name(&inner.trim_start_matches('-').to_ascii_uppercase());
                if is_behind_flag { 0 } else { visible_length_of_argument(inner) }
            }
            _ => 0,
        };
        if shown_length < inner.len() {
            let from = if shown_length == 0 { 0 } else { lead + shown_length };
            self.hide(at, from..token.len());
        }
    }

    /// Hides a comment that may have been meant as a value, or may be a line that was commented out.
    fn comment(&mut self, section: &Section<'_>, comment: &str, at: usize) {
        let text = comment.trim_end();
        let shown_length = if section.key.is_some() {
            Some(0)
        } else {
            text.find([':', '=']).map(|sign| sign + 1)
        };
        if let Some(shown_length) = shown_length {
            self.hide(at, shown_length..text.len());
        }
    }

    fn hide(&mut self, at: usize, span: Range<usize>) {
        if !span.is_empty() {
            self.found.secrets.push(at + span.start..at + span.end);
        }
    }

    /// Returns whether a quote is closed on a later line.
    fn closes_below(&mut self, from: usize, quote: char) -> bool {
        let Some(is_unclosed) = self.unclosed.get_mut(usize::from(quote == '\'')) else {
            return false;
        };
        *is_unclosed =
            *is_unclosed || !self.text.get(from..).is_some_and(|rest| rest.contains(quote));
        !*is_unclosed
    }
}

/// Finds the first section that begins in a line from there on, after its blanks, and the position of its value.
fn find_section(line: &str, from: usize, blanks: usize) -> Option<(Section<'_>, usize)> {
    let mut at = from.max(blanks);
    let mut is_begin = from <= blanks;
    // A key is at the beginning of a line, after the dash of an item, or in braces.
    let mut may_begin = is_begin;
    while let Some(c) = line.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = line.get(at..).unwrap_or_default();
        match c {
            '#' if at == blanks || line.get(..at)?.ends_with([' ', '\t']) => return None,
            ' ' | '\t' => at += 1,
            '-' | '?' if is_begin => at += 1,
            '{' | ',' => {
                (may_begin, is_begin) = (true, false);
                at += 1;
            }
            _ if may_begin => {
                let quote = usize::from(rest.starts_with(['"', '\'']));
                let inner = rest.get(quote..).unwrap_or_default();
                let end =
                    inner.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-'));
                let word = inner.get(..end.unwrap_or(inner.len())).unwrap_or_default();
                let behind = inner.get(word.len()..).unwrap_or_default();
                let colon = behind.trim_start_matches(['"', '\'', ' ', '\t']);
                let length = rest.len() - colon.len();
                if let (Some(kind), true) = (Kind::of(word), colon.starts_with(':')) {
                    let section = Section {
                        kind,
                        column: at,
                        in_flow: !is_begin,
                        open: Vec::new(),
                        key: None,
                        item_of: None,
                        is_bracketed: None,
                        is_closed: false,
                        quote: None,
                        block: None,
                        is_behind_flag: false,
                    };
                    return Some((section, at + length + 1));
                }
                (may_begin, is_begin) = (false, false);
                at += (word.len() + quote).max(c.len_utf8());
            }
            _ => {
                is_begin = false;
                at += c.len_utf8();
            }
        }
    }
    None
}

/// Finds the end of a quoted text, if it ends on the line; `from` is after its first quote.
fn end_of_quoted(line: &str, from: usize, quote: char) -> Option<usize> {
    let mut signs = line.get(from..)?.char_indices().peekable();
    while let Some((at, c)) = signs.next() {
        match c {
            '\\' if quote == '"' => {
                signs.next();
            }
            '\'' if quote == c && signs.next_if(|(_, c)| *c == '\'').is_some() => {}
            _ if c == quote => return Some(from + at + 1),
            _ => {}
        }
    }
    None
}

/// Returns the length of an unquoted text: up to a comment, the colon after a key, or in braces the next comma or
/// bracket.
fn plain_length(text: &str, in_flow: bool) -> usize {
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let next =
            text.get(at + c.len_utf8()..).and_then(|rest| rest.chars().next()).unwrap_or('\n');
        let is_end = match c {
            '\n' | '\r' => true,
            '#' => before == ' ' || before == '\t',
            ':' => {
                matches!(next, ' ' | '\t' | '\n' | '\r')
                    || (in_flow && matches!(next, ',' | ']' | '}'))
            }
            ',' | ']' | '}' | '[' | '{' => in_flow,
            _ => false,
        };
        if is_end {
            return text.get(..at).unwrap_or_default().trim_end().len();
        }
        before = c;
    }
    text.trim_end().len()
}

/// Returns whether the text follows in the lines below: `|`, `>-`, `|2+`.
fn is_block_head(text: &str) -> bool {
    // Trailing blanks are not cut off: they would be read for each character of a line.
    let rest = text.trim_start_matches(['|', '>', '-', '+']);
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches(['-', '+']);
    let behind = rest.trim_start();
    behind.is_empty() || (rest.starts_with([' ', '\t']) && behind.starts_with('#'))
}
