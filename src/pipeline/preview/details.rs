//! The differences of a preview, object by object, up to the limit of the text.

use super::{Preview, PreviewEffect, TargetPreview};
use crate::manifests::diff::Change;
use crate::support::markdown::{code, count, fence, html};
use crate::support::text::truncate_chars;

/// The limit of the text, below GitHub's 65,535 characters; counted in bytes, which are more.
const ROOM: usize = 60_000;
/// The last line, and the headings of targets without differences that fit, need some of it.
const RESERVE: usize = 1_000;
/// The limit of lines for one object; `bart render` shows all.
const LINES: usize = 300;
/// The limit of characters of one line; certificates and scripts have longer ones.
const CHARACTERS: usize = 400;
/// The limit of bytes for one object.
const BYTES: usize = 16_000;

/// Writes the text; `None` if there is nothing to show.
pub(super) fn text(preview: &Preview) -> Option<String> {
    let mut out = Out::default();
    for target in &preview.targets {
        describe_target(target, &mut out);
    }
    if out.more > 0 {
        let hidden_objects = count(out.more, "object");
        out.text.push_str(&format!(
            "\nand {hidden_objects} more: `bart render --target TARGET --tag TAG` shows all manifests of a target\n"
        ));
    }
    (!out.text.is_empty()).then_some(out.text)
}

/// The text so far, and the number of parts without room.
#[derive(Default)]
struct Out {
    text: String,
    more: usize,
}

impl Out {
    fn add(&mut self, block: &str) -> bool {
        let fits = self.text.len() + block.len() + RESERVE <= ROOM;
        if fits {
            self.text.push_str(block);
        }
        fits
    }
}

fn describe_target(target: &TargetPreview, out: &mut Out) {
    let (blocks, restarts) = match &target.outlook {
        PreviewEffect::Changes { changes, restarts } => {
            (changes.iter().map(change).collect(), restarts.as_slice())
        }
        PreviewEffect::New(objects) => (vec![new(objects)], &[][..]),
        PreviewEffect::Same | PreviewEffect::Refused(_) | PreviewEffect::Unknown(_) => return,
    };
    let heading = format!("### {}\n\n{}", code(target.target.as_str()), pods(restarts));
    let mut heading = Some(heading);
    for block in blocks {
        let block = format!("{}{block}", heading.clone().unwrap_or_default());
        if out.add(&block) {
            heading = None;
        } else {
            out.more += 1;
        }
    }
}

fn pods(restarts: &[String]) -> String {
    match restarts {
        [] => String::new(),
        restarts => format!("Pods would be replaced: {}\n\n", names(restarts, 10)),
    }
}

fn new(objects: &[String]) -> String {
    format!("Nothing is deployed there yet. New: {}\n\n", names(objects, 100))
}

/// Writes `a, b and 3 more`.
fn names(all: &[String], most: usize) -> String {
    let names: Vec<String> =
        all.iter().take(most).map(|name| code(&truncate_chars(name, 100))).collect();
    let hidden_names = all.len() - names.len();
    let ending = if hidden_names > 0 { format!(" and {hidden_names} more") } else { String::new() };
    names.join(", ") + &ending
}

fn change(change: &Change) -> String {
    let Change { kind, name, how, fields: _, more_fields: _, diff } = change;
    let (plus, minus) = lines(change);
    let name = format!(
        "{} <code>{}</code>",
        html(&truncate_chars(kind, 100)),
        html(&truncate_chars(name, 253))
    );
    format!(
        "<details><summary>{name}: {}, +{plus} −{minus}</summary>\n\n{}\n</details>\n\n",
        how.as_str(),
        fence("diff", &shorten_diff(diff)),
    )
}

/// Counts the added and the removed lines.
pub(super) fn lines(change: &Change) -> (usize, usize) {
    let begin = |sign: char| change.diff.lines().filter(|line| line.starts_with(sign)).count();
    (begin('+'), begin('-'))
}

fn shorten_diff(diff: &str) -> String {
    let mut out = String::new();
    for (n, line) in diff.lines().enumerate() {
        let line = truncate_chars(line, CHARACTERS);
        if n >= LINES || out.len() + line.len() > BYTES {
            let hidden_lines = count(diff.lines().count() - n, "line");
            return format!("{out}@@ and {hidden_lines} more @@\n");
        }
        out.push_str(&line);
        out.push('\n');
    }
    out
}
