//! A registry's list of tags, and the choice of those that are likely to be the newest. Pure.
//!
//! The distribution API lists names without times, in no order by time. Google's registries send the times of all in
//! the same answer; for others a tag's own text must do until its image has been looked up: in
//! `1.0.202206151506-sha.649008fb` the greatest number is the newest.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;

/// The limit of tags that one request keeps: years of builds. Tags beyond it are counted as left out.
pub(super) const MAX_TAGS: usize = 20_000;

/// Images that are looked at for one answer, where their times are not known beforehand.
const MAX_IMAGES: usize = 60;
/// The limit of lookups for one answer where tags say nothing of their age, such as commits' ids: the newest may be
/// anywhere in the list. Results are cached, and further pages look up further tags.
const MAX_LOOKED_AT: usize = 300;

/// The tags of a repository, as far as they were listed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TagListing {
    /// The tags in the registry's order; at most [`MAX_TAGS`].
    pub(super) tags: Vec<String>,
    /// The time of each image by tag, where the list has it; at most as many.
    pub(super) times: BTreeMap<String, Timestamp>,
    /// True if there were more tags than are kept.
    pub(super) is_full: bool,
}

impl TagListing {
    /// Returns whether the list says of every tag when its image was made.
    pub(super) fn is_dated(&self) -> bool {
        !self.times.is_empty() && self.tags.iter().all(|tag| self.times.contains_key(tag))
    }

    pub(super) fn add_tag(&mut self, tag: &str) {
        if !is_build(tag) {
            return;
        }
        if self.tags.len() < MAX_TAGS {
            self.tags.push(tag.to_owned());
        } else {
            self.is_full = true;
        }
    }

    pub(super) fn add_time(&mut self, tag: &str, at: Timestamp) {
        if is_build(tag) && self.times.len() < MAX_TAGS {
            self.times.insert(tag.to_owned(), at);
        }
    }
}

/// The order in which the images of a repository are listed, page by page. It only grows while it is cached: the next
/// page repeats nothing, and skips nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct ListOrder {
    /// Images, newest first as far as they were looked at together.
    pub(super) tags: Vec<String>,
    /// Every tag that was looked at, also those that are no image.
    pub(super) looked_at: HashSet<String>,
}

impl ListOrder {
    /// Returns true if there are tags that were not looked up yet.
    pub(super) fn may_grow(&self, listing: &TagListing) -> bool {
        listing.tags.iter().any(|tag| !self.looked_at.contains(tag))
    }

    /// Returns the tags to look up next, so that there are that many images.
    pub(super) fn next<'a>(&self, listing: &'a TagListing, count: usize) -> Vec<&'a str> {
        // Those of earlier pages count no more: this answer looks at as many again.
        let most = if listing.is_dated() { count } else { self.looked_at.len() + MAX_LOOKED_AT };
        let count = if listing.times.is_empty() { MAX_IMAGES.max(count) } else { count };
        let mut chosen = select_likely(&listing.tags, &listing.times, count.min(most));
        chosen.extend(choose_undated(&listing.tags, &listing.times, &chosen, most));
        chosen.retain(|tag| !self.looked_at.contains(*tag));
        chosen.truncate(most.saturating_sub(self.looked_at.len()));
        chosen
    }
}

/// Returns whether an image can have been made then: no image is older than the format.
pub(super) fn is_plausible(at: Timestamp) -> bool {
    const DOCKER_BEGAN: i64 = 1_356_998_400; // 2013-01-01
    at.as_second() >= DOCKER_BEGAN
}

/// Returns whether it is a tag as the distribution API has them, and of an image: signatures,
/// attestations and caches are pushed under tags too.
fn is_build(tag: &str) -> bool {
    let of_another = tag.strip_prefix("sha256-").is_some_and(|rest| {
        rest.len() >= 64 && rest.bytes().take(64).all(|b| b.is_ascii_hexdigit())
    });
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let legal = tag.bytes().all(|b| word(b) || matches!(b, b'.' | b'-' | b'+'));
    !of_another && legal && tag.len() <= 128 && tag.bytes().next().is_some_and(word)
}

/// Returns the query of the link to the next page (RFC 8288). Only the query is used: whatever host the link names, the
/// credentials go to the same place as before.
pub(super) fn next_page(link: &str) -> Option<String> {
    let item = link.split(',').find(|item| {
        let relation = item.split(';').skip(1).any(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or_default();
            name.trim().eq_ignore_ascii_case("rel") && value.trim().trim_matches('"') == "next"
        });
        relation && item.contains('?')
    })?;
    let address = item.trim().strip_prefix('<')?.split('>').next()?;
    let query = address.split_once('?')?.1;
    let legal = |c: char| c.is_ascii_graphic() && !matches!(c, '#' | '"' | '<' | '>');
    (!query.is_empty() && query.len() <= 2048 && query.chars().all(legal)).then(|| query.to_owned())
}

/// Returns the tags that are likely to be the newest, at most so many, each once.
///
/// Where times are known they decide. Of the others, half are those with the greatest version, and half are
/// the last ones of the list: several registries list in the order of their making.
pub(super) fn select_likely<'a>(
    tags: &'a [String],
    times: &BTreeMap<String, Timestamp>,
    most: usize,
) -> Vec<&'a str> {
    let mut dated: Vec<(&Timestamp, &str)> =
        tags.iter().filter_map(|tag| Some((times.get(tag)?, tag.as_str()))).collect();
    dated.sort_by(|a, b| b.cmp(a));
    let rest: Vec<&str> =
        tags.iter().map(String::as_str).filter(|tag| !times.contains_key(*tag)).collect();
    let (mut versions, mut others): (Vec<&str>, Vec<&str>) =
        rest.into_iter().partition(|tag| is_version(tag));
    versions.sort_by(|a, b| natural_order(b, a));
    others.reverse();
    let half = most.div_ceil(2);
    let first = versions.iter().take(half.max(most.saturating_sub(others.len())));
    let guessed = first.chain(others.iter()).chain(versions.iter()).copied();
    let mut unique = HashSet::new();
    let candidates = dated.into_iter().map(|(_, tag)| tag).chain(guessed);
    candidates.filter(|tag| unique.insert(*tag)).take(most).collect()
}

/// Chooses further tags whose text says nothing of their age, the last of the list first: with the chosen ones at most
/// so many.
pub(super) fn choose_undated<'a>(
    tags: &'a [String],
    times: &BTreeMap<String, Timestamp>,
    chosen: &[&str],
    most: usize,
) -> Vec<&'a str> {
    let chosen: HashSet<&str> = chosen.iter().copied().collect();
    let silent =
        |tag: &&str| !times.contains_key(*tag) && !is_version(tag) && !chosen.contains(tag);
    let rest = tags.iter().rev().map(String::as_str).filter(silent);
    rest.take(most.saturating_sub(chosen.len())).collect()
}

fn is_version(tag: &str) -> bool {
    let text = tag.strip_prefix(['v', 'V']).unwrap_or(tag);
    // A commit's id may begin with a digit, and is no number for all that.
    let is_commit = text.len() >= 7 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let is_number = text.bytes().all(|b| b.is_ascii_digit());
    text.starts_with(|c: char| c.is_ascii_digit()) && (!is_commit || is_number)
}

/// Orders texts as people count: `1.9` is before `1.10`.
pub(super) fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let (left, right) = (run(a), run(b));
        let numbers = left.starts_with(|c: char| c.is_ascii_digit())
            && right.starts_with(|c: char| c.is_ascii_digit());
        let order = if numbers { number(left).cmp(&number(right)) } else { left.cmp(right) };
        if order != Ordering::Equal || left.is_empty() {
            return order;
        }
        a = a.get(left.len()..).unwrap_or_default();
        b = b.get(right.len()..).unwrap_or_default();
    }
}

/// Returns the beginning of the text: digits, or none.
fn run(text: &str) -> &str {
    let digits = text.starts_with(|c: char| c.is_ascii_digit());
    let end = text.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

/// Numbers of any length compare by length, then by digits.
fn number(digits: &str) -> (usize, &str) {
    let digits = digits.trim_start_matches('0');
    (digits.len(), digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_texts(tags: &[&str]) -> Vec<String> {
        tags.iter().map(|tag| (*tag).to_owned()).collect()
    }

    #[test]
    fn a_link_says_where_the_next_page_is_and_nothing_else_is_taken_from_it() {
        for (link, next) in [
            ("</v2/a/b/tags/list?last=2.0&n=2>; rel=\"next\"", Some("last=2.0&n=2")),
            ("<https://evil.example/v2/x?n=2>; rel=next", Some("n=2")),
            ("</v2/x?n=1>; rel=\"prev\", </v2/x?n=3>; rel=\"next\"", Some("n=3")),
            ("</v2/a/b/tags/list>; rel=\"next\"", None),
            ("<x?a b>; rel=\"next\"", None),
            ("nonsense", None),
        ] {
            assert_eq!(next_page(link).as_deref(), next, "{link:?}");
        }
    }

    #[test]
    fn the_greatest_version_and_the_last_of_the_list_are_likely() {
        let tags = to_texts(&[
            "1.0.202206151506-sha.649008fb",
            "1.0.202206160900-sha.00000000",
            "1.9",
            "1.10",
            "main",
            "0a1b2c3d4e5f",
            "f00dfeed",
        ]);
        let none = BTreeMap::new();
        assert_eq!(select_likely(&tags, &none, 4), ["1.10", "1.9", "f00dfeed", "0a1b2c3d4e5f"]);
        let only = to_texts(&["1.0.202206151506-sha.649008fb", "1.0.202206160900-sha.00000000"]);
        assert_eq!(select_likely(&only, &none, 1), ["1.0.202206160900-sha.00000000"]);
        assert_eq!(select_likely(&tags, &none, 50).len(), 7, "each once");
    }

    #[test]
    fn of_commits_and_branches_as_many_are_looked_at_as_there_may_be() {
        let tags = to_texts(&["0a1b2c3d4e5f", "1.9", "f00dfeed", "main"]);
        let none = BTreeMap::new();
        assert_eq!(choose_undated(&tags, &none, &["main", "1.9"], 4), ["f00dfeed", "0a1b2c3d4e5f"]);
        assert_eq!(choose_undated(&tags, &none, &["main", "1.9"], 3), ["f00dfeed"]);
        assert_eq!(choose_undated(&tags, &none, &["main", "1.9"], 1), Vec::<&str>::new());
    }

    proptest::proptest! {
        #[test]
        fn versions_have_an_order(a in "[0-9a-c.-]{0,8}", b in "[0-9a-c.-]{0,8}", c in "[0-9a-c.-]{0,8}") {
            proptest::prop_assert_eq!(natural_order(&a, &b), natural_order(&b, &a).reverse());
            if natural_order(&a, &b).is_le() && natural_order(&b, &c).is_le() {
                proptest::prop_assert!(natural_order(&a, &c).is_le());
            }
        }
    }
}
