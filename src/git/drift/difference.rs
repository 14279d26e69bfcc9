//! The difference between `latest` and an app's revisions, and its diff for people. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use git2::Oid;
use similar::TextDiff;

use crate::git::drift::secret;
use crate::model::hand_edit::{EditedFile, HandEditKind};
use crate::model::id::DeployId;
use crate::support::secret_marks::{SecretMarks, unmark};
use crate::support::text::is_invisible;

/// The entries of a folder, by path below it.
pub(in crate::git) type FolderListing = BTreeMap<String, Item>;

/// A file or another entry: its object and its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::git) struct Item {
    pub(in crate::git) id: Oid,
    pub(in crate::git) mode: i32,
}

/// The difference to a revision.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::git) struct Difference<'a> {
    pub(in crate::git) base: Option<&'a DeployId>,
    pub(in crate::git) changes: Vec<EditedPath<'a>>,
}

/// A path that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::git) struct EditedPath<'a> {
    pub(in crate::git) name: &'a str,
    pub(in crate::git) before: Option<Item>,
    pub(in crate::git) after: Option<Item>,
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::git) enum ItemContent {
    /// A text, small enough to be compared.
    Text(String),
    /// Another kind of entry, in words.
    Other(String),
}

/// The longest diff, in lines: it is for people, and is kept with the record of a deployment.
const DIFF_LINES: usize = 400;
/// The same in bytes; a manifest may have one long line.
const DIFF_BYTES: usize = 32 * 1024;
/// A longer line is cut, in characters.
const LINE: usize = 400;
/// The time limit of the search for the shortest diff of two texts; after that, a longer one will do. The writer waits
/// for it, and two texts of a quarter of a megabyte that have little in common took it ten seconds (measured with an
/// unoptimised build).
const SEARCH: Duration = Duration::from_millis(100);

/// Compares `latest` with the revision that it differs least from; the newer one of two. `None` if it is one of them,
/// or if there is neither a `latest` nor a revision: then there is no manual edit.
pub(in crate::git) fn difference<'a>(
    latest: &'a FolderListing,
    revisions: &'a [(DeployId, FolderListing)],
) -> Option<Difference<'a>> {
    if latest.is_empty() && revisions.is_empty() {
        return None;
    }
    let nearest = revisions.iter().min_by_key(|(id, listing)| {
        (changes(Some(listing), latest).len(), std::cmp::Reverse(id.as_str()))
    });
    let (base, listing) = nearest.map(|(id, listing)| (id, listing)).unzip();
    let changes = changes(listing, latest);
    (!changes.is_empty()).then_some(Difference { base, changes })
}

fn changes<'a>(before: Option<&'a FolderListing>, after: &'a FolderListing) -> Vec<EditedPath<'a>> {
    let mut names: Vec<&String> =
        before.into_iter().flatten().chain(after).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    let pairs = names.into_iter().map(|name| EditedPath {
        name,
        before: before.and_then(|before| before.get(name)).copied(),
        after: after.get(name).copied(),
    });
    pairs.filter(|change| change.before != change.after).collect()
}

impl EditedPath<'_> {
    pub(in crate::git) fn file(&self) -> EditedFile {
        let how = match (self.before, self.after) {
            (None, _) => HandEditKind::Added,
            (Some(_), Some(_)) => HandEditKind::Changed,
            (Some(_), None) => HandEditKind::Removed,
        };
        EditedFile { name: visible(self.name), how }
    }
}

/// Writes a unified diff of those paths, for people; it names the parts that are left out.
pub(in crate::git) fn diff(
    changes: &[EditedPath<'_>],
    read_item: impl Fn(Item) -> ItemContent,
) -> String {
    let mut text = String::new();
    let mut lines = 0;
    for (shown_changes, change) in changes.iter().enumerate() {
        let part = diff_file(change, &read_item);
        for line in part.lines() {
            if lines == DIFF_LINES || text.len() > DIFF_BYTES {
                let hidden_changes = changes.len() - shown_changes;
                text.push_str(&format!("… the rest is not shown: {}\n", files(hidden_changes)));
                return text;
            }
            text.extend(line.chars().take(LINE).map(sanitize_char));
            text.push('\n');
            lines += 1;
        }
    }
    text
}

fn files(count: usize) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

fn diff_file(change: &EditedPath<'_>, read_item: &impl Fn(Item) -> ItemContent) -> String {
    let name = visible(change.name);
    let side = |item: Option<Item>| item.map_or(ItemContent::Text(String::new()), read_item);
    let header = |item: Option<Item>, side: char| {
        if item.is_some() { format!("{side}/{name}") } else { "/dev/null".to_owned() }
    };
    let (old, new) = (header(change.before, 'a'), header(change.after, 'b'));
    let (before, after) =
        (side(change.before).without_secret(), side(change.after).without_secret());
    match (before, after) {
        (ItemContent::Text(a), ItemContent::Text(b)) if a != b => {
            let mut marks = SecretMarks::default();
            let (a, b) = (marks.mark_manifest(&a), marks.mark_manifest(&b));
            let mut config = TextDiff::configure();
            let compared = config.timeout(SEARCH).diff_lines(&a, &b);
            unmark(&compared.unified_diff().context_radius(3).header(&old, &new).to_string())
        }
        (a, b) => format!("--- {old}\n+++ {new}\n… {}, not shown\n", describe_change(&a, &b)),
    }
}

impl ItemContent {
    /// Hides a Secret that a person wrote: its content must not be in a log.
    fn without_secret(self) -> Self {
        match self {
            Self::Text(text) => match secret::secret_reason(&text) {
                Some(why) => Self::Other(why.to_owned()),
                None => Self::Text(text),
            },
            other @ Self::Other(_) => other,
        }
    }
}

fn describe_change(before: &ItemContent, after: &ItemContent) -> String {
    match (before, after) {
        (ItemContent::Other(a), ItemContent::Other(b)) if a != b => format!("{a}, then {b}"),
        (_, ItemContent::Other(description)) | (ItemContent::Other(description), _) => {
            description.clone()
        }
        (ItemContent::Text(_), ItemContent::Text(_)) => {
            "the same text with another mode".to_owned()
        }
    }
}

fn sanitize_char(c: char) -> char {
    if (c.is_control() && c != '\t') || is_invisible(c) { '\u{fffd}' } else { c }
}

fn visible(name: &str) -> String {
    name.chars().take(200).map(sanitize_char).collect()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
