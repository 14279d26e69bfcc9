//! The text of a preview, within GitHub's limits: 65,535 characters a field, 50 annotations a call. The same preview
//! gives the same text.

use super::remarks::{self, SharedViolation, on};
use super::{Preview, PreviewEffect, RemainingTargets, TargetPreview, details};
use crate::manifests::diff::Change;
use crate::model::event::PullRequest;
use crate::model::preview::{PreviewText, PreviewVerdict, Remark};
use crate::model::violation::{Rejection, Severity};
use crate::support::markdown::{code, count, escape, message};
use crate::support::text::truncate_chars;

/// The limit of violations in the summary, and of warnings.
const VIOLATIONS: usize = 30;
const WARNINGS: usize = 15;
/// The limit of notes, and of targets that are left behind.
const NOTES: usize = 30;
/// The limit of a message in the summary, in characters.
const MESSAGE: usize = 400;
/// The limit of the text, below 65,535; in bytes, of which there are more than characters.
const ROOM: usize = 60_000;
/// The limit of the title over several apps, in characters.
const TITLE: usize = 250;

/// Describes a preview for the check run.
pub fn describe_preview(preview: &Preview) -> PreviewText {
    let violations = remarks::collect_findings(preview);
    PreviewText {
        verdict: verdict(preview),
        title: title(preview, &violations),
        summary: limit_length(summary(preview, &violations)),
        text: details::text(preview),
        remarks: remarks::remarks(&violations, &preview.file),
    }
}

/// Writes the text for a WAML that cannot be read as far as its targets.
pub fn unreadable(file: &str, rejection: &Rejection) -> PreviewText {
    let reason = format!("{} cannot be read, so nothing can be deployed from it.\n", code(file));
    refused(rejection, reason, |violations| remarks::remarks(violations, file))
}

/// Writes the text for the WAMLs of a repository that cannot be deployed together.
pub fn unusable_set(rejection: &Rejection) -> PreviewText {
    let reason = "A deployment of all apps would be refused.\n".to_owned();
    refused(rejection, reason, remarks::of_files)
}

/// Writes a reason, and the violations, which every target has.
fn refused(
    rejection: &Rejection,
    reason: String,
    remarks: impl FnOnce(&[SharedViolation<'_>]) -> Vec<Remark>,
) -> PreviewText {
    let shared = |violation| SharedViolation { violation, targets: vec!["every target"] };
    let violations: Vec<SharedViolation<'_>> = rejection.violations.iter().map(shared).collect();
    let mut out = reason;
    list(&violations, &mut out);
    PreviewText {
        verdict: PreviewVerdict::Failure,
        title: count(rejection.errors(), "violation"),
        summary: limit_length(out),
        text: None,
        remarks: remarks(&violations),
    }
}

/// Writes the text for an app whose WAML has another path now.
pub fn moved(from: &str, to: &str) -> PreviewText {
    let text = format!("The app of {} is in {} now.", code(from), code(to));
    short(PreviewVerdict::Neutral, "moved", &text)
}

/// Joins the texts about several apps, each under its title, into one within the limits: each has its share of the room.
pub fn combine(sections: &[(String, PreviewText)]) -> PreviewText {
    let texts: Vec<&PreviewText> = sections.iter().map(|(_, text)| text).collect();
    let has = |verdict| texts.iter().any(|text| text.verdict == verdict);
    let verdict = [PreviewVerdict::Failure, PreviewVerdict::UnderWay, PreviewVerdict::Success]
        .into_iter()
        .find(|verdict| has(*verdict))
        .unwrap_or(PreviewVerdict::Neutral);
    let titles = sections.iter().map(|(name, text)| format!("{name}: {}", text.title));
    let title = titles.collect::<Vec<_>>().join("; ");
    let room = ROOM / sections.len().max(1);
    let section = |(name, text): (&String, &str)| {
        let heading = format!("## {}\n\n", escape(name));
        heading.clone() + &limit_to(text.to_owned(), room.saturating_sub(heading.len() + 60))
    };
    let summaries = sections.iter().map(|(name, text)| section((name, &text.summary)));
    let details = sections.iter().filter_map(|(name, text)| Some((name, text.text.as_deref()?)));
    let details: Vec<String> = details.map(section).collect();
    PreviewText {
        verdict,
        title: truncate_chars(&title, TITLE).into_owned(),
        summary: summaries.collect::<Vec<_>>().join("\n"),
        text: (!details.is_empty()).then(|| details.join("\n")),
        remarks: texts.iter().flat_map(|text| text.remarks.clone()).take(remarks::MAX).collect(),
    }
}

/// Writes the text while the preview is not ready.
pub fn under_way() -> PreviewText {
    short(PreviewVerdict::UnderWay, "in progress", "The changes are being worked out.")
}

/// Writes the text for a missing WAML.
pub fn no_file(file: &str) -> PreviewText {
    let text = format!(
        "There is no {} at this commit, so nothing can be deployed from it. What is deployed stays until it is removed: `bart remove`.",
        code(file)
    );
    short(PreviewVerdict::Neutral, "no WAML", &text)
}

/// Writes the text about WAMLs that are gone, beyond those that have a section each.
pub fn more_gone(count: usize) -> PreviewText {
    let text = format!("{count} more WAMLs are not there at this commit.");
    short(PreviewVerdict::Neutral, "no WAML", &text)
}

/// Writes the text for a pull request that does not touch the WAML.
pub fn write_untouched(file: &str) -> PreviewText {
    let text = format!("This pull request does not change {}.", code(file));
    short(PreviewVerdict::Neutral, "nothing to preview", &text)
}

/// Writes the text for a pull request from a fork.
pub fn from_fork() -> PreviewText {
    let text = "Pull requests from forks are not previewed: a preview shows manifests.";
    short(PreviewVerdict::Neutral, "not previewed", text)
}

/// Writes the text for changes that could not be worked out.
pub fn not_known(why: &str) -> PreviewText {
    let why = message(&truncate_chars(why, 2_000));
    let text = format!("The changes could not be worked out: {why}");
    short(PreviewVerdict::Neutral, "could not be previewed", &text)
}

fn short(verdict: PreviewVerdict, title: &str, summary: &str) -> PreviewText {
    let (title, summary) = (title.to_owned(), format!("{summary}\n"));
    PreviewText { verdict, title, summary, text: None, remarks: Vec::new() }
}

fn verdict(preview: &Preview) -> PreviewVerdict {
    let has_any =
        |is: fn(&PreviewEffect) -> bool| preview.targets.iter().any(|target| is(&target.outlook));
    if has_any(|outlook| matches!(outlook, PreviewEffect::Refused(_))) {
        PreviewVerdict::Failure
    } else if has_any(|outlook| {
        matches!(outlook, PreviewEffect::New(_) | PreviewEffect::Changes { .. })
    }) {
        PreviewVerdict::Success
    } else {
        PreviewVerdict::Neutral
    }
}

/// Writes `2 targets change, 1 violation`.
fn title(preview: &Preview, violations: &[SharedViolation<'_>]) -> String {
    let count_of =
        |is: fn(&PreviewEffect) -> bool| preview.targets.iter().filter(|t| is(&t.outlook)).count();
    let change = count_of(|outlook| matches!(outlook, PreviewEffect::Changes { .. }));
    let new = count_of(|outlook| matches!(outlook, PreviewEffect::New(_)));
    let unknown = count_of(|outlook| matches!(outlook, PreviewEffect::Unknown(_)));
    let errors = violations.iter().filter(|shared| shared.violation.is_error()).count();
    let targets = |n: usize, one: &str, many: &str| match n {
        0 => None,
        1 => Some(format!("1 target {one}")),
        n => Some(format!("{n} targets {many}")),
    };
    let parts = [
        targets(change, "changes", "change"),
        targets(new, "is new", "are new"),
        targets(unknown, "is not known", "are not known"),
        (errors > 0).then(|| count(errors, "violation")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "nothing changes".to_owned() } else { parts.join(", ") }
}

fn summary(preview: &Preview, violations: &[SharedViolation<'_>]) -> String {
    let mut out = format!(
        "What a deployment of {} at this commit would change, compared with what is live. Nothing is deployed.\n\n",
        code(&preview.app.to_string())
    );
    out.push_str("| target | | violations | warnings | lines |\n|---|---|--:|--:|--:|\n");
    out.extend(preview.targets.iter().map(row));
    if preview.not_looked_at > 0 {
        let hidden_targets = count(preview.not_looked_at, "target");
        out.push_str(&format!(
            "\nand {hidden_targets} more, not checked: `bart validate` checks all\n"
        ));
    }
    list(violations, &mut out);
    canaries(preview, &mut out);
    notes(preview, &mut out);
    if let Some(left_targets) = &preview.left {
        list_left_targets(left_targets, &preview.base, &mut out);
    }
    if preview.targets.iter().any(|target| target.tag.is_some()) {
        out.push_str("\nRendered with the tag that is live on each target, so the image does not change here. Whether a tag exists, and the branch, locks and windows, count when it is deployed.\n");
    }
    out
}

fn row(target_preview: &TargetPreview) -> String {
    let (change_text, violations, lines) = match &target_preview.outlook {
        PreviewEffect::New(objects) => {
            (format!("new: {}", count(objects.len(), "object")), 0, String::new())
        }
        PreviewEffect::Changes { changes, .. } => {
            let objects = count(changes.len(), "object");
            let verb = if changes.len() == 1 { "changes" } else { "change" };
            (format!("{objects} {verb}"), 0, format_counts(changes))
        }
        PreviewEffect::Same => ("nothing changes".to_owned(), 0, String::new()),
        PreviewEffect::Refused(errors) => {
            ("would be refused".to_owned(), errors.len(), String::new())
        }
        PreviewEffect::Unknown(why) => (message(&truncate_chars(why, MESSAGE)), 0, String::new()),
    };
    let number = |n: usize| if n == 0 { String::new() } else { n.to_string() };
    let (target, warnings) =
        (code(target_preview.target.as_str()), number(target_preview.warnings.len()));
    format!("| {target} | {change_text} | {} | {warnings} | {lines} |\n", number(violations))
}

fn format_counts(changes: &[Change]) -> String {
    let (mut plus, mut minus) = (0, 0);
    for (p, m) in changes.iter().map(details::lines) {
        plus += p;
        minus += m;
    }
    format!("+{plus} −{minus}")
}

fn list(violations: &[SharedViolation<'_>], out: &mut String) {
    let of_severity =
        |severity| violations.iter().filter(move |shared| shared.violation.severity == severity);
    for (heading, severity, most) in
        [("Violations", Severity::Error, VIOLATIONS), ("Warnings", Severity::Warning, WARNINGS)]
    {
        let total = of_severity(severity).count();
        if total > 0 {
            out.push_str(&format!("\n**{heading}**\n\n"));
            out.extend(of_severity(severity).take(most).map(item));
        }
        if total > most {
            let hidden = total - most;
            out.push_str(&format!("- and {hidden} more: `bart validate` shows all\n"));
        }
    }
}

fn item(shared: &SharedViolation<'_>) -> String {
    let SharedViolation { violation, targets } = shared;
    let place = violation.position.as_ref();
    let place = place.map_or_else(String::new, |place| format!("{} ", code(&place.to_string())));
    let text = message(&truncate_chars(&violation.message, MESSAGE));
    let help = violation.help.as_ref().map(|help| message(&truncate_chars(help, MESSAGE)));
    let help = help.map_or_else(String::new, |help| format!(": {help}"));
    format!("- {place}**{}** {text}{help} ({})\n", violation.rule, escape(&on(targets, 5)))
}

/// Says how each target would take a new release, where it is a canary.
fn canaries(preview: &Preview, out: &mut String) {
    let forecasts: Vec<_> = preview
        .targets
        .iter()
        .filter_map(|target| Some((&target.target, target.canary.as_ref()?)))
        .collect();
    if forecasts.is_empty() {
        return;
    }
    out.push_str("\n**Canary**\n\n");
    for (target, forecast) in forecasts.iter().take(NOTES) {
        out.push_str(&format!("- {}: {forecast}\n", code(target.as_str())));
    }
    if forecasts.len() > NOTES {
        out.push_str(&format!("- and {} more\n", forecasts.len() - NOTES));
    }
}

fn notes(preview: &Preview, out: &mut String) {
    let notes = preview.targets.iter().flat_map(|target| {
        target.notes.iter().map(|note| {
            format!(
                "- {}: {}\n",
                code(target.target.as_str()),
                message(&truncate_chars(note, MESSAGE))
            )
        })
    });
    let notes: Vec<String> = notes.collect();
    if notes.is_empty() {
        return;
    }
    out.push_str("\n**As things are now, a deployment would also meet**\n\n");
    out.extend(notes.iter().take(NOTES).cloned());
    if notes.len() > NOTES {
        out.push_str(&format!("- and {} more\n", notes.len() - NOTES));
    }
}

fn list_left_targets(left: &RemainingTargets, base: &str, out: &mut String) {
    let RemainingTargets { app, targets } = left;
    out.push_str(&format!(
        "\n**Left behind**: the WAML on {} deploys {} to targets that this one does not have. It stays there until it is removed:\n\n",
        code(&truncate_chars(base, 100)),
        code(&app.to_string())
    ));
    for target in targets.iter().take(NOTES) {
        out.push_str(&format!("- `bart remove {target} {app} --reason TEXT`\n"));
    }
    if targets.len() > NOTES {
        out.push_str(&format!("- and {} more\n", targets.len() - NOTES));
    }
}

/// Cuts the whole text: every part has its own limit, and this one is for unforeseen cases.
fn limit_length(text: String) -> String {
    limit_to(text, ROOM)
}

/// Cuts a text at the end of a line.
fn limit_to(text: String, room: usize) -> String {
    if text.len() <= room {
        return text;
    }
    let mut end = room;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text_within_limit = text.get(..end).unwrap_or_default();
    let whole_lines = text_within_limit
        .rfind('\n')
        .and_then(|line| text_within_limit.get(..line))
        .unwrap_or(text_within_limit);
    format!("{whole_lines}\n\nand more: `bart validate` shows all\n")
}

/// Writes `preview-7-0123…`: the service's own id for the check run of a head.
pub fn external_id(request: &PullRequest) -> String {
    format!("preview-{}-{}", request.number, request.head)
}
