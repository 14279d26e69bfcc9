//! Formats violations as a compiler does: the rule, the line with the place underlined, the expected value, and what to
//! do.

use std::collections::HashMap;

use annotate_snippets::{AnnotationKind, Element, Group, Level, Renderer, Snippet};

use crate::model::violation::{Severity, Violation};
use crate::support::secret_mask::ValueMask;
use crate::support::text::with_line_feeds;

/// The texts of the files that violations point into, by name.
#[derive(Debug, Default)]
pub(crate) struct SourceTexts(HashMap<String, String>);

impl SourceTexts {
    pub(crate) fn add(&mut self, file: &str, text: impl Into<String>) {
        let text: String = text.into();
        // Positions do not count a byte order mark.
        let text = text.strip_prefix('\u{feff}').map_or(text.clone(), str::to_owned);
        let text = with_line_feeds(&text).into_owned();
        self.0.insert(file.to_owned(), text);
    }

    /// Adds the texts of others.
    pub(crate) fn extend(&mut self, others: &Self) {
        self.0.extend(others.0.clone());
    }
}

/// The largest number of violations that are shown: each takes a search through the whole file.
const MAX_SHOWN: usize = 100;

/// Formats all violations, one after the other, and a line that counts them.
pub(crate) fn render(violations: &[Violation], sources: &SourceTexts) -> String {
    let renderer = Renderer::styled();
    let listed = violations.iter().take(MAX_SHOWN);
    let files = listed.clone().filter_map(|violation| violation.position.as_ref());
    let files = files.filter_map(|place| sources.0.get_key_value(place.file.as_ref()));
    let files: HashMap<&str, &str> =
        files.map(|(name, text)| (name.as_str(), text.as_str())).collect();
    // One mask for each file, whatever the number of violations in it.
    let masks = files.into_iter().map(|(name, text)| (name, ValueMask::new(text))).collect();
    let listed = listed.map(|violation| render_violation(violation, &masks, &renderer));
    let hidden = violations.len().saturating_sub(MAX_SHOWN);
    let rest = (hidden > 0).then(|| format!("… and {hidden} more, of the same file\n"));
    listed.chain(rest).chain([summary(violations)]).collect::<Vec<_>>().join("\n")
}

/// Formats a line for violations that the service did not list; empty if it listed all.
pub(crate) fn left_out(count: usize) -> String {
    if count == 0 {
        String::new()
    } else {
        format!("… and {count} more that the service does not list\n")
    }
}

fn render_violation(
    violation: &Violation,
    masks: &HashMap<&str, ValueMask<'_>>,
    renderer: &Renderer,
) -> String {
    let level = match violation.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(violation.message.as_str()).id(violation.rule.as_ref());
    // The line with a secret would end in the log of a CI job.
    let may_show = violation.rule != "plaintext";
    let excerpt = violation.position.as_ref().filter(|_| may_show).and_then(|place| {
        let mask = masks.get(place.file.as_ref())?;
        let text = mask.mask(&place.range_in(mask.text()));
        let range = place.range_in(&text);
        Some((place, text, range))
    });
    let snippet = excerpt.as_ref().map(|(place, text, range)| {
        let label = violation.expected.as_deref().unwrap_or_default();
        let mark = AnnotationKind::Primary.span(range.clone()).label(label);
        Element::from(Snippet::source(text.as_ref()).path(place.file.as_ref()).annotation(mark))
    });
    let place = snippet.is_none().then(|| format_remote_place(violation)).flatten();
    let help = violation.help.as_deref().map(|help| Element::from(Level::HELP.message(help)));
    let elements: Vec<Element<'_>> = snippet.into_iter().chain(place).chain(help).collect();
    format!("{}\n", renderer.render(&[Group::with_title(title).elements(elements)]))
}

/// Formats a place in a file whose text is not on this machine.
fn format_remote_place(violation: &Violation) -> Option<Element<'_>> {
    let place = violation.position.as_ref()?;
    let origin = annotate_snippets::Origin::path(place.file.as_ref());
    Some(Element::from(origin.line(place.line as usize).char_column(place.column as usize)))
}

fn summary(violations: &[Violation]) -> String {
    let count = |severity| violations.iter().filter(|v| v.severity == severity).count();
    let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    match (errors, warnings) {
        (0, 0) => String::new(),
        (0, n) => format!("{}\n", plural(n, "warning")),
        (n, 0) => format!("{}\n", plural(n, "violation")),
        (n, m) => format!("{}, {}\n", plural(n, "violation"), plural(m, "warning")),
    }
}
