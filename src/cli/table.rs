//! Lays out a table for the terminal's width: folds, cuts or drops columns, in an order that each table defines.
//! Without a terminal nothing is cut. Colour is added after the layout, which would count it as characters.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::output;
use crate::support::text::reveal_invisible;

/// The blanks between two columns.
const GAP: usize = 2;

/// One column, and how it gets narrower.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    header: &'static str,
    fit: Fit,
    /// The order of dropping: a greater number goes first; 0 is never dropped.
    drop: u8,
    paint: Option<fn(&str) -> String>,
}

/// The way in which a column gets narrower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// The column stays whole: people copy ids.
    Whole,
    /// Its end is cut, to at least so many characters.
    Cut(usize),
    /// Its middle is cut, to at least so many characters: names and tags differ at their ends.
    Middle(usize),
    /// The column takes more lines, of at least so many characters.
    Fold(usize),
}

/// A column that is shown.
struct ShownColumn<'a> {
    place: usize,
    column: &'a Column,
    width: usize,
}

impl Column {
    /// Makes a column that is never cut.
    pub(super) const fn whole(header: &'static str) -> Self {
        Self { header, fit: Fit::Whole, drop: 0, paint: None }
    }

    /// Makes a column whose end may be cut.
    pub(super) const fn cut(header: &'static str, least: usize) -> Self {
        Self { fit: Fit::Cut(least), ..Self::whole(header) }
    }

    /// Makes a column whose middle may be cut.
    pub(super) const fn middle(header: &'static str, least: usize) -> Self {
        Self { fit: Fit::Middle(least), ..Self::whole(header) }
    }

    /// Makes a column that may take more lines.
    pub(super) const fn fold(header: &'static str, least: usize) -> Self {
        Self { fit: Fit::Fold(least), ..Self::whole(header) }
    }

    /// Returns the column as one that may be dropped; the greatest number goes first.
    pub(super) const fn drop(self, order: u8) -> Self {
        Self { drop: order, ..self }
    }

    /// Returns the column in colour.
    pub(super) const fn paint(self, paint: fn(&str) -> String) -> Self {
        Self { paint: Some(paint), ..self }
    }

    /// Returns the smallest width of a column that is now so wide.
    fn least(&self, width: usize) -> usize {
        match self.fit {
            Fit::Whole => width,
            Fit::Cut(least) | Fit::Middle(least) | Fit::Fold(least) => {
                width.min(least.max(self.header.width()))
            }
        }
    }

    /// Returns the lines of a cell.
    fn lines<'a>(&self, text: &'a str, width: usize) -> Vec<Cow<'a, str>> {
        if text.width() <= width {
            return vec![text.into()];
        }
        match self.fit {
            Fit::Whole => vec![text.into()],
            Fit::Cut(_) => vec![cut(text, width, 0).into()],
            Fit::Middle(_) => vec![cut(text, width, width.saturating_sub(1) / 2).into()],
            Fit::Fold(_) => fold_lines(text, width).into_iter().map(Cow::Owned).collect(),
        }
    }
}

/// Formats the table, as wide as the terminal.
pub(super) fn table<const N: usize>(columns: [Column; N], rows: Vec<[String; N]>) -> String {
    layout(&columns, rows, output::width())
}

/// Formats the table in that width. Pure.
pub(super) fn layout<const N: usize>(
    columns: &[Column; N],
    rows: Vec<[String; N]>,
    width: Option<usize>,
) -> String {
    // Invisible characters are shown before the columns are measured.
    let rows: Vec<Vec<String>> = rows.into_iter().map(|row| row.map(format_cell).into()).collect();
    let measured = columns.iter().enumerate().map(|(place, column)| {
        let cells = rows.iter().filter_map(|row| row.get(place)).map(|cell| cell.width());
        let width = cells.max().unwrap_or(0).max(column.header.width());
        ShownColumn { place, column, width }
    });
    let mut fitted: Vec<ShownColumn<'_>> = measured.collect();
    if let Some(width) = width {
        fit(&mut fitted, width);
    }
    let header =
        fitted.iter().map(|column| (vec![Cow::Borrowed(column.column.header)], column, false));
    let mut text = row_text(&header.collect::<Vec<_>>());
    for row in &rows {
        let cells = fitted.iter().map(|column| {
            let cell = row.get(column.place).map_or("", String::as_str);
            (column.column.lines(cell, column.width), column, true)
        });
        text += &row_text(&cells.collect::<Vec<_>>());
    }
    text
}

/// Formats a cell as one line in which nothing is invisible.
fn format_cell(cell: String) -> String {
    let cell = if cell.contains(['\n', '\t', '\r']) {
        cell.split_whitespace().collect::<Vec<_>>().join(" ")
    } else {
        cell
    };
    reveal_invisible(&cell).into_owned()
}

/// Makes columns narrower, and drops some, until they fit as well as they can.
fn fit(columns: &mut Vec<ShownColumn<'_>>, width: usize) {
    loop {
        let total = columns.iter().map(|column| column.width + GAP).sum::<usize>();
        let over = total.saturating_sub(GAP).saturating_sub(width);
        let slack: usize =
            columns.iter().map(|column| column.width - column.column.least(column.width)).sum();
        let dropped = columns.iter().enumerate().max_by_key(|(_, column)| column.column.drop);
        match dropped.map(|(at, column)| (at, column.column.drop)) {
            _ if over <= slack => return shrink(columns, over),
            Some((at, 1..)) => drop(columns.remove(at)),
            Some((_, 0)) | None => return shrink(columns, slack),
        }
    }
}

/// Takes away so many characters: first from columns that fold, which lose nothing; then from the widest.
fn shrink(columns: &mut [ShownColumn<'_>], over: usize) {
    for _ in 0..over {
        let narrower =
            columns.iter_mut().filter(|column| column.width > column.column.least(column.width));
        let folds = |column: &ShownColumn<'_>| matches!(column.column.fit, Fit::Fold(_));
        if let Some(column) = narrower.max_by_key(|column| (folds(column), column.width)) {
            column.width -= 1;
        }
    }
}

/// Formats the lines of one row.
fn row_text(cells: &[(Vec<Cow<'_, str>>, &ShownColumn<'_>, bool)]) -> String {
    let height = cells.iter().map(|(lines, ..)| lines.len()).max().unwrap_or(0);
    let mut text = String::new();
    for n in 0..height {
        let mut line = String::new();
        for (lines, column, painted) in cells {
            let piece = lines.get(n).map_or("", |piece| piece.as_ref());
            let blank = (column.width + GAP).saturating_sub(piece.width());
            match column.column.paint.filter(|_| *painted && !piece.is_empty()) {
                Some(paint) => line += &paint(piece),
                None => line += piece,
            }
            line.extend(std::iter::repeat_n(' ', blank));
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Cuts the text to the width with a `…`, and keeps so many characters of its end.
pub(super) fn cut(text: &str, width: usize, end: usize) -> String {
    let take_chars = |chars: &mut dyn Iterator<Item = char>, mut left: usize| -> Vec<char> {
        let fits = |c: &char| {
            let wide = c.width().unwrap_or(0);
            let fits = wide <= left;
            left = left.saturating_sub(wide);
            fits
        };
        chars.take_while(fits).collect()
    };
    let mut last = take_chars(&mut text.chars().rev(), end);
    last.reverse();
    let first = take_chars(&mut text.chars(), width.saturating_sub(end + 1));
    first.into_iter().chain(['…']).chain(last).collect()
}

/// Folds the text into lines: parts of a list stay together where they can, then words; a longer word is broken.
fn fold_lines(text: &str, width: usize) -> Vec<String> {
    let separator = if text.contains(", ") { ", " } else { " " };
    let mut lines: Vec<String> = Vec::new();
    for part in text.split_inclusive(separator) {
        let trimmed = part.trim_end();
        match lines.last_mut() {
            Some(line) if line.width() + trimmed.width() <= width => line.push_str(part),
            _ if trimmed.width() <= width => lines.push(part.to_owned()),
            _ if separator != " " => lines.extend(fold_lines(trimmed, width)),
            _ => lines.extend(split_word(trimmed, width)),
        }
        // The text after a broken word begins after a blank.
        if let Some(line) = lines.last_mut().filter(|line| !line.ends_with(' ') && part != trimmed)
        {
            line.push(' ');
        }
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

/// Wraps text under a table to the width: lines continue at a blank, two columns further in. A longer id, path or word
/// stays whole.
pub(super) fn wrap(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    text.split_inclusive('\n').map(|line| wrap_line(line, width)).collect()
}

fn wrap_line(line: &str, width: usize) -> String {
    // Colours do not count as characters.
    let visible_width = |text: &str| anstream::adapter::strip_str(text).to_string().width();
    let (content, end) = line.strip_suffix('\n').map_or((line, ""), |content| (content, "\n"));
    if visible_width(content) <= width {
        return line.to_owned();
    }
    let indent = content.len() - content.trim_start_matches(' ').len() + GAP;
    let (mut text, mut column) = (String::new(), 0);
    for part in content.split_inclusive(' ') {
        let (word, width_of_part) = (visible_width(part.trim_end()), visible_width(part));
        if column + word > width && column > indent {
            text.truncate(text.trim_end().len());
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        }
        text.push_str(part);
        column += width_of_part;
    }
    text + end
}

fn split_word(word: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for c in word.chars() {
        match lines.last_mut() {
            Some(line) if line.width() + c.width().unwrap_or(0) <= width => line.push(c),
            _ => lines.push(c.to_string()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 5] = [
        Column::whole("ID"),
        Column::middle("TAG", 8),
        Column::cut("BY", 4).drop(1),
        Column::whole("WHEN").drop(2),
        Column::fold("STATE", 12),
    ];

    fn row(cells: [&str; 5]) -> [String; 5] {
        cells.map(str::to_owned)
    }

    fn rows() -> Vec<[String; 5]> {
        vec![
            row([
                "20261121-a",
                "1.0.202206151506-sha.649008fb",
                "alice-in-chains",
                "3 h ago",
                "live, rolled back, locked",
            ]),
            row(["20261121-b", "1.0", "bo", "-", ""]),
        ]
    }

    #[test]
    fn where_there_is_room_or_no_terminal_nothing_is_cut() {
        let wide = layout(&COLUMNS, rows(), None);
        assert_eq!(wide, layout(&COLUMNS, rows(), Some(200)));
        insta::assert_snapshot!(wide, @r"
        ID          TAG                            BY               WHEN     STATE
        20261121-a  1.0.202206151506-sha.649008fb  alice-in-chains  3 h ago  live, rolled back, locked
        20261121-b  1.0                            bo               -
        ");
    }

    #[test]
    fn first_it_is_folded_then_cut_then_columns_go() {
        insta::assert_snapshot!(layout(&COLUMNS, rows(), Some(80)), @r"
        ID          TAG                           BY               WHEN     STATE
        20261121-a  1.0.2022061515…-sha.649008fb  alice-in-chains  3 h ago  live,
                                                                            rolled back,
                                                                            locked
        20261121-b  1.0                           bo               -
        ");
        insta::assert_snapshot!(layout(&COLUMNS, rows(), Some(56)), @r"
        ID          TAG         BY         WHEN     STATE
        20261121-a  1.0.2…08fb  alice-in…  3 h ago  live,
                                                    rolled back,
                                                    locked
        20261121-b  1.0         bo         -
        ");
        insta::assert_snapshot!(layout(&COLUMNS, rows(), Some(36)), @r"
        ID          TAG         STATE
        20261121-a  1.0.2…08fb  live,
                                rolled back,
                                locked
        20261121-b  1.0
        ");
    }

    #[test]
    fn no_line_is_longer_than_the_terminal_and_none_has_one_letter() {
        for width in 34..130 {
            let text = layout(&COLUMNS, rows(), Some(width));
            assert!(text.lines().all(|line| line.width() <= width), "{width}:\n{text}");
            assert!(text.lines().count() <= 6, "{width}:\n{text}");
        }
        let narrow = layout(&COLUMNS, rows(), Some(1));
        assert!(narrow.contains("20261121-a"), "ids are whole: {narrow}");
    }

    #[test]
    fn a_table_is_measured_with_what_it_shows_and_as_it_is_seen() {
        let columns = [Column::whole("KEY"), Column::whole("N")];
        let cells = |key: &str, n: &str| [key.to_owned(), n.to_owned()];
        let rows = vec![cells("a\u{202e}b", "1"), cells("漢字", "2"), cells("a\nb", "3")];
        let expected = "KEY         N\na\\u{202e}b  1\n漢字        2\na b         3\n";
        assert_eq!(layout(&columns, rows, None), expected);
    }

    #[test]
    fn only_cells_are_coloured_and_only_those_of_their_column() {
        let columns =
            [Column::whole("A"), Column::fold("STATE", 7).paint(|cell| format!("<{cell}>"))];
        let rows = vec![["locked".to_owned(), "locked, failed".to_owned()]];
        assert_eq!(
            layout(&columns, rows, Some(16)),
            "A       STATE\nlocked  <locked,>\n        <failed>\n"
        );
    }

    #[test]
    fn a_cell_is_cut_where_it_says_least() {
        assert_eq!(cut("1.0.202206151506-sha.649008fb", 13, 6), "1.0.20…9008fb");
        assert_eq!(cut("a long sentence", 8, 0), "a long …");
        assert_eq!(cut("漢字漢字", 5, 0), "漢字…");
        assert_eq!(fold_lines("one two-and-more three", 8), ["one", "two-and-", "more", "three"]);
    }

    #[test]
    fn lines_under_a_table_go_on_two_columns_further_in() {
        let text = "\nlocked\n  prod  0123abcd  all on it, by Jo, 2 h ago: the books are closed\n";
        assert_eq!(wrap(text, None), text);
        assert_eq!(wrap(text, Some(80)), text);
        insta::assert_snapshot!(wrap(text, Some(36)), @"

        locked
          prod  0123abcd  all on it, by Jo,
            2 h ago: the books are closed
        ");
        let coloured = format!("{0}note{0:#}: {1}\n", output::NOTE, "word ".repeat(20));
        let wrapped = anstream::adapter::strip_str(&wrap(&coloured, Some(40))).to_string();
        assert!(wrapped.lines().all(|line| line.chars().count() <= 40), "{wrapped}");
        assert!(
            wrapped.starts_with("note: word word word word word word word\n  word"),
            "{wrapped}"
        );
        let long = format!("{}\n", "x".repeat(50));
        assert_eq!(wrap(&long, Some(40)), long, "a path is copied whole");
    }
}
