//! Quantities parse, and requests are within limits.

use super::quantity::Quantity;
use super::{Report, Subject};
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::section_workload::Amounts;

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(resources) = &subject.section.resources else { return };
    let requests = amounts(resources.requests.as_ref());
    let limits = amounts(resources.limits.as_ref());
    for ((kind, request), (_, limit)) in requests.into_iter().zip(limits) {
        let path = |side: &str| Path::root().key("resources").key(side).key(kind);
        let request_is = request.map(|text| parse(text, &path("requests"), kind, report));
        let limit_is = limit.map(|text| parse(text, &path("limits"), kind, report));
        if let (Some(Some(least)), Some(Some(most)), Some(request), Some(limit)) =
            (request_is, limit_is, request, limit)
            && least > most
        {
            let defaults = ["requests", "limits"].map(|side| subject.default_of(&path(side)));
            let [of_request, of_limit] = &defaults;
            let message = format!(
                "the request of {request} {kind}{of_request} is over the limit of {limit}{of_limit}"
            );
            let help =
                format!("lower `resources.requests.{kind}`, or raise `resources.limits.{kind}`");
            // At the one of the two that somebody wrote.
            let (side, expected) = match (of_request.is_empty(), of_limit.is_empty()) {
                (false, true) => ("limits", format!("at least {request}")),
                _ => ("requests", format!("at most {limit}")),
            };
            let violation = Violation::error("resources", message).expected(expected);
            report.add(&path(side), violation.help(help));
        }
    }
}

fn amounts(amounts: Option<&Amounts>) -> [(&'static str, Option<&str>); 3] {
    let get = |pick: fn(&Amounts) -> &Option<String>| amounts.and_then(|a| pick(a).as_deref());
    [
        ("cpu", get(|a| &a.cpu)),
        ("memory", get(|a| &a.memory)),
        ("ephemeralStorage", get(|a| &a.ephemeral_storage)),
    ]
}

fn parse(text: &str, path: &Path, kind: &str, report: &mut Report<'_>) -> Option<Quantity> {
    let Some(found) = Quantity::parse(text) else {
        report.add(path, not_a_quantity("resources", text, kind));
        return None;
    };
    match kind {
        "cpu" => many_cpus(text, found, path, report),
        _ => few_bytes("resources", text, found, path, report),
    }
    Some(found)
}

/// More CPUs than the machines have that most clusters are made of.
const MANY_CPUS: u64 = 64;

/// `200` where `200m` was meant: no node has room for it, and the pod waits for ever.
fn many_cpus(text: &str, found: Quantity, path: &Path, report: &mut Report<'_>) {
    if found.whole().is_none_or(|cpus| cpus > MANY_CPUS) {
        let message = format!("{text} CPUs are more than a node has");
        let violation = Violation::warning("resources", message).expected("whole CPUs");
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let help =
            format!("write `{digits}m` for {digits} thousandths of a CPU, if that was meant");
        report.add(path, violation.help(help));
    }
}

/// Less than this, and no container starts and no disk has a file system.
const FEW_BYTES: u64 = 1 << 20;

/// `128m` where `128Mi` was meant: a small `m` is a thousandth, of a byte here.
pub(super) fn few_bytes(
    rule: &'static str,
    text: &str,
    found: Quantity,
    path: &Path,
    report: &mut Report<'_>,
) {
    if found.is_zero() || found.whole().is_none_or(|bytes| bytes >= FEW_BYTES) {
        return;
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let message = if text.ends_with('m') {
        format!("{text} are {digits} thousandths of a byte")
    } else {
        format!("{text} is less than a megabyte")
    };
    let violation = Violation::error(rule, message).expected("bytes");
    report.add(path, violation.help(format!("write `{digits}Mi` for mebibytes")));
}

/// The violation for a text that is no quantity of that kind.
pub(super) fn not_a_quantity(rule: &'static str, text: &str, kind: &str) -> Violation {
    let message = format!("{} is not a quantity", crate::waml::typed::quoted(text));
    let help = match kind {
        "cpu" => "write CPUs as `0.5` or `500m`",
        _ => "write bytes as `256Mi` or `1Gi`",
    };
    Violation::error(rule, message).expected("not a quantity").help(help)
}
