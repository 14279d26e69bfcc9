//! The measurements of a canary, and the addresses that Flagger calls.

use super::{RULE, SHORTEST};
use crate::model::platform::canary::CanaryProvider;
use crate::model::target::Target;
use crate::model::violation::Violation;
use crate::pipeline::validate::{RuleReport, Subject};
use crate::waml::canary_plan::read_time;
use crate::waml::node::Path;
use crate::waml::quote::quote;
use crate::waml::section_canary::{
    Canary, CanaryMetric, CanaryWebhook, DURATION, HeaderMatch, SUCCESS_RATE, ThresholdRange,
};
use crate::waml::suggest;

/// The longest name of a measurement: it is part of an object's.
const LONGEST_NAME: usize = 63;
/// The longest query, in bytes.
const LONGEST_QUERY: usize = 4096;
/// The most measurements, and the most webhooks: each is asked at each check.
const MAX_ENTRIES: usize = 32;
/// What Flagger fills in where a query has it in `{{ }}`.
const FILLED: [&str; 7] =
    ["name", "namespace", "target", "service", "ingress", "route", "interval"];

pub(super) fn check(
    subject: &Subject<'_>,
    canary: &Canary,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    for (key, count) in [("metrics", canary.metrics().len()), ("webhooks", canary.webhooks().len())]
    {
        if count > MAX_ENTRIES {
            let violation = Violation::error(RULE, format!("`{key}` has {count} entries"))
                .expected(format!("at most {MAX_ENTRIES}"))
                .help("each is asked at each check: keep the telling ones");
            return report.add(&path.key(key), violation);
        }
    }
    let target = subject.cluster.filter(|_| subject.template.uses("canary"));
    for (path, metric) in path.each("metrics", &canary.metrics) {
        check_name(metric, &path, report);
        check_range(metric, &path, report);
        check_window(metric, canary, &path, report);
        check_query(metric, &path, report);
        if let Some(target) = target {
            check_source(metric, target, &path, report);
        }
    }
    for (path, webhook) in path.each("webhooks", &canary.webhooks) {
        check_webhook(webhook, &path, report);
    }
    for (path, one) in path.each("match", &canary.match_) {
        let headers: Vec<_> = one.headers.iter().flatten().collect();
        if headers.is_empty() {
            let violation =
                Violation::error(RULE, "this matches every request").expected("needs `headers`");
            report.add(
                &path,
                violation.help("name a header: `headers: {x-canary: {exact: insider}}`"),
            );
        }
        for (name, header) in headers {
            check_header(header.as_ref(), &path.key("headers").key(name), report);
        }
    }
    if canary.metrics().is_empty()
        && canary.skip_analysis != Some(true)
        && subject.template.uses("canary")
        && !canary.webhooks().iter().any(CanaryWebhook::is_at_each_check)
    {
        let message = "the canary measures nothing: every release whose pods are ready is promoted";
        let violation = Violation::warning(RULE, message).expected("measures nothing");
        let help = "add `metrics: [{name: request-success-rate, thresholdRange: {min: 99}}]`";
        report.add(path, violation.help(help));
    }
}

fn check_name(metric: &CanaryMetric, path: &Path, report: &mut RuleReport<'_>) {
    let CanaryMetric { name, query, .. } = metric;
    let is_legal = crate::pipeline::validate::is_secret(name) && name.len() <= LONGEST_NAME;
    let (at, message, expected, help) = match query {
        Some(_) if metric.is_built_in() => (
            path.key("query"),
            format!("Flagger measures {} itself", quote(name)),
            "one too many",
            "remove `query`, or give the measurement a name of its own".to_owned(),
        ),
        Some(_) if !is_legal => (
            path.key("name"),
            format!("{} is no legal name", quote(name)),
            "not legal",
            "use lower-case letters, digits and `-`".to_owned(),
        ),
        None if !metric.is_built_in() => {
            let near = suggest::nearest(name, [SUCCESS_RATE, DURATION]);
            let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
            (
                path.key("name"),
                format!("Flagger does not know the measurement {}", quote(name)),
                "unknown",
                format!(
                    "{near}it knows `{SUCCESS_RATE}` and `{DURATION}`; one of your own has a `query` in PromQL"
                ),
            )
        }
        Some(_) | None => return,
    };
    report.add(&at, Violation::error(RULE, message).expected(expected).help(help));
}

/// Checks that some values are good, and others not.
fn check_range(metric: &CanaryMetric, path: &Path, report: &mut RuleReport<'_>) {
    let name = quote(&metric.name);
    let example = match &*metric.name {
        SUCCESS_RATE => "thresholdRange: {min: 99}",
        _ => "thresholdRange: {max: 500}",
    };
    let range = path.key("thresholdRange");
    let ThresholdRange { min, max } = match &metric.threshold_range {
        Some(range) if range.min.is_some() || range.max.is_some() => range,
        found => {
            let at = if found.is_some() { &range } else { path };
            let violation = Violation::error(RULE, format!("every value of {name} would be good"))
                .expected("needs `min` or `max`")
                .help(format!("add `{example}`"));
            return report.add(at, violation);
        }
    };
    if min.iter().chain(max).any(|end| !end.is_finite()) {
        let violation = Violation::error(RULE, "an end of the range is no number");
        return report
            .add(&range, violation.expected("not a number").help(format!("write `{example}`")));
    }
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        let message = format!("no value is at least {min} and at most {max}");
        let violation = Violation::error(RULE, message).expected("no value fits");
        return report.add(&range, violation.help("let `min` be less than `max`"));
    }
    if metric.name == SUCCESS_RATE {
        for (key, end) in [("min", min), ("max", max)] {
            if let Some(end) = end.filter(|end| !(0.0..=100.0).contains(end)) {
                let message = format!("{end} is no percentage of requests");
                let violation = Violation::error(RULE, message).expected("from 0 to 100");
                report.add(&range.key(key), violation.help("write percent: `99`"));
            }
        }
        if min.is_some_and(|min| min > 0.0 && min < 1.0) {
            let message =
                format!("`min: {}` is less than one percent of requests", min.unwrap_or_default());
            let violation = Violation::warning(RULE, message).expected("in percent");
            report.add(&range.key("min"), violation.help("write percent: `99`, not `0.99`"));
        }
    }
    if metric.name == DURATION && max.is_some_and(|max| max < 1.0) {
        let message = format!("`max: {}` is less than a millisecond", max.unwrap_or_default());
        let violation = Violation::warning(RULE, message).expected("in milliseconds");
        report.add(&range.key("max"), violation.help("write milliseconds: `500`, not `0.5`"));
    }
}

/// Checks that a check measures the time since the one before, and not the step before.
fn check_window(metric: &CanaryMetric, canary: &Canary, path: &Path, report: &mut RuleReport<'_>) {
    let Some(text) = &metric.interval else { return };
    let path = path.key("interval");
    match (read_time(text), canary.interval.as_deref().and_then(read_time)) {
        (None, _) => {
            let violation = Violation::error(RULE, format!("{} is not a time", quote(text)));
            report.add(&path, violation.expected("not a time").help("write it like `30s` or `1m`"));
        }
        (Some(window), _) if window < SHORTEST => {
            let message = format!("{window:#} is too short to measure anything");
            let violation = Violation::error(RULE, message).expected("too short");
            report.add(&path, violation.help("write `30s` or more"));
        }
        (Some(window), Some(interval)) if window > interval => {
            let message = format!(
                "a check measures {window:#}, and checks are {interval:#} apart: it counts requests of the step before"
            );
            let violation = Violation::warning(RULE, message).expected("longer than the interval");
            report.add(&path, violation.help("make it at most the canary's `interval`"));
        }
        (Some(_), _) => {}
    }
}

/// Checks that Flagger can fill in what a query leaves open.
fn check_query(metric: &CanaryMetric, path: &Path, report: &mut RuleReport<'_>) {
    let Some(query) = &metric.query else { return };
    let path = path.key("query");
    if query.trim().is_empty() || query.len() > LONGEST_QUERY {
        let message = format!("a query of {} bytes", query.len());
        let violation = Violation::error(RULE, message).expected("no query");
        return report
            .add(&path, violation.help(format!("write PromQL of at most {LONGEST_QUERY} bytes")));
    }
    for part in query.split("{{").skip(1) {
        let name = part.split_once("}}").map(|(name, _)| name.trim());
        if name.is_some_and(|name| FILLED.contains(&name)) {
            continue;
        }
        let message = match name {
            Some(name) => format!("Flagger fills in no {}", quote(name)),
            None => "a `{{` has no end".to_owned(),
        };
        let violation = Violation::error(RULE, message).expected("cannot be filled in");
        let names: Vec<String> = FILLED.iter().map(|name| format!("`{name}`")).collect();
        return report.add(&path, violation.help(format!("it knows {}", names.join(", "))));
    }
}

/// Checks that something measures it on the target.
fn check_source(metric: &CanaryMetric, target: &Target, path: &Path, report: &mut RuleReport<'_>) {
    let platform = &target.platform;
    if platform.canary.prometheus.is_some() {
        return;
    }
    if metric.query.is_some() {
        let message =
            format!("`{}` names no Prometheus for measurements of one's own", target.name);
        let violation = Violation::error(RULE, message).expected("cannot be asked");
        let help =
            "an operator sets `platform.canary.prometheus`; or keep to Flagger's own measurements";
        return report.add(&path.key("query"), violation.help(help));
    }
    let by_gateway = platform.canary.provider(platform.ingress.kind) == CanaryProvider::Gateway;
    if by_gateway && metric.is_built_in() {
        let message = format!(
            "on `{}` Flagger reads {} from what the app counts itself, in `http_request_duration_seconds`",
            target.name,
            quote(&metric.name)
        );
        let violation = Violation::warning(RULE, message).expected("may have no value");
        let help = "without that metric every check fails; or an operator sets `platform.canary.prometheus`, and \
                    what the gateway counts is used";
        report.add(path, violation.help(help));
    }
}

fn check_webhook(webhook: &CanaryWebhook, path: &Path, report: &mut RuleReport<'_>) {
    match &webhook.url {
        None => {
            let violation =
                Violation::error(RULE, "the webhook has no address").expected("needs `url`");
            report.add(path, violation.help("add `url: \"http://flagger-loadtester.flagger/\"`"));
        }
        Some(url) if !is_address(url) => {
            let violation = Violation::error(RULE, "this is no address").expected("not an address");
            report.add(&path.key("url"), violation.help("write `http://HOST/` or `https://HOST/`"));
        }
        Some(_) => {}
    }
    if let Some(text) = &webhook.timeout
        && read_time(text).is_none_or(|time| time.is_zero())
    {
        let violation = Violation::error(RULE, format!("{} is not a time", quote(text)));
        report
            .add(&path.key("timeout"), violation.expected("not a time").help("write it like `5s`"));
    }
}

/// Checks that a text is an address of HTTP with a host, and nothing that only a person may know in it.
fn is_address(url: &str) -> bool {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    host.is_some_and(|host| !host.is_empty() && !host.contains('@'))
        && !url.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn check_header(header: Option<&HeaderMatch>, path: &Path, report: &mut RuleReport<'_>) {
    let count = header.map_or(0, |HeaderMatch { exact, prefix, regex }| {
        [exact, prefix, regex].into_iter().flatten().count()
    });
    if count != 1 {
        let violation = Violation::error(RULE, "a header is compared in one way")
            .expected("needs one of `exact`, `prefix`, `regex`")
            .help("write `{exact: insider}`");
        report.add(path, violation);
    }
}
