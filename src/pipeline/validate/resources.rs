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
            let message = format!("the request of {request} {kind} is over the limit of {limit}");
            let violation =
                Violation::error("resources", message).expected(format!("at most {limit}"));
            let help =
                format!("lower `resources.requests.{kind}`, or raise `resources.limits.{kind}`");
            report.add(&path("requests"), violation.help(help));
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
    let found = Quantity::parse(text);
    if found.is_none() {
        report.add(path, not_a_quantity("resources", text, kind));
    }
    found
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
