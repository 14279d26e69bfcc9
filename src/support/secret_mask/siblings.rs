//! What stands around the value of a variable: the rest of its list item, and of its braces.

use std::ops::Range;

use super::{Line, names_a_secret};

/// Tells which variables are called after a secret, by what stands around their values: the lines of the list item, and
/// what is in the same braces. Each such part is read once, and only so much of all of them.
pub(super) struct Siblings<'a> {
    text: &'a str,
    /// Where braces open and close.
    opens: Vec<usize>,
    closes: Vec<usize>,
    /// The last line, and the column of its keys.
    line: (Range<usize>, usize),
    /// The last list item, the column of its keys, and whether it has the name of a secret.
    item: Option<(Range<usize>, usize, bool)>,
    /// The last braces, and the same of them.
    braces: Option<(Range<usize>, bool)>,
    /// So many bytes may still be read.
    left: usize,
}

impl<'a> Siblings<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let all = |brace: char| text.match_indices(brace).map(|(at, _)| at).collect();
        let left = text.len().saturating_mul(8).saturating_add(1 << 16);
        Self {
            text,
            opens: all('{'),
            closes: all('}'),
            line: (0..0, 0),
            item: None,
            braces: None,
            left,
        }
    }

    /// Checks that the variable with this value is called after a secret; also where that would
    /// take too long to find out.
    pub(super) fn name_one(&mut self, span: &Range<usize>) -> bool {
        self.item_names_one(span) || self.braces_name_one(span)
    }

    fn braces_name_one(&mut self, span: &Range<usize>) -> bool {
        let open = self.opens.partition_point(|open| *open < span.start).checked_sub(1);
        let open = open.and_then(|open| self.opens.get(open)).copied().unwrap_or(span.start);
        let close = self.closes.get(self.closes.partition_point(|close| *close < span.start));
        let braces = open..close.copied().unwrap_or(span.start);
        if let Some((_, known)) = self.braces.as_ref().filter(|(last, _)| *last == braces) {
            return *known;
        }
        let is_named = self.reads(&braces);
        self.braces = Some((braces, is_named));
        is_named
    }

    fn item_names_one(&mut self, span: &Range<usize>) -> bool {
        let line = self.line_of(span.start);
        let Range { start: line_start, end: line_end } = line;
        let column = self.line.1;
        let known = self.item.as_ref().filter(|(item, of, _)| {
            *of == column && item.start <= line_start && line_end <= item.end
        });
        if let Some((_, _, known)) = known {
            return *known;
        }
        if self.left == 0 {
            return true;
        }
        let item = item_around(self.text, line, column);
        let is_named = self.reads(&item);
        self.item = Some((item, column, is_named));
        is_named
    }

    /// Finds the line around a place, and the column of its keys. Many values may stand on one.
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

/// Finds the lines of the list item, or of the map, that a line with keys in a column belongs to.
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
