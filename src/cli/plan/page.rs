//! A plan as people read it.

use serde_json::Value as Json;

use super::{Change, Field, Planned};
use crate::cli::diagnostics::{self, Sources};
use crate::cli::output::{BAD, BOLD, DIM, GOOD, NOTE};

const VERSION: &str = "metadata.labels[\"app.kubernetes.io/version\"]";

/// Of a value; the rest is in the data.
const LONGEST: usize = 100;

/// One target's plan.
pub(super) fn of(plan: &Planned, diff: bool, sources: &Sources) -> String {
    let app = plan.app.as_deref().unwrap_or("the app");
    let tag = plan.tag.as_ref().map_or_else(String::new, |tag| format!(", tag {tag}"));
    let mut text = format!("{BOLD}{app} on {}{BOLD:#}{tag}: {}\n", plan.target, verdict(plan));
    // Each object carries the version; that it is another goes without saying.
    let (labelled, told): (Vec<&Change>, Vec<&Change>) =
        plan.changes.iter().partition(|change| !diff && is_only_the_version(change));
    for change in told {
        text += &heading(change);
        text += &if diff { lines(&change.diff) } else { fields(change) };
    }
    text += &another_version(&labelled);
    for note in &plan.notes {
        text += &format!("{NOTE}note{NOTE:#}: {note}\n");
    }
    let met: Vec<_> = plan.violations.iter().chain(&plan.warnings).cloned().collect();
    if !met.is_empty() {
        text += &format!("\n{}", diagnostics::render(&met, sources));
    }
    text
}

fn verdict(plan: &Planned) -> String {
    let of = |how: &str| plan.changes.iter().filter(|change| change.how == how).count();
    match plan.outcome.as_str() {
        "refused" => format!("{BAD}would be refused{BAD:#}"),
        "unchanged" => format!("{GOOD}nothing would change{GOOD:#}"),
        _ => {
            let counts =
                [("new", of("added")), ("changed", of("changed")), ("gone", of("removed"))];
            let some = counts.into_iter().filter(|(_, n)| *n > 0);
            some.map(|(word, n)| format!("{n} {word}")).collect::<Vec<_>>().join(", ")
        }
    }
}

/// Whether nothing but the label of the version would be another.
fn is_only_the_version(change: &Change) -> bool {
    let only = |field: &Field| field.path == VERSION;
    change.how == "changed" && !change.fields.is_empty() && change.fields.iter().all(only)
}

fn another_version(labelled: &[&Change]) -> String {
    let names = labelled.iter().map(|change| format!("{} {}", change.kind, change.name));
    match names.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        names => format!("{NOTE}~{NOTE:#} {DIM}the version label alone: {names}{DIM:#}\n"),
    }
}

fn heading(change: &Change) -> String {
    let (sign, style) = match change.how.as_str() {
        "added" => ('+', GOOD),
        "removed" => ('-', BAD),
        _ => ('~', NOTE),
    };
    format!("{style}{sign} {} {}{style:#}\n", change.kind, change.name)
}

fn fields(change: &Change) -> String {
    let told = change.fields.iter().filter(|field| field.path != VERSION);
    let mut text: String = told.map(field).collect();
    if change.more_fields > 0 {
        text += &format!("    {DIM}and {} fields more: see --diff{DIM:#}\n", change.more_fields);
    }
    if change.how == "changed" && text.is_empty() {
        // Files that somebody has edited, and secrets, have no fields to show.
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

/// On one line, and no longer than somebody reads.
fn value(value: &Json) -> String {
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
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
