//! A canary's numbers are sane: it gets somewhere, in a time that somebody waits for.
//!
//! From Flagger's analysis: traffic grows by `stepWeight` each `interval` until `maxWeight`, so a
//! release takes at least `interval` × the steps up to `maxWeight` (a last, smaller step is one,
//! too), and a rollback `interval × threshold`.

use jiff::SignedDuration;

use super::{Report, Subject};
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::section_operations::Canary;
use crate::waml::typed::quoted;

const RULE: &str = "canary";

/// Metrics are scraped every 15 to 60 s: less than that compares nothing.
const SHORTEST: SignedDuration = SignedDuration::from_secs(10);
/// A release that takes longer than this meets the next one.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(canary) = &subject.section.canary else { return };
    let path = Path::root().key("canary");
    if let (Some(step), Some(max)) = (canary.step_weight, canary.max_weight)
        && step > max
    {
        let message = format!("a step of {step} % is over the most of {max} %");
        let violation = Violation::error(RULE, message)
            .expected(format!("at most {max}"))
            .help("let `stepWeight` go several times into `maxWeight`: 10 and 50");
        report.add(&path.key("stepWeight"), violation);
    }
    if let Some(text) = &canary.interval {
        let interval = interval(text);
        report_interval(text, interval, &path.key("interval"), report);
        if let Some(interval) = interval.filter(|interval| *interval >= SHORTEST) {
            slow(canary, interval, &path, report);
        }
    }
}

/// `1m`, `90s`, `1h30m`.
fn interval(text: &str) -> Option<SignedDuration> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b's' | b'm' | b'h'));
    text.parse::<SignedDuration>().ok().filter(|_| plain)
}

fn report_interval(
    text: &str,
    interval: Option<SignedDuration>,
    path: &Path,
    report: &mut Report<'_>,
) {
    let (message, expected) = match interval {
        None => (format!("{} is not a time", quoted(text)), "not a time"),
        Some(interval) if interval < SHORTEST => {
            (format!("{interval:#} between steps is too short to measure anything"), "too short")
        }
        Some(_) => return,
    };
    let violation = Violation::error(RULE, message).expected(expected);
    report.add(path, violation.help("write it like `30s`, `1m` or `1h`, at least 10s"));
}

/// The times that a release takes when all goes well, and until all traffic is back when it
/// does not.
fn slow(canary: &Canary, interval: SignedDuration, path: &Path, report: &mut Report<'_>) {
    let Canary { step_weight, max_weight, interval: _, threshold } = canary;
    let steps = step_weight.zip(*max_weight).filter(|(step, max)| *step > 0 && step <= max);
    if let Some((step, max)) = steps {
        let what = "a release takes at least {}: `interval` × `maxWeight` / `stepWeight`";
        let help = "shorten the interval or take larger steps, so that it is done within 24h";
        within(interval, max.div_ceil(step), what, help, path, report);
    }
    if let Some(threshold) = threshold {
        let what = "a release that fails is taken back after {}: `interval` × `threshold`";
        let help = "shorten the interval or lower the threshold, so that it is done within 24h";
        within(interval, *threshold, what, help, path, report);
    }
}

fn within(
    interval: SignedDuration,
    times: u32,
    what: &str,
    help: &str,
    path: &Path,
    report: &mut Report<'_>,
) {
    let whole = i32::try_from(times).ok().and_then(|times| interval.checked_mul(times));
    let whole = whole.unwrap_or(SignedDuration::MAX);
    if whole > LONGEST {
        let message = what.replace("{}", &format!("{whole:#}"));
        report.add(path, Violation::error(RULE, message).expected("takes too long").help(help));
    }
}
