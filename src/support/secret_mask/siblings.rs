//! The neighbours of a variable's value: the rest of its list item, and of its braces.

use std::ops::Range;

use super::{Line, names_a_secret};

/// A search for variables with a secret's name by the neighbours of their values: the lines of the list item, and the
/// text in the same braces. Each such part is read once, up to a limit for all of them.
pub(super) struct Siblings<'a> {
    text: &'a str,
    /// The positions of braces.
    opens: Vec<usize>,
    closes: Vec<usize>,
    /// The last line, and the column of its keys.
    line: (Range<usize>, usize),
    /// The last list item, the column of its keys, and whether it has the name of a secret.
    item: Option<(Range<usize>, usize, bool)>,
    /// The last braces, and whether they have the name of a secret.
    braces: Option<(Range<usize>, bool)>,
    /// The number of bytes that may still be read.
    left: usize,
}

impl<'a> Siblings<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let positions_of = |brace: char| text.match_indices(brace).map(|(at, _)| at).collect();
        let budget = text.len().saturating_mul(8).saturating_add(1 << 16);
        Self {
            text,
            opens: positions_of('{'),
            closes: positions_of('}'),
            line: (0..0, 0),
            item: None,
            braces: None,
            left: budget,
        }
    }

    /// Returns whether the variable with this value has a secret's name; also true if that would take too long to
    /// determine.
    pub(super) fn name_one(&mut self, span: &Range<usize>) -> bool {
        self.item_names_one(span) || self.braces_name_one(span)
    }

    fn braces_name_one(&mut self, span: &Range<usize>) -> bool {
        let open = self.opens.partition_point(|open| *open < span.start).checked_sub(1);
        let open = open.and_then(|open| self.opens.get(open)).copied().unwrap_or(span.start);
        let close = self.closes.get(self.closes.partition_point(|close| *close < span.start));
        let braces = open..close.copied().unwrap_or(span.start);
        if let Some((_, answer)) = self.braces.as_ref().filter(|(last, _)| *last == braces) {
            return *answer;
        }
        let is_named = self.reads(&braces);
        self.braces = Some((braces, is_named));
        is_named
    }

    fn item_names_one(&mut self, span: &Range<usize>) -> bool {
        let line = self.line_of(span.start);
        let Range { start: line_start, end: line_end } = line;
        let column = self.line.1;
        let cached = self.item.as_ref().filter(|(item, of, _)| {
            *of == column && item.start <= line_start && line_end <= item.end
        });
        if let Some((_, _, answer)) = cached {
            return *answer;
        }
        if self.left == 0 {
            return true;
        }
        let item = item_around(self.text, line, column);
        let is_named = self.reads(&item);
        self.item = Some((item, column, is_named));
        is_named
    }

    /// Finds the line around a position, and the column of its keys. Many values may be on one line.
    fn line_of(&mut self, at: usize) -> Range<usize> {
        if !self.line.0.contains(&at) {
            let before = self.text.get(..at).unwrap_or_default();
            let after = self.text.get(at..).unwrap_or_default();
            let start = before.rfind(['\n', '\r']).map_or(0, |at| at + 1);
            let end = at + after.find(['\n', '\r']).map_or(after.len(), |at| at + 1);
            let column = Line::new(self.text.get(start..end).unwrap_or_default()).column;
            self.line = (start..end, column);
        }
        self.line.0.clone()
    }

    fn reads(&mut self, part: &Range<usize>) -> bool {
        let is_short = part.len() <= self.left;
        self.left = if is_short { self.left - part.len() } else { 0 };
        !is_short || names_a_secret(self.text.get(part.clone()).unwrap_or_default())
    }
}

/// Finds the lines of the list item, or of the map, to which a line with keys in a column belongs.
fn item_around(text: &str, line: Range<usize>, column: usize) -> Range<usize> {
    let Range { mut start, mut end } = line;
    let is_first = |line: &Line<'_>| line.column == column && line.is_item();
    let mut is_done = is_first(&Line::new(text.get(start..end).unwrap_or_default()));
    while !is_done && start > 0 {
        let above = text.get(..start - 1).unwrap_or_default();
        let line_start = above.rfind(['\n', '\r']).map_or(0, |at| at + 1);
        let line = Line::new(text.get(line_start..start).unwrap_or_default());
        if !line.is_blank() && line.column < column {
            break;
        }
        start = line_start;
        is_done = is_first(&line);
    }
    for below in text.get(end..).unwrap_or_default().split_inclusive(['\n', '\r']) {
        let line = Line::new(below);
        if !line.is_blank() && line.indent < column {
            break;
        }
        end += below.len();
    }
    start..end
}
