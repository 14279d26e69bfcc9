//! Several releases live at once: by a canary, or as versions with shares of the traffic.

use std::collections::HashMap;

use jiff::SignedDuration;

use super::{RuleReport, Subject};
use crate::model::id::is_rfc1123_label;
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::quote::quote;
use crate::waml::section_operations::{Canary, Version};

/// Metrics are scraped every 15 to 60 s: less than that compares nothing.
const SHORTEST: SignedDuration = SignedDuration::from_secs(10);
/// A release that takes longer than this meets the next one.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// Checks that a canary's numbers are plausible: it reaches its end, in a time that a person waits for.
///
/// From Flagger's analysis: traffic grows by `stepWeight` each `interval` until `maxWeight`, so a release takes at
/// least `interval` × the steps up to `maxWeight` (a last, smaller step is one, too), and a rollback `interval ×
/// threshold`.
pub(super) fn canary(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(canary) = &subject.section.canary else { return };
    let path = Path::root().key("canary");
    if let (Some(step), Some(max)) = (canary.step_weight, canary.max_weight)
        && step > max
    {
        let message = format!("a step of {step} % is over the maximum of {max} %");
        let violation = Violation::error("canary", message)
            .expected(format!("at most {max}"))
            .help("let `stepWeight` go several times into `maxWeight`: 10 and 50");
        report.add(&path.key("stepWeight"), violation);
    }
    if let Some(text) = &canary.interval {
        let interval = interval(text);
        report_interval(text, interval, &path.key("interval"), report);
        if let Some(interval) = interval.filter(|interval| *interval >= SHORTEST) {
            check_durations(canary, interval, &path, report);
        }
    }
}

/// Parses `1m`, `90s`, `1h30m`.
fn interval(text: &str) -> Option<SignedDuration> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b's' | b'm' | b'h'));
    text.parse::<SignedDuration>().ok().filter(|_| plain)
}

fn report_interval(
    text: &str,
    interval: Option<SignedDuration>,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    let (message, expected) = match interval {
        None => (format!("{} is not a time", quote(text)), "not a time"),
        Some(interval) if interval < SHORTEST => {
            (format!("{interval:#} between steps is too short to measure anything"), "too short")
        }
        Some(_) => return,
    };
    let violation = Violation::error("canary", message).expected(expected);
    report.add(path, violation.help("write it like `30s`, `1m` or `1h`, at least 10s"));
}

/// Checks the time of a release that succeeds, and the time until all traffic is back when it fails.
fn check_durations(
    canary: &Canary,
    interval: SignedDuration,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    let Canary { step_weight, max_weight, interval: _, threshold } = canary;
    let steps = step_weight.zip(*max_weight).filter(|(step, max)| *step > 0 && step <= max);
    if let Some((step, max)) = steps {
        let what = "a release takes at least {}: `interval` × `maxWeight` / `stepWeight`";
        let help = "shorten the interval or take larger steps, so that it is done within 24h";
        check_duration(interval, max.div_ceil(step), what, help, path, report);
    }
    if let Some(threshold) = threshold {
        let what = "a release that fails is rolled back after {}: `interval` × `threshold`";
        let help = "shorten the interval or lower the threshold, so that it is done within 24h";
        check_duration(interval, *threshold, what, help, path, report);
    }
}

fn check_duration(
    interval: SignedDuration,
    times: u32,
    template: &str,
    help: &str,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    let total = i32::try_from(times).ok().and_then(|times| interval.checked_mul(times));
    let total = total.unwrap_or(SignedDuration::MAX);
    if total > LONGEST {
        let message = template.replace("{}", &format!("{total:#}"));
        report.add(path, Violation::error("canary", message).expected("takes too long").help(help));
    }
}

/// Checks that live versions have names of their own, and shares that are all of the traffic.
pub(super) fn versions(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(versions) = subject.section.versions.as_deref() else { return };
    let path = Path::root().key("versions");
    if subject.section.canary.is_some() {
        let violation = Violation::error("versions", "an app has a canary or versions, not both")
            .expected("one too many")
            .help("a canary moves the traffic by itself; `versions` says where it stays");
        report.add(&path, violation);
    }
    each(versions, &path, report);
    total(versions, &path, report);
}

fn each(versions: &[Version], path: &Path, report: &mut RuleReport<'_>) {
    let mut indexes: HashMap<&str, usize> = HashMap::new();
    for (index, version) in versions.iter().enumerate() {
        let earlier = indexes.insert(&version.name, index);
        if let Some(violation) = name(&version.name, earlier) {
            report.add(&path.index(index).key("name"), violation);
        }
    }
}

fn name(name: &str, earlier: Option<usize>) -> Option<Violation> {
    let (message, expected, help) = if is_rfc1123_label(name) {
        let message = format!("`versions[{}]` has this name already", earlier?);
        (message, "is taken", "give each version a name of its own")
    } else {
        let message = format!("{} is not a legal name", quote(name));
        (message, "not legal", "use lower-case letters, digits and `-`")
    };
    Some(Violation::error("versions", message).expected(expected).help(help))
}

fn total(versions: &[Version], path: &Path, report: &mut RuleReport<'_>) {
    let silent = versions.iter().position(|version| version.weight.is_none());
    if let Some(index) = silent.filter(|_| versions.len() > 1) {
        let violation =
            Violation::error("versions", "this version does not say how much traffic it gets")
                .expected("needs `weight`")
                .help("add `weight: 0`, and let all weights be 100 together");
        return report.add(&path.index(index), violation);
    }
    let sum: u64 = versions.iter().map(|version| u64::from(version.weight.unwrap_or(100))).sum();
    if sum != 100 && !versions.is_empty() {
        let violation =
            Violation::error("versions", format!("the weights add up to {sum}, not 100"))
                .expected(format!("{sum} together"))
                .help("a weight is a share of all traffic in percent");
        report.add(path, violation);
    }
}
