//! Finds secrets in the comments of a YAML file: a note, or a line that was commented out. Pure.

use std::ops::Range;

use crate::support::secret_name::is_secret_name;
use crate::support::secret_text::{is_reference, lines_of, span_in};

/// Finds the values after names of secrets in comments: `# password: x`. A `#` in quotes counts as a comment, too.
pub(super) fn find_named(text: &str) -> Vec<Range<usize>> {
    let values = lines_of(text).filter_map(comment).flat_map(values);
    values.map(|value| span_in(text, value)).collect()
}

/// Finds the comment of a line.
fn comment(line: &str) -> Option<&str> {
    let is_begin = |(at, _): &(usize, &str)| {
        line.get(..*at).is_some_and(|before| {
            before.is_empty() || before.ends_with(|c: char| c.is_whitespace())
        })
    };
    let (at, _) = line.match_indices('#').find(is_begin)?;
    line.get(at..)
}

/// Lists the text after each name of a secret and its colon, up to the next blank.
fn values(comment: &str) -> impl Iterator<Item = &str> {
    let mut rest = comment;
    std::iter::from_fn(move || {
        loop {
            let (before, behind) = rest.split_once(':')?;
            rest = behind;
            let is_end = |c: char| c.is_whitespace() || matches!(c, '#' | ',' | '{' | '(');
            let name = before.trim_end().rsplit(is_end).next().unwrap_or_default();
            if !is_secret_name(name.trim_matches(['"', '\''])) {
                continue;
            }
            let value = behind.trim_start_matches([' ', '\t', '"', '\'']);
            let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | '}');
            let value = value.split(is_end).next().unwrap_or_default();
            if !is_reference(value) {
                return Some(value);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_secret_in_a_comment_hides_what_follows() {
        let secrets_in =
            |text| find_named(text).into_iter().map(|span| &text[span]).collect::<Vec<_>>();
        assert_eq!(secrets_in("a: 1 # password: hunter2, old\n"), ["hunter2"]);
        assert_eq!(secrets_in("  #db_password: \"hunter2\"\nx: y"), ["hunter2"]);
        assert_eq!(secrets_in("# {token: hunter2}, pin: 1, apiKey: x1"), ["hunter2", "x1"]);
        for fine in
            ["a: \"b#password: c\"", "# password: $(X)", "# password:", "# port: 80", "password: x"]
        {
            assert_eq!(secrets_in(fine), [""; 0], "{fine}");
        }
    }
}
