//! Suggestions ("did you mean"): the nearest of the words that would have been right.

use strsim::osa_distance;

/// Finds the candidate that is most like `word`, if one is like enough to be a slip of it.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = 1 + word.chars().count() / 4;
    let word = fold(word);
    candidates
        .into_iter()
        .map(|candidate| (fold(candidate), candidate))
        // A slip adds or takes four bytes at most.
        .filter(|(folded, _)| folded.len().abs_diff(word.len()) <= 4 * limit)
        .map(|(folded, candidate)| (osa_distance(&word, &folded), candidate))
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

/// Counts the slips that make one word of another, a swap of neighbours as one; case and separators are none.
pub fn distance(one: &str, other: &str) -> usize {
    osa_distance(&fold(one), &fold(other))
}

/// Folds case and separators, which do not make another word: `min_replicas` is `minReplicas`.
fn fold(word: &str) -> String {
    word.chars().take(64).filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
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
