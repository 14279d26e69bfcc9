//! Formats the state of apps for a terminal. Pure.

use super::{AllApps, OneApp, Target, live};
use crate::api::apps::{AppDetail, AppSummary, LiveRollback, MissingRepository};
use crate::api::deployments::DeploymentSummary;
use crate::api::locks::LockSummary;
use crate::api::rollbacks::HoldSummary;
use crate::api::service::Readiness;
use crate::cli::deployment;
use crate::cli::output::{self, BAD, BOLD, DIM, NOTE, note_line};
use crate::cli::table::{Column, table, wrap};
use crate::cli::times::{TimeFormatter, WHEN};
use crate::cli::verbatim::Verbatim;
use crate::model::deployment::State;

/// Returns the columns of an app's targets.
fn target_columns(times: TimeFormatter) -> [Column; 5] {
    [
        Column::middle("TARGET", 10),
        Column::middle("LIVE", 10),
        times.column(WHEN),
        Column::cut("BY", 6).drop(1),
        Column::fold("STATE", 24).paint(words),
    ]
}

/// Returns the columns of all apps.
fn app_columns(times: TimeFormatter) -> [Column; 6] {
    [
        Column::middle("APP", 10),
        Column::middle("TARGET", 8),
        Column::middle("LIVE", 10),
        times.column(WHEN),
        Column::cut("OWNER", 12).drop(1),
        Column::fold("STATE", 14).paint(words),
    ]
}

/// Formats an app on its targets.
pub(super) fn of_app(overview: &OneApp, times: TimeFormatter) -> String {
    let first_known = overview.targets.iter().find_map(|target| target.state.as_ref());
    let owners = first_known.map(|app| [app.repository.as_deref(), app.owner.as_deref()]);
    let owners: Vec<_> = owners.into_iter().flatten().flatten().collect();
    let mut text = format!("{BOLD}{}{BOLD:#}  {DIM}{}{DIM:#}\n\n", overview.app, owners.join("  "));
    let (hidden, visible): (Vec<_>, Vec<_>) =
        overview.targets.iter().partition(|target| target.hidden);
    let rows: Vec<_> = visible.into_iter().map(|target| row(target, times)).collect();
    if rows.is_empty() && hidden.is_empty() {
        text += "the app is on no target yet\n";
    } else if !rows.is_empty() {
        text += &table(target_columns(times), rows);
    }
    text += &live::of_targets(&overview.targets, times, output::width());
    text + &wrap(&beside_table(overview, &hidden, times), output::width())
}

/// Formats the parts under the table.
fn beside_table(overview: &OneApp, hidden: &[&Target], times: TimeFormatter) -> String {
    let mut text = String::new();
    if !hidden.is_empty() {
        let names: Vec<_> = hidden.iter().map(|target| target.target.as_str()).collect();
        text += &note_line(format!("you may not see it on {}", names.join(", ")));
    }
    text += &overview.missing.iter().map(|repository| missing(repository)).collect::<String>();
    let states = || overview.targets.iter().filter_map(|t| Some((&t.target, t.state.as_ref()?)));
    text += &under_way(states().flat_map(|(_, app)| &app.under_way));
    for (target, back) in
        states().filter_map(|(t, app)| Some((t, app.live.as_ref()?.rollback.as_ref()?)))
    {
        let LiveRollback { id: _, from, by, reason, at } = back;
        let when = at.map_or(String::new(), |at| format!(", {}", times.ago(at)));
        let from = from.as_ref().map_or(String::new(), |from| format!(", in place of {from}"));
        text += &format!("\n{BOLD}restored{BOLD:#}\n  {target}  by {by}{when}{from}: {reason}\n");
    }
    let locks = states().flat_map(|(target, app)| app.locks.iter().map(move |l| (target, l)));
    text += &part("locked", locks.map(|(target, lock)| format_lock(target, lock, times)).collect());
    for (target, hold) in states().filter_map(|(target, app)| Some((target, app.hold.as_ref()?))) {
        let HoldSummary { by, reason, since, .. } = hold;
        text += &format!(
            "\n{BOLD}held{BOLD:#}\n  {target}  by {by}, {}: {reason}\n",
            times.ago(*since)
        );
    }
    text + &waits(&overview.service)
}

/// Formats lines under their heading; empty without lines.
fn part(heading: &str, lines: String) -> String {
    if lines.is_empty() { lines } else { format!("\n{BOLD}{heading}{BOLD:#}\n{lines}") }
}

/// Colours the words of a state.
fn words(cell: &str) -> String {
    let cell_words = cell.trim_end_matches(',').split(", ").map(word).collect::<Vec<_>>();
    let comma = if cell.ends_with(',') { "," } else { "" };
    cell_words.join(", ") + comma
}

fn word(word: &str) -> String {
    let colour = match word {
        "edited by hand" | "Argo CD not notified" => BAD,
        "locked" | "held" | "restored" | "Argo CD not notified yet" => NOTE,
        "never deployed" => DIM,
        _ if word.ends_with(" failed") || word.starts_with("unknown: ") => BAD,
        _ => return word.to_owned(),
    };
    format!("{colour}{word}{colour:#}")
}

/// Returns one target's row.
fn row(target: &Target, times: TimeFormatter) -> [String; 5] {
    let none = || "-".to_owned();
    let Some(app) = &target.state else {
        let error = target.error.as_ref().map(|error| format!("unknown: {error}"));
        let state = error.unwrap_or_else(|| "never deployed".to_owned());
        return [target.target.clone(), none(), none(), none(), state];
    };
    let live = app.live.as_ref();
    [
        target.target.clone(),
        live.map_or_else(none, |live| live.tag.clone().unwrap_or_else(|| live.revision.clone())),
        times.past_cell(live.and_then(|live| live.at)),
        live.and_then(|live| live.actor.clone()).unwrap_or_else(none),
        state(app),
    ]
}

/// Describes the state of an app on a target in a few words.
fn state(app: &AppDetail) -> String {
    let mut words = Vec::new();
    match (&app.live, app.hand_edited) {
        (Some(live), _) => {
            words.push("live".to_owned());
            words.extend(live.rollback.as_ref().map(|_| "restored".to_owned()));
        }
        (None, true) => words.push("edited by hand".to_owned()),
        (None, false) => words.push("not there".to_owned()),
    }
    words.extend(
        app.under_way
            .iter()
            .map(|deployment| format!("{} {}", deployment.tag, deployment.state.as_str())),
    );
    let failed = app.last.as_ref().filter(|last| last.state == State::Failed);
    words.extend(failed.map(|last| format!("{} failed", last.tag)));
    words.extend((!app.locks.is_empty()).then(|| "locked".to_owned()));
    words.extend(app.hold.as_ref().map(|_| "held".to_owned()));
    words.extend(match app.sync.state.as_str() {
        "waiting" => Some("Argo CD not notified yet".to_owned()),
        "given-up" => Some("Argo CD not notified".to_owned()),
        _ => None,
    });
    words.join(", ")
}

fn under_way<'a>(deployments: impl Iterator<Item = &'a DeploymentSummary>) -> String {
    let line = |deployment: &DeploymentSummary| {
        let DeploymentSummary { id, tag, target, actor, summary, .. } = deployment;
        let state = deployment::state(deployment.state);
        format!("  {id}  {state}  {tag} to {target} by {actor}: {summary}\n")
    };
    part("under way", deployments.map(line).collect())
}

fn format_lock(target: &str, lock: &LockSummary, times: TimeFormatter) -> String {
    let LockSummary { id, scope, reason, by, since, until } = lock;
    let reach = match (&scope.app, &scope.owner, &scope.target) {
        (Some(_), _, _) => "this app",
        (_, Some(_), _) => "the team's apps",
        (_, _, Some(_)) => "all on it",
        _ => "everything",
    };
    let until = until.map_or(String::new(), |at| format!(", ends {}", times.ahead(at)));
    format!("  {target}  {id}  {reach}, by {by}, {}{until}: {reason}\n", times.ago(*since))
}

/// Formats a repository that could not be read.
fn missing(MissingRepository { repository, why }: &MissingRepository) -> String {
    format!("{NOTE}missing{NOTE:#}: the apps in {repository}: {why}\n")
}

/// Formats what the service waits for; empty if it is ready.
pub(super) fn waits(service: &Readiness) -> String {
    if service.ready {
        return String::new();
    }
    let waiting = service.checks.iter().filter_map(|check| {
        let why = check.waiting_for.as_ref()?;
        Some(format!("  {}: {why}\n", check.name))
    });
    format!("\n{BAD}the service waits{BAD:#}\n{}", waiting.collect::<String>())
}

/// Formats all apps.
pub(super) fn of_all(overview: &AllApps, times: TimeFormatter) -> String {
    let row = |app: &Verbatim<AppSummary>| {
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let live = if app.live_revision.is_none() { "edited by hand" } else { "live" };
        let mut state = vec![live.to_owned()];
        state.extend(app.failed.as_ref().map(|failed| format!("{} failed", failed.tag)));
        state.extend(app.locked.then(|| "locked".to_owned()));
        state.extend(app.held.then(|| "held".to_owned()));
        let live = app.tag.as_ref().or(app.live_revision.as_ref());
        [
            format!("{}/{}", app.namespace, app.app),
            app.target.clone(),
            live.cloned().unwrap_or_else(|| "-".to_owned()),
            times.past_cell(app.at),
            or_dash(&app.owner),
            state.join(", "),
        ]
    };
    let text = match overview.apps.as_slice() {
        [] => "there is no such app on any target\n".to_owned(),
        apps => table(app_columns(times), apps.iter().map(row).collect()),
    };
    text + &wrap(&beside_apps(overview), output::width())
}

/// Formats the parts under the table of all apps.
fn beside_apps(overview: &AllApps) -> String {
    let mut text: String = overview.missing.iter().map(|repository| missing(repository)).collect();
    text += &under_way(overview.under_way.iter().map(|deployment| &**deployment));
    text += &overview.notes.iter().map(note_line).collect::<String>();
    text + &waits(&overview.service)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::apps::FailedDeployment;
    use crate::cli::table::layout;
    use crate::cli::times::TimeStyle;

    fn times() -> TimeFormatter {
        TimeFormatter { now: "2026-11-21T12:00:00Z".parse().unwrap(), style: TimeStyle::Relative }
    }

    fn ready(ready: bool) -> Readiness {
        let checks = serde_json::json!({"ready": ready, "checks": [
            {"name": "database", "ready": true, "waiting_for": null},
            {"name": "manifest repository main", "ready": ready,
             "waiting_for": (!ready).then_some("git.example.com does not answer")},
        ]});
        serde_json::from_value(checks).unwrap()
    }

    fn unreached(why: &str) -> Verbatim<MissingRepository> {
        serde_json::from_value(serde_json::json!({"repository": "far", "why": why})).unwrap()
    }

    fn deployment(state: &str) -> serde_json::Value {
        serde_json::json!({
            "id": "20261121-115900000-3f9a2c", "state": state, "app": "devx/shop", "target": "prod",
            "repository": "acme/shop", "tag": "1.11", "actor": "jo", "summary": "waiting for a worker",
            "received_at": "2026-11-21T11:59:00Z", "finished_at": null, "template": null,
            "errors": 0, "warnings": 0,
        })
    }

    fn app(keys: &serde_json::Value) -> Verbatim<AppDetail> {
        let mut app = serde_json::json!({
            "repository": "acme/shop", "owner": "squad@example.com", "hosts": [],
            "live": {"revision": "20261121-090000000-3f9a2c", "tag": "1.10", "commit": null,
                     "at": "2026-11-21T09:00:00Z", "actor": "alice", "later": true},
            "hand_edited": false, "under_way": [], "last": null, "locks": [],
            "sync": {"state": "by-itself", "why": null, "told_at": null},
        });
        for (key, value) in keys.as_object().unwrap() {
            app[key] = value.clone();
        }
        serde_json::from_value(app).unwrap()
    }

    #[test]
    fn an_app_is_shown_with_all_that_stands_in_its_way() {
        let lock = serde_json::json!({"id": "0123abcd", "scope": {"target": "prod"}, "reason": "books",
            "by": "Jo", "since": "2026-11-21T10:00:00Z", "until": "2026-11-22T00:00:00Z"});
        let full = serde_json::json!({"locks": [lock], "under_way": [deployment("queued")],
            "sync": {"state": "given-up", "why": "no token", "told_at": null},
            "hold": {"by": "ann", "reason": "1.11 loses orders", "since": "2026-11-21T11:30:00Z"},
            "live": {"revision": "20261121-090000000-3f9a2c", "tag": "1.10", "commit": null,
                     "at": "2026-11-21T09:00:00Z", "actor": "alice", "rollback": {
                     "id": "20261121-113000000-3f9a2c", "from": "20261121-110000000-3f9a2c",
                     "by": "ann", "reason": "1.11 loses orders", "at": "2026-11-21T11:30:00Z"}}});
        let edited =
            serde_json::json!({"live": null, "hand_edited": true, "last": deployment("failed")});
        let target = |name: &str, state| Target {
            target: name.to_owned(),
            state,
            error: None,
            hidden: false,
            live: None,
            live_error: None,
        };
        let overview = OneApp {
            app: "devx/shop".to_owned(),
            targets: vec![
                target("dev", None),
                Target { error: Some("no answer".to_owned()), ..target("far", None) },
                Target { hidden: true, ..target("hidden", None) },
                Target { hidden: true, ..target("pay", None) },
                target("prod", Some(app(&full))),
                target("test", Some(app(&edited))),
            ],
            missing: vec![unreached("it cannot be reached")],
            service: ready(false),
        };
        let text = anstream::adapter::strip_str(&of_app(&overview, times())).to_string();
        insta::assert_snapshot!(text, @"
        devx/shop  acme/shop  squad@example.com

        TARGET  LIVE  WHEN     BY     STATE
        dev     -     -        -      never deployed
        far     -     -        -      unknown: no answer
        prod    1.10  3 h ago  alice  live, restored, 1.11 queued, locked, held, Argo CD not notified
        test    -     -        -      edited by hand, 1.11 failed
        note: you may not see it on hidden, pay
        missing: the apps in far: it cannot be reached

        under way
          20261121-115900000-3f9a2c  queued  1.11 to prod by jo: waiting for a worker

        restored
          prod  by ann, 30 min ago, in place of 20261121-110000000-3f9a2c: 1.11 loses orders

        locked
          prod  0123abcd  all on it, by Jo, 2 h ago, ends in 12 h: books

        held
          prod  by ann, 30 min ago: 1.11 loses orders

        the service waits
          manifest repository main: git.example.com does not answer
        ");
    }

    #[test]
    fn only_states_are_coloured() {
        assert_eq!(
            words("locked, unlocked failed,"),
            format!("{NOTE}locked{NOTE:#}, {BAD}unlocked failed{BAD:#},")
        );
        let row = ["devx/locked", "dev", "1.0", "-", "-", "held"].map(str::to_owned);
        let text = layout(&app_columns(times()), vec![row], None);
        assert!(text.contains("devx/locked  ") && text.contains(&format!("{NOTE}held{NOTE:#}")));
    }

    #[test]
    fn tables_of_long_names_fit_80_columns() {
        let state = "live, restored, 1.0.202206151506-sha.649008fb queued, locked, held";
        let tag = "1.0.202206151506-sha.649008fb";
        let owner = "a-squad-with-a-long-name@example.com";
        for (style, when) in
            [(TimeStyle::Relative, "10 days ago"), (TimeStyle::Absolute, "2026-11-11 12:00")]
        {
            let times = TimeFormatter { style, ..times() };
            let targets = ["prod-cluster-europe-west-1", tag, when, "octo-developer", state];
            let apps = ["payments/checkout-service", "prod-cluster-1", tag, when, owner, state];
            for text in [
                layout(&target_columns(times), vec![targets.map(str::to_owned)], Some(80)),
                layout(&app_columns(times), vec![apps.map(str::to_owned)], Some(80)),
            ] {
                let text = anstream::adapter::strip_str(&text).to_string();
                assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
                assert!(text.contains(when) && text.lines().count() < 9, "{text}");
            }
        }
    }

    #[test]
    fn what_stands_under_a_table_fits_80_columns() {
        let overview = AllApps {
            apps: Vec::new(),
            missing: vec![unreached(&"git.example.com ".repeat(9))],
            under_way: vec![serde_json::from_value(deployment("running")).unwrap()],
            notes: vec!["there are more than 2000 apps: ".repeat(4)],
            service: ready(false),
        };
        let lines = wrap(&beside_apps(&overview), Some(80));
        let lines = anstream::adapter::strip_str(&lines).to_string();
        assert!(lines.lines().all(|line| line.chars().count() <= 80), "{lines}");
        assert!(lines.lines().count() > beside_apps(&overview).lines().count(), "{lines}");
    }

    #[test]
    fn programs_get_the_keys_that_we_do_not_know() {
        let answer = serde_json::json!({"live": {"revision": "x", "tag": null, "commit": null,
            "at": null, "actor": null, "rollback": null, "later": [1]}, "later": {"x": 1},
            "last": deployment("succeeded")});
        let printed = serde_json::to_value(app(&answer)).unwrap();
        assert_eq!((&printed["later"], &printed["live"]), (&answer["later"], &answer["live"]));
    }

    #[test]
    fn all_apps_are_shown_with_what_goes_on() {
        let summary = |app: &str, live: Option<&str>, locked: bool| AppSummary {
            target: "prod".to_owned(),
            namespace: "devx".to_owned(),
            app: app.to_owned(),
            live_revision: live.map(str::to_owned),
            tag: live.map(|_| "1.10".to_owned()),
            at: live.map(|_| "2026-11-21T09:00:00Z".parse().unwrap()),
            hosts: Vec::new(),
            owner: live.map(|_| "squad@example.com".to_owned()),
            repository: None,
            failed: locked.then(|| FailedDeployment {
                id: "20261121-100000000-3f9a2c".to_owned(),
                tag: "1.11".to_owned(),
            }),
            locked,
            held: locked,
        };
        let overview = AllApps {
            apps: [
                summary("cart", None, false),
                summary("shop", Some("20261121-090000000-3f9a2c"), true),
            ]
            .map(|app| serde_json::from_value(serde_json::json!(app)).unwrap())
            .into(),
            missing: vec![unreached("it cannot be reached")],
            under_way: vec![serde_json::from_value(deployment("running")).unwrap()],
            notes: vec!["there are more than 2000 apps: add --target".to_owned()],
            service: ready(true),
        };
        let text = anstream::adapter::strip_str(&of_all(&overview, times())).to_string();
        insta::assert_snapshot!(text, @"
        APP        TARGET  LIVE  WHEN     OWNER              STATE
        devx/cart  prod    -     -        -                  edited by hand
        devx/shop  prod    1.10  3 h ago  squad@example.com  live, 1.11 failed, locked, held
        missing: the apps in far: it cannot be reached

        under way
          20261121-115900000-3f9a2c  running  1.11 to prod by jo: waiting for a worker
        note: there are more than 2000 apps: add --target
        ");
    }
}
