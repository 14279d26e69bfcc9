//! Formats changes of objects for people. Pure.

use serde_json::Value as Json;

use super::output::{BAD, DIM, GOOD, NOTE};
use crate::model::change::{Change, ChangeKind, Field};
use crate::support::text::truncate_chars;

/// The path of the label with the version, which each object carries.
const VERSION: &str = "metadata.labels[\"app.kubernetes.io/version\"]";

/// The longest value that is shown, in characters; the data has the rest.
const LONGEST: usize = 100;

/// The detail in which a changed object is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShownChange {
    /// Only its name.
    Names,
    /// The values that differ, by their paths.
    Fields,
    /// The lines that differ.
    Lines,
}

/// Formats the changes object by object. Unless lines are shown, objects that only change their version share one line.
pub(super) fn page(changes: &[Change], detail: ShownChange) -> String {
    // Each object carries the version: a new version alone is no news.
    let (relabelled, rest): (Vec<&Change>, Vec<&Change>) = changes
        .iter()
        .partition(|change| detail != ShownChange::Lines && is_only_the_version(change));
    let object = |change: &Change| {
        let inside = match detail {
            ShownChange::Names => String::new(),
            ShownChange::Fields => fields(change),
            ShownChange::Lines => lines(&change.diff),
        };
        heading(change) + &inside
    };
    let mut text: String = rest.into_iter().map(object).collect();
    text += &another_version(&relabelled);
    text
}

/// Returns whether nothing but the version label changes.
fn is_only_the_version(change: &Change) -> bool {
    let only = |field: &Field| field.path == VERSION;
    change.how == ChangeKind::Changed && !change.fields.is_empty() && change.fields.iter().all(only)
}

fn another_version(relabelled: &[&Change]) -> String {
    let names = relabelled.iter().map(|change| format!("{} {}", change.kind, change.name));
    match names.collect::<Vec<_>>().join(", ") {
        empty if empty.is_empty() => empty,
        names => format!("{NOTE}~{NOTE:#} {DIM}the version label alone: {names}{DIM:#}\n"),
    }
}

fn heading(change: &Change) -> String {
    let (sign, style) = match change.how {
        ChangeKind::Added => ('+', GOOD),
        ChangeKind::Removed => ('-', BAD),
        ChangeKind::Changed => ('~', NOTE),
    };
    format!("{style}{sign} {} {}{style:#}\n", change.kind, change.name)
}

fn fields(change: &Change) -> String {
    let fields = change.fields.iter().filter(|field| field.path != VERSION);
    let mut text: String = fields.map(field).collect();
    if change.more_fields > 0 {
        text += &format!("    {DIM}and {} fields more{DIM:#}\n", change.more_fields);
    }
    if change.how == ChangeKind::Changed && text.is_empty() {
        // Files with manual edits, and secrets, have no fields to show.
        return lines(&change.diff);
    }
    text
}

fn field(Field { path, before, after }: &Field) -> String {
    match (before, after) {
        (Json::Null, after) => format!("    {path}: {GOOD}+ {}{GOOD:#}\n", value(after)),
        (before, Json::Null) => format!("    {path}: {BAD}- {}{BAD:#}\n", value(before)),
        (before, after) => {
            let (before, after) = (value(before), value(after));
            format!("    {path}: {BAD}{before}{BAD:#} → {GOOD}{after}{GOOD:#}\n")
        }
    }
}

/// Formats a value on one line, cut to a readable length.
fn value(value: &Json) -> String {
    truncate_chars(&value.to_string(), LONGEST).into_owned()
}

fn lines(diff: &str) -> String {
    let coloured = |line: &str| match line.chars().next() {
        Some('+') => format!("    {GOOD}{line}{GOOD:#}\n"),
        Some('-') => format!("    {BAD}{line}{BAD:#}\n"),
        Some('@') => format!("    {DIM}{line}{DIM:#}\n"),
        _ => format!("    {line}\n"),
    };
    diff.lines().map(coloured).collect()
}
