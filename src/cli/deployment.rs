//! Deployments as a terminal shows them: a table of many, a page of one.

use super::changes::{self, Shown};
use super::client::{Change, Detail, Overview};
use super::diagnostics::{self, Sources};
use super::output::{self, BAD, BOLD, DIM, GOOD, NOTE};
use crate::model::deployment::{StageTime, State};

/// A table, a line each.
pub(super) fn table(deployments: &[Overview]) -> String {
    let row = |one: &Overview| {
        let app = one.app.as_deref().unwrap_or(&one.repository);
        let state = one.state.as_str();
        [&one.id, state, app, &one.target, &one.tag, &one.actor, &one.summary].map(str::to_owned)
    };
    let header = ["DEPLOYMENT", "STATE", "APP", "TARGET", "TAG", "BY", "SUMMARY"];
    output::table(header, deployments.iter().map(row).collect())
}

/// One with all that is known of it.
pub(super) fn page(detail: &Detail) -> String {
    let Detail {
        overview,
        stages,
        violations,
        violations_left_out,
        hand_edit,
        statuses,
        log_url,
        changes,
    } = detail;
    let colour = colour(overview.state);
    let mut text = format!(
        "{BOLD}{}{BOLD:#}  {colour}{}{colour:#}\n{}\n\n",
        overview.id,
        overview.state.as_str(),
        overview.summary
    );
    let app = overview.app.as_deref().unwrap_or("(not read yet)");
    for (name, value) in [
        ("app", app),
        ("target", &overview.target),
        ("tag", &overview.tag),
        ("repository", &overview.repository),
        ("by", &overview.actor),
        ("template", &template(overview)),
        ("received", &overview.received_at.to_string()),
        ("page", log_url.as_deref().unwrap_or("-")),
    ] {
        text += &format!("  {DIM}{name:<10}{DIM:#} {value}\n");
    }
    if !stages.is_empty() {
        text += &format!("\n{BOLD}stages{BOLD:#}\n");
        text += &stages.iter().map(stage).collect::<String>();
    }
    if !violations.is_empty() {
        text += &format!("\n{}", diagnostics::render(violations, &Sources::default()));
        text += &diagnostics::left_out(*violations_left_out);
    }
    if let Some(edit) = hand_edit {
        let became = match (edit.replaced, edit.push_failed) {
            (true, _) => "replaced",
            (false, true) => "not replaced, because the push failed",
            (false, false) => "in the way",
        };
        text += &format!("\n{BOLD}edited by hand, {became}{BOLD:#}\n  {edit}\n{}", edit.diff);
    }
    text += &changed(changes.as_deref());
    if !statuses.is_empty() {
        text += &format!("\n{BOLD}statuses{BOLD:#}\n");
        for status in statuses {
            text += &format!("  {}  {:<12} {}\n", status.at, status.state, status.description);
        }
    }
    text
}

/// What it changed, object by object.
fn changed(changes: Option<&[Change]>) -> String {
    let Some(changes) = changes.filter(|all| !all.is_empty()) else { return String::new() };
    format!("\n{BOLD}changes{BOLD:#}\n{}", changes::page(changes, Shown::Lines))
}

/// `backend-default@latest (0f3a5c7d)`
fn template(overview: &Overview) -> String {
    let name = overview.template.as_deref().unwrap_or("-");
    let commit = overview.templates_commit.as_ref();
    commit.map_or_else(|| name.to_owned(), |commit| format!("{name} ({})", commit.short()))
}

/// One stage and its time, aligned.
pub(super) fn stage(time: &StageTime) -> String {
    let millis = format!("{}.{:02} ms", time.micros / 1000, time.micros % 1000 / 10);
    format!("  {:<9} {millis:>12}\n", time.stage.as_str())
}

pub(super) fn colour(state: State) -> anstyle::Style {
    match state {
        State::Succeeded => GOOD,
        State::Failed => BAD,
        State::Queued | State::Running | State::Pushing => NOTE,
        State::Superseded | State::Cancelled => DIM,
    }
}
