//! Suggestions ("did you mean"): the nearest of the words that would have been right.

/// Finds the candidate that is most like `word`, if one is like enough to be a slip of it.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = 1 + word.chars().count() / 4;
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Suggests the nearest word, or lists all.
pub fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(word, candidates.clone()) {
        Some(best) => format!("did you mean `{best}`?"),
        None => format!("use one of {}", list(candidates)),
    }
}

/// Lists the words as `a`, `b` and `c`, at most twenty of them.
pub fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted_words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    let shown_words = quoted_words.get(..20).unwrap_or(&quoted_words);
    let hidden = quoted_words.len() - shown_words.len();
    match shown_words {
        [] => "(none)".to_owned(),
        _ if hidden > 0 => format!("{} and {hidden} more", shown_words.join(", ")),
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        only => only.join(", "),
    }
}

/// Folds case and separators, which do not make another word: `min_replicas` is `minReplicas`.
fn fold(word: &str) -> Vec<char> {
    word.chars().take(64).filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
}

/// Counts the slips that make one word of another; case and separators are none.
pub fn distance(one: &str, other: &str) -> usize {
    edits(&fold(one), &fold(other))
}

/// Computes the edit distance with a swap of neighbours as one edit (optimal string alignment).
fn edits(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row_above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |line: &[usize], n: usize| line.get(n).copied().unwrap_or(usize::MAX - 1);
            let change = at(&row_above, j) + usize::from(x != y);
            let swap = match (i.checked_sub(1), j.checked_sub(1)) {
                (Some(pi), Some(pj)) if a.get(pi) == Some(y) && b.get(pj) == Some(x) => {
                    at(&before, pj) + 1
                }
                _ => usize::MAX,
            };
            row.push(change.min(swap).min(at(&row_above, j + 1) + 1).min(at(&row, j) + 1));
        }
        before = std::mem::replace(&mut row_above, row);
    }
    row_above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word_and_a_stranger_none() {
        let words = ["minReplicas", "maxReplicas", "cpu", "memory", "service"];
        assert_eq!(nearest("minReplica", words), Some("minReplicas"));
        assert_eq!(nearest("min_replicas", words), Some("minReplicas"));
        assert_eq!(nearest("sevrice", words), Some("service"));
        assert_eq!(nearest("pcu", words), Some("cpu"));
        assert_eq!(nearest("ingress", words), None);
    }

    #[test]
    fn a_list_reads_as_a_sentence() {
        assert_eq!(list([]), "(none)");
        assert_eq!(list(["a"]), "`a`");
        assert_eq!(list(["a", "b", "c"]), "`a`, `b` and `c`");
    }
}
