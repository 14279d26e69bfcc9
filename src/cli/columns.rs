//! Colour in a table: put on after its layout, in which it would count as characters. Pure.

/// The table with what is in its last column, below that header, as `colour` writes it.
///
/// Other columns are left alone, whatever words are in them.
pub(super) fn last(table: &str, header: &str, colour: impl Fn(&str) -> String) -> String {
    let mut lines = table.lines();
    let Some(top) = lines.next() else { return String::new() };
    // A header that is folded itself is on no terminal that people read tables on.
    let Some((before, _)) = top.rsplit_once(header) else { return table.to_owned() };
    let start = before.chars().count();
    let coloured = |line: &str| {
        let (left, cell) =
            line.split_at(line.char_indices().nth(start).map_or(line.len(), |c| c.0));
        if cell.is_empty() { format!("{left}\n") } else { format!("{left}{}\n", colour(cell)) }
    };
    format!("{top}\n") + &lines.map(coloured).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_column_is_coloured() {
        let table = "APP             STATE\ndevx/unlocked-ä locked\n                and held\ndevx/locked\n";
        let marked = last(table, "STATE", |cell| format!("<{cell}>"));
        assert_eq!(
            marked,
            "APP             STATE\ndevx/unlocked-ä <locked>\n                <and held>\ndevx/locked\n"
        );
        assert_eq!(last(table, "NONE", |_| "x".to_owned()), table);
    }
}
