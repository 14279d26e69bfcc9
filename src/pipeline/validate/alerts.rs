//! Alerts: every name is a default alert's or has an expression of its own, thresholds and durations are plausible, and
//! a tuned alert exists for the app.

use super::{RuleReport, Subject};
use crate::model::violation::Violation;
use crate::templates::alerts::{AlertNeeds, AlertRule as Known, Unit, find, names};
use crate::templates::promql;
use crate::templates::view::alerts::{expression, on};
use crate::templates::view::observability::ObservedApp;
use crate::waml::node::{Node, Path, is_from_waml};
use crate::waml::quote::quote;
use crate::waml::section_operations::Alert;
use crate::waml::suggest;

const RULE: &str = "alerts";

/// The longest text of an alert, in bytes; a `PrometheusRule` must fit into etcd.
const LONGEST_TEXT: usize = 2000;

/// The longest that an alert may wait: a condition that lasts longer is no news.
const LONGEST_WAIT: f64 = 7.0 * 86_400.0;

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let root = Path::root().key("alerts");
    for (name, alert) in subject.section.alerts.iter().flatten() {
        let (path, Some(alert)) = (root.key(name), alert) else { continue };
        match find(name) {
            Some(known_alert) => default_alert(known_alert, alert, &path, report),
            None if alert.expr.is_some() => own_alert(name, alert, &path, report),
            None => report.add(&path, unknown_alert(name)),
        }
        if let Some(duration) = &alert.for_ {
            waits(duration, &path.key("for"), report);
        }
        if let Some(slack) = &alert.slack {
            text("slack", slack, &path, report);
        }
    }
    without_effect(subject, &root, report);
}

fn unknown_alert(name: &str) -> Violation {
    let suggestion = suggest::nearest(name, names());
    let help = suggestion.map_or_else(
        || {
            let name = if is_legal(name) { name } else { "queueTooLong" };
            format!(
                "an alert of your own needs `expr` and `summary`: `{name}: {{expr: \"queue_length > 100\", \
                 summary: the queue is too long}}`; the default alerts are those of docs/alerts.md"
            )
        },
        |name| format!("did you mean `{name}`?"),
    );
    Violation::error(RULE, format!("there is no alert {}", quote(name)))
        .expected("no such alert")
        .help(help)
}

fn default_alert(known_alert: &Known, alert: &Alert, path: &Path, report: &mut RuleReport<'_>) {
    for (key, set) in [
        ("expr", alert.expr.is_some()),
        ("summary", alert.summary.is_some()),
        ("description", alert.description.is_some()),
    ] {
        if set {
            let message = format!("the alert `{}` has its own `{key}`", known_alert.name);
            let violation = Violation::error(RULE, message).expected("cannot be set here");
            let help = "remove it, or write an alert of your own under another name";
            report.add(&path.key(key), violation.help(help));
        }
    }
    if alert.enabled != Some(false) {
        threshold(known_alert, alert.threshold, path, report);
    }
}

fn threshold(
    known_alert: &Known,
    threshold: Option<f64>,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    let at = path.key("threshold");
    let mut refuse = |path: &Path, message: String, expected: &str, help: String| {
        report.add(path, Violation::error(RULE, message).expected(expected).help(help));
    };
    let name = known_alert.name;
    match (known_alert.threshold, threshold) {
        (None, Some(_)) => {
            let message = format!("the alert `{name}` has no threshold to set");
            refuse(&at, message, "has no threshold", "remove `threshold`".to_owned());
        }
        (Some(unit), None) => {
            let message = format!("the alert `{name}` does not say when it fires");
            let help = format!("add `threshold: {}`, or `enabled: false`", example(unit));
            refuse(path, message, "needs `threshold`", help);
        }
        (Some(Unit::Share), Some(share)) if !(share > 0.0 && share <= 1.0) => {
            let message = format!("{share} is not a share above 0 and up to 1");
            let percent = share > 1.0 && share <= 100.0;
            let fraction = if percent { share / 100.0 } else { 0.9 };
            let help = format!("write `{fraction}` for {} %", fraction * 100.0);
            refuse(&at, message, "from 0 to 1", help);
        }
        (Some(unit @ (Unit::Count | Unit::Seconds)), Some(number))
            if !(0.0..=1e9).contains(&number) =>
        {
            let message = format!("the alert `{name}` cannot fire above {number}");
            refuse(&at, message, "from 0 to 1000000000", format!("write `{}`", example(unit)));
        }
        _ => {}
    }
}

/// The limit of characters of an expression that the help repeats.
const LONGEST_SHOWN: usize = 60;

fn example(unit: Unit) -> &'static str {
    match unit {
        Unit::Share => "0.9",
        Unit::Count => "10",
        Unit::Seconds => "60",
    }
}

fn is_legal(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= 63
        && name.bytes().all(|b| b.is_ascii_alphanumeric())
}

fn own_alert(name: &str, alert: &Alert, path: &Path, report: &mut RuleReport<'_>) {
    if !is_legal(name) {
        let message = format!("{} is not a legal name of an alert", quote(name));
        let violation = Violation::error(RULE, message).expected("not a legal name");
        let help = "use up to 63 letters and digits, the first a lower-case letter: `queueTooLong`";
        report.add(path, violation.help(help));
    }
    if let Err(fault) = promql::check(alert.expr.as_deref().unwrap_or_default()) {
        let message = format!("the expression of {} cannot be evaluated: {fault}", quote(name));
        let violation = Violation::error(RULE, message).expected("not an alert's expression");
        let help = "write PromQL that gives a series for each thing that is wrong: `queue_length{app=\"my-app\"} > 100`";
        report.add(&path.key("expr"), violation.help(help));
    }
    let expression = alert.expr.as_deref().unwrap_or_default();
    if promql::check(expression).is_ok() && !promql::has_condition(expression) {
        let message = format!("the alert {} fires as long as anything is measured", quote(name));
        let violation = Violation::warning(RULE, message).expected("compares nothing");
        // A long expression is at hand: what is to be added is enough.
        let short_expression =
            if expression.chars().count() > LONGEST_SHOWN { "…" } else { expression };
        let help = match promql::without_bool(expression) {
            Some(other) if short_expression != "…" => format!(
                "`bool` gives 0 or 1 for each series, and 0 is a value, too: write `{other}`"
            ),
            Some(_) => "`bool` gives 0 or 1 for each series, and 0 is a value, too: leave it out"
                .to_owned(),
            None => {
                format!("say what is wrong: `{short_expression} == 0`, `{short_expression} > 100`")
            }
        };
        report.add(&path.key("expr"), violation.help(help));
    }
    if alert.threshold.is_some() {
        let violation = Violation::error(RULE, "an alert of your own compares in its `expr`");
        let violation = violation.expected("without effect");
        report.add(&path.key("threshold"), violation.help("write `… > 100` at the end of `expr`"));
    }
    if alert.summary.is_none() {
        let message = format!("the alert {} does not say what is wrong", quote(name));
        let violation = Violation::error(RULE, message).expected("needs `summary`");
        report.add(path, violation.help("add `summary: the queue is too long`"));
    }
    for (key, value) in [("summary", &alert.summary), ("description", &alert.description)] {
        if let Some(value) = value {
            text(key, value, path, report);
        }
    }
}

fn waits(duration: &str, path: &Path, report: &mut RuleReport<'_>) {
    let fault = match promql::seconds(duration) {
        None => format!("{} is not a duration", quote(duration)),
        Some(seconds) if seconds > LONGEST_WAIT => {
            format!("{duration} is longer than an alert may wait, 7 days")
        }
        Some(_) => return,
    };
    let violation = Violation::error(RULE, fault).expected("not a duration of Prometheus");
    report.add(path, violation.help("write it like `90s`, `5m` or `1h30m`"));
}

/// Checks a text that Prometheus fills in and Alertmanager shows.
fn text(key: &str, text: &str, path: &Path, report: &mut RuleReport<'_>) {
    let (fault, help) = if text.trim().is_empty() {
        ("is empty", "write what a person must know, or leave it out")
    } else if text.len() > LONGEST_TEXT {
        ("has more than 2000 bytes", "say it shorter, and link a runbook for the rest")
    } else if text.chars().any(|c| c.is_control() && (key != "description" || c != '\n')) {
        ("has a control character in it", "write it on one line")
    } else if key != "slack" && !promql::has_whole_placeholders(text) {
        ("has a `{{` or `}}` that does not belong to a pair", "write `{{ $value }}`")
    } else {
        return;
    };
    let violation = Violation::error(RULE, format!("the alert's `{key}` {fault}"));
    report.add(&path.key(key), violation.expected("cannot be used").help(help));
}

/// Warns of tuned alerts for which the app or the target lacks a part.
fn without_effect(subject: &Subject<'_>, root: &Path, report: &mut RuleReport<'_>) {
    let Some(target) = subject.facts.clusters.find(subject.target) else { return };
    // `{}` has nothing in it that was written there, and was written there itself.
    let is_written = |node: &Node| !node.origin.layer.ends_with("/defaults.yaml");
    let from_waml = |path: &Path| {
        subject.tree.at(path).is_some_and(|node| is_written(node) || is_from_waml(node))
    };
    if !subject.template.uses("alerts") || !from_waml(root) {
        return;
    }
    let no_effect = |message: String| Violation::warning(RULE, message).expected("without effect");
    if !target.platform.monitoring.enabled {
        let message = format!("the target `{}` has no Prometheus for alerts", target.name);
        let help = "ask its operators, or set alerts only for the targets that have one";
        report.add(root, no_effect(message).help(help));
        return;
    }
    let watched = ObservedApp { waml: subject.waml, section: subject.section, target: &target };
    for (name, alert) in on(&watched).filter(|(name, _)| from_waml(&root.key(name))) {
        let Some(known_alert) = find(name) else { continue };
        if let Some(missing) = find_missing_part(&watched, known_alert, alert) {
            let message = format!("the alert `{name}` is not created: {missing}");
            let help =
                format!("remove `{name}`, or set it only where the app has what it measures");
            report.add(&root.key(name), no_effect(message).help(help));
        }
    }
}

/// Returns the part that the app or the target lacks for an alert; `None` where it lacks none.
fn find_missing_part(
    watched: &ObservedApp<'_>,
    known_alert: &Known,
    alert: &Alert,
) -> Option<&'static str> {
    match known_alert.needs {
        AlertNeeds::Objective => watched.section.slo.is_none().then_some("the app has no `slo`"),
        _ => expression(watched, known_alert, alert.threshold.unwrap_or_default()).err(),
    }
}
