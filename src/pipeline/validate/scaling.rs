//! The number of pods: while they are replaced, while nodes are drained, and when an autoscaler takes over.

use super::{RenderedPlan, RuleReport, Subject};
use crate::manifests::int_or_string::NumberOrPercent;
use crate::manifests::replicas::scaled_by;
use crate::model::facts::{Fact, LiveReplicas};
use crate::model::violation::Violation;
use crate::waml::node::{Path, is_from_waml};
use crate::waml::quote::quote;

/// Checks that a rolling update can make progress.
pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(scaling) = &subject.section.scaling else { return };
    let path = Path::root().key("scaling");
    let (missing, added) = (path.key("maxUnavailable"), path.key("maxSurge"));
    let unavailable = scaling.max_unavailable.as_deref();
    let unavailable = read_share("scaling", "be missing", unavailable, &missing, report);
    let surge = number("scaling", scaling.max_surge.as_deref(), &added, report);
    if unavailable.is_some_and(NumberOrPercent::is_zero)
        && surge.is_some_and(NumberOrPercent::is_zero)
    {
        let message = "a rolling update may neither take a pod away nor add one, so it never ends";
        let violation = Violation::error("scaling", message).expected("0, like `maxUnavailable`");
        report.add(&added, violation.help("set `maxSurge` or `maxUnavailable` to 1 or more"));
    }
}

/// Reads a number or percentage; reports it where it is neither.
fn number(
    rule: &'static str,
    text: Option<&str>,
    path: &Path,
    report: &mut RuleReport<'_>,
) -> Option<NumberOrPercent> {
    let text = text?;
    let parsed = NumberOrPercent::parse(text);
    if parsed.is_none() {
        let text_quoted = quote(text);
        let violation =
            Violation::error(rule, format!("{text_quoted} is neither a number nor a percentage"));
        report.add(path, violation.expected("a number or a percentage").help("write `1` or `25%`"));
    }
    parsed
}

/// Reads a number as `number` does, for pods that stay or are away, of which Kubernetes takes no more than 100 %: only
/// `maxSurge` may be more. The consequences of a refused number are not reported.
fn read_share(
    rule: &'static str,
    what: &str,
    text: Option<&str>,
    path: &Path,
    report: &mut RuleReport<'_>,
) -> Option<NumberOrPercent> {
    let number = number(rule, text, path, report);
    let Some(NumberOrPercent::Percent(percent @ 101..)) = number else { return number };
    let violation = Violation::error(rule, format!("{percent}% of the pods cannot {what}"));
    report.add(path, violation.expected("at most 100%").help("write 100% or less"));
    None
}

/// Nodes can be drained without taking the app away, and can be drained at all.
pub(super) fn disruption(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(disruption) = &subject.section.disruption else { return };
    let path = Path::root().key("disruption");
    let (at_least, at_most) = (path.key("minAvailable"), path.key("maxUnavailable"));
    let available = disruption.min_available.as_deref();
    let available = read_share("disruption", "stay", available, &at_least, report);
    let unavailable = disruption.max_unavailable.as_deref();
    let unavailable = read_share("disruption", "be away", unavailable, &at_most, report);
    one_of_two(subject, &path, report);
    let pods = subject.fewest_pods();
    if pods == Some(0) {
        // Where no pod runs, no drain waits for one.
        return;
    }
    let blocked = match (available, unavailable) {
        // Kubernetes rounds a share up: half of one pod is one.
        (Some(least), _) => pods.is_some_and(|pods| least.share_of(pods) >= pods),
        (None, most) => most.is_some_and(NumberOrPercent::is_zero),
    };
    if blocked {
        let at = if available.is_some() { at_least } else { at_most };
        let pods = match pods {
            Some(1) => " of the one that the app has".to_owned(),
            Some(pods) => format!(" of the {pods} that the app has at least"),
            None => String::new(),
        };
        let message = format!("no pod{pods} may be away, so no node can be drained");
        let violation = Violation::error("disruption", message).expected("blocks every drain");
        let help = "allow at least one pod to be away: `maxUnavailable: 1`, or run more pods";
        report.add(&at, violation.help(help));
    }
}

/// Reports both of two fields of which Kubernetes takes one. The WAML's own wins over a template's default; two of the
/// WAML's are a contradiction.
fn one_of_two(subject: &Subject<'_>, path: &Path, report: &mut RuleReport<'_>) {
    let is_written = |key| {
        subject.tree.at(&path.key(key)).is_some_and(|node| !node.is_null() && is_from_waml(node))
    };
    if is_written("minAvailable") && is_written("maxUnavailable") {
        let message = "a disruption has `minAvailable` or `maxUnavailable`, not both";
        let violation = Violation::error("disruption", message).expected("one too many");
        let help = "keep one; `null` takes the other one away";
        report.add(&path.key("maxUnavailable"), violation.help(help));
    }
}

impl Subject<'_> {
    /// Finds the smallest number of pods that the app can have; `None` where nothing says it.
    fn fewest_pods(&self) -> Option<u32> {
        let horizontal = self.section.autoscaling.as_ref().and_then(|a| a.horizontal.as_ref());
        match horizontal {
            None if let Some(keda) = self.section.keda() => Some(keda.min_replicas.unwrap_or(0)),
            Some(horizontal) => Some(horizontal.min_replicas.unwrap_or(1)),
            None => self.section.scaling.as_ref().and_then(|scaling| scaling.replicas),
        }
    }
}

/// Reports a deployment that hands the number of pods over to an autoscaler.
pub(super) fn replicas(plan: &RenderedPlan<'_>, report: &mut RuleReport<'_>) {
    if let Fact::Missing { why } = &plan.valid.facts().live {
        return unknown_replicas(plan, why, report);
    }
    for LiveReplicas { kind, name, number } in plan.kept_replicas {
        let message = format!(
            "{kind} `{name}` runs {number} pods, and from now on its autoscaler says how many"
        );
        let help = format!(
            "nothing to do: this deployment keeps `replicas: {number}`, so that no pod is removed before the \
             autoscaler takes over, and the next one leaves it out"
        );
        let violation = Violation::warning("replicas", message).help(help);
        report.add(&Path::root().key("autoscaling"), violation);
    }
}

/// Reports an unknown number, whatever the target's policy for failed lookups: a live number that is not kept costs
/// pods.
fn unknown_replicas(plan: &RenderedPlan<'_>, why: &str, report: &mut RuleReport<'_>) {
    let mut objects = plan.objects.iter();
    let Some(workload) = objects.find_map(|object| scaled_by(&object.json)) else {
        return;
    };
    let message = format!(
        "it is not known how many pods {} `{}` runs now, which its autoscaler would take over: {why}",
        workload.kind, workload.name
    );
    let help = "deploy again once what is live can be read: without its number Kubernetes goes down to 1 pod";
    let violation =
        Violation::error("replicas", message).expected("could not be checked").help(help);
    report.add(&Path::root().key("autoscaling"), violation);
}
