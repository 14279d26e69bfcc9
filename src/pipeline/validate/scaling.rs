//! A rolling update can make progress.

use super::{Report, Subject};
use crate::manifests::int_or_string::NumberOrPercent;
use crate::model::violation::Violation;
use crate::waml::node::Path;

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(scaling) = &subject.section.scaling else { return };
    let path = Path::root().key("scaling");
    let unavailable =
        number("scaling", scaling.max_unavailable.as_deref(), &path.key("maxUnavailable"), report);
    let surge = number("scaling", scaling.max_surge.as_deref(), &path.key("maxSurge"), report);
    let unavailable =
        at_most_all("scaling", "be missing", unavailable, &path.key("maxUnavailable"), report);
    if unavailable.is_some_and(NumberOrPercent::is_zero)
        && surge.is_some_and(NumberOrPercent::is_zero)
    {
        let message = "a rolling update may neither take a pod away nor add one, so it never ends";
        let violation = Violation::error("scaling", message).expected("0, like `maxUnavailable`");
        report.add(
            &path.key("maxSurge"),
            violation.help("set `maxSurge` or `maxUnavailable` to 1 or more"),
        );
    }
}

/// Kubernetes refuses more than 100 % where pods stay or are away; only `maxSurge` may be more. The number,
/// unless it is refused: what comes of it is nothing to tell.
pub(super) fn at_most_all(
    rule: &'static str,
    what: &str,
    number: Option<NumberOrPercent>,
    path: &Path,
    report: &mut Report<'_>,
) -> Option<NumberOrPercent> {
    let Some(NumberOrPercent::Percent(percent @ 101..)) = number else { return number };
    let violation = Violation::error(rule, format!("{percent}% of the pods cannot {what}"));
    report.add(path, violation.expected("at most 100%").help("write 100% or less"));
    None
}

/// Reads a number or percentage; reports it where it is neither.
pub(super) fn number(
    rule: &'static str,
    text: Option<&str>,
    path: &Path,
    report: &mut Report<'_>,
) -> Option<NumberOrPercent> {
    let text = text?;
    let found = NumberOrPercent::parse(text);
    if found.is_none() {
        let shown = crate::waml::typed::quoted(text);
        let violation =
            Violation::error(rule, format!("{shown} is neither a number nor a percentage"));
        report.add(path, violation.expected("a number or a percentage").help("write `1` or `25%`"));
    }
    found
}
