//! The check for names that a template reads and that have no value.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::model::violation::{Position, Violation};
use crate::templates::lexer;
use crate::templates::lint::reads::{EACH, TemplateRead};
use crate::templates::lint::shape::ViewShape;
use crate::templates::parameters::{FILE, PART};
use crate::waml::suggest;

/// Finds reads of unknown names: one violation for each such part, at its first place.
pub(crate) fn find_undefined(
    reads: &[TemplateRead],
    shape: &ViewShape,
    texts: &HashMap<String, &str>,
) -> Vec<Violation> {
    let mut places: BTreeMap<(&str, usize), Vec<&TemplateRead>> = BTreeMap::new();
    for read in reads {
        places.entry((&read.file, read.at)).or_default().push(read);
    }
    let mut violations: Vec<(Violation, usize)> = Vec::new();
    for reads in places.into_values() {
        let Some(read) = find_undefined_read(&reads, shape) else { continue };
        let violation = undefined_violation(read, shape);
        match violations.iter_mut().find(|(reported, _)| reported.message == violation.message) {
            Some((_, repeats)) => *repeats += 1,
            None => violations.push((violation.at("", Some(position(read, texts))), 0)),
        }
    }
    let with_count = |(violation, repeats): (Violation, usize)| match (repeats, &violation.expected)
    {
        (1.., Some(expected)) => {
            let expected = format!("{expected}; the same at {repeats} more places");
            violation.expected(expected)
        }
        _ => violation,
    };
    violations.into_iter().map(with_count).collect()
}

/// Finds the read that leads nowhere: a place that is reached in several ways is right if one of
/// them leads somewhere; else the way that leads farthest is wrong.
fn find_undefined_read<'r>(
    reads: &[&'r TemplateRead],
    shape: &ViewShape,
) -> Option<&'r TemplateRead> {
    let leads =
        |read: &TemplateRead| !read.unbound && shape.count_known_steps(&read.way) == read.way.len();
    if reads.iter().any(|read| leads(read)) {
        return None;
    }
    reads.iter().copied().max_by_key(|read| (shape.count_known_steps(&read.way), &read.way))
}

fn undefined_violation(read: &TemplateRead, shape: &ViewShape) -> Violation {
    let (root, known_steps) =
        (read.way.first().map_or("", String::as_str), shape.count_known_steps(&read.way));
    if read.unbound {
        let message = format!("the component has no parameter `{root}`");
        let help = "a component sees its parameters only: add it to them, and hand it over";
        return Violation::error("undefined", message).expected("no such name").help(help);
    }
    let (before, name) =
        (read.way.get(..known_steps).unwrap_or_default(), read.way.get(known_steps));
    let name = name.map_or("", String::as_str);
    if known_steps == 0 {
        return Violation::error("undefined", format!("there is no `{root}`"))
            .expected("no such name")
            .help(suggest::hint(name, shape.names(before)));
    }
    let way = format_way(read.way.get(..=known_steps).unwrap_or_default());
    if root == PART {
        // What there is was declared, so this is no guess.
        let help = match suggest::nearest(name, shape.names(before)) {
            Some(best) => format!("did you mean `{best}`?"),
            None => format!("correct it, or declare it in the template's {FILE}"),
        };
        let message = format!("the template declares no `{way}`");
        return Violation::error("undefined", message).expected("not declared").help(help);
    }
    let message = format!("`{way}` may not exist: no sample has it, and no WAML can have it");
    let help = match suggest::nearest(name, shape.names(before)) {
        Some(best) => format!("did you mean `{best}`? Else add a sample that has it"),
        None => "correct it, or add a sample that has it".to_owned(),
    };
    Violation::warning("undefined", message).expected("never seen").help(help)
}

fn format_way(way: &[String]) -> String {
    let mut text = String::new();
    for step in way {
        let dot = if text.is_empty() || step == EACH { "" } else { "." };
        text = format!("{text}{dot}{step}");
    }
    text
}

fn position(read: &TemplateRead, texts: &HashMap<String, &str>) -> Position {
    let text = texts.get(&read.file).copied().unwrap_or_default();
    let (line, column) = lexer::place(text, read.at);
    let length = text.get(read.at..read.at + read.length).map_or(1, |name| name.chars().count());
    let length = u32::try_from(length).unwrap_or(1).max(1);
    Position { file: Arc::from(read.file.as_str()), line, column, length }
}
