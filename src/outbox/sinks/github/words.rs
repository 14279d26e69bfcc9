//! The text of a check run about a deployment: Markdown for people, and annotations at the lines of
//! the WAML. Pure.

use std::fmt::Write as _;

use crate::forge::check::{Annotation, Conclusion, Level};
use crate::model::deployment::{Contact, Deployment};
use crate::model::status::one_line;
use crate::model::violation::{Position, Severity, Violation};
use crate::support::text::remove_invisible;

/// The text of a check run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CheckText {
    pub(super) conclusion: Conclusion,
    pub(super) title: String,
    pub(super) summary: String,
    pub(super) annotations: Vec<Annotation>,
}

/// The most annotations. GitHub takes fifty a request: two requests' worth, and no reader wants
/// more.
const MAX_NOTES: usize = 100;
/// The most violations without a line that are listed.
const MAX_LISTED: usize = 50;
/// The longest item of the list, in characters: fifty of them fit into GitHub's 65,535 even if
/// every character has to be escaped.
const LONGEST_ITEM: usize = 500;
/// GitHub's limit for a title is 255 characters; a list of checks shows fewer.
const LONGEST_TITLE: usize = 120;

/// Returns the text for a deployment that failed.
pub(super) fn failure_text(deployment: &Deployment, page: &str, waml: &str) -> CheckText {
    let (in_waml, others): (Vec<_>, Vec<_>) = sort_by_severity(&deployment.violations)
        .into_iter()
        .partition(|violation| place(violation, waml).is_some());
    let (target, tag) = (&deployment.request.target, &deployment.request.release.tag);
    let verb = if deployment.pushed.is_some() { "does not run on" } else { "was not deployed to" };
    let mut summary = format!("**{}** {verb} **{target}**.\n\n", escape(tag.as_str()));
    if deployment.violations.is_empty() {
        let _infallible = writeln!(summary, "{}\n", escape(&deployment.summary));
    }
    summary.push_str(&describe_deployment(deployment, page));
    summary.push_str(&list(&others, page));
    summary.push_str(&notes_line(in_waml.len(), waml, page));
    summary.push_str(&left_out_line(deployment, page));
    CheckText {
        conclusion: conclusion(deployment, &in_waml),
        title: title(deployment),
        summary,
        annotations: in_waml
            .iter()
            .take(MAX_NOTES)
            .filter_map(|violation| build_annotation(violation, waml))
            .collect(),
    }
}

/// Returns the text for a deployment that succeeded after a failure.
pub(super) fn success_text(deployment: &Deployment, page: &str) -> CheckText {
    let (target, tag) = (&deployment.request.target, &deployment.request.release.tag);
    let sentence = escape(&deployment.summary);
    let summary = format!(
        "**{}** is deployed to **{target}**: {sentence}.\n\n{}",
        escape(tag.as_str()),
        describe_deployment(deployment, page)
    );
    CheckText {
        conclusion: Conclusion::Success,
        title: one_line(&format!("deployed to {target}"), LONGEST_TITLE),
        summary,
        annotations: vec![],
    }
}

/// Returns the conclusion. Where no line of the WAML is at fault, the commit need not change, and a
/// person has to act elsewhere.
fn conclusion(deployment: &Deployment, in_waml: &[&Violation]) -> Conclusion {
    let is_rejected = deployment.violations.errors() > 0;
    let has_fault = errors(in_waml.iter().copied()).count() > 0;
    if is_rejected && !has_fault { Conclusion::ActionRequired } else { Conclusion::Failure }
}

fn title(deployment: &Deployment) -> String {
    let target = &deployment.request.target;
    let violations = &deployment.violations;
    let title = match (errors(violations.iter()).next(), violations.errors()) {
        (None, _) if deployment.pushed.is_some() => {
            format!("does not run on {target}: {}", deployment.summary)
        }
        (None, _) => format!("not deployed to {target}: {}", deployment.summary),
        (Some(violation), 1) => format!("not deployed to {target}: {}", violation.message),
        (Some(_), count) => format!("not deployed to {target}: {count} violations"),
    };
    one_line(&title, LONGEST_TITLE)
}

/// Returns the line with the app, its contact, the commit, the actor and the link.
fn describe_deployment(deployment: &Deployment, page: &str) -> String {
    let Deployment { id, request, app, contact, .. } = deployment;
    let commit = request.release.commit.short();
    let app = app.as_ref().map(|app| format!("{} · ", escape(&app.to_string())));
    let name = contact.as_ref().map(|Contact { name, .. }| format!("{} · ", escape(name)));
    format!(
        "{}{}commit `{commit}` · requested by {} · [deployment {id}]({page})\n\n",
        name.unwrap_or_default(),
        app.unwrap_or_default(),
        escape(&request.actor),
    )
}

/// Returns the list of violations that have no line in the WAML.
fn list(others: &[&Violation], page: &str) -> String {
    let mut text = String::new();
    for violation in others.iter().take(MAX_LISTED) {
        let _infallible = writeln!(text, "- {}", item(violation));
    }
    if others.len() > MAX_LISTED {
        let more = others.len() - MAX_LISTED;
        let _infallible = writeln!(text, "- [and {more} more]({page})");
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn item(violation: &Violation) -> String {
    let Violation { rule, severity, message, path, position, expected: _, help } = violation;
    let place = position.as_ref().map_or_else(|| path.clone(), ToString::to_string);
    let place = if place.is_empty() { place } else { format!("{place}: ") };
    let help = help.as_ref().map_or_else(String::new, |help| format!(" — {help}"));
    let word = match severity {
        Severity::Error => "",
        Severity::Warning => "warning: ",
    };
    escape(&one_line(&format!("{word}{place}{message} [{rule}]{help}"), LONGEST_ITEM))
}

fn notes_line(count: usize, waml: &str, page: &str) -> String {
    let waml = escape(waml);
    match count {
        0 => String::new(),
        1 => format!("One more is noted at its line of {waml}.\n"),
        n if n <= MAX_NOTES => format!("{n} are noted at their lines of {waml}.\n"),
        n => format!(
            "{MAX_NOTES} are noted at their lines of {waml}, [and {} more]({page}).\n",
            n - MAX_NOTES
        ),
    }
}

/// Returns the line about violations that the record does not keep.
fn left_out_line(deployment: &Deployment, page: &str) -> String {
    match deployment.violations.left_out() {
        0 => String::new(),
        more => format!("[And {more} more]({page}): only the first are kept.\n"),
    }
}

fn build_annotation(violation: &Violation, waml: &str) -> Option<Annotation> {
    let at = place(violation, waml)?;
    let Violation { rule, severity, message, path, position: _, expected, help } = violation;
    let details = [
        (!path.is_empty()).then(|| format!("at {path}")),
        // The same text as bart's underline: the error at this place, or the expected value.
        expected.as_ref().map(|expected| format!("here: {expected}")),
        help.as_ref().map(|help| format!("help: {help}")),
    ];
    let lines = std::iter::once(message.clone()).chain(details.into_iter().flatten());
    Some(Annotation {
        path: at.file.to_string(),
        line: at.line,
        level: match severity {
            Severity::Error => Level::Failure,
            Severity::Warning => Level::Warning,
        },
        title: rule.to_string(),
        message: lines.collect::<Vec<_>>().join("\n"),
    })
}

/// Returns the place in the WAML or in a file that it names; other files are not in the commit.
fn place<'v>(violation: &'v Violation, waml: &str) -> Option<&'v Position> {
    violation.position.as_ref().filter(|at| *at.file == *waml || violation.is_in_extra_file())
}

/// Sorts errors before warnings, which are cut first.
fn sort_by_severity(violations: &[Violation]) -> Vec<&Violation> {
    let mut sorted_violations: Vec<_> = violations.iter().collect();
    sorted_violations.sort_by_key(|violation| violation.severity);
    sorted_violations
}

fn errors<'a>(
    violations: impl IntoIterator<Item = &'a Violation>,
) -> impl Iterator<Item = &'a Violation> {
    violations.into_iter().filter(|violation| violation.severity == Severity::Error)
}

/// Escapes foreign text: no markup, no link, no mention.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in remove_invisible(text).chars() {
        match c {
            // A backslash does not keep GitHub from reading a mention; an entity does.
            '@' => out.push_str("&#64;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            c if c.is_ascii_punctuation() && !matches!(c, '.' | ',' | ':' | ';' | '/' | '-') => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
