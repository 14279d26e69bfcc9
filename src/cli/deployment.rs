//! Formats deployments for a terminal: a table of many, a page of one.

use super::changes::{self, ShownChange};
use super::diagnostics::{self, SourceTexts};
use super::output::{BAD, BOLD, DIM, GOOD, NOTE, short};
use super::table::{Column, layout};
use super::times::{TimeFormatter, TimeStyle, WHEN};
use crate::api::deployments::{AppPart, ClusterPart, DeploymentDetail, DeploymentSummary};
use crate::model::deploy_clock::{DeployMarks, IntervalTime, Lapse};
use crate::model::deployment::{StageTime, State};
use crate::model::waiting::{LastEvent, WaitingOn};
use crate::support::time_text::format_micros;

/// Formats a table with a line for each deployment. In a list of one app, a narrow terminal drops the app's name first.
pub(super) fn list(
    deployments: &[DeploymentSummary],
    times: TimeFormatter,
    width: Option<usize>,
) -> String {
    let is_of_one_app =
        deployments.windows(2).all(|pair| matches!(pair, [a, b] if name(a) == name(b)));
    // A moment takes more room than a time ago.
    let least = match (is_of_one_app, times.style) {
        (true, TimeStyle::Relative) => 12,
        (true, TimeStyle::Absolute) => 10,
        (false, TimeStyle::Relative) => 7,
        (false, TimeStyle::Absolute) => 6,
    };
    let columns = [
        Column::whole("DEPLOYMENT"),
        Column::whole("STATE"),
        Column::middle("APP", least.min(8)).drop(if is_of_one_app { 3 } else { 0 }),
        Column::middle("TARGET", least),
        Column::middle("TAG", least),
        Column::cut("BY", 6).drop(1),
        times.column(WHEN),
        Column::cut("SUMMARY", 20).drop(2),
    ];
    let row = |deployment: &DeploymentSummary| {
        let (state, when) =
            (deployment.state.as_str(), times.past_cell(Some(deployment.received_at)));
        let app = name(deployment);
        [
            &deployment.id,
            state,
            app,
            &deployment.target,
            &deployment.tag,
            &deployment.actor,
            &when,
            &deployment.summary,
        ]
        .map(str::to_owned)
    };
    layout(&columns, deployments.iter().map(row).collect(), width)
}

fn name(deployment: &DeploymentSummary) -> &str {
    deployment.app.as_deref().unwrap_or(&deployment.repository)
}

/// Formats one deployment with all its details.
pub(super) fn page(detail: &DeploymentDetail, times: TimeFormatter) -> String {
    let DeploymentDetail {
        summary: overview,
        clusters,
        apps,
        stages,
        intervals,
        violations,
        violations_left_out,
        log_tail,
        canary: _,
        hand_edit,
        statuses,
        log_url,
        changes,
    } = detail;
    let state = state(overview.state);
    let mut text = format!("{BOLD}{}{BOLD:#}  {state}\n{}\n\n", overview.id, overview.summary);
    let app = overview.app.as_deref().unwrap_or("(not read yet)");
    for (name, value) in [
        ("app", app),
        ("target", &overview.target),
        ("tag", &overview.tag),
        ("repository", &overview.repository),
        ("by", &overview.actor),
        ("rollout", overview.rollout.as_deref().unwrap_or_default()),
        ("part of", overview.fleet.as_deref().or(overview.parent.as_deref()).unwrap_or_default()),
        ("template", &template(overview)),
        ("received", &times.ago(overview.received_at)),
        ("page", log_url.as_deref().unwrap_or("-")),
    ] {
        if !value.is_empty() {
            text += &format!("  {DIM}{name:<10}{DIM:#} {value}\n");
        }
    }
    let of_cluster = |part: &ClusterPart| PartLine {
        name: part.cluster.clone(),
        deployment: part.deployment.clone(),
        state: part.state,
        summary: part.summary.clone(),
    };
    let of_app = |part: &AppPart| PartLine {
        name: part.app_name.clone(),
        deployment: part.deployment.clone(),
        state: part.state,
        summary: part.summary.clone(),
    };
    text += &part_lines("clusters", clusters.iter().map(of_cluster).collect());
    text += &part_lines("apps", apps.iter().map(of_app).collect());
    if let Some(WaitingOn { what, since, last_event, gives_up_at }) = &overview.waiting {
        text += &format!("\n{BOLD}waiting for{BOLD:#} {what}\n");
        text += &format!("  {DIM}since{DIM:#}      {}\n", times.ago(*since));
        if let Some(LastEvent { at, text: event }) = last_event {
            text += &format!("  {DIM}last event{DIM:#} {} ({event})\n", times.ago(*at));
        }
        if let Some(at) = gives_up_at {
            text += &format!("  {DIM}gives up{DIM:#}   {}\n", at.strftime("%H:%M:%S UTC"));
        }
    }
    if !log_tail.is_empty() {
        text += &format!("\n{BOLD}last lines of the container's log{BOLD:#}\n");
        text += &log_tail.iter().map(|line| format!("  {line}\n")).collect::<String>();
    }
    if !stages.is_empty() {
        text += &format!("\n{BOLD}stages{BOLD:#}\n");
        text += &stages.iter().map(stage).collect::<String>();
    }
    text += &clock(&overview.marks, intervals);
    if !violations.is_empty() {
        text += &format!("\n{}", diagnostics::render(violations, &SourceTexts::default()));
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
    if let Some(changes) = changes.as_deref().filter(|changes| !changes.is_empty()) {
        text += &format!("\n{BOLD}changes{BOLD:#}\n{}", changes::page(changes, ShownChange::Lines));
    }
    if !statuses.is_empty() {
        text += &format!("\n{BOLD}statuses{BOLD:#}\n");
        for status in statuses {
            let at = times.ago(status.at);
            text += &format!("  {at:<12}  {:<12} {}\n", status.state, status.description);
        }
    }
    text
}

/// A cluster of a fleet, or one of several apps.
struct PartLine {
    name: String,
    deployment: String,
    state: State,
    summary: String,
}

/// Formats a line for each part: its name, state and summary, and its id.
fn part_lines(title: &str, parts: Vec<PartLine>) -> String {
    if parts.is_empty() {
        return String::new();
    }
    let width = parts.iter().map(|part| part.name.chars().count()).max().unwrap_or(0);
    let mut text = format!("\n{BOLD}{title}{BOLD:#}\n");
    for PartLine { name, deployment, state: word, summary } in parts {
        let (colour, word) = (colour(word), word.as_str());
        text += &format!(
            "  {name:<width$}  {colour}{word:<11}{colour:#}  {summary} {DIM}({deployment}){DIM:#}\n"
        );
    }
    text
}

/// Formats the deploy clock: each step with the time since the first one, then the intervals.
fn clock(marks: &DeployMarks, intervals: &[IntervalTime]) -> String {
    if marks.iter().next().is_none() {
        return String::new();
    }
    let mut text = format!("\n{BOLD}deploy clock{BOLD:#}\n");
    for time in marks.iter() {
        let offset = marks.offset_millis(time).map_or_else(|| "clock skew".to_owned(), millis);
        let owner = time.clock.owner();
        let at = time.at.strftime("%H:%M:%S");
        text += &format!("  {at}  {offset:>12}  {:<48}{DIM}{owner}{DIM:#}\n", time.mark.sentence());
    }
    for time in intervals {
        text += &format!("  {:<20} {:>12}\n", time.interval.title(), lapse(time.lapse()));
    }
    text
}

/// Formats the time between two marks: `4.6 s`, or `skewed by 1 h 0 min`.
pub(super) fn lapse(lapse: Lapse) -> String {
    match lapse {
        Lapse::Millis(length) => millis(length),
        Lapse::Skew(by) => format!("skewed by {}", millis(by)),
    }
}

/// Formats milliseconds with a unit that fits.
pub(super) fn millis(millis: u64) -> String {
    format_micros(millis.saturating_mul(1000))
}

/// Formats the template: `backend-default@latest (0f3a5c7d)`.
fn template(overview: &DeploymentSummary) -> String {
    let name = overview.template.as_deref().unwrap_or("-");
    let commit = overview.templates_commit.as_deref();
    commit.map_or_else(|| name.to_owned(), |commit| format!("{name} ({})", short(commit)))
}

/// Formats one stage and its time, aligned.
pub(super) fn stage(time: &StageTime) -> String {
    format!("  {:<9} {:>12}\n", time.stage.as_str(), milliseconds(time.micros))
}

pub(super) fn milliseconds(micros: u64) -> String {
    format!("{}.{:02} ms", micros / 1000, micros % 1000 / 10)
}

/// Formats the word of a state in its colour.
pub(super) fn state(state: State) -> String {
    let colour = colour(state);
    format!("{colour}{}{colour:#}", state.as_str())
}

pub(super) fn colour(state: State) -> anstyle::Style {
    match state {
        State::Succeeded => GOOD,
        State::Failed => BAD,
        State::Queued | State::Running | State::Pushing | State::Syncing | State::Progressing => {
            NOTE
        }
        State::Superseded | State::Cancelled => DIM,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(app: &str, tag: &str, state: &str) -> DeploymentSummary {
        let json = serde_json::json!({
            "id": "20261121-115900000-3f9a2c", "state": state, "app": app, "target": "prod-cluster-1",
            "repository": "acme/shop", "tag": tag, "actor": "octo-developer", "template": null,
            "summary": "created deployment.yaml, service.yaml, ingress.yaml and 5 more",
            "received_at": "2026-11-21T09:00:00Z", "finished_at": null, "errors": 0, "warnings": 0,
        });
        serde_json::from_value(json).unwrap()
    }

    fn at(deployments: &[DeploymentSummary], width: usize) -> String {
        in_style(deployments, TimeStyle::Relative, "2026-11-21T12:00:00Z", width)
    }

    fn in_style(
        deployments: &[DeploymentSummary],
        style: TimeStyle,
        now: &str,
        width: usize,
    ) -> String {
        let times = TimeFormatter { now: now.parse().unwrap(), style };
        list(deployments, times, Some(width))
    }

    #[test]
    fn a_history_fits_80_columns_in_every_style_state_and_age() {
        let tag = "1.0.202206151506-sha.649008fb";
        let each_state = || {
            State::ALL.iter().map(|state| deployment("devx/shop", tag, state.as_str())).collect()
        };
        let of_one: Vec<_> = each_state();
        let mut of_many: Vec<_> = each_state();
        of_many.push(deployment("a-namespace-of-many-letters/shop", "1.0", "superseded"));
        let nows = [
            "2026-11-21T09:00:30Z",
            "2026-11-21T09:59:59Z",
            "2026-12-15T09:00:00Z",
            "2027-12-15T09:00:00Z",
        ];
        for deployments in [&of_one, &of_many] {
            for style in [TimeStyle::Relative, TimeStyle::Absolute] {
                for now in nows {
                    let text = in_style(deployments, style, now, 80);
                    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
                    assert!(text.lines().next().unwrap().contains("WHEN"), "{text}");
                }
            }
        }
        let absolute = in_style(&of_many, TimeStyle::Absolute, nows[0], 80);
        assert!(
            absolute.contains("WHEN (UTC)\n") && absolute.contains("2026-11-21 09:00\n"),
            "{absolute}"
        );
    }

    #[test]
    fn a_history_fits_a_terminal_of_80_columns_with_its_times() {
        let tag = "1.0.202206151506-sha.649008fb";
        let one_app =
            [deployment("devx/shop", tag, "succeeded"), deployment("devx/shop", "1.0", "failed")];
        insta::assert_snapshot!(at(&one_app, 80), @r"
        DEPLOYMENT                 STATE      TARGET          TAG                WHEN
        20261121-115900000-3f9a2c  succeeded  prod-cluster-1  1.0.2022…649008fb  3 h ago
        20261121-115900000-3f9a2c  failed     prod-cluster-1  1.0                3 h ago
        ");
        let two_apps =
            [deployment("devx/shop", tag, "superseded"), deployment("pay/till", "1.0", "failed")];
        insta::assert_snapshot!(at(&two_apps, 80), @r"
        DEPLOYMENT                 STATE       APP        TARGET      TAG        WHEN
        20261121-115900000-3f9a2c  superseded  devx/shop  prod-…er-1  1.0.…08fb  3 h ago
        20261121-115900000-3f9a2c  failed      pay/till   prod-…er-1  1.0        3 h ago
        ");
        for text in [at(&one_app, 80), at(&two_apps, 80)] {
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            assert!(text.lines().next().unwrap().contains("WHEN") && text.contains("3 h ago"));
        }
    }
}
