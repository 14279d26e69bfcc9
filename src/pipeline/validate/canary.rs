//! Checks a canary: its steps and times, its measurements, and that Flagger can take the app over.

pub(super) mod handover; // from plain to a canary and back
mod measures; // measurements, webhooks
mod takeover; // the app's Service, autoscaler and routes

use jiff::SignedDuration;

use super::{RuleReport, Subject};
use crate::model::canary::CanaryForecast;
use crate::model::violation::Violation;
use crate::waml::canary_plan::{forecast, read_time};
use crate::waml::node::{Path, is_from_waml};
use crate::waml::quote::quote;
use crate::waml::section_canary::Canary;

const RULE: &str = "canary";
/// Metrics are scraped every 15 to 60 s: less than that compares nothing.
const SHORTEST: SignedDuration = SignedDuration::from_secs(10);
/// A release that takes longer than this meets the next one.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);
/// All of the traffic, in percent.
const FULL_WEIGHT: u32 = 100;
/// The most steps of a list: one for each percent.
const MAX_STEPS: usize = 100;

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(canary) = &subject.section.canary else { return };
    let path = Path::root().key("canary");
    check_weights(subject, canary, &path, report);
    check_strategy(subject, canary, &path, report);
    if let Some(text) = &canary.interval {
        check_interval(text, &path.key("interval"), report);
    }
    if let Some(forecast) = forecast(canary).filter(|forecast| forecast.interval() >= SHORTEST) {
        check_durations(canary, &forecast, subject, &path, report);
    }
    measures::check(subject, canary, &path, report);
    // Another template may make something else of the numbers.
    if subject.template.uses("canary") {
        require_numbers(canary, subject, &path, report);
        takeover::check(subject, canary, &path, report);
    } else {
        takeover::check_schedule(subject, &path, report);
    }
}

/// Checks that the WAML itself sets the key, and not a default.
fn is_written(subject: &Subject<'_>, path: &Path) -> bool {
    subject.tree.at(path).is_some_and(|node| !node.is_null() && is_from_waml(node))
}

/// Checks that weights grow up to a maximum of at most all.
fn check_weights(subject: &Subject<'_>, canary: &Canary, path: &Path, report: &mut RuleReport<'_>) {
    if let (Some(step), Some(max)) = (canary.step_weight, canary.max_weight)
        && step > max
        && canary.step_weights.is_none()
        && canary.iterations.is_none()
    {
        let message = format!("a step of {step} % is over the maximum of {max} %");
        let violation = Violation::error(RULE, message)
            .expected(format!("at most {max}"))
            .help("let `stepWeight` go several times into `maxWeight`: 10 and 50");
        let step = path.key("stepWeight");
        let max = path.key("maxWeight");
        report.add(if is_written(subject, &step) { &step } else { &max }, violation);
    }
    let Some(weights) = &canary.step_weights else { return };
    let path = path.key("stepWeights");
    if weights.is_empty() {
        let violation = Violation::error(RULE, "`stepWeights` has no step").expected("needs steps");
        report.add(&path, violation.help("write percents that grow: `[1, 5, 20, 50]`"));
    }
    if weights.len() > MAX_STEPS {
        let message = format!("`stepWeights` has {} steps", weights.len());
        let violation =
            Violation::error(RULE, message).expected(format!("at most {MAX_STEPS} steps"));
        report.add(&path, violation.help("take larger steps"));
        return;
    }
    let mut before = 0;
    for (index, weight) in weights.iter().copied().enumerate() {
        let message = if weight == 0 || weight > FULL_WEIGHT {
            format!("a step of {weight} % is no share of the traffic")
        } else if weight <= before {
            format!("a step of {weight} % is not more than the one before, {before} %")
        } else {
            before = weight;
            continue;
        };
        let violation = Violation::error(RULE, message)
            .expected("does not grow")
            .help("write percents from 1 to 100 that grow: `[1, 5, 20, 50]`");
        report.add(&path.index(index), violation);
        return;
    }
}

/// Checks that the keys belong to one strategy: Flagger heeds one of them, and ignores the rest without a word.
fn check_strategy(
    subject: &Subject<'_>,
    canary: &Canary,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    let mut refuse = |key: &str, message: String, help: &'static str| {
        let violation = Violation::error(RULE, message).expected("without effect").help(help);
        report.add(&path.key(key), violation);
    };
    let is_written = |key: &str| is_written(subject, &path.key(key));
    let has_match = canary.match_.as_ref().is_some_and(|list| !list.is_empty());
    if canary.iterations.is_some() {
        for key in ["stepWeight", "maxWeight", "stepWeights", "stepWeightPromotion"] {
            if is_written(key) {
                let message = format!("`{key}` does nothing beside `iterations`");
                refuse(
                    key,
                    message,
                    "keep weights for a growing share, or `iterations` for checks without one",
                );
            }
        }
    } else {
        if canary.step_weights.is_some() {
            for key in ["stepWeight", "maxWeight"] {
                if is_written(key) {
                    let message = format!("`{key}` does nothing beside `stepWeights`");
                    refuse(
                        key,
                        message,
                        "keep one of the two; the last of `stepWeights` is the maximum",
                    );
                }
            }
        }
        if has_match {
            let message = "`match` does nothing without `iterations`".to_owned();
            refuse("match", message, "add `iterations: 10` for an A/B test, or remove `match`");
        }
    }
    if canary.mirror_weight.is_some() && canary.mirror != Some(true) {
        let message = "`mirrorWeight` does nothing without `mirror: true`".to_owned();
        refuse("mirrorWeight", message, "add `mirror: true`, or remove it");
    }
    if canary.mirror == Some(true) && has_match {
        let message = "an A/B test copies no requests".to_owned();
        refuse("mirror", message, "remove `mirror`, or `match` and `iterations`");
    }
}

/// Checks that everything is there that a run needs.
fn require_numbers(
    canary: &Canary,
    subject: &Subject<'_>,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    let has_way = canary.iterations.is_some()
        || canary.step_weight.is_some()
        || canary.step_weights.is_some();
    let needs = [
        (canary.interval.is_some(), "interval", "time between its checks", "interval: 1m"),
        (canary.threshold.is_some(), "threshold", "number of failed checks", "threshold: 5"),
        (has_way, "stepWeight", "steps", "stepWeight: 10, maxWeight: 50"),
    ];
    for (is_there, key, what, example) in needs {
        if !is_there && !subject.is_unsure("canary") {
            let message = format!("the canary has no {what}");
            let violation = Violation::error(RULE, message).expected(format!("needs `{key}`"));
            report.add(path, violation.help(format!("add `{example}`")));
        }
    }
}

fn check_interval(text: &str, path: &Path, report: &mut RuleReport<'_>) {
    let (message, expected) = match read_time(text) {
        None => (format!("{} is not a time", quote(text)), "not a time"),
        Some(interval) if interval < SHORTEST => {
            (format!("{interval:#} between steps is too short to measure anything"), "too short")
        }
        Some(_) => return,
    };
    let violation = Violation::error(RULE, message).expected(expected);
    report.add(path, violation.help("write it like `30s`, `1m` or `1h`, at least 10s"));
}

/// Checks the time of a release that succeeds, the time until all traffic is back when it fails, and the time that its
/// pods may be away.
fn check_durations(
    canary: &Canary,
    forecast: &CanaryForecast,
    subject: &Subject<'_>,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    let (minimum, rollback) = (forecast.minimum(), forecast.rollback());
    let totals = [
        (
            minimum,
            format!(
                "a release takes at least {minimum:#}: `interval` × `maxWeight` / `stepWeight`"
            ),
            "shorten the interval or take larger steps, so that it is done within 24h",
        ),
        (
            rollback,
            format!(
                "a release that fails is rolled back after {rollback:#}: `interval` × `threshold`"
            ),
            "shorten the interval or lower the threshold, so that it is done within 24h",
        ),
    ];
    for (total, message, help) in totals {
        if total > LONGEST {
            let violation = Violation::error(RULE, message).expected("takes too long").help(help);
            report.add(path, violation);
        }
    }
    let Some(seconds) = canary.progress_deadline_seconds else { return };
    let deadline = SignedDuration::from_secs(seconds.into());
    let path = path.key("progressDeadlineSeconds");
    if deadline < forecast.interval() {
        let message = format!(
            "pods get {deadline:#} to be ready, and Flagger looks each {:#}: the first look that finds one missing \
             takes the release back",
            forecast.interval()
        );
        let violation = Violation::error(RULE, message).expected("too short");
        report.add(&path, violation.help("make it at least the interval, in seconds"));
    } else if deadline < minimum && minimum <= LONGEST && is_written(subject, &path) {
        let message = format!(
            "a release takes at least {minimum:#}, and a pod that is not ready for {deadline:#} of it takes it back"
        );
        let violation = Violation::warning(RULE, message).expected("less than the release takes");
        let help = format!(
            "make it {} or more, unless one slow restart is to end the release",
            minimum.as_secs()
        );
        report.add(&path, violation.help(help));
    }
}
